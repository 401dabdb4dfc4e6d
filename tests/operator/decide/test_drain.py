"""The cancelable drain, round by round, against a small fleet that does as it is told."""

import pytest
from msgspec.structs import replace
from tests.operator.decide.conftest import Rounds, booting, fleet, idle, pod
from tests.operator.decide.small_cluster import (
    AT_ONCE,
    POLICY,
    UP,
    US,
    cluster,
    serving,
    three,
)

from cacheaware.decide.policy import RatePolicy, Rules
from cacheaware_sidecar.phase import Phase


class TestGivingUp:
    def test_a_pod_leaves_the_endpoints_first_and_goes_only_when_it_is_empty(self):
        made = three()
        first = made.round()
        assert made.log == ["cordoned b", "cordoned c"]  # 0.6 of 0.8: one pod carries it
        assert (first.desired, first.reason) == (3, "Draining")
        assert "cordoned b: worth least: 1 request" in first.message

        still = made.round()
        assert (still.desired, made.log[2:]) == (3, [])
        assert [one.pod for one in still.cordons] == ["b", "c"]
        assert "cordoned b: 1 request left" in still.message

        made.empty("b")
        gone = made.round()
        assert (gone.desired, made.log[2:]) == (2, ["deleted b"])
        assert gone.reason == "ScaledDown"
        assert gone.victims[0].reason == "cordoned 10 s ago and empty"
        assert [one.pod for one in gone.cordons] == ["c"]

        made.empty("c")
        assert made.round().desired == 1
        assert made.round().reason in {"Steady", "AtMinimum", "WithinTolerance"}

    def test_a_pod_that_is_still_ready_in_the_api_does_not_go(self):
        made = three()
        made.round()
        made.empty("b")
        made.set("b", ready=True)
        assert made.round().desired == 3

    def test_a_cordon_of_somebody_else_is_no_word_of_ours(self):
        made = three()
        made.round()
        made.empty("b")
        made.set("b", cordoned_by="another scaler")
        assert made.round().desired == 3

    def test_a_pod_of_which_nothing_is_known_keeps_its_cordon_and_stays(self):
        made = three()
        made.round()
        made.set("b", load=None, empty=False)
        kept = made.round()
        assert kept.desired == 3
        assert "b" in [one.pod for one in kept.cordons]
        assert "cordoned b: its load is not known" in kept.message

    def test_a_cordon_that_failed_counts_for_nothing(self):
        made = three()
        made.round()
        for name in "abc":
            made.set(name, phase=Phase.SERVING, ready=True, cordoned_by=None)
            made.set(name, no_cordon="the sidecar answers 403")
        again = made.round()
        assert [one.pod for one in again.victims] == ["b"]  # one at a time, by its own hook
        assert "CordonUnavailable" in again.limited_by
        assert "the sidecar answers 403" in again.message

    def test_the_time_that_a_victim_still_needs_is_told(self):
        made = three()
        made.load("b", generation_tokens_per_request=400.0, generation_tokens_per_s=20.0)
        made.round()
        assert "cordoned b: 1 request left, expected empty in 20 s" in made.round().message

    def test_pods_that_wait_to_start_are_taken_first_so_nothing_else_goes_meanwhile(self):
        made = three()
        made.round()
        made.empty("b")
        made.pods["x"] = pod("x", pending=True, ready=False, phase=Phase.DRAINING)
        made.spec = 4
        assert made.round().desired == 4

    def test_of_pods_that_cant_be_cordoned_one_that_does_not_serve_goes_first(self):
        only = replace(POLICY, min_replicas=1, max_replicas=1)
        pods = [idle("a"), idle("b", phase=Phase.LOADING)]
        made = cluster(*pods, policy=only)
        assert [one.pod for one in made.round().victims] == ["b"]

    def test_a_shrink_that_is_not_done_is_waited_for(self):
        made = three()
        made.round()
        made.empty("b")
        made.spec = 2  # somebody lowered it, and no pod has gone yet
        assert made.round().victims == ()

    def test_shrinking_pods_count_for_the_rates_when_they_are_cordoned(self):
        slow = replace(
            POLICY, scale_down=Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 1, 60),))
        )
        made = cluster(*(serving(name) for name in "abcd"), policy=slow)
        made.round()
        assert made.log == ["cordoned a"]
        made.round()
        made.empty("a")
        made.round()
        assert made.log == ["cordoned a", "deleted a"]
        made.round(after=40)
        assert made.log == ["cordoned a", "deleted a"]
        made.round(after=20)
        assert made.log[2:] == ["cordoned b"]

    def test_a_drain_that_was_called_off_gives_its_pace_back(self):
        slow = replace(
            POLICY,
            scale_down=Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 1, 600),)),
        )
        made = cluster(*(serving(name) for name in "abc"), policy=slow)
        made.round()
        for name in "abc":
            made.load(name, usage=0.8, running=8.0)
        made.round()
        for name in "abc":
            made.load(name, usage=0.1, running=1.0)
        made.round()
        assert made.log == ["cordoned a", "uncordoned a", "cordoned a"]


