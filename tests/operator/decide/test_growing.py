"""Any signal grows the fleet, ordered pods count once, and unknown is idle."""

import pytest
from msgspec.structs import replace

from cacheaware.decide import Memory, decide
from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.decide.policy import Policy, RatePolicy, Rules


@pytest.mark.parametrize(
    ("kv", "waiting", "desired"),
    [
        ([0.5], [0.0], 1),
        ([0.88], [0.0], 1),
        ([0.89], [0.0], 2),
        ([0.95, 0.95], [0.0, 0.0], 3),
        ([0.1], [5.0], 1),
        ([0.1], [6.0], 2),
        ([0.1, 0.1], [3.0, 30.0], 6),
        ([1.0], [0.0], 2),
    ],
)
def test_any_signal_beyond_its_tolerance_grows(make, once, kv, waiting, desired):
    pods = [
        make.pod(f"p{i}", kv=use, waiting=queue)
        for i, (use, queue) in enumerate(zip(kv, waiting, strict=True))
    ]

    assert once(make.fleet(pods)).desired == desired


def test_tokens_are_used_and_waiting_ones_less_the_cached_prefix(make, once):
    pods = [make.tokens(n, used=70_000.0, waiting=4.0, tokens_per_request=10_000.0) for n in "ab"]
    cached = [replace(one, load=replace(one.load, prefix_hit_ratio=0.75)) for one in pods]

    plain, discounted = once(make.fleet(pods)), once(make.fleet(cached))
    decode = once(make.fleet(cached), role="Decode")

    assert plain.terms[0].signal == "kv-tokens"
    assert plain.terms[0].demand == 220_000
    assert plain.terms[0].per_replica == 80_000
    assert plain.desired == 3
    assert discounted.terms[0].demand == 160_000
    assert discounted.desired == 2
    assert decode.terms[0].demand == 220_000


def test_a_pod_that_does_not_tell_the_size_of_requests_takes_the_fleets_mean(make, once):
    telling = make.tokens("a", used=0.0, tokens_per_request=1_000.0)
    silent = make.tokens("b", used=0.0, waiting=2.0)

    assert once(make.fleet([telling, silent])).terms[0].demand == 2_000


def test_a_rate_too_small_to_count_a_request_weighs_no_size(make, once):
    rate = {"prompt_tokens_per_s": 5e-324, "prompt_tokens_per_request": 1e15}
    pod = make.tokens("a", used=0.0, waiting=2.0, tokens_per_request=1_000.0, **rate)

    assert once(make.fleet([pod])).terms[0].demand == 2_000


def test_no_waiting_request_is_larger_than_the_pod_that_it_waits_for(make, once):
    """A rate over a few finished requests may tell more tokens than a request can have."""
    absurd = {"used": 0.0, "capacity": 10_000.0, "tokens_per_request": 34_000.0}
    pods = [make.tokens("a", waiting=3.0, **absurd), make.tokens("b", used=0.0, capacity=10_000.0)]
    waiting = replace(pods[1], load=replace(pods[1].load, waiting=1.0))

    told = once(make.fleet(pods)).terms[0]

    assert told.demand == 30_000
    assert told.note == (
        "a waiting request counts as 10,000 tokens, all that fit into a pod, though 34,000 were"
        " measured, less its cached prefix"
    )
    assert once(make.fleet([pods[0], waiting])).terms[0].demand == 40_000


def test_waiting_requests_of_unknown_size_are_left_to_the_pending_signal(make, once):
    decision = once(make.fleet([make.tokens("a", used=10_000.0, waiting=50.0)]))

    assert decision.terms[0].demand == 10_000
    assert "size is not known" in decision.terms[0].note
    assert decision.terms[1].replicas == decision.raw == 10


def test_the_fullest_engine_of_a_pod_decides(make, once):
    load = PodLoad(usage=0.2, usage_max=0.95, waiting=0.0, used_tokens=2e4, capacity_tokens=1e5)

    decision = once(make.fleet([make.pod("a", load=load)]))

    assert decision.terms[0].demand == 95_000
    assert decision.desired == 2


