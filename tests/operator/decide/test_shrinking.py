"""All signals shrink the fleet, after the window, by pods that nobody misses."""

from typing import ClassVar

import pytest

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.decide.policy import Policy, RatePolicy, Rules
from cacheaware_sidecar.phase import Phase

FAST = Rules(stabilization_seconds=0, policies=(RatePolicy("Percent", 100, 15),))
FREE = {"scale_down": FAST, "drain_share_percent": 100}


def names(decision):
    return [victim.pod for victim in decision.victims]


def test_all_signals_must_agree(make, once):
    pods = [make.idle(n) for n in "abc"]
    queued = [*pods[:2], make.pod("c", kv=0.0, waiting=11.0, running=0.0)]

    assert once(make.fleet(pods), **FREE).desired == 1
    assert once(make.fleet(queued), **FREE).raw == 3
    assert once(make.fleet(queued), **FREE).desired == 3


def test_an_unknown_pod_counts_as_full_when_shrinking(make, once):
    pods = [make.idle("a"), make.idle("b"), make.unknown("c"), make.unknown("d")]

    decision = once(make.fleet(pods), **FREE)

    assert decision.raw == 3
    assert decision.desired == 3
    assert "2 pods unknown (MetricsRefused)" in decision.message


def test_a_shrink_that_only_the_unknown_would_allow_is_held_and_told(make, once):
    pods = [make.idle("a"), make.unknown("b")]

    decision = once(make.fleet(pods), **FREE)

    assert (decision.desired, decision.reason) == (2, "MetricsUnknown")
    assert decision.limited_by == ("unknown",)
    assert "what is unknown changes nothing" in decision.message


def test_what_a_pod_out_of_the_endpoints_holds_is_not_called_unknown(make, once):
    out = {"ready": False, "phase": Phase.CORDONED, "cordoned_by": "relief"}
    relieved = make.pod("b", kv=1.0, waiting=20.0, **out)

    decision = once(make.fleet([make.idle("a"), relieved]), **FREE)

    assert (decision.desired, decision.reason) == (2, "PodsAway")
    assert decision.limited_by == ("away",)
    assert "1 pod out of the endpoints may come back: none is given up" in decision.message
    unknown = once(make.fleet([make.unknown("a"), make.idle("c"), relieved]), **FREE)
    assert (unknown.reason, unknown.limited_by) == ("MetricsUnknown", ("unknown",))


def test_one_unknown_signal_is_full_for_that_pod_alone(make, once):
    half = PodLoad(usage=0.0, running=1.0)
    pods = [make.idle("a"), make.idle("b"), make.pod("c", load=half)]

    decision = once(make.fleet(pods), **FREE)

    kv, pending = decision.terms
    assert (kv.demand, pending.demand) == (0.0, 5.0)
    assert decision.raw == 1


def test_a_pod_that_tells_only_that_nothing_runs_or_waits_pins_nothing(make, once):
    empty = PodLoad(running=0.0, waiting=0.0)
    pods = [make.pod(n, load=empty, idle_rounds=3) for n in "ab"]

    assert once(make.fleet(pods), **FREE).desired == 1
    busy = PodLoad(running=3.0, waiting=0.0)
    assert once(make.fleet([make.pod(n, load=busy) for n in "ab"]), **FREE).desired == 2


def test_a_pod_out_of_the_endpoints_counts_as_full_when_it_tells_nothing(make, once):
    gone = make.pod("c", ready=False, final_drain=True)

    assert once(make.fleet([make.idle("a"), make.idle("b"), gone]), **FREE).raw == 2


def test_tolerance_keeps_the_replicas(make, once):
    pods = [make.pod(f"p{i:02}", kv=0.73, running=0.0, idle_rounds=9) for i in range(20)]

    decision = once(make.fleet(pods), max_replicas=30, **FREE)

    assert (decision.raw, decision.desired, decision.reason) == (19, 20, "WithinTolerance")
    assert decision.limited_by == ("tolerance",)
    assert "within the tolerance of 10 %" in decision.message


