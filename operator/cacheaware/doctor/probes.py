"""Probes against the time that the engine takes to load its model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.subject import Subject
from cacheaware.workload.template import whole_number

MARGIN = 1.2
"""A startupProbe should bear loads 20 % longer than the one measured."""
SUGGESTED_PERIOD_S = 10
SUGGESTED_LIVENESS = "livenessProbe with periodSeconds 10 and failureThreshold 3"
LATE_S = 60
"""A hang found later than this is found late."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe's timing, with Kubernetes' defaults."""

    delay_s: int
    period_s: int
    failures: int

    @property
    def kills_after_s(self) -> int:
        """When a container that never answers is restarted: delay + period x (failures - 1)."""
        return self.delay_s + self.period_s * (self.failures - 1)

    @property
    def budget_s(self) -> int:
        """What a startupProbe gives: delay + period x failures."""
        return self.delay_s + self.period_s * self.failures


def probe_of(container: Any, name: str) -> Probe | None:
    """A probe of a container; None where it has none. Kubernetes takes a 0 for its default."""
    probe = container.get(name)
    if not isinstance(probe, Mapping):
        return None
    return Probe(
        whole_number(probe.get("initialDelaySeconds"), 0),
        whole_number(probe.get("periodSeconds"), 0) or 10,
        whole_number(probe.get("failureThreshold"), 0) or 3,
    )


def probes(subject: Subject) -> Iterator[Finding]:
    """All probes of the engine."""
    startup = probe_of(subject.engine.container, "startupProbe")
    liveness = probe_of(subject.engine.container, "livenessProbe")
    if subject.facts.load_s is None:
        yield from unknown_load(subject, startup, liveness)
    elif startup is not None:
        yield from startup_probe(subject, startup, subject.facts.load_s)
    elif liveness is not None:
        yield from liveness_probe(subject, liveness, subject.facts.load_s)
    yield from readiness_probe(subject)


def unknown_load(
    subject: Subject, startup: Probe | None, liveness: Probe | None
) -> Iterator[Finding]:
    """What can be said without the time to load."""
    if startup is not None:
        given = f"the startupProbe gives the engine {startup.budget_s} s to load"
    elif liveness is not None:
        killed = liveness.kills_after_s
        given = f"the livenessProbe restarts an engine that is not up after {killed} s"
    else:
        return
    yield subject.info(
        "load-time-unknown",
        f"{given}; whether that is enough is not known",
        "ask again when a pod has started, or give --load-seconds",
    )


def startup_probe(subject: Subject, startup: Probe, load: float) -> Iterator[Finding]:
    """Whether the startupProbe bears the load."""
    needed = failures_needed(load, startup)
    fix = f"set startupProbe.failureThreshold to at least {needed}"
    given = f"{startup.delay_s} + {startup.period_s} x {startup.failures} = {startup.budget_s} s"
    if startup.budget_s < load:
        yield subject.error(
            "startup-probe-too-short",
            f"the startupProbe gives {given}, and loading takes {load:g} s: the engine is"
            " restarted for ever",
            f"{fix} (20 % margin)",
        )
    elif startup.budget_s < load * MARGIN:
        yield subject.warning(
            "startup-probe-tight",
            f"the startupProbe gives {given}, and loading takes {load:g} s: a slow disk is enough"
            " for a restart",
            f"{fix} (20 % margin)",
        )


def liveness_probe(subject: Subject, liveness: Probe, load: float) -> Iterator[Finding]:
    """Whether a livenessProbe alone lets the engine load, and finds a hang in time."""
    killed, fix = liveness.kills_after_s, instead(load)
    if killed < load:
        yield subject.error(
            "liveness-kills-loading",
            f"without a startupProbe the livenessProbe kills the engine at {killed} s"
            f" ({liveness.delay_s} + {liveness.period_s} x {liveness.failures - 1}), and loading"
            f" takes {load:g} s: it is restarted for ever",
            fix,
        )
    elif killed < load * MARGIN:
        yield subject.warning(
            "liveness-tight",
            f"the livenessProbe kills the engine at {killed} s, and loading takes {load:g} s: a"
            " slow disk is enough for a restart",
            fix,
        )
    elif liveness.delay_s > LATE_S:
        yield subject.info(
            "liveness-late",
            f"initialDelaySeconds {liveness.delay_s} lets the engine load ({load:g} s), but a hang"
            f" in the first {liveness.delay_s} s is detected that much later",
            fix,
        )


def readiness_probe(subject: Subject) -> Iterator[Finding]:
    """Whether the pod is Ready when it serves, neither before nor long after."""
    readiness = probe_of(subject.engine.container, "readinessProbe")
    load, sidecar = subject.facts.load_s, subject.sidecar
    if readiness is None:
        if sidecar is None or "readinessProbe" not in sidecar.container:
            yield subject.error(
                "no-readiness-probe",
                "without a readinessProbe the pod is Ready as soon as its process runs: requests"
                " are refused for as long as the model loads",
                "run `cacheaware inject`, or add a readinessProbe on the engine's /health",
            )
    elif load is not None and readiness.delay_s > load * MARGIN:
        yield subject.info(
            "readiness-late",
            f"readinessProbe.initialDelaySeconds is {readiness.delay_s}, and loading takes"
            f" {load:g} s: the pod serves later than it could",
            "set readinessProbe.initialDelaySeconds to 0",
        )


def failures_needed(load: float, startup: Probe) -> int:
    """Failures that a startupProbe must bear, with margin; case 056: ceil(1020 x 1.2 / 10) = 123.

    >>> failures_needed(1020, Probe(0, 10, 60))
    123
    """
    return max(1, ceil((round(load * MARGIN, 6) - startup.delay_s) / startup.period_s))


def instead(load: float) -> str:
    """The startupProbe to add."""
    failures = failures_needed(load, Probe(0, SUGGESTED_PERIOD_S, 1))
    return (
        f"add a startupProbe with periodSeconds {SUGGESTED_PERIOD_S} and failureThreshold"
        f" {failures}, and keep a {SUGGESTED_LIVENESS} and initialDelaySeconds 0"
    )
