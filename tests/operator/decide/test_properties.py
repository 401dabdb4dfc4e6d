"""What holds for every fleet, however odd."""

import math
from array import array

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cacheaware.decide import Memory, decide
from cacheaware.decide.fleet import FleetView, PodLoad, PodView, Unknown
from cacheaware.decide.forecast import WAYS
from cacheaware.decide.history import History, Judged
from cacheaware.decide.policy import Policy, RatePolicy, Rules
from cacheaware.decide.supply import STARTING
from cacheaware.names import Reasons
from cacheaware_sidecar.phase import Phase

pytestmark = pytest.mark.no_cover
"""Thousands of examples: tracing each line of them would take five times as long."""

# One draw a field: what takes the time of these tests is drawing, not deciding.
SHARES = [percent / 100 for percent in range(101)]
SHARE = st.sampled_from(SHARES)
SPECIAL = [None, -1.0, 0.0, 1e-300, 0.5, 1.0, 7.0, 1e15, 1e16, 1e308, math.nan, math.inf, -math.inf]
ODD = st.sampled_from(SPECIAL) | st.floats()
REASONS = {value for name, value in vars(Reasons).items() if not name.startswith("_")}


def loads(count, tokens, share, seconds):
    """Loads with these numbers in their fields."""
    return st.builds(
        PodLoad,
        running=count,
        waiting=count,
        usage=share,
        usage_max=share,
        used_tokens=tokens,
        capacity_tokens=tokens,
        tokens_per_request=tokens,
        prompt_tokens_per_s=tokens,
        prefix_hit_ratio=share,
        ttft_p90_s=seconds,
        prompt_tokens_per_request=tokens,
        new_prompt_tokens=tokens,
    )


COUNT = st.sampled_from([*[None] * 20, *map(float, range(41))])
AMOUNT = st.sampled_from([*[None] * 100, *(float(997 * i) for i in range(201))])
PART = st.sampled_from([*[None] * 50, *SHARES])
LOADS = loads(COUNT, AMOUNT, PART, COUNT)
RATIOS = loads(COUNT, st.none(), PART, COUNT)
ODD_LOADS = loads(ODD, ODD, ODD, ODD)
AGES = st.sampled_from([0.0, 1.0, 5.0, 59.0, 60.0, 299.0, 300.0, 1799.0, 1800.0, 1801.0, 5000.0])


IDLE = PodLoad(running=0.0, waiting=0.0, usage=0.0)


def pods_of(load):
    """Lists of pods with names of their own."""
    pod = st.builds(
        PodView,
        name=st.sampled_from([f"m-{i}" for i in range(20)]),
        phase=st.sampled_from([*[Phase.SERVING] * 6, *Phase]),
        ready=st.sampled_from([True, True, False]),
        terminating=st.sampled_from([False, False, False, True]),
        age_s=AGES,
        serving_age_s=st.none() | AGES,
        load=load | st.none(),
        unknown=st.sampled_from([*[None] * len(Unknown), *Unknown]),
        stale_load=st.none() | load,
        idle_rounds=st.integers(0, 4),
        final_drain=st.booleans(),
    )
    return st.lists(pod, max_size=5, unique_by=lambda one: one.name).map(tuple)


def calm_pods_of(load):
    """Pods of which most serve and are idle, or nearly: such fleets shrink."""
    pod = st.builds(
        PodView,
        name=st.sampled_from([f"m-{i}" for i in range(20)]),
        phase=st.sampled_from([*[Phase.SERVING] * 20, *Phase]),
        ready=st.sampled_from([*[True] * 12, False]),
        load=st.just(IDLE) | st.just(IDLE) | load,
        unknown=st.sampled_from([None, Unknown.REFUSED]),
        serving_age_s=st.sampled_from([None, None, None, 5.0]),
        idle_rounds=st.integers(0, 3),
        final_drain=st.sampled_from([False, False, True]),
    )
    return st.lists(pod, min_size=2, max_size=6, unique_by=lambda one: one.name).map(tuple)


def fleets_of(pods):
    """Fleets of any kind and size, with as many pods as ordered or not."""
    return st.builds(
        FleetView,
        namespace=st.just("llm"),
        name=st.just("chat"),
        target_kind=st.sampled_from(["Deployment", "StatefulSet", "LeaderWorkerSet", "Rollout"]),
        spec_replicas=st.integers(1, 8),
        pods=pods,
        rollout=st.sampled_from([*[False] * 5, True]),
    ).map(as_many_as_ordered)