def test_at_the_minimum_it_stays_and_says_so(make, once):
    decision = once(make.fleet([make.idle("a")]), **FREE)

    assert (decision.desired, decision.reason) == (1, "AtMinimum")
    assert decision.limited_by == ("minReplicas",)
    assert decision.message == (
        "KV is 0 % full on 1 pod and no request waits; needs 0; stays at 1: minReplicas is 1"
    )


class TestWindow:
    def test_the_highest_recommendation_of_the_window_counts(self, make, rounds):
        life = rounds(Policy(mode="Scale", drain_share_percent=100), replicas=4)
        calm, busy = (
            make.fleet([make.pod(n, kv=kv, running=0.0, idle_rounds=9) for n in "abcd"])
            for kv in (0.0, 0.8)
        )

        for i in range(100):
            view = busy if i == 10 else calm
            decision = life.round(view, after=10)
            if decision.changes:
                break

        assert life.now == 1000 + 110 + 300
        assert decision.desired == 3
        assert life.decisions[-2].reason == "Stabilizing"

    def test_replicas_that_somebody_raised_are_a_new_base(self, make, rounds):
        life = rounds(replicas=2)
        two, four = (make.fleet([make.idle(n) for n in names]) for names in ("ab", "abcd"))
        for _ in range(20):
            life.round(two, after=14)

        found = [life.round(four, after=14).desired for _ in range(23)]

        assert found == [4] * 22 + [3]

    def test_a_long_pause_is_a_restart(self, make, rounds):
        life = rounds(replicas=2)
        view = make.fleet([make.idle("a"), make.idle("b")])
        for _ in range(10):
            life.round(view, after=10)

        assert life.round(view, after=1000).desired == 2
        assert life.round(view, after=50).desired == 2

    def test_a_clock_that_jumps_back_is_a_restart(self, make, rounds):
        life = rounds(replicas=2)
        view = make.fleet([make.idle("a"), make.idle("b")])

        assert life.round(view, after=-500).desired == 2
        assert life.round(view, after=30).desired == 2

    def test_what_was_not_ours_is_no_window(self, make, rounds):
        life, pods = rounds(replicas=2), [make.idle("a"), make.idle("b")]
        for _ in range(20):
            life.round(make.fleet(pods, conflict="HPA chat"), after=30)

        found = [life.round(make.fleet(pods), after=30).desired for _ in range(10)]

        assert found == [2] * 9 + [1]

    def test_shrinking_is_paced_over_the_period(self, make, rounds):
        life, replicas = rounds(Policy(mode="Scale", drain_share_percent=100), replicas=6), 6
        times = []
        for _ in range(120):
            view = make.fleet([make.idle(f"p{i}") for i in range(replicas)])
            before, replicas = replicas, life.round(view, after=10).desired
            times += [life.now - 1000] if replicas < before else []

        assert replicas == 1
        assert times == [300, 360, 420, 480, 540]

    def test_memory_stays_small(self, make, rounds):
        life = rounds(Policy(mode="Scale", max_replicas=50), replicas=1)

        for i in range(2000):
            kv = [0.0, 0.5, 0.9, 0.3][i % 4]
            life.round(make.fleet([make.pod("a", kv=kv)]), after=5, write=False)

        assert len(life.memory.peaks) < 8
        assert len(life.memory.lows) < 8
        assert life.memory.changes == ()