class TestCallingOff:
    def test_returning_load_brings_pods_back_before_any_is_ordered(self):
        made = three()
        made.round()
        made.round()
        made.load("a", usage=0.9, running=9.0, waiting=4.0)  # 1.2 pods at 0.8 are needed: two
        back = made.round()
        assert (back.desired, back.reason) == (3, "Draining")
        assert made.log[2:] == ["uncordoned c"]
        assert "uncordoned c: load has returned" in back.message

    def test_what_the_cordoned_pods_cant_carry_is_ordered_once_they_are_back(self):
        made = three()
        made.round()
        made.load("a", usage=1.0, running=9.0, waiting=25.0)  # five pods by what waits
        back = made.round()
        assert sorted(made.log[2:]) == ["uncordoned b", "uncordoned c"]
        assert (back.desired, back.cordons, back.reason) == (3, (), "Uncordoned")
        assert made.round().desired == 5

    def test_only_uncordoning_is_a_reason_of_its_own(self):
        made = cluster(serving("a", kv=0.3), serving("b"))
        made.round()
        made.load("a", usage=0.9, running=9.0)
        back = made.round()
        assert (back.desired, back.reason) == (2, "Uncordoned")
        assert made.log == ["cordoned b", "uncordoned b"]

    def test_disabled_growth_does_not_keep_a_pod_out(self):
        policy = replace(POLICY, scale_up=replace(UP, select="Disabled"))
        made = cluster(serving("a", kv=0.3), serving("b"), policy=policy)
        made.round()
        made.load("a", usage=0.9, running=9.0)
        made.round()
        assert made.log == ["cordoned b", "uncordoned b"]

    def test_a_restart_takes_every_cordon_back(self):
        made = three()
        made.round()
        made.rounds.memory = Rounds(POLICY, replicas=3, now=made.rounds.now).memory
        swept = made.round()
        assert sorted(made.log[2:]) == ["uncordoned b", "uncordoned c"]
        assert swept.desired == 3
        assert "uncordoned b: left behind by an earlier run" in swept.message

    def test_a_human_who_scales_up_is_not_undone(self):
        made = three()
        made.round()
        made.spec = 5
        made.pods |= {name: booting(name) for name in "xy"}
        policy = replace(POLICY, scale_down=replace(AT_ONCE, stabilization_seconds=300))
        made.rounds.policy = policy
        after = made.round()
        assert sorted(made.log[2:]) == ["uncordoned b", "uncordoned c"]
        assert after.desired == 5
        assert made.round(after=200).desired == 5

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"rollout": True}, id="in a rollout"),
            pytest.param({"conflict": "HorizontalPodAutoscaler x"}, id="in a conflict"),
        ],
    )
    def test_a_drain_ends(self, changes):
        made = three()
        made.round()
        ended = made.round(**changes)
        assert sorted(made.log[2:]) == ["uncordoned b", "uncordoned c"]
        assert ended.desired == 3
        assert made.round(**changes).cordons == ()

    def test_a_drain_ends_when_somebody_pauses_the_workload(self):
        made = three()
        made.round()
        made.spec = 0
        assert {one.pod for one in made.round().uncordons} == {"b", "c"}

    def test_a_drain_ends_when_the_mode_goes_back_to_advise(self):
        made = three()
        made.round()
        made.rounds.policy = replace(POLICY, mode="Advise")
        advised = made.round()
        assert {one.pod for one in advised.uncordons} == {"b", "c"}
        assert advised.cordons == ()

    def test_a_drain_ends_while_nodes_are_drained(self):
        made = three()
        made.round()
        made.pods["x"] = pod("x", terminating=True, disrupted=True)
        made.round()
        assert sorted(made.log[2:]) == ["uncordoned b", "uncordoned c"]
        made.round()
        assert made.log[4:] == []

    def test_a_pod_that_has_not_served_goes_instead_of_a_warm_one(self):
        made = cluster(serving("a", kv=0.3), serving("b"))
        made.round()
        made.pods["new"] = booting("new")
        made.spec = 3
        made.rounds.memory = replace(made.rounds.memory, replicas=3)  # ordered by ourselves
        made.round()
        assert made.log == ["cordoned b", "deleted new", "uncordoned b"]