def test_usage_follows_from_tokens_where_the_engine_tells_only_those(make, once):
    load = PodLoad(used_tokens=95.0, capacity_tokens=100.0, waiting=0.0)

    assert once(make.fleet([make.pod("a", load=load)])).desired == 2


def test_pods_of_different_size_count_by_their_mean(make, once):
    big = make.tokens("a", used=300_000.0, capacity=300_000.0)
    small = make.tokens("b", used=100_000.0, capacity=100_000.0)

    assert once(make.fleet([big, small])).terms[0].per_replica == 160_000
    assert once(make.fleet([big, small])).desired == 3


def test_a_fleet_that_tells_tokens_only_in_part_is_measured_by_usage(make, once):
    decision = once(make.fleet([make.tokens("a", used=95_000.0), make.pod("b", kv=0.95)]))

    assert decision.terms[0].signal == "kv-usage"
    assert decision.terms[0].demand == pytest.approx(1.9)


def test_an_unknown_pod_counts_as_idle_when_growing(make, once):
    pods = [make.pod("a", kv=0.95), make.pod("b", kv=0.95), make.unknown("c")]

    assert once(make.fleet(pods)).desired == 3


def test_a_pod_that_times_out_keeps_its_last_load_for_growth_alone(make, once):
    stale = PodLoad(usage=0.95, waiting=9.0)
    late = make.unknown("c", Unknown.TIMED_OUT, stale_load=stale)
    pods = [make.pod("a", kv=0.95, waiting=9.0), make.pod("b", kv=0.95, waiting=9.0)]

    assert once(make.fleet([*pods, late])).desired == 6
    assert once(make.fleet([*pods, replace(late, stale_load=None)])).desired == 4


def test_the_last_load_of_a_pod_that_only_times_out_counts_for_a_while(make, once):
    """One engine that hangs for days must not hold a fleet at the size of its last minute."""
    hung = make.unknown("c", Unknown.TIMED_OUT, stale_load=PodLoad(usage=1.0, waiting=90.0))
    calm = [make.pod(n, kv=0.3) for n in "ab"]

    assert once(make.fleet([*calm, replace(hung, stale_age_s=299.0)]), max_replicas=99).desired > 3
    assert once(make.fleet([*calm, replace(hung, stale_age_s=300.0)]), max_replicas=99).desired == 3
    longer = {"max_replicas": 99, "keep_stale_seconds": 900}
    assert once(make.fleet([*calm, replace(hung, stale_age_s=300.0)]), **longer).desired > 3


def test_a_larger_shortage_orders_more_while_pods_start(make, rounds):
    life = rounds(replicas=2)
    full = [make.pod(n, kv=0.99, waiting=9.0) for n in "ab"]
    fuller = [make.pod(n, kv=0.99, waiting=14.0) for n in "ab"]

    assert life.round(make.fleet(full)).desired == 4
    starting = [make.booting("y"), make.booting("z")]
    assert life.round(make.fleet([*full, *starting]), after=5).desired == 4
    assert life.round(make.fleet([*fuller, *starting]), after=5).desired == 6


def test_a_fleet_that_only_starts_says_so_without_a_word_of_its_load(make, once):
    decision = once(make.fleet([make.booting("y")]))

    assert (decision.desired, decision.reason) == (1, "WaitingForStarting")
    assert decision.message.startswith("no pod serves; 1 starting; stays at 1")


def test_what_keeps_a_pod_from_starting_is_told(make, once):
    pods = [make.booting("y", stuck="engine: ImagePullBackOff"), make.booting("z")]
    assert "2 starting (engine: ImagePullBackOff)" in once(make.fleet(pods)).message


