"""What can go wrong in a drain: silence, failed calls and writes, odd orders; nothing is lost."""

import pytest
from msgspec.structs import replace
from tests.operator.decide.conftest import booting, fleet, idle, pod
from tests.operator.decide.small_cluster import POLICY, US, cluster, serving, three

from cacheaware.decide.policy import RatePolicy, Rules
from cacheaware_sidecar.phase import Phase


def names(victims):
    return [one.pod for one in victims]


class TestSilence:
    def test_the_deadline_goes_on_while_a_pod_is_silent(self):
        made = cluster(serving("a", kv=0.3), serving("b"))
        made.round()
        made.set("b", load=None, cordoned_s=5.0)
        assert names(made.round(after=290.0).cordons) == ["b"]
        made.round(after=10.0)
        assert made.log == ["cordoned b", "uncordoned b"]
        assert made.rounds.memory.barred("uid-b") == "DrainTimedOut"

    def test_an_empty_pod_of_which_nothing_is_known_now_stays(self):
        made = three()
        made.round()
        made.empty("b")
        made.set("b", load=None)
        assert made.round().victims == ()

    def test_a_pod_that_fell_silent_before_its_cordon_was_refused_was_never_cordoned(self):
        made = three()
        made.round()
        back = {"phase": Phase.SERVING, "ready": True, "cordoned_by": None, "load": None}
        made.set("b", **back)
        assert "b" in names(made.round().cordons), "the call may have arrived"
        made.set("b", **back, no_cordon="did not answer in 2 s")
        assert "b" not in names(made.round().cordons)
        assert "uid-b" not in made.rounds.memory.cordons

    def test_a_pod_whose_engine_was_replaced_is_no_longer_cordoned(self):
        made = three()
        made.round()
        made.set("b", phase=Phase.LOADING, load=None, cordoned_by=None)
        again = made.round()
        assert "b" not in names(again.cordons)
        assert names(again.victims) == ["b"], "it has no request, and has not served since"

    def test_the_known_come_back_before_the_silent(self):
        made = three()
        made.round()
        made.set("c", load=None)
        made.load("a", usage=0.7, running=9.0)
        made.load("b", usage=0.1)
        made.rounds.policy = replace(POLICY, min_replicas=2)
        made.round()
        assert made.log[2:] == ["uncordoned b"]

    def test_where_all_serving_pods_are_silent_that_is_the_reason(self):
        made = three()
        made.round()
        made.set("a", load=None)
        assert made.round().reason == "MetricsUnknown"


class TestWrites:
    def test_a_write_that_failed_is_made_again(self):
        made = three()
        made.round()
        made.empty("b")
        view = fleet(made.pods.values(), spec=3, uid=US)
        for _ in range(2):
            tried = made.rounds.round(view, after=5.0, write=False)
            assert names(tried.victims) == ["b"]
            assert tried.uncordons == ()

    def test_an_idle_cordoned_pod_does_not_go_before_its_sidecar_says_empty(self):
        made = cluster(*(serving(name, kv=0.4) for name in "abcd"))
        made.round()
        cordoned = [one.removeprefix("cordoned ") for one in made.log]
        for name in cordoned:
            made.load(name, usage=0.0, running=0.0)
            made.set(name, idle_rounds=9, no_cordon="403")
        for name in set("abcd") - set(cordoned):
            made.load(name, usage=0.1)
        decision = made.round()
        assert decision.victims == ()
        assert decision.desired == 4

    def test_no_pod_is_cordoned_in_the_round_in_which_ready_ones_go(self):
        pods = [idle("a"), serving("b"), serving("c", kv=0.2)]
        made = cluster(*pods)
        first = made.round()
        assert (names(first.victims), names(first.cordons)) == (["a"], [])
        assert names(made.round().cordons) == ["b"]


