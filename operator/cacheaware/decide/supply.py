"""Which pods of a fleet carry load, which are on their way, and which are lost for now."""

from collections.abc import Iterable

from msgspec import Struct

from cacheaware.decide.cold_start import Starts, is_overdue, left_s
from cacheaware.decide.fleet import FleetView, PodLoad, PodView, Unknown
from cacheaware.decide.policy import Policy
from cacheaware_sidecar.phase import Phase

MOST = 1e15
"""A number beyond this is a fault of its sender, whatever it counts."""
STARTING = frozenset({Phase.LOADING, Phase.WARMING})
FAILING = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Why a container waits when it is the workload's fault: every further pod would wait as well."""


class Load(Struct, frozen=True):
    """A pod's numbers as far as they are possible ones; None is unknown.

    A tuple, for it is made anew for each pod in each round: a frozen dataclass takes four times as
    long.
    """

    running: float | None
    waiting: float | None
    usage: float | None
    """0..1 of the fullest engine: it decides saturation."""
    used_tokens: float | None
    capacity_tokens: float | None
    tokens_per_request: float | None
    prefix_hit_ratio: float | None
    prompt_tokens_per_s: float | None
    ttft_p90_s: float | None
    prompt_tokens_per_request: float | None = None
    new_prompt_tokens: float | None = None
    """Prompt tokens that came since the look before."""
    seconds_to_empty: float | None = None
    """What its requests still take at the present speed, if each were at its beginning."""
    adapters: tuple[str, ...] = ()
    """LoRA adapters in use."""
    sleeping: bool = False
    """The engine is known to sleep."""

    @property
    def busy(self) -> bool:
        """Whether the pod holds requests, or may."""
        return self.running != 0 or self.waiting != 0

    @property
    def began_per_s(self) -> float | None:
        """Requests that began, over the last minute; None where its tokens don't tell."""
        tokens, each = self.prompt_tokens_per_s, self.prompt_tokens_per_request
        return tokens / each if tokens and each and each >= 1 else None

    @property
    def requests(self) -> float | None:
        """Requests in the pod; None unless both parts are known."""
        if self.running is None or self.waiting is None:
            return None
        return self.running + self.waiting


class Pod(Struct, frozen=True):
    """A pod and its possible numbers."""

    view: PodView
    load: Load | None
    """Of this round."""
    stale: Load | None
    """From before it began to time out, while young enough; for growth only."""

    @property
    def growing_load(self) -> Load | None:
        """What counts when growing."""
        return self.load or self.stale

    @property
    def never_served(self) -> bool:
        """Whether it is still starting, out of the endpoints and without a request.

        Where no sidecar tells the phase, one that takes our call and does not answer may be an
        engine at work that is too busy to.
        """
        if self.view.ready or self.view.phase not in STARTING:
            return False
        silent = self.view.unknown is Unknown.TIMED_OUT and not self.view.sidecar
        return not silent and not (self.load is not None and self.load.busy)

    @property
    def failing(self) -> bool:
        """Whether one of its containers can't start, by the workload's fault."""
        return (self.view.stuck or "").rpartition(": ")[2] in FAILING


class Supply(Struct, frozen=True, kw_only=True):
    """A fleet's pods, each in one place, in the order of their names."""

    serving: tuple[Pod, ...] = ()
    """Ready and warm: the supply of measured load."""
    cordoned: tuple[Pod, ...] = ()
    """Given up by an earlier round, and not gone: out of the endpoints until they are empty."""
    away: tuple[Pod, ...] = ()
    """Served, and out of the endpoints now: not ready, draining, or cordoned by others."""
    sleeping: tuple[Pod, ...] = ()
    """In the endpoints, with an engine that sleeps."""
    starting: tuple[Pod, ...] = ()
    """Ordered, and within their deadline."""
    overdue: tuple[Pod, ...] = ()
    """Should have served by now."""
    terminating: int = 0
    missing: int = 0
    """Ordered, and not yet created."""
    missing_overdue: bool = False
    """They should have been created and have served by now."""
    next_s: float | None = None
    """Until the next of the starting pods is expected to serve, by the starts before it."""
    surplus: int = 0
    """More pods than ordered: a shrink is still under way."""
    request_tokens: float | None = None
    """Tokens of an average request as learned, for when no pod tells."""
    failed: frozenset[str] = frozenset()
    """Uids of pods that could not start lately, though they may try again at this moment."""

    @property
    def on_their_way(self) -> int:
        """Pods that were ordered and have not served, whether or not they are late."""
        return len(self.starting) + len(self.overdue) + self.missing

    @property
    def late(self) -> int:
        """Pods that should have served by now."""
        return len(self.overdue) + (self.missing if self.missing_overdue else 0)

    @property
    def coming(self) -> int:
        """Pods that were ordered and will serve in time, as far as is known."""
        return self.on_their_way - self.late

    @property
    def failing(self) -> bool:
        """Whether half of the ordered pods or more can't start: more of them would fail as well."""
        ordered = self.starting + self.overdue
        failing = sum(pod.failing or pod.view.uid in self.failed for pod in ordered)
        return failing > 0 and 2 * failing >= self.on_their_way

    @property
    def served(self) -> tuple[Pod, ...]:
        """The pods that may hold requests."""
        return self.serving + self.cordoned + self.away + self.sleeping

    @property
    def live(self) -> tuple[Pod, ...]:
        """All pods but the terminating ones."""
        return self.served + self.starting + self.overdue


