"""What holds for every drain: one look at odd fleets, and fleets that live for many rounds."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.operator.decide.small_cluster import POLICY, US

from cacheaware.decide import Memory, decide
from cacheaware.decide.fleet import FleetView, PodLoad, PodView, Unknown
from cacheaware.decide.memory import Bar, Since
from cacheaware.decide.policy import RatePolicy, Rules
from cacheaware_sidecar.phase import Phase

NOW = 1000.0
KINDS = ["Deployment", "Deployment", "StatefulSet", "LeaderWorkerSet", "Rollout"]
LOADS = st.builds(
    PodLoad,
    running=st.sampled_from([0.0, 0.0, 1.0, 3.0, None]),
    waiting=st.sampled_from([0.0, 0.0, 0.0, 2.0]),
    usage=st.sampled_from([0.0, 0.0, 0.1, 0.4, 0.9]),
    adapters=st.sampled_from([(), (), ("sql",)]),
)
RARELY = st.sampled_from([False] * 9 + [True])
WHY = st.sampled_from([None] * 6 + ["why"])
PODS = st.lists(
    st.builds(
        PodView,
        phase=st.sampled_from([*[Phase.SERVING] * 6, *[Phase.CORDONED] * 4, *Phase]),
        ready=st.sampled_from([True, True, False]),
        terminating=RARELY,
        pending=RARELY,
        disrupted=st.sampled_from([False] * 40 + [True]),
        serving_age_s=st.sampled_from([None, None, 5.0]),
        load=st.sampled_from([True, True, True, False]).flatmap(
            lambda known: LOADS if known else st.none()
        ),
        idle_rounds=st.integers(0, 3),
        sidecar=st.sampled_from([True, True, True, False]),
        final_drain=st.booleans(),
        guarded_by=WHY,
        cordoned_by=st.sampled_from([US, US, "another", None]),
        cordoned_s=st.sampled_from([0.0, 40.0, 299.0, 301.0]),
        empty=st.booleans(),
        arrival_age_s=st.sampled_from([None, 1.0, 200.0]),
        no_cordon=WHY,
        name=st.just(""),
    ).map(
        lambda pod: (
            replace(pod, ready=False)
            if pod.phase is Phase.CORDONED
            else replace(pod, cordoned_by=None, empty=False)
        )
    ),
    min_size=1,
    max_size=7,
).map(lambda pods: tuple(replace(p, name=f"m-{i}", uid=f"u-{i}") for i, p in enumerate(pods)))
POLICIES = st.builds(
    lambda least, share, mode: replace(
        POLICY, min_replicas=least, drain_share_percent=share, mode=mode
    ),
    st.integers(1, 4),
    st.sampled_from([1, 25, 50, 100, 100]),
    st.sampled_from(["Scale", "Scale", "Scale", "Advise"]),
)


@st.composite
def situations(draw):
    """A fleet in the middle of something, and what is remembered of it."""
    pods = draw(PODS)
    view = FleetView(
        namespace="llm",
        name="chat",
        uid=US,
        target_kind=draw(st.sampled_from(KINDS)),
        spec_replicas=max(1, len(pods) + draw(st.sampled_from([-1, 0, 0, 0, 0, 1, 3]))),
        pods=pods,
        rollout=draw(st.sampled_from([False] * 9 + [True])),
    )
    known = [pod.uid for pod in pods if draw(st.booleans())]
    barred = [pod.uid for pod in pods if draw(RARELY)]
    memory = replace(
        Memory.start(view.spec_replicas, NOW),
        peaks=(),
        lows=(),
        given_up=tuple(Since(uid, NOW - 60.0) for uid in known),
        bars=tuple(Bar(uid, NOW + 60.0, "StickyClients") for uid in barred),
    )
    return view, memory


def unservable(pod, view):
    """Whether a pod may only be judged by what two looks have seen."""
    other = view.target_kind not in {"Deployment", "StatefulSet", "LeaderWorkerSet"}
    return not pod.sidecar or pod.no_cordon or pod.guarded_by or other


@settings(max_examples=800, deadline=None)
@given(found=situations(), policy=POLICIES)
def test_what_goes_is_empty_and_what_is_cordoned_may_be(found, policy):
    view, memory = found
    decision, after = decide(view, policy, memory, NOW)
    by_uid = {pod.uid: pod for pod in view.pods}
    victims = [by_uid[one.uid] for one in decision.victims]
    barred = {one.uid for one in memory.bars}
    whole = view.rollout or any(pod.disrupted and not pod.terminating for pod in view.pods)

    sets = [{one.uid for one in ones} for ones in (decision.cordons, decision.uncordons)]
    assert not sets[0] & sets[1]
    assert not {pod.uid for pod in victims} & (sets[0] | sets[1])
    assert not any(by_uid[uid].terminating for uid in sets[0] | sets[1])
    if policy.mode == "Advise":
        assert decision.cordons == ()
        return
    others = []
    for told, pod in zip(decision.victims, victims, strict=True):
        starting = pod.phase in {Phase.LOADING, Phase.WARMING} and not pod.ready
        idle = pod.load and pod.load.running == pod.load.waiting == 0 and pod.idle_rounds >= 2
        assert not pod.terminating
        if told.cordoned:
            assert pod.cordoned_by == US
            assert pod.empty
            assert pod.load is not None
            assert not pod.ready
            assert pod.uid in after.cordons, "until its end is written"
        elif not starting and not (idle and unservable(pod, view) and pod.uid not in barred):
            others.append(pod)
    assert len(others) <= 1
    assert all(pod.final_drain and len(victims) == 1 and not sets[0] for pod in others)
    if victims or decision.cordons:
        assert not whole
    for uid in sets[0] - memory.cordons:
        pod = by_uid[uid]
        assert pod.load is not None
        assert pod.sidecar
        assert pod.phase is Phase.SERVING
        assert pod.guarded_by is None
        assert pod.no_cordon is None
        assert uid not in barred
        assert pod.serving_age_s is None
    serving = {p.uid for p in view.pods if p.phase is Phase.SERVING and p.ready}
    serving = {
        uid
        for uid in serving
        if not by_uid[uid].terminating
        and (by_uid[uid].load or by_uid[uid].no_cordon or uid not in memory.cordons)
    }
    stays = serving - sets[0] - {pod.uid for pod in victims}
    if stays != serving:
        assert len(stays) >= min(policy.min_replicas, len(serving))
    if decision.desired > decision.current:
        assert decision.cordons == ()
        assert sets[1] >= {p.uid for p in view.pods if p.cordoned_by == US and not p.terminating}


@settings(max_examples=300, deadline=None)
@given(found=situations(), policy=POLICIES)
def test_after_a_restart_every_cordon_of_ours_is_taken_back_and_nothing_shrinks(found, policy):
    view, _ = found
    down = replace(POLICY.scale_down, stabilization_seconds=300)
    policy = replace(policy, scale_down=down, min_replicas=1)
    decision, _ = decide(view, policy, Memory.start(view.spec_replicas, NOW), NOW)

    ours = {p.uid for p in view.pods if p.cordoned_by == US and not p.terminating}
    assert {one.uid for one in decision.uncordons} == ours
    assert decision.cordons == ()
    assert decision.desired >= view.spec_replicas


@settings(max_examples=300, deadline=None)
@given(
    usages=st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), min_size=2, max_size=6),
    dark=st.integers(0, 5),
    share=st.sampled_from([25, 100]),
)
def test_losing_sight_of_a_pod_never_turns_the_direction(usages, dark, share):
    pods = [
        PodView(name=f"p{i}", uid=f"u{i}", sidecar=True, load=PodLoad(usage=one, waiting=0.0))
        for i, one in enumerate(usages)
    ]
    place = dark % len(pods)
    blind = replace(pods[place], load=None, unknown=Unknown.REFUSED)
    policy = replace(POLICY, drain_share_percent=share)

    def logical(pods):
        view = FleetView(
            namespace="llm", name="chat", uid=US, spec_replicas=len(pods), pods=tuple(pods)
        )
        memory = replace(Memory.start(len(pods), NOW), peaks=(), lows=())
        decision = decide(view, policy, memory, NOW)[0]
        assert blind.uid not in {one.uid for one in decision.cordons} or pods[place] is not blind
        return decision.desired - len(decision.cordons)

    with_it = logical(pods)
    without = logical([*pods[:place], blind, *pods[place + 1 :]])
    assert min(len(pods), with_it) <= without <= max(len(pods), with_it)


@dataclass
class Living:
    """A fleet with a demand that spreads over the pods in the endpoints.

    A cordoned pod keeps what it held, and loses a part of it each round until it is empty; one that
    is ordered serves three rounds later.
    """

    policy: object
    sizes: list[int]
    fades: float
    demand: float = 0.0
    now: float = NOW
    held: dict[int, float] = field(default_factory=dict)
    starting: dict[int, int] = field(default_factory=dict)
    moves: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.pods = dict(enumerate(self.sizes))
        self.memory = replace(Memory.start(len(self.sizes), self.now), peaks=(), lows=())

    def view(self):
        busy = sum(self.held.values())
        open_ = {n: size for n, size in self.pods.items() if n not in self.held}
        open_ = {n: size for n, size in open_.items() if n not in self.starting}
        rest = max(0.0, self.demand - busy)
        share = rest / sum(open_.values()) if open_ else 0.0
        return tuple(self.pod(n, size, share * size) for n, size in self.pods.items())

    def pod(self, number, size, tokens):
        name, uid = f"p-{number}", f"u-{number}"
        if number in self.starting:
            return PodView(name=name, uid=uid, phase=Phase.LOADING, ready=False, age_s=5.0)
        tokens = self.held.get(number, tokens)
        used = min(1.0, tokens / size)
        over = max(0.0, tokens / size - 1.0)
        load = PodLoad(
            running=float(tokens > 0),
            waiting=10.0 * over,
            usage=used,
            used_tokens=used * size,
            capacity_tokens=float(size),
        )
        out = number in self.held
        return PodView(
            name=name,
            uid=uid,
            phase=Phase.CORDONED if out else Phase.SERVING,
            ready=not out,
            load=load,
            sidecar=True,
            cordoned_by=US if out else None,
            empty=out and tokens == 0,
        )

    def round(self, kind="Deployment"):
        self.now += 5.0
        self.held = {n: max(0.0, one - self.fades) for n, one in self.held.items()}
        self.starting = {n: left - 1 for n, left in self.starting.items() if left > 1}
        views = {pod.uid: pod for pod in self.view()}
        before = set(self.held)
        view = FleetView(
            namespace="llm",
            name="chat",
            uid=US,
            target_kind=kind,
            spec_replicas=len(self.pods),
            pods=tuple(views.values()),
        )
        made, self.memory = decide(view, self.policy, self.memory, self.now)
        for one in made.victims:
            number = int(one.uid[2:])
            assert views[one.uid].empty or number in self.starting
            del self.pods[number]
            self.held.pop(number, None)
            self.starting.pop(number, None)
            self.moves.append("delete")
        for one in made.uncordons:
            del self.held[int(one.uid[2:])]
            self.moves.append("uncordon")
        for one in made.cordons:
            if (number := int(one.uid[2:])) not in self.held:
                self.held[number] = views[one.uid].load.used_tokens
                self.moves.append("cordon")
        for _ in range(made.desired - made.current):
            number = max(self.pods) + 1
            self.pods[number], self.starting[number] = self.sizes[0], 3
            self.moves.append("order")
        if made.changes:
            gone = frozenset(one.uid for one in made.victims)
            self.memory = self.memory.scaled(made.current, made.desired, self.now, gone)
        if made.desired > made.current:
            assert not before & set(self.held), "those that are cordoned come back first"
        serving = [n for n in self.pods if n not in self.held and n not in self.starting]
        assert serving
        return made


SIZES = st.lists(st.sampled_from([1000, 1000, 1000, 500, 4000]), min_size=1, max_size=8)
FAST = replace(POLICY, max_replicas=12)
GRADUAL = replace(
    FAST,
    scale_down=Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 1, 15),)),
    drain_share_percent=25,
)


@settings(max_examples=120, deadline=None)
@given(
    sizes=SIZES,
    percent=st.integers(0, 80),
    fades=st.sampled_from([200.0, 600.0, 5000.0]),
    policy=st.sampled_from([FAST, GRADUAL]),
    kind=st.sampled_from(["Deployment", "StatefulSet"]),
)
def test_a_steady_load_that_fits_calls_no_drain_off_and_comes_to_rest(
    sizes, percent, fades, policy, kind
):
    life = Living(policy, sizes, fades, demand=sum(sizes) * percent / 100)
    for _ in range(150):
        life.round(kind)
    assert not {"uncordon", "order"} & set(life.moves)
    at_rest = len(life.moves)
    for _ in range(10):
        life.round(kind)
    assert len(life.moves) == at_rest
    assert not life.held


@settings(max_examples=150, deadline=None)
@given(
    sizes=SIZES,
    demands=st.lists(st.integers(0, 8000), min_size=1, max_size=12),
    every=st.integers(1, 6),
    fades=st.sampled_from([50.0, 5000.0]),
    policy=st.sampled_from([FAST, GRADUAL]),
)
def test_bursts_bring_pods_back_before_any_is_ordered(sizes, demands, every, fades, policy):
    life = Living(policy, sizes, fades)
    for demand in demands:
        life.demand = float(demand)
        for _ in range(every):
            made = life.round()
            assert made.desired <= policy.max_replicas
            assert len(life.pods) == made.desired
