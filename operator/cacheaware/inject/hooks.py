"""The end of a pod: the engine's preStop hook, its own shutdown timeout, the grace period."""

from math import ceil
from typing import Any

from cacheaware.doctor.longest import EXAMPLE_S, LONGEST_MARGIN_S
from cacheaware.doctor.sigterm import VLLM_FLAG, VLLM_SINCE, habit_of
from cacheaware.inject.options import HookForm
from cacheaware.inject.pod import SHARED_DIR, LeftAloneError, Pod
from cacheaware.workload.command import argv_of, script_of
from cacheaware.workload.hooks import DRAIN_PATH, DRAIN_SCRIPT, HookKind, hook_of
from cacheaware_sidecar.settings import MARGIN_S, Settings

WORK_S = EXAMPLE_S + LONGEST_MARGIN_S
"""Time for requests in flight where nobody told how long they take."""
WITHOUT_PYTHON = frozenset({"llamacpp"})
"""Engines whose own image has no Python."""
DEFAULTS = Settings()


def add_hook(pod: Pod, port: int) -> bool:
    """Let the engine wait until it is empty before it gets SIGTERM.

    Returns:
        Whether the hook is there; False where somebody's own hook was left alone.
    """
    found = hook_of(pod.container)
    if found.kind is HookKind.OTHER and not pod.options.replace_hook:
        pod.notes.append(
            f"{pod.engine.name} has a preStop hook of its own, which was left alone: it must wait"
            f" until the engine is empty ({SHARED_DIR}{DRAIN_SCRIPT} does); --replace-hook"
            " replaces it"
        )
        return False
    if found.kind is HookKind.SLEEP and found.seconds:
        pod.floor = max(DEFAULTS.drain_floor_seconds, ceil(found.seconds))
    lifecycle = pod.record.child(
        pod.container, "lifecycle", dict, "securityContext", "volumeMounts"
    )
    pod.record.put("preStop", lifecycle, "preStop", hook(pod, port))
    return True


def hook(pod: Pod, port: int) -> dict[str, Any]:
    """The hook: a script that outlives the sidecar, or a request to the sidecar.

    A port's name would be looked up among the engine's own ports, so the request has its number.
    """
    if by_request(pod):
        return {"httpGet": {"path": DRAIN_PATH, "port": port}}
    return {"exec": {"command": ["python3", "-I", "-S", f"{SHARED_DIR}{DRAIN_SCRIPT}"]}}


def by_request(pod: Pod) -> bool:
    """Whether the hook is an httpGet."""
    form = pod.options.hook or HookForm.AUTO
    return form == HookForm.HTTP or (form == HookForm.AUTO and pod.engine.kind in WITHOUT_PYTHON)


def shutdown_seconds(pod: Pod) -> int:
    """How long the engine may go on after SIGTERM, by its own flag."""
    limit = habit_of(pod.engine).limit_s if pod.engine.kind == "vllm" else None
    return ceil(limit or 0)


def add_shutdown_timeout(pod: Pod) -> int:
    """Give an engine that aborts at SIGTERM time to finish, where the hook is a request.

    A dead sidecar refuses the request, and a refused hook means SIGTERM at once.

    Returns:
        Seconds that were given; 0 where nothing was changed.
    """
    if pod.engine.kind != "vllm" or habit_of(pod.engine).finishes is not False:
        return 0
    if (older := pod.engine.before(*VLLM_SINCE)) is not False:
        knows = "has no" if older else "may not know"
        pod.notes.append(
            f"{pod.engine.name} {knows} --{VLLM_FLAG} (vLLM 0.18 or later): a sidecar that is dead"
            " at the end of its pod lets SIGTERM cut requests; --hook exec does not"
        )
        return 0
    held = next((key for key in ("args", "command") if pod.container.get(key)), None)
    if (
        held is None
        or script_of(argv_of(pod.container)) is not None
        or VLLM_FLAG in pod.engine.flags
    ):
        pod.notes.append(
            f"--{VLLM_FLAG}={WORK_S} could not be put into the command of {pod.engine.name}: add"
            " it, because a sidecar that is dead at the end of its pod lets SIGTERM cut requests"
        )
        return 0
    argument = f"--{VLLM_FLAG}={WORK_S}"
    pod.container[held].append(argument)
    pod.record.argument = [held, argument]
    return WORK_S


def add_grace(pod: Pod, shutdown_s: int, hooked: bool) -> int:
    """Make the grace period long enough for the drain.

    Returns:
        The grace period in seconds.

    Raises:
        LeftAloneError: it was told a shorter one than a drain needs at least.
    """
    now = pod.workload.grace_s
    wanted = pod.options.grace
    if wanted is None:
        wanted = max(now, shutdown_s + MARGIN_S + needed_s(pod)) if hooked else now
    least = shutdown_s + MARGIN_S + (pod.floor or DEFAULTS.drain_floor_seconds)
    if wanted < least:
        raise LeftAloneError(
            f"the grace period is {wanted} s: allowed are at least {least} (the engine's shutdown"
            f" {shutdown_s} + the shortest drain {least - shutdown_s - MARGIN_S} + {MARGIN_S})"
        )
    if pod.spec.get("terminationGracePeriodSeconds") != wanted and wanted != now:
        key = "terminationGracePeriodSeconds"
        pod.record.put("grace", pod.spec, key, wanted, "initContainers", "containers")
    return wanted


def needed_s(pod: Pod) -> int:
    """Time for a drain: the longest requests, and KV that another pod may still fetch."""
    told = (pod.options.env or {}).get("CACHEAWARE_KV_TRANSFER_TIMEOUT_SECONDS")
    handover = int(told or DEFAULTS.kv_transfer_timeout_seconds) + LONGEST_MARGIN_S
    return max(WORK_S, handover) if role_of(pod) != DEFAULTS.role else WORK_S


def role_of(pod: Pod) -> str:
    """Both, Prefill or Decode: by option, else by the engine's flags."""
    told = (pod.options.env or {}).get("CACHEAWARE_ROLE")
    flags = pod.engine.flags
    transfer = flags.get("kv-transfer-config", "").replace(" ", "")
    if told:
        return told
    if '"kv_role":"kv_producer"' in transfer or flags.get("disaggregation-mode") == "prefill":
        return "Prefill"
    if '"kv_role":"kv_consumer"' in transfer or flags.get("disaggregation-mode") == "decode":
        return "Decode"
    return DEFAULTS.role