class TestBounds:
    def test_the_share_is_of_all_replicas(self):
        down = Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 1, 5),))
        made = cluster(
            *(serving(f"p{i}") for i in range(8)),
            policy=replace(POLICY, scale_down=down, drain_share_percent=25),
        )
        made.round()
        made.round()
        made.round()
        assert made.log == ["cordoned p0", "cordoned p1"]

    def test_pods_that_never_served_take_their_part_of_the_share(self):
        made = cluster(
            *(serving(f"p{i}") for i in range(6)),
            *(booting(f"x{i}") for i in range(2)),
            policy=replace(POLICY, drain_share_percent=25),
        )
        made.round()
        assert sorted(made.log) == ["deleted x0", "deleted x1"]

    @pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet"])
    def test_one_pod_goes_on_serving_where_the_newest_serve(self, kind):
        pods = [booting("m-0"), booting("m-1"), idle("m-2"), idle("m-3")]
        made = cluster(*pods)
        assert names(made.round(target_kind=kind).victims) == ["m-3"]

    def test_nothing_is_given_up_while_pods_are_evicted(self):
        made = three()
        made.pods["x"] = pod("x", terminating=True, disrupted=True)
        held = made.round()
        assert (held.reason, held.cordons, held.desired) == ("PodsDisrupted", (), 3)
        assert "disruption" in held.limited_by
        assert "pods are being evicted" in held.message

    def test_an_evicted_pod_that_never_ends_is_not_waited_for(self):
        made = three()
        made.pods["x"] = pod("x", terminating=True, disrupted=True)
        made.round()
        made.round(after=50.0)
        assert made.log == []
        for _ in range(6):
            made.round(after=50.0)
        assert made.log[:1] == ["cordoned b"]

    def test_a_pod_that_did_not_empty_does_not_go_for_two_quiet_looks(self):
        made = cluster(serving("a", kv=0.3, final_drain=False, no_cordon="403"), serving("b"))
        made.set("b", final_drain=False)
        made.round()
        made.set("b", cordoned_s=300.0)
        made.round()
        made.load("b", usage=0.0, running=0.0)
        made.set("b", idle_rounds=9)
        held = made.round()
        assert (held.desired, held.reason) == (2, "DrainUnavailable")
        assert "403; DrainTimedOut when last tried" in held.message

    def test_that_no_pod_can_be_cordoned_is_told_while_one_is_on_its_way_out(self):
        made = cluster(*(serving(name, no_cordon="403") for name in "abc"))
        made.pods["x"] = pod("x", terminating=True)
        held = made.round()
        assert "CordonUnavailable" in held.limited_by
        assert "1 pod is on its way out already" in held.message

    def test_a_pod_out_of_the_endpoints_is_given_up_before_one_that_works(self):
        made = cluster(serving("a"), serving("b", kv=0.3, running=9.0, ready=False))
        made.round()
        assert made.log == ["cordoned b"]


class TestOrdinals:
    KIND = "StatefulSet"

    def test_replicas_above_the_highest_pod_go_first_and_end_nothing(self):
        made = cluster(serving("m-0"), serving("m-1"))
        made.spec = 4
        made.rounds.memory = replace(made.rounds.memory, replicas=4)
        first = made.round(target_kind=self.KIND)
        assert (first.desired, first.victims) == (2, ())
        assert made.log == ["cordoned m-1"]

    def test_a_cordoned_pod_below_one_that_is_missing_comes_back(self):
        made = cluster(serving("m-0", kv=0.3), serving("m-1"))
        made.round(target_kind=self.KIND)
        made.empty("m-1")
        made.spec = 3
        made.rounds.memory = replace(made.rounds.memory, replicas=3)
        made.pods.pop("m-2", None)
        back = made.round(target_kind=self.KIND)
        assert (back.desired, back.victims) == (2, ())
        assert "uncordoned m-1: the workload would take other pods first" in back.message

    def test_names_without_ordinals_and_other_kinds_free_nobody(self):
        for kind in ("StatefulSet", "Rollout"):
            made = cluster(*(serving(one, final_drain=False) for one in "ab"))
            made.spec = 3
            made.rounds.memory = replace(made.rounds.memory, replicas=3)
            assert made.round(target_kind=kind).desired == 3