def as_many_as_ordered(view):
    """Most fleets have the pods that were ordered."""
    return replace(view, spec_replicas=len(view.pods) or 1) if view.spec_replicas > 2 else view


FLEETS, RATIO_FLEETS, CALM_FLEETS = (
    fleets_of(pods_of(LOADS) | calm_pods_of(LOADS)),
    fleets_of(pods_of(RATIOS) | calm_pods_of(RATIOS)),
    fleets_of(calm_pods_of(RATIOS)),
)
ODD_FLEETS = st.builds(
    lambda view, spec, age: replace(
        view,
        spec_replicas=spec,
        pods=(*view.pods, PodView(name="m-99", age_s=age, serving_age_s=age)),
    ),
    fleets_of(pods_of(ODD_LOADS)),
    st.integers(-2, 9),
    ODD.map(lambda age: age or 0.0),
)


RATE = st.sampled_from(
    [
        RatePolicy(kind, value, period)
        for kind in ("Pods", "Percent")
        for value in (1, 2, 4, 10, 33, 100, 300)
        for period in (1, 15, 60, 1800)
    ]
)
RATES = st.lists(RATE, min_size=1, max_size=3).map(tuple)
RULES = st.builds(
    Rules,
    stabilization_seconds=st.sampled_from([0, 0, 30, 300, 3600]),
    select=st.sampled_from(["Max", "Max", "Max", "Min", "Min", "Disabled"]),
    policies=RATES,
    tolerance_percent=st.integers(0, 100),
)


POLICIES = st.builds(
    lambda low, more, fields: Policy(min_replicas=low, max_replicas=low + more, **fields),
    st.sampled_from([1, 1, 1, 2, 3, 6]),
    st.integers(0, 8),
    st.fixed_dictionaries(
        {
            "mode": st.sampled_from(["Scale", "Advise"]),
            "kv_utilization_percent": st.integers(1, 100),
            "pending_per_replica": st.integers(1, 20),
            "ttft_p90_ms": st.none() | st.integers(1, 20_000),
            "role": st.sampled_from(["Both", "Prefill", "Decode"]),
            "scale_up": RULES,
            "scale_down": RULES,
            "fallback_after_seconds": st.none() | st.integers(15, 600),
            "fallback_replicas": st.none() | st.integers(1, 12),
            "drain_share_percent": st.integers(1, 100),
        }
    ),
)


NO_PAST = History()
NEED = st.sampled_from([0.0, 0.3, 1.0, 2.7, 5.0, 9.4])
JUDGED = st.builds(Judged, reserve=st.sampled_from([-2.0, 0.0, 0.4, 3.0]), cost=NEED)
PASTS = st.builds(
    History,
    needs=st.lists(NEED, min_size=1, max_size=30).map(lambda some: array("d", some * 3)),
    prefills=st.lists(NEED, max_size=12).map(tuple),
    queues=st.lists(NEED, max_size=12).map(tuple),
    waiting=st.none() | NEED,
    began=st.sampled_from([995.0, 998.0]),
    work=st.none() | NEED,
    judged=st.lists(st.none() | JUDGED, min_size=len(WAYS), max_size=len(WAYS)).map(tuple),
    turn=st.just(0),
)
"""Histories that were judged, and in which no way is judged anew in this round."""


GENEROUS = POLICIES.map(
    lambda policy: replace(
        policy,
        min_replicas=1,
        max_replicas=12,
        ttft_p90_ms=None,
        fallback_after_seconds=None,
        scale_down=Rules(stabilization_seconds=300, policies=(RatePolicy("Percent", 100, 15),)),
        drain_share_percent=100,
    )
)
"""Policies that let a fleet shrink as far as it may."""


def open_memory(replicas, now=1000.0, past=NO_PAST):
    """A memory whose windows are full of nothing: whatever is asked for may be done."""
    return replace(Memory.start(replicas, now), peaks=(), lows=(), history=past)


@settings(max_examples=900, deadline=None)
@given(
    views=st.lists(ODD_FLEETS, min_size=1, max_size=2),
    policy=POLICIES,
    steps=st.lists(st.sampled_from([0.0, 5.0, 400.0, -50.0]), min_size=4, max_size=4),
)
def test_it_never_raises_and_always_explains_itself(views, policy, steps):
    memory, now = Memory.start(3, 1000.0), 1000.0
    for view, step in zip(views, steps, strict=False):
        now += step
        decision, memory = decide(view, policy, memory, now)

        assert decision.current == view.spec_replicas
        assert decision.reason in REASONS
        assert decision.message
        assert "nan" not in decision.message
        assert "inf " not in decision.message
        assert all(math.isfinite(term.demand) for term in decision.terms)
        if decision.changes:
            memory = memory.scaled(decision.current, decision.desired, now)