class TestDeployment:
    def test_pods_that_never_served_go_first_youngest_first(self, make, once):
        pods = [make.idle("a"), make.booting("x", age_s=500.0), make.booting("y", age_s=5.0)]

        decision = once(make.fleet(pods), **FREE)

        assert names(decision) == ["y", "x"]
        assert decision.desired == 1
        assert decision.victims[0].reason == "never served, 5 s old"
        assert decision.victims[0].uid == "uid-y"

    def test_a_pod_without_a_node_goes_before_any_other_as_a_replicaset_does_it(self, make, once):
        pods = [make.idle("a"), make.booting("x", age_s=500.0)]
        pods += [make.booting("y", age_s=5.0, node="n1")]

        assert names(once(make.fleet(pods), **FREE)) == ["x", "y"]

    def test_overdue_pods_go_too(self, make, once):
        decision = once(make.fleet([make.pod("a", kv=0.5), make.booting(age_s=9000.0)]), **FREE)

        assert names(decision) == ["z"]

    def test_replicas_that_have_no_pod_need_no_victim(self, make, once):
        decision = once(make.fleet([make.idle("a")], spec=3), **FREE)

        assert (decision.desired, decision.victims) == (1, ())

    def test_only_as_many_go_as_are_empty(self, make, once):
        busy = [make.pod(n, kv=0.05, running=1.0) for n in "abc"]

        decision = once(make.fleet([*busy, make.idle("d")]), **FREE)

        assert (decision.desired, names(decision)) == (3, ["d"])
        assert decision.limited_by == ("drain",)
        assert "hold requests" in decision.message

    @pytest.mark.parametrize(
        "pod",
        [
            {"kv": 0.0, "running": 0.0, "idle_rounds": 1},
            {"kv": 0.0, "running": 1.0, "idle_rounds": 5},
            {"kv": 0.0, "running": None, "idle_rounds": 5},
            {"kv": 0.0, "running": 0.0, "waiting": 1.0, "idle_rounds": 5},
            {"idle_rounds": 5},
            {"kv": 0.0, "running": 0.0, "idle_rounds": 5, "serving_age_s": 60.0, "age_s": 300.0},
        ],
        ids=["once", "running", "unknown", "waiting", "silent", "young"],
    )
    def test_a_pod_that_may_be_missed_stays(self, make, once, pod):
        pods = [make.pod(n, **pod) for n in "abc"]

        decision = once(make.fleet([*pods, make.pod("d", kv=0.0, running=1.0)]), **FREE)

        assert decision.desired == 4

    def test_nothing_safe_is_said_in_so_many_words(self, make, once):
        decision = once(make.fleet([make.pod(n, kv=0.1, running=2.0) for n in "abc"]), **FREE)

        assert (decision.desired, decision.reason) == (3, "DrainUnavailable")
        assert decision.limited_by == ("drain",)
        assert decision.message.endswith("no pod is empty, and none can be drained now")

    def test_that_all_pods_are_young_is_said(self, make, once):
        young = [make.idle(n, age_s=130.0, serving_age_s=60.0) for n in "abc"]

        decision = once(make.fleet(young), **FREE)

        assert decision.desired == 3
        assert decision.message.endswith("served for less time than they took to start")

    def test_an_old_pod_is_not_young_for_ever_after_a_flap(self, make, once):
        flapped = [make.idle(n, age_s=1e6, serving_age_s=2000.0) for n in "ab"]

        assert once(make.fleet(flapped), **FREE).desired == 1

    def test_the_cheapest_cache_goes_first(self, make, once):
        def warm(name, rate, ratio, age=3600.0):
            load = PodLoad(
                usage=0.0,
                waiting=0.0,
                running=0.0,
                prompt_tokens_per_s=rate,
                prefix_hit_ratio=ratio,
            )
            return make.pod(name, load=load, idle_rounds=2, age_s=age)

        pods = [
            warm("a", 100.0, 0.9),
            warm("b", 100.0, 0.1),
            warm("c", 100.0, None),
            warm("d", 0.0, 0.9),
            warm("e", 0.0, 0.9, age=99.0),
        ]

        decision = once(make.fleet(pods), min_replicas=1, **FREE)

        assert names(decision) == ["e", "d", "b", "c"]

    def test_an_unready_pod_that_may_hold_requests_blocks_the_ready_ones(self, make, once):
        gone = make.pod("c", ready=False, kv=0.1, running=1.0)
        view = make.fleet([make.idle("a"), make.idle("b"), gone, make.booting("d")])

        decision = once(view, **FREE)

        assert names(decision) == ["d"], "a ReplicaSet would take c before a or b"
        assert once(make.fleet(view.pods[:3]), **FREE).desired == 3

    @pytest.mark.parametrize(
        ("unknown", "sidecar", "gone"),
        [
            (Unknown.TIMED_OUT, False, []),
            (Unknown.REFUSED, False, ["c"]),
            (Unknown.TIMED_OUT, True, ["c"]),
        ],
        ids=["silent", "nobody listens", "its sidecar said that it loads"],
    )
    def test_one_that_takes_a_call_and_is_silent_may_hold_requests(
        self, make, once, unknown, sidecar, gone
    ):
        pods = [make.pod(n, kv=0.3, running=1.0) for n in "ab"]
        pods.append(make.booting("c", unknown=unknown, sidecar=sidecar))

        assert names(once(make.fleet(pods), **FREE)) == gone

    def test_a_starting_pod_with_requests_is_not_one_that_never_served(self, make, once):
        odd = make.booting("z", load=PodLoad(usage=0.1, running=2.0, waiting=0.0))

        assert once(make.fleet([make.pod("a", kv=0.1), odd]), **FREE).desired == 2

    def test_without_the_victims_the_rest_stays_within_target(self, make, once):
        big = make.tokens("a", used=0.0, capacity=1e6, running=0.0, idle_rounds=9)
        small = [make.tokens(n, used=90_000.0, capacity=1e5, running=1.0) for n in "bc"]

        decision = once(make.fleet([big, *small]), **FREE)

        assert decision.raw == 1, "by the mean pod, one would do"
        assert decision.desired == 3, "but the empty pod is most of the fleet"
        assert decision.reason == "DrainUnavailable"

    def test_starting_pods_are_no_supply_for_giving_up_serving_ones(self, make, once):
        pods = [make.pod(n, kv=0.75, running=1.0, final_drain=True) for n in "ab"]
        pods += [make.booting(n, age_s=9000.0) for n in "xyz"]

        decision = once(make.fleet(pods), **FREE)

        assert decision.raw == 2
        assert names(decision) == ["x", "y", "z"]

    def test_a_shrink_under_way_is_waited_for(self, make, once):
        decision = once(make.fleet([make.idle(n) for n in "abc"], spec=2), **FREE)

        assert (decision.desired, decision.reason) == (2, "DrainUnavailable")
        assert "not gone" in decision.message

    def test_a_share_of_the_fleet_goes_at_a_time(self, make, once):
        pods = [make.idle(f"p{i}") for i in range(8)]
        leaving = make.idle("q", terminating=True)
        rules = {"scale_down": FAST, "drain_share_percent": 25}

        assert once(make.fleet(pods), **rules).desired == 6
        assert once(make.fleet([*pods, leaving], spec=8), **rules).desired == 7
        two = [leaving, make.idle("r", terminating=True)]
        held = once(make.fleet([*pods, *two], spec=8), **rules)
        assert (held.desired, held.reason) == (8, "DrainUnavailable")
        assert "2 pods are on their way out" in held.message

    def test_a_pod_that_never_ends_is_not_waited_for_for_ever(self, make, rounds):
        life = rounds(Policy(mode="Scale", drain_deadline_seconds=600), replicas=2)
        view = make.fleet([*(make.idle(n) for n in "ab"), make.idle("c", terminating=True)], spec=2)

        found = [life.round(view, after=50).desired for _ in range(13)]

        assert found == [2] * 12 + [1]

    def test_the_drain_deadline_begins_with_our_own_shrink(self, make, rounds):
        life = rounds(Policy(mode="Scale", scale_down=FAST, drain_deadline_seconds=100), replicas=3)
        assert life.round(make.fleet([make.idle(n) for n in "abc"]), after=5).desired == 2
        leaving = make.fleet(
            [*(make.idle(n) for n in "ab"), make.idle("c", terminating=True)], spec=2
        )

        assert [life.round(leaving, after=50).desired for _ in range(3)] == [2, 2, 1]


