"""Rolling updates: how many pods come and go at a time, and how long that may take."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.probes import probe_of
from cacheaware.doctor.subject import Subject
from cacheaware.workload.template import LWS, whole_number

PROGRESS_S = 600
"""progressDeadlineSeconds where a Deployment names none (Kubernetes)."""
WARMUP_S = 120
"""The sidecar's budget where its setting can't be read (its own default)."""
HALF = "25%"


@dataclass(frozen=True, slots=True)
class Rolling:
    """The bounds of a rolling update as they are written."""

    surge: Any
    unavailable: Any
    path: str
    """Where they are in the manifest."""

    def at(self, replicas: int) -> tuple[int, int]:
        """Pods more and pods fewer than `replicas`: surge rounds up, unavailability down.

        Where both come out as 0, Kubernetes takes one pod down (percentages only).

        >>> Rolling("25%", "25%", "").at(1)
        (1, 0)
        """
        surge, unavailable = (
            resolved(self.surge, replicas, up=True),
            resolved(self.unavailable, replicas, up=False),
        )
        return (surge, unavailable) if surge or unavailable else (0, 1)

    @property
    def both_zero(self) -> bool:
        """Whether nothing may come and nothing may go."""
        return is_zero(self.surge) and is_zero(self.unavailable)


def rolling_of(subject: Subject) -> Rolling | None:
    """The bounds of a workload's rolling updates; None where pods are replaced in another way."""
    spec = subject.spec
    if subject.workload.kind == "Deployment":
        strategy = spec.get("strategy") or {}
        given = strategy.get("rollingUpdate") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return None
        return Rolling(
            given.get("maxSurge", HALF), given.get("maxUnavailable", HALF),
            "strategy.rollingUpdate",
        )  # fmt: skip
    if subject.workload.kind == LWS:
        given = (spec.get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
        return Rolling(
            given.get("maxSurge", 0), given.get("maxUnavailable", 1),
            "rolloutStrategy.rollingUpdateConfiguration",
        )  # fmt: skip
    return None


def resolved(value: Any, replicas: int, *, up: bool) -> int:
    """A count, or a percentage of the replicas."""
    text = str(value)
    if not text.endswith("%"):
        return int(text) if text.isdigit() else 0
    share = int(text[:-1]) if text[:-1].isdigit() else 0
    return ceil(share * replicas / 100) if up else floor(share * replicas / 100)


def is_zero(value: Any) -> bool:
    """Whether a bound is 0 whatever the replicas are."""
    return str(value) in {"0", "0%"}


def rollout(subject: Subject) -> Iterator[Finding]:
    """Whether an update can begin, leaves pods that serve, and ends before its deadline."""
    rolling = rolling_of(subject)
    if rolling is not None and rolling.both_zero:
        yield subject.error(
            "rollout-both-zero",
            "maxSurge 0 together with maxUnavailable 0 lets no pod come and none go: the API server"
            " refuses it",
            f"set {rolling.path}.maxUnavailable to 1, or maxSurge to 1 where a GPU is spare",
        )
    elif rolling is not None:
        yield from takes_all(subject, rolling)
    yield from recreate(subject)
    yield from progress(subject)


def takes_all(subject: Subject, rolling: Rolling) -> Iterator[Finding]:
    """Whether an update takes down every pod at once."""
    replicas = subject.replicas or 1
    surge, unavailable = rolling.at(replicas)
    if unavailable >= replicas > 1:
        yield subject.warning(
            "rollout-takes-all",
            f"maxUnavailable {rolling.unavailable} of {replicas} replicas lets an update take"
            f" {unavailable} pods down at once: nothing serves until one has loaded",
            f"set {rolling.path}.maxUnavailable to 1",
        )
    elif unavailable >= replicas and surge == 0:
        yield subject.info(
            "rollout-downtime",
            f"with one replica and maxSurge 0 nothing serves during an update{downtime(subject)}",
            "a second replica, or a spare GPU and maxSurge 1, would serve meanwhile",
        )


def recreate(subject: Subject) -> Iterator[Finding]:
    """An update that ends all pods before it starts new ones."""
    if (subject.spec.get("strategy") or {}).get("type") == "Recreate":
        yield subject.warning(
            "strategy-recreate",
            "strategy Recreate ends all pods before new ones start: nothing serves"
            + downtime(subject),
            "set strategy.type to RollingUpdate; without a spare GPU with maxSurge 0 and"
            " maxUnavailable 1",
        )


def downtime(subject: Subject) -> str:
    """How long a pod takes to serve, where that is known."""
    load = subject.facts.load_s
    if load is None:
        return " for as long as a pod takes to drain, load and warm up"
    warm = f" and up to {warmup_s(subject)} s to warm up" if warmup_s(subject) else ""
    return f" while a pod drains, and then for {load:g} s to load{warm}"


def warmup_s(subject: Subject) -> int:
    """The most that a warm-up may take."""
    if subject.sidecar is None or not subject.sidecar.warms_up:
        return 0
    told = subject.sidecar.setting("warmup_budget_seconds")
    return WARMUP_S if told is None else int(told)


def progress(subject: Subject) -> Iterator[Finding]:
    """The progress deadline against the time a pod takes to be Ready."""
    if subject.workload.kind != "Deployment":
        return
    deadline = whole_number(subject.spec.get("progressDeadlineSeconds"), PROGRESS_S)
    warmup, ready = warmup_s(subject), whole_number(subject.spec.get("minReadySeconds"), 0)
    load = subject.facts.load_s
    startup = probe_of(subject.engine.container, "startupProbe")
    longest = startup.budget_s if load is None and startup is not None else load
    if longest is None or longest + warmup + ready < deadline:
        return
    sum_ = f"{longest:g} s to load + {warmup} s to warm up + minReadySeconds {ready}"
    fix = f"set progressDeadlineSeconds to {ceil((longest + warmup + ready) * 1.2)}"
    if load is None:
        yield subject.info(
            "progress-deadline-unknown",
            f"a pod that uses all its startupProbe allows ({sum_}) is past progressDeadlineSeconds"
            f" {deadline}: the update would be called failed while it goes well",
            fix,
        )
    else:
        yield subject.warning(
            "progress-deadline",
            f"progressDeadlineSeconds is {deadline}, a pod needs {sum_}: the update is called"
            " failed while it goes well, and tools that wait for it roll it back",
            fix,
        )