def test_pods_that_are_overdue_are_not_ordered_again(make, rounds):
    life = rounds(replicas=4)
    full = [make.pod(n, kv=0.99, waiting=9.0) for n in "ab"]
    late = [make.booting(n, age_s=1800.0) for n in "yz"]

    decision = life.round(make.fleet([*full, *late]))

    assert (decision.desired, decision.reason) == (4, "StartOverdue")
    assert (decision.starting, decision.overdue) == (0, 2)
    assert "2 overdue" in decision.message
    assert decision.limited_by == ("starting",)


def test_pods_that_are_never_created_are_overdue_too(make, rounds):
    life = rounds(replicas=4)
    view = make.fleet([make.pod(n, kv=0.99, waiting=9.0) for n in "ab"], spec=4)

    assert life.round(view).reason == "WaitingForStarting"
    for _ in range(36):
        decision = life.round(view, after=50)
    assert (decision.desired, decision.reason, decision.overdue) == (4, "StartOverdue", 2)


def test_a_fleet_of_which_no_pod_has_served_waits(make, once):
    early, late = make.fleet([make.booting()]), make.fleet([make.booting(age_s=4000.0)])

    assert once(early).reason == "WaitingForStarting"
    assert once(early).limited_by == ("starting",)
    assert once(late).reason == "StartOverdue"
    assert once(early).desired == once(late).desired == 1
    assert once(make.fleet([], spec=2)).reason == "WaitingForStarting"


def test_growing_is_paced(make, rounds):
    life, replicas = rounds(Policy(mode="Scale", max_replicas=100), replicas=1), 1
    found = []
    for _ in range(6):
        pods = [make.pod("a", kv=1.0, waiting=200.0)]
        pods += [make.booting(f"z{i:02}") for i in range(replicas - 1)]
        replicas = life.round(make.fleet(pods), after=5).desired
        found.append(replicas)

    assert found == [5, 5, 5, 10, 10, 10]
    assert life.decisions[1].reason == "RateLimited"
    assert "rate" in life.decisions[1].limited_by


def test_growing_can_be_stabilized(make, rounds):
    up = Rules(stabilization_seconds=30, policies=(RatePolicy("Pods", 4, 15),))
    life = rounds(Policy(mode="Scale", scale_up=up), replicas=1)
    busy, calm = (make.fleet([make.pod("a", kv=kv)]) for kv in (0.99, 0.5))

    assert [life.round(busy, after=10).desired for _ in range(3)] == [1, 1, 2]
    life = rounds(Policy(mode="Scale", scale_up=up), replicas=1)
    views = [busy, busy, calm, busy, busy]
    assert [life.round(view, after=10).desired for view in views] == [1] * 5
    assert life.decisions[0].reason == "Stabilizing"
    assert "the window of 30 s is not over" in life.decisions[0].message


def test_growing_can_be_disabled(make, once):
    up = Rules(stabilization_seconds=0, select="Disabled", policies=(RatePolicy("Pods", 4, 15),))

    decision = once(make.fleet([make.pod("a", kv=0.99)]), scale_up=up)

    assert (decision.desired, decision.reason) == (1, "RateLimited")


@pytest.mark.parametrize(
    ("spec", "desired", "reason"), [(1, 3, "ScaledUp"), (3, 3, "AtMaximum"), (2, 3, "ScaledUp")]
)
def test_maximum_is_kept_and_told(make, once, spec, desired, reason):
    pods = [make.pod(f"p{i}", kv=1.0, waiting=90.0) for i in range(spec)]

    decision = once(make.fleet(pods), max_replicas=3)

    assert (decision.desired, decision.reason) == (desired, reason)
    assert "maxReplicas" in decision.limited_by
    assert "maxReplicas is 3" in decision.message


def test_too_few_replicas_are_corrected_at_once_even_when_nothing_is_known(make, once):
    decision = once(make.fleet([make.unknown()]), min_replicas=3)

    assert (decision.desired, decision.reason) == (3, "ScaledUp")
    assert decision.limited_by == ("unknown", "minReplicas")