def supply_of(
    fleet: FleetView,
    policy: Policy,
    missing_for_s: float = 0.0,
    cordons: frozenset[str] = frozenset(),
) -> Supply:
    """Sort a fleet's pods.

    Args:
        fleet: The pods and what is asked of them.
        policy: Tells from which age on a pod that has not served is overdue, and how old a load may
            be that still counts for growth.
        missing_for_s: How long there have been fewer pods than ordered.
        cordons: Uids of the pods that earlier rounds gave up.
    """
    live, deadline_s = live_pods(fleet), policy.startup_budget_seconds
    places: dict[str, list[Pod]] = {}
    for view in sorted(live, key=lambda pod: (pod.name, pod.uid)):
        place = (
            "cordoned" if view.uid in cordons else place_of(view, fleet.learned.starts, deadline_s)
        )
        places.setdefault(place, []).append(pod_of(view, policy.keep_stale_seconds))
    return Supply(
        serving=tuple(places.get("serving", ())),
        cordoned=tuple(places.get("cordoned", ())),
        away=tuple(places.get("away", ())),
        sleeping=tuple(places.get("sleeping", ())),
        starting=tuple(places.get("starting", ())),
        overdue=tuple(places.get("overdue", ())),
        terminating=len(fleet.pods) - len(live),
        missing=max(0, fleet.spec_replicas - len(live)),
        missing_overdue=missing_for_s >= deadline_s,
        next_s=next_to_serve(places.get("starting", ()), fleet.learned.starts),
        surplus=max(0, len(live) - fleet.spec_replicas),
        request_tokens=fleet.learned.work.request_tokens,
    )


def next_to_serve(starting: Iterable[Pod], starts: Starts) -> float | None:
    """Seconds until the first of these pods is expected to serve."""
    stages = (pod.view.starting for pod in starting)
    left = [left_s(starts, stage) for stage in stages if stage is not None]
    return min((seconds for seconds in left if seconds is not None), default=None)


def live_pods(fleet: FleetView) -> list[PodView]:
    """The pods that are not terminating."""
    return [pod for pod in fleet.pods if not pod.terminating]


def place_of(view: PodView, starts: Starts, deadline_s: float) -> str:
    """Where a pod belongs; what its page says while it starts is its warm-up, not load.

    A start is overdue by the deadline of its stage; where the stage is not known, by its age.
    """
    if view.phase in STARTING:
        if view.starting is not None:
            late = is_overdue(starts, view.starting)
        else:
            late = view.age_s >= deadline_s
        return "overdue" if late else "starting"
    if view.phase is not Phase.SERVING or not view.ready:
        return "away"
    return "sleeping" if view.load is not None and view.load.sleeping else "serving"


def pod_of(view: PodView, keep_stale_s: float) -> Pod:
    """A pod with its numbers checked."""
    kept = view.stale_load if view.stale_age_s < keep_stale_s else None
    return Pod(view, checked(view.load), None if kept is None else checked(kept))


def checked(load: PodLoad | None) -> Load | None:
    """The possible numbers of a load; None when it holds nothing of use."""
    if load is None:
        return None
    capacity = sized(load.capacity_tokens)
    usage = fullest(load, capacity)
    running, waiting, tokens, prompts_per_s, ttft, prompt, new = [
        number if number is not None and 0 <= number <= MOST else None
        for number in (
            load.running,
            load.waiting,
            load.tokens_per_request,
            load.prompt_tokens_per_s,
            load.ttft_p90_s,
            load.prompt_tokens_per_request,
            load.new_prompt_tokens,
        )
    ]
    if running is waiting is usage is None:
        return None
    return Load(
        running,
        waiting,
        usage,
        used_tokens(load, usage, capacity),
        capacity,
        tokens,
        within(load.prefix_hit_ratio, 1.0),
        prompts_per_s,
        ttft,
        prompt,
        new,
        seconds_to_empty(load, running, waiting),
        load.adapters,
        load.sleeping is True,
    )


def seconds_to_empty(load: PodLoad, running: float | None, waiting: float | None) -> float | None:
    """Requests x tokens of an answer over the speed at which the pod makes tokens."""
    if running is None or waiting is None or load.generation_tokens_per_request is None:
        return None
    tokens = within(load.generation_tokens_per_request, MOST)
    speed = within(load.generation_tokens_per_s, MOST)
    if tokens is None or not speed:
        return None
    return within((running + waiting) * tokens / speed, MOST)


def within(number: float | None, most: float) -> float | None:
    """A number from 0 to `most`; anything else, NaN too, is unknown."""
    return number if number is not None and 0 <= number <= most else None


def sized(capacity: float | None) -> float | None:
    """A capacity of a token at least; a smaller one is unknown."""
    return capacity if capacity is not None and 1 <= capacity <= MOST else None


def fullest(load: PodLoad, capacity: float | None) -> float | None:
    """Pinned KV of the fullest engine: its own figure, else the pod's, else used / capacity.

    A pod that tells that nothing runs and nothing waits pins nothing, whether or not its engine
    has a gauge for it.
    """
    if load.usage_max is not None or load.usage is not None:
        most, mean = within(load.usage_max, 1.0), within(load.usage, 1.0)
        return mean if most is None or (mean is not None and mean > most) else most
    if load.used_tokens is not None and capacity is not None:
        return within(load.used_tokens / capacity, 1.0)
    return 0.0 if load.running == 0 and load.waiting == 0 else None


def used_tokens(load: PodLoad, usage: float | None, capacity: float | None) -> float | None:
    """Pinned tokens, counted as full as the fullest engine; None without a usage or capacity."""
    if usage is None or capacity is None:
        return None
    by_usage, told = usage * capacity, load.used_tokens
    return told if told is not None and by_usage < told <= capacity else by_usage