@settings(max_examples=1500, deadline=None)
@given(view=FLEETS, policy=POLICIES, past=PASTS)
def test_bounds_always_hold(view, policy, past):
    decision, _ = decide(view, policy, open_memory(view.spec_replicas, past=past), 1000.0)

    assert decision.desired <= max(policy.max_replicas, decision.current)
    assert decision.desired >= min(policy.min_replicas, decision.current)
    if decision.desired > decision.current:
        assert policy.min_replicas <= decision.desired <= policy.max_replicas
    if decision.desired < decision.current:
        assert decision.desired >= policy.min_replicas


@settings(max_examples=1200, deadline=None)
@given(view=CALM_FLEETS | FLEETS, policy=GENEROUS, past=st.just(NO_PAST) | PASTS)
def test_every_pod_that_goes_is_named_and_one_that_may_go(view, policy, past):
    decision, _ = decide(view, policy, open_memory(view.spec_replicas, past=past), 1000.0)
    by_name = {pod.name: pod for pod in view.pods}
    live = sum(not pod.terminating for pod in view.pods)
    lowered = max(0, decision.current - decision.desired)

    assert len(decision.victims) >= lowered - max(0, view.spec_replicas - live)
    assert len(decision.victims) <= lowered
    assert not (lowered and view.rollout)
    for victim in decision.victims:
        pod = by_name[victim.pod]
        assert not pod.terminating
        starting = pod.phase in {Phase.LOADING, Phase.WARMING} and not pod.ready
        empty = pod.load and pod.load.running == pod.load.waiting == 0 and pod.idle_rounds >= 2
        alone = pod.final_drain and len(decision.victims) == 1
        assert starting or empty or alone


@settings(max_examples=800, deadline=None)
@given(view=CALM_FLEETS | FLEETS, policy=GENEROUS | POLICIES, past=PASTS, data=st.data())
def test_the_order_of_pods_changes_nothing(view, policy, past, data):
    other = replace(view, pods=tuple(data.draw(st.permutations(view.pods))))
    memory = open_memory(view.spec_replicas, past=past)

    assert decide(view, policy, memory, 1000.0) == decide(other, policy, memory, 1000.0)


@settings(max_examples=1500, deadline=None)
@given(
    view=CALM_FLEETS | RATIO_FLEETS,
    policy=GENEROUS | POLICIES,
    seen=RATIOS | st.just(IDLE),
    past=st.just(NO_PAST) | PASTS,
    data=st.data(),
)
def test_losing_sight_of_a_pod_never_turns_the_direction(view, policy, seen, past, data):
    """What is decided with a pod unknown lies between holding and what is decided with it known.

    Unknown counts as full when shrinking: at its target's queue, so no more than that was there.
    """
    assume(view.pods)
    assume((seen.waiting or 0) <= policy.pending_per_replica)
    current = max(policy.min_replicas, min(policy.max_replicas, view.spec_replicas))
    policy = replace(policy, fallback_after_seconds=None, ttft_p90_ms=None)
    place = data.draw(st.integers(0, len(view.pods) - 1))
    # That an engine which still starts refuses calls is no loss of sight: nobody can use it.
    assume(view.pods[place].ready or view.pods[place].phase not in STARTING)
    lit, dark = (
        replace(
            view,
            spec_replicas=current,
            pods=tuple(
                replace(pod, load=load, stale_load=None, unknown=unknown, idle_rounds=rounds)
                if i == place
                else pod
                for i, pod in enumerate(view.pods)
            ),
        )
        for load, unknown, rounds in ((seen, None, 3), (None, Unknown.REFUSED, 0))
    )
    memory = open_memory(current, past=past)

    known = decide(lit, policy, memory, 1000.0)[0]
    blind = decide(dark, policy, memory, 1000.0)[0]

    assume(Reasons.OVERLOADED_AND_SILENT not in {known.reason, blind.reason})
    assert min(current, known.desired) <= blind.desired <= max(current, known.desired)


