"""The longest requests against the time that they have when their pod goes."""

from collections.abc import Iterator
from math import ceil

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.subject import Subject
from cacheaware.workload.hooks import HookKind
from cacheaware_sidecar.settings import MARGIN_S

LONGEST_MARGIN_S = 10
"""What the grace period should have beyond the longest request."""
EXAMPLE_S = 120
"""A length to suggest for where no request was measured."""


def drain_length(subject: Subject) -> Iterator[Finding]:
    """Whether the longest requests have time to end."""
    longest, available = subject.facts.longest_request_s, available_s(subject)
    if available is None or subject.grace <= 0:
        return
    if longest is None:
        yield subject.info(
            "request-length-unknown",
            f"requests in flight have {available:g} s to end; whether that is enough is not known",
            "ask again when the pods have served, or give --longest-request-seconds",
        )
    elif longest + LONGEST_MARGIN_S > available:
        yield from too_short(subject, longest, available)


def too_short(subject: Subject, longest: float, available: float) -> Iterator[Finding]:
    """The finding about a drain that is too short, or just long enough."""
    bound = "at least " if subject.facts.longest_is_bound else ""
    told = f"requests in flight have {available:g} s to end, the longest (p99.9) take {bound}"
    message = f"{told}{longest:g} s{sample(subject)}"
    fix = f"set terminationGracePeriodSeconds to at least {recommended_grace_s(subject)}"
    if subject.sidecar is not None:
        fix += " (and CACHEAWARE_GRACE_SECONDS with it)"
    if binding_limit(subject):
        fix += f", and --shutdown-timeout to {ceil(longest) + LONGEST_MARGIN_S}"
    if longest > available:
        yield subject.error("drain-too-short", f"{message}: those are cut", fix)
    else:
        yield subject.warning(
            "drain-tight", f"{message}: less than {LONGEST_MARGIN_S} s are left over", fix
        )


def available_s(subject: Subject) -> float | None:
    """Seconds that requests in flight have from the deletion of their pod (drain) or SIGTERM on.

    Returns:
        None where the engine aborts them or the hook's length is not known.
    """
    grace, hook, sidecar = subject.grace, subject.hook, subject.sidecar
    if hook.kind is HookKind.DRAIN:
        if sidecar is None or sidecar.settings is None:
            return None
        told = sidecar.setting("grace_seconds")
        reserved = sidecar.settings.after_drain_seconds
        finishing = min(subject.habit.limit_s or 0.0, sidecar.settings.engine_shutdown_seconds)
        return (grace if told is None else min(grace, told)) - reserved + finishing
    if hook.seconds is None or subject.habit.finishes is False:
        return None
    left, limit = max(0.0, grace - hook.seconds), subject.habit.limit_s
    return left if limit is None else min(left, limit)


def recommended_grace_s(subject: Subject) -> int:
    """A grace period in which the longest requests end; case 047: 15 + 118 + 10 = 143.

    Without a measured length, room for requests of two minutes.
    """
    longest = subject.facts.longest_request_s or EXAMPLE_S
    before = subject.hook.seconds or 0.0
    if subject.hook.kind is HookKind.DRAIN:
        settings = subject.sidecar.settings if subject.sidecar else None
        before = settings.after_drain_seconds if settings else MARGIN_S
    return ceil(before + longest) + LONGEST_MARGIN_S


def binding_limit(subject: Subject) -> bool:
    """Whether the engine's own timeout, not the grace period, is what cuts requests."""
    limit, hook = subject.habit.limit_s, subject.hook
    longest = subject.facts.longest_request_s
    if subject.engine.kind != "vllm" or hook.kind is HookKind.DRAIN:
        return False
    return limit is not None and longest is not None and limit < longest + LONGEST_MARGIN_S


def sample(subject: Subject) -> str:
    """How many requests a percentile comes from."""
    count = subject.facts.requests
    return "" if count is None else f" (of {count:,.0f} requests)"
