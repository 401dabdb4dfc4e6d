"""Pods: ordered, started, cordoned, deleted, and what they cost."""

from dataclasses import replace

import pytest

from cacheaware_sidecar.phase import Phase
from cacheaware_sim.fleet.faults import SlowStarts, WritesRefused
from cacheaware_sim.fleet.pod import Stage, new_pod
from cacheaware_sim.fleet.workload import LEASE_S, deletion_order
from cacheaware_sim.policies.policy import Limits, Orders


def seconds(score):
    """What was paid, without what was not."""
    return {stage.value: paid for stage, paid in score.pod_seconds.items() if paid}


def test_a_pod_costs_from_its_order_and_serves_after_its_cold_start(fleet, script, until):
    policy = script({5.0: Orders(2)})

    score = fleet(policy).run(until(30.0))

    assert seconds(score) == {"starting": 10.0, "serving": 30.0 + 15.0}
    assert policy.writes == [(1, 2, 5.0)]
    assert [pod.phase for pod in policy.at(15.0).pods] == [Phase.SERVING, Phase.SERVING]
    assert [pod.ready for pod in policy.at(14.0).pods] == [True, False]
    assert policy.pod("pod-0002", 14.0).phase is Phase.LOADING
    assert policy.pod("pod-0002", 14.0).sample is None


def test_a_pod_that_is_deleted_while_it_starts_costs_until_then_and_never_serves(
    fleet, script, until
):
    policy = script({5.0: Orders(2), 9.0: Orders(1)})

    score = fleet(policy).run(until(30.0))

    assert seconds(score) == {"starting": 4.0, "serving": 30.0}
    assert len(policy.at(20.0).pods) == 1


def test_a_pod_that_still_starts_when_the_trace_ends_is_paid_until_then(fleet, script, until):
    score = fleet(script({25.0: Orders(2)})).run(until(30.0))

    assert seconds(score) == {"starting": 5.0, "serving": 30.0}


def test_a_pod_given_up_without_requests_goes_at_once(fleet, script, until):
    policy = script({5.0: Orders(1)})

    score = fleet(policy, start_replicas=2).run(until(30.0))

    assert seconds(score) == {"serving": 35.0}
    assert len(policy.at(6.0).pods) == 1


def test_a_pod_given_up_finishes_what_it_can_within_its_grace_period(
    fleet, script, request_at, until
):
    policy = script({5.0: Orders(1)})
    trace = until(40.0, request_at(4.0, output=10), request_at(4.0, output=100))

    score = fleet(policy, start_replicas=2, grace_s=30.0).run(trace)

    assert (score.finished, score.lost) == (3, 0)
    assert seconds(score) == pytest.approx({"serving": 45.0, "terminating": 9.0})
    seen = policy.pod("pod-0002", 6.0)
    assert (seen.terminating, seen.ready, seen.phase) == (True, False, Phase.DRAINING)


@pytest.mark.parametrize(("grace_s", "terminating"), [(3.0, {"terminating": 3.0}), (0.0, {})])
def test_what_still_runs_after_the_grace_period_is_lost_to_the_scale_down(
    fleet, script, request_at, grace_s, terminating
):
    policy = script({5.0: Orders(1)})
    trace = [request_at(4.0), request_at(4.0, output=100), request_at(40.0)]

    score = fleet(policy, start_replicas=2, grace_s=grace_s).run(trace)

    assert (score.finished, score.lost, score.lost_to_scale_down) == (2, 1, 1)
    assert seconds(score) == {"serving": 45.0, **terminating}


def test_a_grace_period_that_ends_after_the_trace_still_cuts(fleet, script, request_at):
    policy = script({5.0: Orders(1)})
    trace = [request_at(4.0), request_at(4.0, output=500), request_at(6.0, output=1)]

    score = fleet(policy, start_replicas=2).run(trace)

    assert (score.finished, score.lost_to_scale_down, score.unfinished) == (2, 1, 0)


def test_a_terminating_pod_is_replaced_when_more_are_wanted(fleet, script, request_at, until):
    policy = script({5.0: Orders(1), 6.0: Orders(2)})
    trace = until(40.0, request_at(4.0, output=100), request_at(4.0, output=100))

    fleet(policy, start_replicas=2).run(trace)

    assert [pod.name for pod in policy.at(7.0).pods] == ["pod-0001", "pod-0002", "pod-0003"]


def test_a_cordoned_pod_gets_no_requests_but_keeps_those_it_has(fleet, script, request_at, until):
    policy = script({5.0: Orders(2, cordons=("pod-0002",))})
    trace = until(40.0, request_at(4.0, 30), request_at(4.0, 30), request_at(5.5), request_at(5.6))

    score = fleet(policy, start_replicas=2).run(trace)

    seen = [policy.pod(f"pod-000{n}", 6.0) for n in (1, 2)]
    assert [pod.phase for pod in seen] == [Phase.SERVING, Phase.CORDONED]
    assert [pod.ready for pod in seen] == [True, False]
    assert [
        pod.sample.requests for pod in (policy.pod("pod-0001", 20.0), policy.pod("pod-0002", 20.0))
    ] == [3, 1]
    assert score.lost == 0