@settings(max_examples=1500, deadline=None)
@given(view=RATIO_FLEETS, policy=POLICIES, past=st.just(NO_PAST) | PASTS, data=st.data())
def test_more_load_never_means_fewer_replicas(view, policy, past, data):
    busy = [pod for pod in view.pods if pod.load and pod.load.waiting is not None]
    assume(busy)
    pod = data.draw(st.sampled_from(busy))
    more = data.draw(st.integers(1, 50))
    usage = min(1.0, pod.load.usage + more / 50) if pod.load.usage is not None else None
    load = replace(pod.load, waiting=pod.load.waiting + more, usage=usage)
    heavy = replace(view, pods=tuple(replace(p, load=load) if p is pod else p for p in view.pods))
    memory = open_memory(view.spec_replicas, past=past)

    assert (
        decide(heavy, policy, memory, 1000.0)[0].desired
        >= decide(view, policy, memory, 1000.0)[0].desired
    )


@settings(max_examples=600, deadline=None)
@given(
    spec=st.integers(1, 8),
    views=st.lists(FLEETS, min_size=1, max_size=6),
    policy=POLICIES,
    gap=st.sampled_from([5.0, 20.0, 55.0]),
    past=st.just(NO_PAST) | PASTS,
)
def test_a_restart_shrinks_nothing_within_the_window(spec, views, policy, gap, past):
    policy = replace(policy, min_replicas=1, max_replicas=12)
    memory, now = replace(Memory.start(spec, 1000.0), history=past), 1000.0
    window = policy.scale_down.stabilization_seconds
    for view in views:
        seen = replace(view, spec_replicas=spec)
        decision, memory = decide(seen, policy, memory, now)
        if now < 1000.0 + window:
            assert decision.desired >= spec
        now += gap


@settings(max_examples=400, deadline=None)
@given(
    demands=st.lists(st.integers(0, 600), min_size=5, max_size=60),
    window=st.sampled_from([60, 300]),
)
def test_there_is_no_flap_within_the_window(demands, window):
    rules = Rules(stabilization_seconds=window, policies=(RatePolicy("Percent", 100, 15),))
    policy = Policy(mode="Scale", scale_down=rules, drain_share_percent=100)
    memory, now, replicas, grown = Memory.start(1, 0.0), 0.0, 1, -math.inf
    for demand in demands:
        usage = min(1.0, demand / 100 / replicas)
        view = FleetView(
            namespace="llm",
            name="chat",
            spec_replicas=replicas,
            pods=tuple(
                PodView(
                    name=f"p{i}",
                    load=PodLoad(usage=usage, waiting=0.0, running=0.0),
                    idle_rounds=3,
                )
                for i in range(replicas)
            ),
        )
        decision, memory = decide(view, policy, memory, now)
        if decision.desired < replicas:
            assert now - grown >= window
        if decision.desired > replicas:
            grown = now
        if decision.changes:
            memory = memory.scaled(replicas, decision.desired, now)
        replicas, now = decision.desired, now + 15.0


@settings(max_examples=300, deadline=None)
@given(
    kv=st.lists(SHARE, min_size=1, max_size=4),
    waiting=st.integers(0, 30),
    ttft=st.none() | st.integers(0, 9),
    rounds=st.integers(10, 60),
)
def test_pods_that_never_start_are_ordered_once(kv, waiting, ttft, rounds):
    policy = Policy(mode="Scale", max_replicas=1000, ttft_p90_ms=1000)
    replicas, now = len(kv), 0.0
    memory, found = Memory.start(replicas, 0.0), set()
    serving = [
        PodView(
            name=f"p{i}",
            load=PodLoad(
                usage=one,
                waiting=float(waiting),
                running=1.0,
                ttft_p90_s=None if ttft is None else float(ttft),
            ),
        )
        for i, one in enumerate(kv)
    ]
    for _ in range(rounds):
        waits = [
            PodView(name=f"z{i}", phase=Phase.LOADING, ready=False, age_s=now)
            for i in range(replicas - len(kv))
        ]
        view = FleetView(
            namespace="llm", name="chat", spec_replicas=replicas, pods=(*serving, *waits)
        )
        decision, memory = decide(view, policy, memory, now)
        if decision.changes:
            memory = memory.scaled(replicas, decision.desired, now)
        replicas, now = decision.desired, now + 50.0
        found.add(decision.raw)

    assert len(found) == 1 or ttft is not None
    assert replicas <= max(len(kv) + 1, *found)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9)), min_size=1, max_size=60))
def test_the_windows_know_the_extremes_of_all_that_was_recommended(steps):
    memory, now, entries = Memory.start(3, 0.0), 0.0, [(0.0, 3)]
    for gap, replicas in steps:
        now += gap
        memory = memory.recommended(replicas, now)
        entries.append((now, replicas))
        for window in (30, 300, 3600):
            lately = [one for at, one in entries if at > now - window]
            assert max(memory.highest(window, now)) == max(lately)
            assert min(memory.lowest(window, now)) == min(lately)
