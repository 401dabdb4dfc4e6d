"""What contradicts itself: image and flags, flags and the sidecar's settings, two scalers."""

from collections.abc import Iterator

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.doctor.sidecar import Sidecar
from cacheaware.doctor.sigterm import VLLM_FLAG, VLLM_SINCE
from cacheaware.doctor.subject import Subject
from cacheaware.doctor.targets import aimed_at, scalers_of
from cacheaware.workload.variables import env_of

METRICS_SWITCH = {"sglang": "enable-metrics", "llamacpp": "metrics"}
"""Engines that have no metrics page until told."""
METRICS_ENV = {"llamacpp": "LLAMA_ARG_ENDPOINT_METRICS"}
METRICS_PATH = {"trtllm": "/prometheus/metrics"}
"""Engines whose page is elsewhere."""
AGREE = (
    ("max-num-batched-tokens", "max_batched_tokens", Severity.WARNING,
     "the long warm-up prompt has the wrong length"),
    ("max-model-len", "max_model_length", Severity.WARNING,
     "warm-up prompts are too long, or shorter than they could be"),
    ("tensor-parallel-size", "tensor_parallel", Severity.INFO, "bytes are wrong by that factor"),
    ("pipeline-parallel-size", "pipeline_parallel", Severity.INFO, "bytes are wrong"),
)  # fmt: skip
"""Flag, setting, severity, and what follows where both are given and differ."""


def contradictions(subject: Subject) -> Iterator[Finding]:
    """Image, flags and settings that can't all be meant."""
    yield from flag_and_version(subject)
    yield from metrics(subject)
    yield from two_scalers(subject)
    sidecar = subject.sidecar
    if sidecar is not None and sidecar.settings is not None:
        yield from shutdown_setting(subject, sidecar)
        yield from settings(subject, sidecar)
        yield from metrics_path(subject, sidecar)
        yield from api_key(subject, sidecar)


def flag_and_version(subject: Subject) -> Iterator[Finding]:
    """A flag that this version does not have ends it at its start."""
    engine = subject.engine
    if engine.kind == "vllm" and VLLM_FLAG in engine.flags and engine.before(*VLLM_SINCE):
        yield subject.error(
            "flag-unknown-to-version",
            f"the image is vLLM {engine.version}, and --{VLLM_FLAG} exists from 0.18 on: the engine"
            " ends with `unrecognized arguments`",
            f"remove --{VLLM_FLAG}, or use vLLM 0.18 or later",
        )


def metrics(subject: Subject) -> Iterator[Finding]:
    """Without the engine's numbers nothing is known, and an empty pod can't be told."""
    engine = subject.engine
    if engine.kind == "vllm" and "disable-log-stats" in engine.flags:
        yield subject.error(
            "metrics-off",
            "--disable-log-stats takes the engine's numbers off its metrics page: the scaler is"
            " blind, and a drain waits until its deadline",
            "remove --disable-log-stats",
        )
    switch = METRICS_SWITCH.get(engine.kind or "")
    if switch is None or switch in engine.flags or not engine.flags:
        return
    if not env_of(engine.container).get(METRICS_ENV.get(engine.kind or "", "")):
        yield subject.error(
            "metrics-off",
            f"without --{switch} {engine.kind} has no metrics page: the scaler is blind, and a"
            " drain waits until its deadline",
            f"add --{switch}",
        )


def shutdown_setting(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """The drain leaves the engine the time for its own shutdown that it is told."""
    told, engine = sidecar.setting("engine_shutdown_seconds"), subject.engine
    limit = subject.habit.limit_s or 0
    explicit = engine.kind == "vllm" and subject.habit.finishes is not None
    if told is None or not explicit or told == limit:
        return
    what = f"the sidecar leaves the engine {told} s, and --{VLLM_FLAG} is {limit:g}"
    after = (
        "a drain that uses its deadline is followed by a shutdown that the grace period cuts"
        if told < limit
        else f"the drain ends {told - limit:g} s earlier than it could"
    )
    yield subject.warning(
        "shutdown-mismatch",
        f"{what}: {after}",
        f'set CACHEAWARE_ENGINE_SHUTDOWN_SECONDS to "{limit:g}"',
    )


def settings(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """Settings that repeat a flag."""
    for flag, name, severity, effect in AGREE:
        given, told = subject.engine.number(flag), sidecar.setting(name)
        if given is not None and told is not None and given != told and matters(sidecar, name):
            variable = f"CACHEAWARE_{name.upper()}"
            yield subject.finding(
                severity,
                "setting-mismatch",
                f"{variable} is {told}, and the engine has --{flag} {given:g}: {effect}",
                f'set {variable} to "{given:g}"',
            )


def matters(sidecar: Sidecar, name: str) -> bool:
    """Whether a setting is used: the parallel sizes only where a configuration gives bytes."""
    config = sidecar.setting("config_file") or sidecar.setting("config_url")
    return not name.endswith("_parallel") or bool(config)


def metrics_path(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """A page that is elsewhere."""
    right = METRICS_PATH.get(subject.engine.kind or "")
    told = sidecar.setting("metrics_path")
    if right is not None and told is not None and told != right:
        yield subject.error(
            "metrics-path",
            f"CACHEAWARE_METRICS_PATH is {told}, and the numbers of {subject.engine.kind} are at"
            f" {right}",
            f"set CACHEAWARE_METRICS_PATH to {right}",
        )


def api_key(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """An engine that wants a key answers the warm-up with 401."""
    names = {one.get("name") for one in subject.engine.container.get("env") or ()}
    wanted = "api-key" in subject.engine.flags or "VLLM_API_KEY" in names
    told = "api_key_file" in sidecar.untold or sidecar.setting("api_key_file")
    if wanted and not told and sidecar.warms_up:
        yield subject.warning(
            "api-key-missing",
            "the engine wants an API key and the sidecar has none: its warm-up is answered with"
            " 401, and the pod serves cold",
            "mount the key's Secret into the sidecar and set CACHEAWARE_API_KEY_FILE",
        )


def two_scalers(subject: Subject) -> Iterator[Finding]:
    """Two that write replicas fight."""
    ours = [one for one in scalers_of(subject) if one.get("spec", {}).get("mode") == "Scale"]
    others = list(aimed_at(subject, subject.facts.horizontal, "scaleTargetRef"))
    if ours and others:
        name = (others[0].get("metadata") or {}).get("name")
        yield subject.warning(
            "two-scalers",
            f"the HorizontalPodAutoscaler {name} sets the replicas too: the CacheAwareScaler writes"
            " nothing while it is there (Conflicted)",
            f"delete the HorizontalPodAutoscaler {name}, or use mode: Advise",
        )
