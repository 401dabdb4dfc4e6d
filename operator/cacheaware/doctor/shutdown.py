"""The three timeouts of a pod's end: its grace period, the preStop hook, the engine's shutdown.

The grace period runs from the deletion on. The hook comes first, then SIGTERM, then what the engine
does with requests in flight; when the grace period is over, all is killed. So

    grace > hook + engine's shutdown + a margin

and an engine that aborts at SIGTERM must be empty by then, whatever the numbers are.
"""

from collections.abc import Iterator
from math import ceil

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.longest import EXAMPLE_S, LONGEST_MARGIN_S, recommended_grace_s
from cacheaware.doctor.sigterm import VLLM_SINCE
from cacheaware.doctor.subject import Subject
from cacheaware.workload.engine import image_name
from cacheaware.workload.hooks import HookKind
from cacheaware_sidecar.settings import MARGIN_S

ENDPOINT_S = 15
"""How long until the last proxy has heard that a pod goes; what public charts sleep."""
INJECT = "run `cacheaware inject`: its preStop hook waits until the engine is empty"


def shutdown(subject: Subject) -> Iterator[Finding]:
    """Whether the timeouts fit together."""
    if subject.grace <= 0:
        yield subject.error(
            "grace-zero",
            "terminationGracePeriodSeconds is 0: a pod is killed at once, whatever it is doing",
            f"set terminationGracePeriodSeconds to {recommended_grace_s(subject)}",
        )
    elif subject.hook.kind is HookKind.DRAIN:
        yield from drain_hook(subject)
    elif subject.hook.seconds is None:
        yield from unknown_hook(subject)
    else:
        yield from plain_hook(subject, subject.hook.seconds)


def plain_hook(subject: Subject, hook_s: float) -> Iterator[Finding]:
    """No hook, or one that sleeps."""
    grace = subject.grace
    if hook_s >= grace:
        yield subject.error(
            "hook-exceeds-grace",
            f"the preStop hook takes {hook_s:g} s of the {grace} s grace period: nothing is left,"
            " the engine is killed (exit code 137) without its own shutdown",
            f"set terminationGracePeriodSeconds to {recommended_grace_s(subject)}, or {INJECT}",
        )
        return
    yield from limit_against_grace(subject, hook_s)
    yield from sigterm(subject, hook_s)


def sigterm(subject: Subject, hook_s: float) -> Iterator[Finding]:
    """What SIGTERM does to the requests that a sleeping hook leaves."""
    habit = subject.habit
    if habit.finishes is False:
        waited = f"after a preStop hook of {hook_s:g} s" if hook_s else "without a preStop hook"
        yield subject.error(
            "engine-aborts",
            f"requests in flight are aborted at SIGTERM, {waited}: {habit.why}"
            + said_longest(subject),
            f"{INJECT}{timeout_instead(subject, hook_s)}",
        )
    elif hook_s == 0:
        yield subject.warning(
            "no-prestop",
            "without a preStop hook SIGTERM comes while proxies still send new requests, which the"
            " ending engine refuses",
            f"{INJECT}; or at least lifecycle.preStop.sleep.seconds: {ENDPOINT_S} and"
            f" terminationGracePeriodSeconds: {subject.grace + ENDPOINT_S}",
        )
    if habit.finishes is None:
        yield subject.info("sigterm-unknown", f"{habit.why}: the doctor took it to finish requests")


def limit_against_grace(subject: Subject, hook_s: float) -> Iterator[Finding]:
    """Whether the engine's own shutdown ends before the grace period does."""
    limit, grace = subject.habit.limit_s, subject.grace
    if limit is None:
        return
    sum_s = hook_s + limit
    said = f"preStop {hook_s:g} s + engine shutdown {limit:g} s ({subject.habit.why})"
    wanted = ceil(sum_s) + 3 * MARGIN_S
    fix = f"set terminationGracePeriodSeconds to {wanted}"
    if sum_s > grace:
        yield subject.error(
            "shutdown-exceeds-grace", f"{said} = {sum_s:g} s are more than the {grace} s grace"
            " period: the engine is killed before its time is over", fix,
        )  # fmt: skip
    elif sum_s + MARGIN_S > grace:
        yield subject.warning(
            "no-margin", f"{said} = {sum_s:g} s leave {grace - sum_s:g} s of the {grace} s grace"
            " period: teardown needs some, too", fix,
        )  # fmt: skip