def test_a_cordoned_pod_is_empty_five_seconds_after_its_last_request(
    fleet, script, request_at, until
):
    policy = script({float(n): Orders(2, cordons=("pod-0002",)) for n in range(5, 40)})
    trace = until(40.0, request_at(4.0, 30), request_at(4.0, 30))

    fleet(policy, start_replicas=2).run(trace)

    assert [policy.pod("pod-0002", now).empty for now in (6.0, 11.0, 12.0, 13.0)] == [
        False,
        False,
        True,
        True,
    ]
    assert policy.pod("pod-0002", 12.0).cordoned_s == 7.0
    assert not policy.pod("pod-0001", 30.0).empty


def test_a_cordon_that_is_not_renewed_ends_with_its_lease(fleet, script, until):
    policy = script({5.0: Orders(2, cordons=("pod-0002",)), 7.0: Orders(2, cordons=("pod-0002",))})

    score = fleet(policy, start_replicas=2).run(until(100.0))

    ends = 7.0 + LEASE_S
    assert policy.pod("pod-0002", ends - 1).phase is Phase.CORDONED
    assert policy.pod("pod-0002", ends).phase is Phase.SERVING
    assert seconds(score) == {"cordoned": 62.0, "serving": 138.0}


def test_a_cordon_can_be_taken_back(fleet, script, until):
    policy = script(
        {
            5.0: Orders(2, cordons=("pod-0002",)),
            8.0: Orders(2, uncordons=("pod-0002", "pod-0001")),
            9.0: Orders(2, cordons=("pod-0002",)),
        }
    )

    score = fleet(policy, start_replicas=2).run(until(10.0))

    assert policy.pod("pod-0002", 9.0).ready
    assert seconds(score) == {"cordoned": 4.0, "serving": 16.0}


def test_a_starting_pod_cannot_be_cordoned(fleet, script, until):
    policy = script({5.0: Orders(2), 6.0: Orders(2, cordons=("pod-0002",))})

    fleet(policy).run(until(30.0))

    assert policy.pod("pod-0002", 20.0).phase is Phase.SERVING


def test_a_cordoned_victim_goes_before_the_youngest(fleet, script, until):
    policy = script({5.0: Orders(3, cordons=("pod-0001",)), 9.0: Orders(2, victims=("pod-0001",))})

    fleet(policy, start_replicas=3).run(until(30.0))

    assert [pod.name for pod in policy.at(10.0).pods] == ["pod-0002", "pod-0003"]


def test_pods_go_in_the_order_of_a_replica_set(engine):
    pods = [new_pod(n, engine, now=float(n), cold_start_s=1.0) for n in range(1, 6)]
    for pod in pods:
        pod.stage = Stage.SERVING
    pods[1].stage, pods[3].stage = Stage.CORDONED, Stage.STARTING

    order = deletion_order(pods, frozenset({"pod-0002", "pod-0001"}))

    assert [int(pod.name[-1]) for pod in order] == [2, 4, 1, 5, 3]


def test_orders_are_kept_within_the_limits(fleet, script, until):
    policy = script({5.0: Orders(9), 20.0: Orders(0)})

    fleet(policy, limits=Limits(1, 3)).run(until(30.0))

    assert policy.writes == [(1, 3, 5.0), (3, 1, 20.0)]


def test_changes_back_within_minutes_are_flaps(fleet, script, until):
    orders = {10.0: Orders(2), 50.0: Orders(3), 60.0: Orders(1), 400.0: Orders(2)}

    score = fleet(script(orders)).run(until(500.0))

    assert len(score.changes) == 4
    assert score.flaps == 1


def test_cold_starts_are_drawn_from_the_seed(fleet, script, until):
    def started(seed):
        policy = script({5.0: Orders(4)})
        score = fleet(policy, cold_start_s=(10.0, 2.0), seed=seed).run(until(60.0))
        return score.pod_seconds[Stage.STARTING]

    assert started(1) == started(1)
    assert started(1) != started(2)
    assert 20 < started(1) < 40


def test_pods_ordered_while_starts_are_slow_take_longer(fleet, script, until):
    policy = script({5.0: Orders(2), 12.0: Orders(3)})

    score = fleet(policy, faults=(SlowStarts(0.0, 10.0, factor=3.0),)).run(until(60.0))

    assert score.pod_seconds[Stage.STARTING] == 30.0 + 10.0


def test_refused_writes_change_nothing_and_are_not_told_as_done(fleet, script, until):
    policy = script({5.0: Orders(2), 11.0: Orders(3)})

    score = fleet(policy, faults=(WritesRefused(4.0, 6.0),)).run(until(30.0))

    assert policy.writes == [(1, 3, 11.0)]
    assert score.changes == [(11.0, 1, 3)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_replicas": 5}, "start_replicas 5: must be 1 to 4"),
        ({"start_replicas": 0}, "start_replicas 0: must be 1 to 4"),
        ({"scrape_s": 0.0}, "scrape_s 0.0: must be above 0"),
        ({"grace_s": -1.0}, "grace_s -1.0: must be at least 0"),
        ({"cold_start_s": (10.0, -1.0)}, "cold_start_s .*: must be at least 0"),
    ],
    ids=["too many", "none", "scrape", "grace", "cold start"],
)
def test_a_config_that_makes_no_sense_gets_one_line(fleet, changes, message):
    with pytest.raises(ValueError, match=message):
        fleet(**changes)


def test_the_cold_start_is_the_fleets_and_not_the_engines(fleet, engine):
    with pytest.raises(ValueError, match=r"engine\.cold_start_s 3: must be 0"):
        fleet(engine=replace(engine, cold_start_s=3))