class TestFinalDrain:
    def drained(self, make, name, **fields):
        return make.pod(name, **{"kv": 0.1, "running": 2.0, "final_drain": True, **fields})

    def test_one_pod_at_a_time_whose_hook_waits_for_its_requests(self, make, once):
        pods = [self.drained(make, "a"), self.drained(make, "b", running=1.0)]
        pods += [self.drained(make, "c")]

        decision = once(make.fleet(pods), **FREE)

        assert (decision.desired, names(decision)) == (2, ["b"])
        assert decision.limited_by == ("drain", "CordonUnavailable")
        assert "none can be cordoned" in decision.message
        assert "preStop hook" in decision.victims[0].reason

    def test_not_while_another_is_on_its_way_out(self, make, once):
        pods = [self.drained(make, n) for n in "abc"]
        leaving = self.drained(make, "d", terminating=True)

        decision = once(make.fleet([*pods, leaving], spec=3), **FREE)

        assert (decision.desired, decision.reason) == (3, "DrainUnavailable")

    def test_not_a_young_pod_nor_one_without_the_hook(self, make, once):
        young = self.drained(make, "a", serving_age_s=10.0, age_s=100.0, running=1.0)
        bare = make.pod("b", kv=0.1, running=1.0)

        assert names(once(make.fleet([young, bare, self.drained(make, "c")]), **FREE)) == ["c"]
        assert once(make.fleet([young, bare]), **FREE).desired == 2

    def test_a_silent_pod_with_the_hook_goes_last(self, make, once):
        silent = make.unknown("a", final_drain=True)
        pods = [silent, self.drained(make, "b"), self.drained(make, "c")]

        assert names(once(make.fleet(pods), **FREE)) == ["b"]

    def test_an_unready_pod_would_go_first_so_it_must_be_the_one(self, make, once):
        unready = self.drained(make, "c", ready=False, running=9.0)
        pods = [self.drained(make, "a"), self.drained(make, "b"), unready]

        assert names(once(make.fleet(pods), **FREE)) == ["c"]