class TestFirstToken:
    def slow(self, make, *seconds, **fields):
        return make.fleet(
            [
                make.pod(f"p{i}", load=PodLoad(usage=0.1, waiting=0.0, ttft_p90_s=one), **fields)
                for i, one in enumerate(seconds)
            ]
        )

    def test_it_grows_by_one_until_the_new_pod_shows_its_effect(self, make, rounds):
        life = rounds(Policy(mode="Scale", ttft_p90_ms=1000), replicas=2)

        assert life.round(self.slow(make, 1.4, 1.4)).desired == 3
        starting = [*self.slow(make, 1.4, 1.4).pods, make.booting()]
        assert life.round(make.fleet(starting), after=20).desired == 3
        assert life.round(self.slow(make, 1.4, 1.4, 1.4, serving_age_s=30.0), after=20).desired == 3
        assert life.round(self.slow(make, 1.4, 1.4, 1.4, serving_age_s=90.0), after=20).desired == 4
        assert life.decisions[-1].terms[-1].unit == "ms"

    def test_one_slow_pod_blocks_a_shrink_and_grows_nothing(self, make, once):
        decision = once(self.slow(make, 0.2, 0.2, 9.0), ttft_p90_ms=1000)

        assert (decision.desired, decision.raw) == (3, 3)

    def test_met_targets_and_idle_pods_block_nothing(self, make, once):
        assert once(self.slow(make, 0.2, 0.2), ttft_p90_ms=1000).raw == 1
        idle = make.fleet([make.idle("a"), make.idle("b")])
        assert once(idle, ttft_p90_ms=1000).desired == 1

    def test_decode_pods_are_not_measured_by_it(self, make, once):
        assert once(self.slow(make, 5.0, 5.0), ttft_p90_ms=1000, role="Decode").raw == 1

    def test_a_pod_that_never_starts_is_not_asked_for_again(self, make, rounds):
        life = rounds(Policy(mode="Scale", ttft_p90_ms=1000), replicas=3)
        late = [*self.slow(make, 1.4, 1.4).pods, make.booting(age_s=9000.0)]

        assert life.round(make.fleet(late)).desired == 3


class TestSilence:
    LATE = PodLoad(usage=0.85, waiting=2.0)

    def late(self, make, name, load=LATE):
        return make.unknown(name, Unknown.TIMED_OUT, stale_load=load)

    def test_most_pods_silent_above_target_grow_by_one_step_once(self, make, rounds):
        life = rounds(replicas=3)
        silent = [self.late(make, n) for n in "ab"] + [make.pod("c", kv=0.85, waiting=2.0)]

        first = life.round(make.fleet(silent))
        later = [life.round(make.fleet([*silent, make.booting()]), after=5)]
        later += [life.round(make.fleet([*silent[:2], make.pod("d", kv=0.85)]), after=5)]

        assert (first.desired, first.reason) == (4, "OverloadedAndSilent")
        assert "most pods time out" in first.message
        assert [one.desired for one in later] == [4, 3]

    def test_the_step_follows_the_last_load_and_is_paced(self, make, rounds):
        life = rounds(Policy(mode="Scale", max_replicas=100), replicas=3)
        silent = [self.late(make, n, PodLoad(usage=1.0, waiting=90.0)) for n in "abc"]

        assert life.round(make.fleet(silent)).desired == 7
        starting = [make.booting(f"z{i}") for i in range(4)]
        for _ in range(9):
            assert life.round(make.fleet([*silent, *starting]), after=15).desired == 7
        assert life.decisions[-1].reason == "OverloadedAndSilent"

    def test_silence_below_target_or_by_refusal_holds(self, make, once):
        calm = make.fleet([self.late(make, n, PodLoad(usage=0.3, waiting=0.0)) for n in "abc"])
        refused = make.fleet([make.unknown(n) for n in "abc"])

        assert (once(calm).desired, once(calm).reason) == (3, "MetricsUnknown")
        assert (once(refused).desired, once(refused).reason) == (3, "MetricsUnknown")

    def test_a_queue_alone_shows_the_overload(self, make, once):
        queue = make.fleet([self.late(make, "a", PodLoad(waiting=8.0))])
        unknown = make.fleet([self.late(make, "a", PodLoad(running=8.0))])

        assert once(queue).desired == 2
        assert once(unknown).desired == 1

    def test_silence_never_shrinks(self, make, rounds):
        life = rounds(replicas=5)
        silent = [self.late(make, n) for n in "abc"] + [make.idle(n) for n in "de"]

        assert life.round(make.fleet(silent), after=30).desired == 6
        view = make.fleet(silent, spec=6)
        assert {life.round(view, after=30).desired for _ in range(40)} == {6}


