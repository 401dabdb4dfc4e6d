"""What users wish for, in whole decisions: schedules, warm pool, GPU cap, room, contests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cacheaware.decide import Memory, decide
from cacheaware.decide.circumstances import Circumstances, Contested, Fit, Floor
from cacheaware.decide.cold_start import Stage, Starting
from cacheaware.decide.fleet import FleetView, PodLoad, PodView, Unknown
from cacheaware.decide.policy import Policy
from cacheaware_sidecar.phase import Phase

EIGHT = Floor(4, "'0 8 * * 1-5' (Europe/Berlin)", 90.0)


def around(**fields):
    return {"around": Circumstances(**fields)}


class TestSchedules:
    def test_a_floor_orders_at_once_and_says_which(self, make, once):
        decision = once(make.fleet([make.pod(kv=0.1, running=1.0)], **around(scheduled=EIGHT)))

        assert (decision.desired, decision.reason) == (4, "ScaledUp")
        assert "schedule" in decision.limited_by
        assert "schedule '0 8 * * 1-5' (Europe/Berlin) wants 4, from in 90 s on" in decision.message

    def test_a_fleet_at_its_floor_stays(self, make, once):
        pods = [make.idle(name) for name in "abcd"]
        decision = once(make.fleet(pods, **around(scheduled=EIGHT)))

        assert (decision.desired, decision.reason) == (4, "AtMinimum")
        assert "wants 4" in decision.message

    def test_what_is_more_than_the_floor_goes(self, make, once):
        pods = [make.idle(name) for name in "abcde"]

        assert once(make.fleet(pods, **around(scheduled=EIGHT))).desired == 4

    def test_a_floor_holds_while_nothing_is_known(self, make, once):
        view = make.fleet([make.unknown()], **around(scheduled=EIGHT))

        assert once(view).desired == 4


class TestWarmPool:
    def test_it_comes_on_top_of_what_the_load_asks_for(self, make, once):
        decision = once(make.fleet([make.pod(kv=0.9), make.pod("b", kv=0.9)]), warm_pool=2)

        assert (decision.raw, decision.desired) == (3, 5)
        assert "needs 3, and 2 for the warm pool" in decision.message
        assert "warmPool" in decision.limited_by
        assert decision.inputs["warmPool"] == 2

    def test_it_is_kept_where_no_load_is(self, make, rounds):
        life = rounds(Policy(mode="Scale", warm_pool=2), replicas=2)
        for _ in range(60):
            decision = life.round(make.fleet([make.idle("a"), make.idle("b")]), after=15)

        assert decision.desired == 2

    def test_it_is_not_added_to_itself(self, make, rounds):
        life, replicas = rounds(Policy(mode="Scale", warm_pool=3, max_replicas=50)), 1
        for _ in range(40):
            pods = [make.pod(f"p{i}", kv=0.7 / replicas) for i in range(replicas)]
            replicas = life.round(make.fleet(pods), after=15).desired

        assert replicas == 4

    @pytest.mark.parametrize("unknown", [Unknown.REFUSED, Unknown.STALE])
    def test_what_is_unknown_adds_none_to_it(self, make, rounds, unknown):
        life = rounds(Policy(mode="Scale", warm_pool=2, max_replicas=50), replicas=5)
        pods = [make.pod(name, kv=0.5) for name in "abc"]
        pods += [make.unknown(name, unknown) for name in "de"]
        for _ in range(40):
            decision = life.round(make.fleet(pods), after=15)

        assert decision.desired == 5

    def test_it_goes_no_further_than_the_bounds(self, make, once):
        pods = [make.pod(kv=0.9), make.pod("b", kv=0.9)]
        decision = once(make.fleet(pods), warm_pool=9, max_replicas=4)

        assert decision.desired == 4
        assert "maxReplicas" in decision.limited_by

    def test_noise_around_a_whole_number_changes_the_replicas_once_at_most(self, make, rounds):
        life, replicas, changes = rounds(Policy(mode="Scale", warm_pool=1), replicas=4), 4, 0
        for step in range(200):
            total = 2.39 if step % 3 else 2.41
            pods = [
                make.pod(f"p{i}", kv=total / replicas, running=1.0, final_drain=True)
                for i in range(replicas)
            ]
            decision = life.round(make.fleet(pods), after=15)
            changes += decision.changes
            replicas = decision.desired

        assert changes <= 1

    def test_a_fallback_is_for_the_whole_fleet(self, make, rounds):
        policy = Policy(mode="Scale", warm_pool=2, fallback_after_seconds=60, fallback_replicas=5)
        life, replicas = rounds(policy, replicas=3), 3
        for _ in range(20):
            pods = [make.unknown(f"p{i}") for i in range(replicas)]
            replicas = life.round(make.fleet(pods), after=15).desired

        assert replicas == 5
        assert life.decisions[-1].reason == "Fallback"

    def test_a_silent_overloaded_fleet_still_takes_its_one_step(self, make, rounds):
        life = rounds(Policy(mode="Scale", warm_pool=1, max_replicas=20), replicas=3)
        full = PodLoad(usage=0.99, waiting=0.0, running=8.0)
        late = {"unknown": Unknown.TIMED_OUT, "stale_load": full, "stale_age_s": 5.0}
        decision = life.round(make.fleet([make.pod(n, **late) for n in "abc"]))

        assert (decision.desired, decision.reason) == (5, "OverloadedAndSilent")


class TestMaxGpus:
    def test_it_caps_the_replicas_and_says_by_what(self, make, once):
        pods = [make.pod(kv=0.99, waiting=20.0), make.pod("b", kv=0.99, waiting=20.0)]
        decision = once(make.fleet(pods, **around(gpus_per_replica=8)), max_gpus=24)

        assert decision.desired == 3
        assert "maxGpus" in decision.limited_by
        assert "maxGpus is 24 and a replica takes 8" in decision.message
        assert (decision.inputs["gpusPerReplica"], decision.inputs["gpus"]) == (8, 24)

    def test_the_cost_of_a_step_is_told(self, make, once):
        up = once(make.fleet([make.pod(kv=0.9)], **around(gpus_per_replica=1)))
        down = once(make.fleet([make.idle(n) for n in "abc"], **around(gpus_per_replica=8)))

        assert "scales from 1 to 2 (1 GPU more)" in up.message
        assert "scales from 3 to 2 (8 GPUs less)" in down.message

    def test_at_the_cap_it_says_so(self, make, once):
        view = make.fleet([make.pod(kv=0.99, waiting=9.0)], **around(gpus_per_replica=8))
        decision = once(view, max_gpus=15)

        assert (decision.desired, decision.reason) == (1, "AtMaximum")
        assert decision.message.endswith("maxGpus is 15 and a replica takes 8")

    def test_where_a_replicas_gpus_are_unknown_the_cap_is_not_dropped_in_silence(self, make, once):
        decision = once(make.fleet([make.pod(kv=0.9)]), max_gpus=8)

        assert decision.desired == 2
        assert "GpusUnknown" in decision.limited_by
        assert "maxGpus does not apply" in decision.message


class TestRoom:
    def unplaced(self, make, name, age_s):
        start = Starting(Stage.SCHEDULE, age_s)
        return make.booting(name, age_s=age_s, starting=start, stuck="Unschedulable", pending=True)

    def test_what_has_no_node_is_given_up_and_told(self, make, rounds):
        life = rounds(Policy(mode="Scale"), replicas=3)
        pods = [make.pod(n, kv=0.95, running=4.0) for n in "ab"]
        view = make.fleet([*pods, self.unplaced(make, "z", 1900.0)], **around(fit=Fit(2, 300.0)))
        decision = life.round(view)

        assert decision.desired == 2
        assert [one.pod for one in decision.victims] == ["z"]
        assert "no node has room for more than 2; tried again in 300 s" in decision.message

    def test_while_it_lasts_nothing_more_is_ordered(self, make, once):
        pods = [make.pod(n, kv=0.99, running=4.0) for n in "ab"]
        decision = once(make.fleet(pods, **around(fit=Fit(2, 120.0))))

        assert (decision.desired, decision.reason) == (2, "PodsUnschedulable")
        assert "PodsUnschedulable" in decision.limited_by


class TestContest:
    def test_nothing_is_written_and_cordoned_pods_come_back_while_it_pauses(self, make, once):
        pods = [
            make.pod("a", kv=0.99, waiting=9.0),
            make.pod("b", kv=0.1, phase=Phase.CORDONED, ready=False, cordoned_by="me"),
        ]
        contested = Contested("argocd-controller", 60.0)
        decision = once(make.fleet(pods, uid="me", **around(contested=contested)))

        assert (decision.desired, decision.reason) == (2, "ReplicasContested")
        assert [one.pod for one in decision.uncordons] == ["b"]
        assert "field manager argocd-controller set the replicas back" in decision.message
        assert "written again in 60 s" in decision.message

    def test_after_the_pause_it_is_tried_once_more(self, make, once):
        contested = Contested("", 0.0)

        assert once(make.fleet([make.pod(kv=0.9)], **around(contested=contested))).desired == 2
        assert contested.told.startswith("another writer set")


@settings(max_examples=150, deadline=None)
@given(
    loads=st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=6),
    floor=st.none() | st.integers(1, 12),
    gpus=st.none() | st.integers(1, 8),
    fit=st.none() | st.integers(0, 9),
    pool=st.integers(0, 4),
    cap=st.none() | st.integers(1, 40),
    order=st.randoms(use_true_random=False),
)
def test_bounds_hold_a_floor_never_shrinks_and_no_order_of_pods_matters(  # noqa: PLR0917
    loads, floor, gpus, fit, pool, cap, order
):
    pods = [seen(name, kv) for name, kv in zip("abcdef", loads, strict=False)]
    found = Circumstances(
        scheduled=None if floor is None else Floor(floor, "x"),
        gpus_per_replica=gpus,
        fit=None if fit is None else Fit(fit, 9.0),
    )
    policy = Policy(mode="Scale", min_replicas=1, max_replicas=10, warm_pool=pool, max_gpus=cap)
    view = FleetView(
        namespace="n", name="c", spec_replicas=len(pods), pods=tuple(pods), around=found
    )
    memory = Memory.start(len(pods), 1000.0)
    decision, _ = decide(view, policy, memory, 1000.0)
    shuffled = list(pods)
    order.shuffle(shuffled)
    again, _ = decide(replace(view, pods=tuple(shuffled)), policy, memory, 1000.0)
    free, _ = decide(replace(view, around=replace(found, scheduled=None)), policy, memory, 1000.0)

    assert again == decision
    assert decision.inputs["bounded"] >= free.inputs["bounded"]
    assert 1 <= decision.inputs["bounded"] <= 10
    if cap is not None and gpus is not None:
        assert decision.inputs["bounded"] <= max(1, cap // gpus)


def seen(name, kv):
    """A serving pod; None: nothing is known of it."""
    load = None if kv is None else PodLoad(usage=kv, waiting=0.0, running=1.0)
    reason = Unknown.REFUSED if kv is None else None
    return PodView(name=name, uid=f"uid-{name}", load=load, unknown=reason)
