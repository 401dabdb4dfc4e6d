"""A small fleet that does as decisions say, a round later."""

from dataclasses import dataclass, field

from msgspec.structs import replace
from tests.operator.decide.conftest import Rounds, fleet, pod

from cacheaware.decide.fleet import PodLoad, PodView
from cacheaware.decide.policy import Policy, RatePolicy, Rules
from cacheaware_sidecar.phase import Phase

US = "uid-of-the-scaler"
AT_ONCE = Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 10, 15),))
UP = Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 10, 15),))
POLICY = Policy(
    mode="Scale",
    max_replicas=20,
    scale_up=UP,
    scale_down=AT_ONCE,
    drain_share_percent=100,
    drain_deadline_seconds=300,
)


def serving(name, *, kv=0.1, running=1.0, **fields):
    return pod(name, kv=kv, running=running, **{"sidecar": True, "final_drain": True, **fields})


def cordoned(view: PodView, seconds=0.0, *, empty=False, **fields):
    """The pod after its cordon, out of the endpoints."""
    load = replace(view.load, usage=0.0, running=0.0, waiting=0.0) if empty else view.load
    fields = {"ready": False, "cordoned_by": US, **fields}
    return replace(view, phase=Phase.CORDONED, cordoned_s=seconds, empty=empty, load=load, **fields)


@dataclass
class Cluster:
    """Pods that do what decisions say, a round later."""

    pods: dict[str, PodView]
    spec: int
    rounds: Rounds
    log: list[str] = field(default_factory=list)

    def round(self, after=5.0, **fleet_fields):
        view = fleet(self.pods.values(), spec=self.spec, uid=US, **fleet_fields)
        made = self.rounds.round(view, after=after, write=False)
        if made.changes:
            gone = frozenset(one.uid for one in made.victims)
            memory = self.rounds.memory
            self.rounds.memory = memory.scaled(made.current, made.desired, self.rounds.now, gone)
            self.spec = made.desired
            for one in made.victims:
                del self.pods[one.pod]
                self.log.append(f"deleted {one.pod}")
        for one in made.cordons:
            view = self.pods[one.pod]
            if view.phase is Phase.SERVING:
                self.pods[one.pod] = cordoned(view)
                self.log.append(f"cordoned {one.pod}")
        for one in made.uncordons:
            self.pods[one.pod] = replace(
                self.pods[one.pod],
                phase=Phase.SERVING,
                ready=True,
                cordoned_by=None,
                cordoned_s=0.0,
                empty=False,
            )
            self.log.append(f"uncordoned {one.pod}")
        return made

    def set(self, name, **changes):
        self.pods[name] = replace(self.pods[name], **changes)

    def load(self, name, **numbers):
        self.set(name, load=replace(self.pods[name].load or PodLoad(), **numbers))

    def empty(self, name):
        self.load(name, usage=0.0, running=0.0, waiting=0.0)
        self.set(name, empty=True)


def cluster(*pods, policy=POLICY, **fields):
    made = Cluster({one.name: one for one in pods}, len(pods), Rounds(policy, replicas=len(pods)))
    made.rounds.memory = replace(made.rounds.memory, peaks=(), lows=())
    return made


def three():
    return cluster(
        serving("a", kv=0.3, running=3), serving("b", kv=0.1), serving("c", kv=0.2, running=2)
    )