class TestWorth:
    def test_the_time_to_empty_counts_before_the_number_of_requests(self):
        made = cluster(serving("a", running=2.0), serving("b", running=5.0), serving("c", kv=0.3))
        for name, tokens in (("a", 4000.0), ("b", 100.0), ("c", 4000.0)):
            made.load(name, generation_tokens_per_request=tokens, generation_tokens_per_s=20.0)
        made.round()
        assert made.log[0] == "cordoned b"

    def test_a_request_more_does_not_decide_over_a_warm_cache(self):
        busy = serving("c", kv=0.8, running=9.0)
        made = cluster(serving("a", running=4.0), serving("b", running=5.0), busy)
        made.load("a", prompt_tokens_per_s=900.0, prefix_hit_ratio=0.9)
        made.load("b", prompt_tokens_per_s=900.0, prefix_hit_ratio=0.1)
        made.round()
        assert made.log == ["cordoned b"]

    def test_a_pod_that_does_not_tell_its_requests_is_not_taken_for_idle(self):
        made = cluster(serving("a", running=None), serving("b", kv=0.2, running=9.0))
        made.round()
        assert made.log == ["cordoned b"]

    def test_two_holders_of_an_adapter_are_not_both_given_up_while_another_will_do(self):
        made = cluster(*(serving(name, kv=0.1) for name in "abc"))
        made.load("c", usage=0.2, running=2.0)
        for name in "ab":
            made.load(name, adapters=("sql",))
        made.round()
        assert made.log == ["cordoned a", "cordoned c"]

    def test_a_cordoned_holder_is_no_holder(self):
        made = cluster(serving("a"), serving("b"), serving("c", kv=0.5, running=5.0))
        for name in "ab":
            made.load(name, adapters=("sql",))
        made.rounds.policy = replace(POLICY, drain_share_percent=34)
        made.round()
        assert made.log == ["cordoned a"]
        made.rounds.policy = POLICY
        made.load("c", usage=0.2)
        made.round()
        assert made.log == ["cordoned a", "cordoned c"]

    def test_what_is_not_known_is_told_as_such(self):
        made = cluster(serving("a", running=None), serving("b", kv=0.5, no_cordon="403"))
        assert "cordoned a: worth least: an unknown number of requests" in made.round().message


def test_more_than_three_pods_are_counted_in_the_message():
    made = cluster(*(serving(f"p{i}") for i in range(6)))
    assert "; 2 more cordoned; stays at 6" in made.round().message


def test_bringing_pods_back_uses_up_no_rate_of_ordering():
    slow = Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 2, 60),))
    made = cluster(*(serving(f"p{i}") for i in range(6)), policy=replace(POLICY, scale_up=slow))
    made.rounds.policy = replace(
        made.rounds.policy, scale_up=replace(slow, stabilization_seconds=0)
    )
    made.round()
    assert len(made.log) == 5
    made.load("p5", usage=1.0, waiting=60.0)
    back = made.round()
    assert (back.desired, len(back.uncordons)) == (6, 5)
    assert made.round().desired == 8


def test_a_pod_brought_back_shows_its_effect_before_the_next_is():
    made = cluster(*(serving(name) for name in "abc"), policy=replace(POLICY, ttft_p90_ms=1000))
    made.round()
    assert len(made.log) == 2
    made.load(next(n for n in "abc" if f"cordoned {n}" not in made.log), ttft_p90_s=5.0)
    made.round(after=70.0)
    made.round(after=5.0)
    assert [one.split()[0] for one in made.log] == ["cordoned", "cordoned", "uncordoned"]
    made.round(after=60.0)
    assert made.log[-1].startswith("uncordoned")
    assert len(made.log) == 4
