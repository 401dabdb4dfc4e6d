"""Our own policy: what the sidecar, the operator's observation and its decision do in a cluster.

Scraped samples go through the same code as there: the sidecar's window and rates, its state, the
operator's memory of pods, learned cold starts, `decide`. Only HTTP, JSON and the API are left out.
"""

from msgspec.structs import replace

from cacheaware.decide import Memory, decide
from cacheaware.decide.fleet import FleetView, PodView
from cacheaware.decide.learned import Learned
from cacheaware.decide.policy import Policy as Wishes
from cacheaware.observe.cold_starts import starting_of
from cacheaware.observe.learning import taught
from cacheaware.observe.memory import PodMemory, pod_view, remember
from cacheaware.observe.sidecar import look_of
from cacheaware.pods import PodRecord
from cacheaware_sidecar.observed import Observed
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import (
    Counters,
    DrainState,
    PodState,
    ShapeState,
    StartState,
    WarmupState,
    counters,
    kv_state,
)
from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.policies.policy import Limits, Orders

SCALER = "scaler"
STALE_S = 15.0
ROUND_S = 5.0
WARMED = WarmupState()


class CacheAwarePolicy:
    """The operator's rounds in virtual time."""

    name = "cacheaware"
    interval_s = ROUND_S

    def __init__(
        self, limits: Limits, wishes: Wishes | None = None, shapes: tuple[ShapeState, ...] = ()
    ) -> None:
        """Begin to watch a fleet.

        Args:
            limits: The least and the most replicas.
            wishes: What a CacheAwareScaler would say; its bounds are those of `limits`.
            shapes: What the warm-up of each pod has measured; nothing where there was none.
        """
        self._warmup = WarmupState(verdict="Warm", shapes=shapes)
        self._wishes = replace(
            wishes or Wishes(),
            mode="Scale",
            min_replicas=limits.min_replicas,
            max_replicas=limits.max_replicas,
            round_seconds=ROUND_S,
        )
        self._sidecars: dict[str, Observed] = {}
        self._pods: dict[str, PodMemory] = {}
        self.learned: Learned | None = None
        """What starts have taught; None before the first round."""
        self._memory: Memory | None = None
        self._gone: frozenset[str] = frozenset()
        self._ready_since: dict[str, float] = {}

    @property
    def remembered(self) -> frozenset[str]:
        """The pods of which something is known."""
        return frozenset(self._sidecars) | self._pods.keys() | self._ready_since.keys()

    def decide(self, seen: Observation) -> Orders:
        """One round."""
        self._forget_all_but({pod.name for pod in seen.pods})
        records = [self._record(pod, seen.now) for pod in seen.pods]
        self._pods = {
            record.uid: self._remember(pod, record, seen.now)
            for pod, record in zip(seen.pods, records, strict=True)
        }
        if self.learned is None:
            there = frozenset(record.uid for record in records if record.ready)
            self.learned = Learned(counted=there)
        self.learned, _ = taught(self.learned, records, self._pods, seen.now)
        view = self._view(seen, records, self.learned)
        memory = self._memory or Memory.start(seen.replicas, seen.now)
        decision, self._memory = decide(view, self._wishes, memory, seen.now)
        self._gone = frozenset(one.uid for one in decision.victims)
        return Orders(
            replicas=decision.desired,
            victims=tuple(one.pod for one in decision.victims),
            cordons=tuple(one.pod for one in decision.cordons),
            uncordons=tuple(one.pod for one in decision.uncordons),
            reason=decision.message,
        )

    def wrote(self, before: int, after: int, now: float) -> None:
        """Remember the write, as a round does."""
        if self._memory is not None:
            self._memory = self._memory.scaled(before, after, now, self._gone)

    def _forget_all_but(self, names: set[str]) -> None:
        """Drop what is known of pods that are gone: a day has thousands."""
        self._sidecars = {name: one for name, one in self._sidecars.items() if name in names}
        self._ready_since = {name: at for name, at in self._ready_since.items() if name in names}

    def _record(self, pod: PodSample, now: float) -> PodRecord:
        """The pod's object in the API."""
        if pod.ready:
            # Those that are there from the start have been Ready for long; others not yet a round.
            since = pod.created_at if self._memory is None else now
            self._ready_since.setdefault(pod.name, since)
        return PodRecord(
            namespace="default",
            name=pod.name,
            uid=pod.name,
            labels={},
            ready=pod.ready,
            ready_since=self._ready_since.get(pod.name) if pod.ready else None,
            created=pod.created_at,
            scheduled_at=pod.created_at,
            started_at=pod.created_at,
            terminating=pod.terminating,
            final_drain=True,
        )

    def _remember(self, pod: PodSample, record: PodRecord, now: float) -> PodMemory:
        """The pod's memory with what its sidecar tells now."""
        sidecar = self._sidecars.setdefault(pod.name, Observed())
        if pod.sample is not None and pod.sampled_at is not None and pod.sampled_at != sidecar.at:
            sidecar.good(pod.sample, pod.sampled_at)
        look = look_of(state_of(pod, sidecar, now, self._warmup), pod.phase, now)
        return remember(self._pods.get(record.uid, PodMemory()), record, look)

    def _view(self, seen: Observation, records: list[PodRecord], learned: Learned) -> FleetView:
        return FleetView(
            namespace="default",
            name=SCALER,
            uid=SCALER,
            spec_replicas=seen.replicas,
            pods=tuple(self._pod(record, learned, seen.now) for record in records),
            learned=learned,
        )

    def _pod(self, record: PodRecord, learned: Learned, now: float) -> PodView:
        memory = self._pods[record.uid]
        view = pod_view(record, memory, now=now, wall=now, stale_s=STALE_S)
        return replace(view, starting=starting_of(record, memory, learned, now=now, wall=now))


def state_of(
    pod: PodSample, sidecar: Observed, now: float, warmup: WarmupState = WARMED
) -> PodState:
    """What the pod's sidecar answers at /v1/state."""
    sample = sidecar.sample
    cordoned = pod.phase is Phase.CORDONED
    return PodState(
        phase=pod.phase.value,
        sample_age_s=sidecar.age(now),
        sample_seq=sidecar.count,
        engine=sample.engine if sample else None,
        running=sample.running if sample else None,
        waiting=sample.waiting if sample else None,
        kv=kv_state(sample, None) if sample else PodState(phase="").kv,
        rates=sidecar.rates(now),
        counters=counters(sample) if sample else Counters(),
        latency=sidecar.latency(),
        warmup=warmup if pod.ready else WARMED,
        start=StartState(warming_s=0.0) if pod.ready else StartState(),
        drain=DrainState(
            cordoned_by=SCALER if cordoned else None,
            cordoned_s=pod.cordoned_s if cordoned else None,
            empty=pod.empty if cordoned else None,
            arrival_age_s=pod.arrival_age_s,
        ),
    )