class TestStatefulSet:
    KIND: ClassVar = {"target_kind": "StatefulSet"}

    @pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet"])
    def test_the_highest_ordinal_goes_and_must_be_empty(self, make, once, kind):
        empty = [make.idle(f"m-{i}") for i in (0, 2, 10)]
        busy = make.pod("m-11", kv=0.1, running=1.0)

        assert names(once(make.fleet(empty, target_kind=kind), **FREE)) == ["m-10", "m-2"]
        assert once(make.fleet([*empty, busy], target_kind=kind), **FREE).desired == 4

    def test_it_stops_before_the_first_that_may_not_go(self, make, once):
        pods = [make.idle("m-0"), make.pod("m-1", kv=0.1, running=1.0), make.idle("m-2")]

        decision = once(make.fleet(pods, **self.KIND), **FREE)

        assert (decision.desired, names(decision)) == (2, ["m-2"])

    def test_the_highest_may_be_drained_by_its_hook_and_no_other(self, make, once):
        pods = [make.pod(f"m-{i}", kv=0.1, running=float(9 - i)) for i in range(2)]
        pods += [make.pod("m-2", kv=0.1, running=7.0, final_drain=True)]

        assert names(once(make.fleet(pods, **self.KIND), **FREE)) == ["m-2"]
        assert once(make.fleet(pods[:2], **self.KIND), **FREE).desired == 2

    def test_missing_pods_free_nobody(self, make, once):
        pods = [make.idle("m-0"), make.pod("m-2", kv=0.1, running=1.0)]

        assert once(make.fleet(pods, spec=3, **self.KIND), **FREE).desired == 3

    def test_a_name_without_an_ordinal_blocks(self, make, once):
        pods = [make.idle("m-0"), make.idle("m-1"), make.idle("odd")]

        assert once(make.fleet(pods, **self.KIND), **FREE).desired == 3