class TestWontEmpty:
    def test_a_pod_that_is_not_empty_in_time_comes_back_and_is_left_alone(self):
        made = cluster(serving("a", kv=0.3), serving("b"))
        made.round()
        made.set("b", cordoned_s=299.0)
        assert made.round().uncordons == ()
        made.set("b", cordoned_s=300.0)
        late = made.round()
        assert made.log == ["cordoned b", "uncordoned b"]
        made.round()
        assert made.log[2:] == ["cordoned a"]
        assert "uncordoned b: not empty 300 s after its cordon" in late.message
        made.set("a", cordoned_s=300.0)
        made.round()
        assert made.log[3:] == ["uncordoned a"]  # not Ready yet: a ReplicaSet would take it
        last = made.round()
        assert made.log[4:] == ["deleted b"]
        assert "CordonUnavailable" in last.limited_by
        assert last.victims[0].reason.startswith("its preStop hook waits for its requests")

    @pytest.mark.parametrize(("holder", "log"), [(None, ["deleted b"]), ("relief", [])])
    def test_a_pod_that_has_taken_itself_out_is_not_given_up_in_the_others_place(self, holder, log):
        made = cluster(serving("a", kv=0.1, no_cordon="403"), serving("b", kv=0.1))
        phase = Phase.CORDONED if holder else Phase.SERVING
        made.set("b", ready=False, phase=phase, cordoned_by=holder, no_cordon="403")
        made.round()
        assert made.log == log

    def test_barred_pods_may_be_tried_again_after_ten_minutes(self):
        made = cluster(serving("a", kv=0.3, guarded_by="pdb"), serving("b", final_drain=False))
        made.set("a", final_drain=False)
        made.round()
        made.set("b", cordoned_s=300.0)
        made.round()
        assert made.round(after=590.0).reason == "DrainUnavailable"
        made.round(after=10.0)
        assert made.log == ["cordoned b", "uncordoned b", "cordoned b"]

    def test_requests_that_go_on_arriving_are_told(self):
        made = cluster(serving("a", kv=0.3), serving("b"))
        made.round()
        made.set("b", cordoned_s=29.0, arrival_age_s=0.0)
        assert made.round().reason == "Draining"
        made.set("b", cordoned_s=35.0, arrival_age_s=4.0)
        told = made.round()
        assert told.reason == "StickyClients"
        assert "StickyClients" in told.limited_by
        made.set("b", cordoned_s=301.0, arrival_age_s=2.0)
        assert "requests kept arriving, the last 2 s ago" in made.round().message

    def test_requests_that_stopped_arriving_are_no_sticky_clients(self):
        made = cluster(serving("a", kv=0.3), serving("b"))
        made.round()
        made.set("b", cordoned_s=60.0, arrival_age_s=55.0)
        assert made.round().reason == "Draining"


