"""What a fleet is asked to carry: one `Signal` for each way to be full.

Sums are integers in billionths, so that 42.4 / 0.8 is 53 and no order of pods changes a result.
"""

from collections.abc import Callable, Sequence
from math import fsum
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from cacheaware.decide.decision import Term
from cacheaware.decide.forecast import Forecast, forecast_of
from cacheaware.decide.history import History
from cacheaware.decide.policy import Policy
from cacheaware.decide.supply import Load, Pod, Supply

NANO = 10**9
USAGE: Callable[[Load], float | None] = attrgetter("usage")
WAITING: Callable[[Load], float | None] = attrgetter("waiting")


class Signal(Struct, frozen=True, kw_only=True):
    """A demand and the supply that it is measured against; amounts in billionths of `unit`."""

    name: str
    unit: str
    low: int
    """Demand when growing: an unknown pod counts as idle."""
    high: int
    """Demand when shrinking: an unknown pod counts as full."""
    capacity: tuple[int, ...]
    """What each serving pod holds, in their order."""
    percent: int
    """How much of its capacity a pod may use."""
    known: int
    """Serving pods that tell this signal."""
    tolerated: bool = True
    """Whether a small distance from the target changes nothing."""
    note: str = ""

    @property
    def total(self) -> int:
        """What all serving pods may use, times 100."""
        return self.percent * sum(self.capacity)

    def replicas(self, demand: int) -> int:
        """Replicas that carry a demand at target, each like the mean serving pod, rounded up.

        >>> kv = Signal(name="kv-usage", unit="pods", low=0, high=0, capacity=(NANO,) * 70,
        ...             percent=80, known=70)
        >>> kv.replicas(nano(42.4))
        53
        """
        return -(-demand * 100 * len(self.capacity) // self.total)

    def pods(self, demand: int, pod: int) -> float:
        """Pods of one size that carry a demand at target, not rounded."""
        return demand * 100 / (self.percent * pod)

    def tolerance(self, percent: int) -> int:
        """The tolerance in percent that holds for this signal."""
        return percent if self.tolerated else 0

    def compared(self, demand: int, replicas: int, percent: int) -> int:
        """A demand less `percent` of what so many replicas may use: its sign is what counts."""
        return demand * 100 * 100 * len(self.capacity) - self.total * replicas * percent

    def fits(self, capacity: int) -> bool:
        """Whether pods of this capacity together carry the high demand at target."""
        return self.high * 100 <= self.percent * capacity

    def term(self, demand: int) -> Term:
        """This signal as a term of the decision."""
        return Term(
            signal=self.name,
            demand=demand / NANO,
            per_replica=self.total / (100 * len(self.capacity)) / NANO,
            unit=self.unit,
            replicas=self.replicas(demand),
            note=self.note,
        )


def nano(amount: float) -> int:
    """An amount in billionths, which also absorbs the noise of binary fractions."""
    return round(amount * NANO)


def signals_of(supply: Supply, policy: Policy) -> tuple[Signal, ...]:
    """What the fleet is asked for now, KV first, then the queue; none when no pod serves."""
    if not supply.serving:
        return ()
    return (kv_signal(supply, policy), pending_signal(supply, policy))


def with_past(
    signals: tuple[Signal, ...], history: History, policy: Policy, lead_s: float
) -> tuple[Signal, ...]:
    """The signals with what the history adds to them.

    Where prefill is measured, the tokens of a short queue are counted already: as a queue it counts
    as far as it has lasted for a minute in which no pod was on its way. Requests stay with the
    engine that they wait for: more pods take what comes, which is foreseen.
    """
    kv, pending = signals
    pods = sizes_of(kv, history)
    unseen = nano(kv.pods(kv.high - kv.low, pod_of(kv, history)))
    if history.prefill is not None and history.lasting_queue is not None:
        lasting = min(pending.low, nano(history.lasting_queue))
        pending = replace(
            pending, low=lasting, note="what has waited through a minute with no pod on its way"
        )
    if (ahead := forecast_of(history, lead_s, policy.scale_down.stabilization_seconds)) is not None:
        return kv, pending, forecast_signal(ahead, pods, unseen, policy.headroom_percent)
    if history.prefill is not None:
        return kv, pending, prefill_signal(history.prefill, pods, unseen)
    return kv, pending


def pod_of(kv: Signal, history: History) -> int:
    """What one pod of the history's needs holds, in the KV signal's billionths."""
    if kv.name == "kv-usage":
        return NANO
    return history.pod or sum(kv.capacity) // len(kv.capacity)


def sizes_of(kv: Signal, history: History) -> tuple[int, ...]:
    """The serving pods, each in billionths of a pod of the history's needs, rounded up."""
    pod = pod_of(kv, history)
    return tuple(-(-size * NANO // pod) for size in kv.capacity)


def forecast_signal(
    ahead: Forecast, pods: tuple[int, ...], unseen: int, headroom_percent: int
) -> Signal:
    """Pods that will be needed, with the user's headroom.

    `unseen` is what those that are not known may hold: they are in no history, and count as full
    when shrinking.
    """
    need = nano(ahead.need * (100 + headroom_percent) / 100)
    wanted = f", {headroom_percent} % headroom" if headroom_percent else ""
    return Signal(
        name="forecast",
        unit="pods",
        low=need,
        high=need + unseen,
        capacity=pods,
        percent=100,
        known=len(pods),
        tolerated=False,
        note=f"in {ahead.lead_s:,.0f} s: {ahead.level:.1f} by {ahead.way}, {ahead.reserve:+.1f} for"
        f" what came beyond it in the last {ahead.past_s / 60:,.0f} min{wanted}",
    )


def prefill_signal(need: float, pods: tuple[int, ...], unseen: int) -> Signal:
    """Prefill of the last minute, in pods at target."""
    return Signal(
        name="prefill",
        unit="pods",
        low=nano(need),
        high=nano(need) + unseen,
        capacity=pods,
        percent=100,
        known=len(pods),
        note="prompt tokens of the last minute, over what a pod may prefill",
    )


def kv_signal(supply: Supply, policy: Policy) -> Signal:
    """Pinned KV: in tokens where every known pod tells its capacity, else as a share of pods."""
    known = [pod.load for pod in supply.serving if pod.load is not None]
    sized = [load for load in known if load.usage is not None]
    if sized and all(load.capacity_tokens is not None for load in sized):
        return token_signal(supply, policy)
    low, high = summed(supply, lambda pod: amounts(pod, USAGE, 1.0))
    return Signal(
        name="kv-usage",
        unit="pods",
        low=low,
        high=high,
        capacity=(NANO,) * len(supply.serving),
        percent=policy.kv_utilization_percent,
        known=len(sized),
    )


def token_signal(supply: Supply, policy: Policy) -> Signal:
    """Pinned tokens and the tokens that waiting requests will pin, less what is cached."""
    sizes = [size for pod in supply.serving if (size := capacity_of(pod)) is not None]
    mean = sum(sizes) / len(sizes)
    demand = TokenDemand(
        mean,
        expected_of(supply),
        hits=policy.role != "Decode",
        learned=all(load.tokens_per_request is None for load in growing(supply)),
    )
    low, high = summed(supply, demand.amounts)
    return Signal(
        name="kv-tokens",
        unit="tokens",
        low=low,
        high=high,
        capacity=tuple(nano(capacity_of(pod) or mean) for pod in supply.serving),
        percent=policy.kv_utilization_percent,
        known=sum(pod.load is not None and pod.load.usage is not None for pod in supply.serving),
        note=demand.note,
    )


class TokenDemand(Struct, frozen=True):
    """How many tokens a pod's requests pin or will pin."""

    mean_capacity: float
    expected: float | None
    """Tokens of a request of this fleet."""
    hits: bool
    """Whether cached prefixes spare a waiting request its tokens."""
    learned: bool = False
    """No pod tells the tokens of a request now: they are as learned."""

    def amounts(self, pod: Pod) -> tuple[float, float]:
        """When growing, and when shrinking: a pod whose use is unknown is full then."""
        load = pod.growing_load
        low = 0.0 if load is None else self.tokens(load, load.used_tokens or 0.0)
        if pod.load is None or pod.load.used_tokens is None:
            return low, max(low, capacity_of(pod) or self.mean_capacity)
        return low, low

    def tokens(self, load: Load, used: float) -> float:
        """Used and waiting tokens; no request is larger than the pod that it waits for."""
        expected = min(self.expected or 0.0, load.capacity_tokens or self.mean_capacity)
        cached = (load.prefix_hit_ratio or 0.0) if self.hits else 0.0
        return used + (load.waiting or 0.0) * expected * (1.0 - cached)

    @property
    def note(self) -> str:
        """How waiting requests were counted."""
        if self.expected is None:
            return "waiting requests are left to the pending signal: their size is not known"
        size = f"{min(self.expected, self.mean_capacity):,.0f} tokens"
        if self.expected > self.mean_capacity:
            size += f", all that fit into a pod, though {self.expected:,.0f} were measured"
        size += " as learned before" if self.learned else ""
        return f"a waiting request counts as {size}, less its cached prefix"


def expected_of(supply: Supply) -> float | None:
    """Tokens of a request of this fleet; where no serving pod tells, what was learned."""
    told = per_request(growing(supply), attrgetter("tokens_per_request"))
    return supply.request_tokens if told is None else told


def growing(supply: Supply) -> list[Load]:
    """The loads of the serving pods that count when growing."""
    return [load for pod in supply.serving if (load := pod.growing_load) is not None]


def per_request(loads: Sequence[Load], tokens: Callable[[Load], float | None]) -> float | None:
    """The mean over the requests that began, not over pods.

    A pod that began one request with a long prompt would count as much as one that began ten, and
    a fleet that is too small has many of those.
    """
    told = [(load.began_per_s, each) for load in loads if (each := tokens(load)) is not None]
    counted = [(began, each) for began, each in told if began]
    if counted:
        return fsum([began * each for began, each in counted]) / fsum([one for one, _ in counted])
    return fsum([each for _, each in told]) / len(told) if told else None


def capacity_of(pod: Pod) -> float | None:
    """Tokens that fit into a pod."""
    load = pod.growing_load
    return None if load is None else load.capacity_tokens


def pending_signal(supply: Supply, policy: Policy) -> Signal:
    """Waiting requests."""
    full = float(policy.pending_per_replica)
    low, high = summed(supply, lambda pod: amounts(pod, WAITING, full))
    return Signal(
        name="pending",
        unit="requests",
        low=low,
        high=high,
        capacity=(policy.pending_per_replica * NANO,) * len(supply.serving),
        percent=100,
        known=sum(pod.load is not None and pod.load.waiting is not None for pod in supply.serving),
    )


def loaded(supply: Supply) -> tuple[Pod, ...]:
    """The pods whose requests count when growing: those of cordoned ones are still to be done."""
    return supply.serving + supply.cordoned


def summed(supply: Supply, of: Callable[[Pod], tuple[float, float]]) -> tuple[int, int]:
    """Sums over the pods, whatever their order, for growing and for shrinking.

    Pods that are out of the endpoints count for shrinking alone.
    """
    both = [of(pod) for pod in loaded(supply)]
    high = [number for _, number in both] + [of(pod)[1] for pod in supply.away]
    return nano(fsum([number for number, _ in both])), nano(fsum(high))


def amounts(pod: Pod, of: Callable[[Load], float | None], full: float) -> tuple[float, float]:
    """A number of a pod for growing and for shrinking.

    That of this round; where it is unknown, the last before the pod timed out, and full.
    """
    if pod.load is not None and (now := of(pod.load)) is not None:
        return now, now
    last = None if pod.growing_load is None else of(pod.growing_load)
    return last or 0.0, max(full, last or 0.0)