class TestOtherKinds:
    KIND: ClassVar = {"target_kind": "Rollout"}

    def test_all_pods_must_be_empty_when_the_order_is_not_known(self, make, once):
        empty = [make.idle(n) for n in "abc"]
        busy = make.pod("d", kv=0.1, running=1.0)

        assert once(make.fleet(empty, **self.KIND), **FREE).desired == 1
        assert once(make.fleet([*empty, busy], **self.KIND), **FREE).desired == 4

    def test_or_all_have_the_hook(self, make, once):
        pods = [make.pod(n, kv=0.1, running=1.0, final_drain=True) for n in "ab"]
        pods += [make.idle("c")]

        assert once(make.fleet(pods, **self.KIND), **FREE).desired == 2


class TestBounds:
    def test_too_many_replicas_go_by_safe_victims_without_a_window(self, make, rounds):
        life = rounds(Policy(mode="Scale", max_replicas=2, drain_share_percent=100), replicas=5)
        pods = [make.pod("a", kv=0.9, running=3.0), *(make.idle(n) for n in "bcde")]

        decision = life.round(make.fleet(pods))

        assert decision.desired == 2
        assert "maxReplicas is 2" in decision.message

    def test_too_many_replicas_that_hold_requests_stay(self, make, once):
        pods = [make.pod(n, kv=0.9, running=3.0) for n in "abc"]

        decision = once(make.fleet(pods), max_replicas=2)

        assert (decision.desired, decision.reason) == (3, "DrainUnavailable")
        assert "maxReplicas" in decision.limited_by

    def test_shrinking_can_be_disabled(self, make, once):
        never = Rules(stabilization_seconds=0, select="Disabled", policies=FAST.policies)

        decision = once(make.fleet([make.idle("a"), make.idle("b")]), scale_down=never)

        assert (decision.desired, decision.reason) == (2, "RateLimited")


def test_the_message_tells_the_numbers(make, once):
    pods = [make.tokens(n, used=104_000.0, capacity=144_666.0, waiting=4.0) for n in "ab"]
    silent = make.unknown("c", Unknown.STALE)

    decision = once(make.fleet([*pods, silent, make.booting()]), pending_per_replica=1)

    assert decision.message == (
        "KV holds 208,000 of 289,332 tokens on 2 pods (72 %) and 8 requests wait; needs 8;"
        " 1 pod unknown (MetricsStale): idle for growing, full for shrinking; 1 starting;"
        " scales from 4 to 8"
    )
    assert decision.limited_by == ("starting",)


def test_half_known_signals_are_told_as_such(make, once):
    kv = once(make.fleet([make.pod("a", load=PodLoad(usage=0.5))])).message
    queue = once(make.fleet([make.pod("a", load=PodLoad(waiting=2.0, running=1.0))])).message

    assert "KV is 50 % full on 1 pod and the number of waiting requests is not known" in kv
    assert "the use of KV cache on 1 pod is not known and 2 requests wait" in queue


@pytest.mark.parametrize(
    ("waiting", "told"),
    [(0.0, "no request waits"), (1.0, "1 request waits"), (2.0, "2 requests wait")],
)
def test_what_waits_is_counted_in_words(make, once, waiting, told):
    message = once(make.fleet([make.tokens("a", used=10.0, capacity=1e6, waiting=waiting)])).message

    assert f" and {told}; " in message


def test_cordoned_and_draining_pods_are_no_supply(make, once):
    pods = [make.pod("a", kv=0.7)]
    pods += [make.idle("b", phase=Phase.CORDONED, ready=False)]
    pods += [make.idle("c", phase=Phase.DRAINING, ready=False)]

    decision = once(make.fleet(pods))

    assert decision.serving == 1
    assert decision.inputs["away"] == 2


def test_a_fleet_out_of_the_endpoints_is_held_and_told_as_such(make, once):
    pods = [make.pod("a", kv=0.9, ready=False), make.idle("b", ready=False)]

    decision = once(make.fleet(pods))

    assert (decision.desired, decision.reason) == (2, "NoServingPods")
    assert decision.message == (
        "no pod serves, 2 pods out of the endpoints; stays at 2:"
        " where no pod gets requests, the load is not known"
    )