class TestFallback:
    POLICY = Policy(mode="Scale", fallback_after_seconds=60, fallback_replicas=4)

    def test_nothing_known_for_long_means_not_fewer_than_the_fallback(self, make, rounds):
        life = rounds(self.POLICY, replicas=2)
        view = make.fleet([make.unknown("a"), make.unknown("b")])

        found = [life.round(view, after=20).desired for _ in range(4)]

        assert found == [2, 2, 2, 4]
        assert life.decisions[-1].reason == "Fallback"
        assert life.decisions[-1].raw is None
        four = make.fleet([make.unknown(n) for n in "abcd"])
        assert life.round(four, after=20).reason == "Fallback"
        assert "after 60 s without a metric the fallback is 4" in life.decisions[-1].message

    def test_more_replicas_than_the_fallback_are_kept(self, make, rounds):
        life = rounds(self.POLICY, replicas=6)
        view = make.fleet([make.unknown(f"p{i}") for i in range(6)])

        assert {life.round(view, after=30).desired for _ in range(30)} == {6}

    def test_one_known_round_begins_the_time_anew(self, make, rounds):
        life = rounds(self.POLICY, replicas=2)
        dark = make.fleet([make.unknown("a"), make.unknown("b")])
        lit = make.fleet([make.pod("a", kv=0.5), make.unknown("b")])

        views = [dark, dark, dark, lit, dark, dark, dark]
        assert {life.round(view, after=20).desired for view in views} == {2}

    def test_starting_pods_alone_are_not_unknown(self, make, rounds):
        life = rounds(self.POLICY, replicas=2)
        view = make.fleet([make.booting("a"), make.booting("b")])

        assert {life.round(view, after=30).desired for _ in range(20)} == {2}


class TestHandsOff:
    def test_zero_replicas_are_a_pause(self, make, once):
        decision = once(make.fleet([], spec=0), min_replicas=2)

        assert (decision.desired, decision.reason) == (0, "Paused")
        assert decision.limited_by == ("paused",)

    def test_another_owner_is_left_alone(self, make, once):
        view = make.fleet([make.pod("a", kv=1.0, waiting=99.0)], conflict="HPA chat")

        decision = once(view)

        assert (decision.desired, decision.reason) == (1, "TargetConflict")
        assert decision.message == "HPA chat owns the replicas: nothing is written"

    def test_a_rollout_may_grow_unless_it_is_stuck(self, make, once):
        busy = [make.pod("a", kv=1.0, waiting=9.0)]

        assert once(make.fleet(busy, rollout=True)).desired == 2
        stuck = make.fleet([*busy, make.booting(age_s=9000.0)], spec=1, rollout=True)
        assert (once(stuck).desired, once(stuck).reason) == (1, "RolloutInProgress")

    def test_a_rollout_is_not_shrunk(self, make, once):
        decision = once(make.fleet([make.idle(n) for n in "abc"], rollout=True))

        assert (decision.desired, decision.reason) == (3, "RolloutInProgress")
        assert "rollout" in decision.limited_by

    def test_advise_says_what_it_would_do(self, make):
        view = make.fleet([make.pod("a", kv=0.99)])

        decision, _ = decide(view, Policy(), Memory.start(1, 0.0), 0.0)

        assert (decision.desired, decision.reason) == (2, "Advised")
        assert "would scale from 1 to 2" in decision.message