def unknown_hook(subject: Subject) -> Iterator[Finding]:
    """A hook of somebody's own: what it does can't be told from the manifest."""
    yield from limit_against_grace(subject, 0.0)
    aborts = " and the engine aborts at SIGTERM" if subject.habit.finishes is False else ""
    yield subject.info(
        "hook-unknown",
        f"how long the preStop hook takes can't be told{aborts}: it must end when the engine is"
        f" empty, and before the {subject.grace} s grace period does",
        INJECT,
    )


def drain_hook(subject: Subject) -> Iterator[Finding]:
    """Our hook, which ends by itself in time, if there is a sidecar that tells it when."""
    hook, aborts = subject.hook, subject.habit.finishes is False
    if subject.sidecar is None:
        yield subject.error(
            "drain-hook-without-sidecar",
            "the preStop hook is the drain of a sidecar that this pod does not have",
            INJECT,
        )
    elif not hook.by_script and hook.port not in {None, subject.sidecar.port}:
        yield subject.error(
            "drain-hook-port",
            f"the preStop hook asks port {hook.port}, and the sidecar listens on"
            f" {subject.sidecar.port} (a name would be looked up among the engine's own ports): the"
            " hook fails, and SIGTERM comes at once",
            f"set httpGet.port of the hook to {subject.sidecar.port}",
        )
    if not hook.by_script and aborts and subject.engine.kind == "vllm":
        yield subject.warning(
            "drain-hook-fragile",
            "the preStop hook is an httpGet: a sidecar that is dead at that moment can't answer,"
            f" and SIGTERM comes at once; {subject.habit.why}",
            "use exec: [python3, -I, -S, /var/run/cacheaware/wait.py], which outlives the sidecar;"
            " or give the engine a --shutdown-timeout",
        )
    if hook.by_script and image_name(subject.engine.container).endswith("ggml-org/llama.cpp"):
        yield subject.warning(
            "hook-needs-python",
            "the preStop hook runs python3, and llama.cpp's server image has none: a hook that"
            " can't start means SIGTERM at once",
            "use httpGet: {path: /drain/wait, port: 9440}, or an image with Python",
        )


def said_longest(subject: Subject) -> str:
    """The longest requests, where they are known."""
    longest = subject.facts.longest_request_s
    return "" if longest is None else f"; the longest requests (p99.9) take {longest:g} s"


def timeout_instead(subject: Subject, hook_s: float) -> str:
    """The engine's own timeout as the other way, where it has one."""
    if subject.engine.kind != "vllm" or subject.engine.before(*VLLM_SINCE):
        return ""
    wait = max(hook_s, ENDPOINT_S)
    limit = ceil(subject.facts.longest_request_s or EXAMPLE_S) + LONGEST_MARGIN_S
    return (
        f"; or preStop sleep {wait:g}, --shutdown-timeout {limit} (vLLM 0.18 or later) and"
        f" terminationGracePeriodSeconds {ceil(wait) + limit + MARGIN_S}"
    )


def active_deadline(subject: Subject) -> Iterator[Finding]:
    """A deadline of the pod itself, which kills it in the middle of its life."""
    deadline = subject.workload.spec.get("activeDeadlineSeconds")
    if deadline is not None:
        yield subject.error(
            "active-deadline",
            f"activeDeadlineSeconds {deadline} is for Jobs: the pods of a {subject.workload.kind}"
            " would be failed after that time with all they serve, and the API server refuses it in"
            " a Deployment",
            "remove activeDeadlineSeconds from the pod template",
        )