class TestBounds:
    def test_the_share_bounds_what_is_out_at_a_time(self):
        policy = replace(POLICY, drain_share_percent=25)
        made = cluster(*(serving(f"p{i}") for i in range(8)), policy=policy)
        made.round()
        assert made.log == ["cordoned p0", "cordoned p1"]
        made.round()
        assert len(made.log) == 2

    def test_terminating_pods_count_against_the_share(self):
        policy = replace(POLICY, drain_share_percent=25)
        made = cluster(*(serving(f"p{i}") for i in range(8)), policy=policy)
        made.pods["x"] = pod("x", terminating=True)
        made.round()
        assert made.log == ["cordoned p0"]

    def test_as_many_as_the_minimum_go_on_serving(self):
        policy = replace(POLICY, min_replicas=2)
        made = cluster(*(serving(name) for name in "abc"), policy=policy)
        made.round()
        assert made.log == ["cordoned a"]

    def test_starting_pods_do_not_make_up_for_serving_ones(self):
        policy = replace(POLICY, min_replicas=2)
        made = cluster(serving("a"), serving("b"), booting("x"), booting("y"), policy=policy)
        made.round()
        assert sorted(made.log) == ["deleted x", "deleted y"]

    def test_the_rest_carries_the_load_without_the_cordoned_pods(self):
        made = cluster(*(serving(name, kv=0.5, running=5) for name in "abc"))
        made.round()
        assert made.log == ["cordoned a"]

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            pytest.param({"guarded_by": "budget"}, "budget", id="a budget's last disruption"),
            pytest.param({"no_cordon": "unreachable"}, "unreachable", id="out of reach"),
            pytest.param({"sidecar": False}, "no sidecar", id="without a sidecar"),
        ],
    )
    def test_where_no_pod_can_be_cordoned_one_goes_by_its_own_hook(self, changes, why):
        made = cluster(*(serving(name, **changes) for name in "abc"))
        gone = made.round()
        assert (made.log, gone.desired) == (["deleted a"], 2)
        assert "CordonUnavailable" in gone.limited_by
        assert why in gone.message

    def test_where_one_can_be_cordoned_none_goes_by_its_hook(self):
        made = cluster(serving("a", no_cordon="403"), serving("b", kv=0.2))
        made.round()
        assert made.log == ["cordoned b"]

    def test_young_pods_are_left_alone(self):
        made = cluster(
            serving("a", age_s=100, serving_age_s=10), serving("b", kv=0.2), serving("c", kv=0.3)
        )
        made.round()
        assert made.log == ["cordoned b", "cordoned c"]

    def test_an_idle_pod_with_a_sidecar_is_cordoned_all_the_same(self):
        made = cluster(idle("a", sidecar=True), serving("b", kv=0.2))
        made.round()
        assert made.log == ["cordoned a"]

    def test_advise_names_the_pods_that_would_go(self):
        made = cluster(*(serving(name) for name in "abc"), policy=replace(POLICY, mode="Advise"))
        view = fleet(made.pods.values(), uid=US)
        advised = made.rounds.round(view, write=False)
        assert (advised.desired, advised.cordons) == (1, ())
        assert [one.pod for one in advised.victims] == ["a", "b"]
        assert made.rounds.memory.cordons == frozenset()


class TestOrder:
    def test_the_last_pod_with_a_lora_adapter_in_use_is_kept(self):
        made = cluster(serving("a", kv=0.1), serving("b", kv=0.2, running=2))
        made.load("a", adapters=("sql",))
        made.round()
        assert made.log == ["cordoned b"]

    def test_another_holder_of_the_adapter_will_do(self):
        made = cluster(serving("a", kv=0.1), serving("b", kv=0.2, running=2))
        for name in "ab":
            made.load(name, adapters=("sql",))
        made.round()
        assert made.log == ["cordoned a"]

    @pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet"])
    def test_only_the_highest_ordinal_is_cordoned(self, kind):
        made = cluster(*(serving(f"m-{i}", kv=0.3 - i / 10) for i in (0, 1, 2)))
        made.set("m-2", load=replace(made.pods["m-2"].load, usage=0.3))
        made.round(target_kind=kind)
        made.round(target_kind=kind)
        assert made.log == ["cordoned m-2"]
        made.empty("m-2")
        made.round(target_kind=kind)
        assert made.log == ["cordoned m-2", "deleted m-2"]
        made.round(target_kind=kind)
        assert made.log[2:] == ["cordoned m-1"]

    def test_a_cordoned_pod_that_is_no_longer_the_last_comes_back(self):
        made = cluster(serving("m-0", kv=0.3), serving("m-1"))
        made.round(target_kind="StatefulSet")
        made.pods["m-2"] = serving("m-2")
        made.spec = 3
        made.rounds.memory = replace(made.rounds.memory, replicas=3)
        made.round(target_kind="StatefulSet")
        assert sorted(made.log) == ["cordoned m-1", "cordoned m-2", "uncordoned m-1"]

    def test_the_highest_ordinal_that_is_not_empty_keeps_the_next_from_going(self):
        made = cluster(serving("m-0", kv=0.3), serving("m-1"))
        made.round(target_kind="StatefulSet")
        assert made.round(target_kind="StatefulSet").desired == 2

    def test_what_is_lost_with_a_victim_is_told(self):
        made = cluster(serving("a"), serving("b", kv=0.2, running=2))
        made.load("a", capacity_tokens=9000.0, prompt_tokens_per_s=50.0, prefix_hit_ratio=0.5)
        told = made.round()
        lost = "1 request, 900 tokens pinned, 25 prefix tokens/s, 50 % prefix hits"
        assert f"cordoned a: worth least: {lost}" in told.message

    def test_a_kind_that_cannot_be_told_which_pod_to_take_says_so(self):
        made = cluster(serving("a"), serving("b"))
        gone = made.round(target_kind="Rollout")
        assert made.log == ["deleted a"]
        assert "a Rollout can't be told which pod to take" in gone.message
