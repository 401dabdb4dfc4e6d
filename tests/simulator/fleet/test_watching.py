"""Scrapes, faults, the timeline: what a policy and a reader see."""

import pytest

from cacheaware_sidecar.phase import Phase
from cacheaware_sim.fleet.faults import MetricsStale, PodKilled, SlowNode
from cacheaware_sim.policies.policy import Orders


def test_a_policy_sees_the_newest_scrape_and_nothing_newer(fleet, script, request_at, until):
    policy = script()

    fleet(policy).run(until(20.0, request_at(5.5, output=100)))

    assert policy.pod("pod-0001", 4.0).sample is None
    assert policy.pod("pod-0001", 5.0).sampled_at == 5.0
    assert policy.pod("pod-0001", 9.0).sample.running == 0
    assert policy.pod("pod-0001", 10.0).sample.running == 1
    assert policy.pod("pod-0001", 14.0).sampled_at == 10.0


def test_a_policy_is_asked_at_its_own_interval(fleet, script, until):
    policy = script(interval_s=7.0)

    fleet(policy).run(until(30.0))

    assert [seen.now for seen in policy.saw] == [7.0, 14.0, 21.0, 28.0]


def test_a_policy_is_not_asked_after_the_trace(fleet, script, request_at):
    policy = script()

    fleet(policy).run([request_at(3.0, output=200)])

    assert policy.saw[-1].now == 3.0


def test_while_metrics_are_stale_there_are_none(fleet, script, until):
    policy = script()

    fleet(policy, faults=(MetricsStale(9.0, 10.0),)).run(until(40.0))

    seen = {now: policy.pod("pod-0001", now).sample is None for now in (9.0, 10.0, 19.0, 20.0)}
    assert seen == {9.0: False, 10.0: True, 19.0: True, 20.0: False}


def test_a_pod_is_not_known_to_be_empty_while_its_metrics_are_stale(fleet, script, until):
    policy = script({float(n): Orders(2, cordons=("pod-0002",)) for n in range(2, 40)})

    fleet(policy, start_replicas=2, faults=(MetricsStale(14.0, 10.0),)).run(until(40.0))

    empty = [now for now in range(1, 40) if policy.pod("pod-0002", float(now)).empty]
    # from five seconds after the first good scrape to the first that fails, and again after it
    assert empty == [*range(10, 15), *range(30, 40)]


def test_a_killed_pod_loses_its_requests_and_is_replaced(fleet, script, request_at, until):
    policy = script()
    trace = until(40.0, request_at(4.0, output=100), request_at(4.0, output=100))

    score = fleet(policy, start_replicas=2, faults=(PodKilled(6.5),)).run(trace)

    assert (score.finished, score.lost, score.lost_to_scale_down) == (2, 1, 0)
    assert score.changes == []
    assert [pod.phase for pod in policy.at(7.0).pods] == [Phase.SERVING, Phase.LOADING]
    assert [pod.phase for pod in policy.at(17.0).pods] == [Phase.SERVING, Phase.SERVING]


def test_a_fault_finds_nobody_where_no_pod_serves(fleet, script, until):
    policy = script({2.0: Orders(1, cordons=("pod-0001",))})

    score = fleet(policy, faults=(PodKilled(6.0), SlowNode(6.0, 2.0))).run(until(20.0))

    assert len(policy.at(7.0).pods) == 1
    assert score.finished == 1


def test_a_slow_node_slows_its_pod_for_that_time(fleet, request_at, until):
    slow = SlowNode(5.0, 10.0, factor=4.0)
    trace = until(30.0, request_at(6.0), request_at(20.0))

    score = fleet(faults=(slow,)).run(trace)

    assert score.tpot_s.at(0.01) == pytest.approx(0.1, rel=0.005)
    assert score.tpot_s.at(1.0) == pytest.approx(0.4, rel=0.005)


def test_two_slow_nodes_on_one_pod_multiply_and_end_one_by_one(fleet, request_at, until):
    faults = (SlowNode(1.0, 10.0, factor=2.0), SlowNode(1.0, 20.0, factor=4.0))
    requests = (request_at(at, output=2) for at in (2.0, 12.0, 22.0))

    score = fleet(faults=faults).run(until(30.0, *requests))

    tpots = sorted(round(score.tpot_s.at(q), 1) for q in (0.3, 0.6, 1.0))
    assert tpots == [0.1, 0.4, 0.8]


def test_a_slow_node_whose_pod_is_gone_slows_nobody(fleet, script, request_at, until):
    policy = script({6.0: Orders(1, victims=("pod-0001",))})
    # the one that is slow: found by the seed; both are tried
    score = fleet(
        policy, start_replicas=2, faults=(SlowNode(5.0, 10.0), PodKilled(8.0), SlowNode(8.5, 1.0))
    ).run(until(60.0, request_at(30.0)))

    assert score.finished == 2
    assert score.tpot_s.at(1.0) == pytest.approx(0.1, rel=0.005)


def test_the_timeline_shows_demand_stages_and_latency(fleet, script, request_at, until):
    rows = []
    policy = script({6.0: Orders(3, cordons=("pod-0002",))})
    trace = until(21.0, request_at(4.0, output=100), request_at(4.0, output=100, prompt=84))

    fleet(policy, start_replicas=2, on_row=rows.append).run(trace)

    assert [row.at_s for row in rows] == [5.0, 10.0, 15.0, 20.0]
    first, second = rows[:2]
    assert first.requests_per_s == 0.4
    assert first.tokens_per_s == (100 + 100 + 16 + 84) / 5
    assert first.ttft_p90_s == pytest.approx(0.1, rel=0.005)
    assert (first.starting, first.serving, first.cordoned, first.replicas) == (0, 2, 0, 2)
    assert (second.starting, second.serving, second.cordoned, second.replicas) == (1, 1, 1, 3)
    assert (second.running, second.waiting, second.requests_per_s) == (2, 0, 0.0)
    assert second.ttft_p90_s is None
    assert 0 < second.kv_usage < 0.3


def test_the_timeline_tells_the_truth_while_metrics_are_stale(fleet, request_at, until):
    rows = []

    fleet(faults=(MetricsStale(0.0, 60.0),), on_row=rows.append).run(
        until(20.0, request_at(4.0, output=100))
    )

    assert [row.running for row in rows] == [1, 1, 0, 0]


def test_no_pod_that_serves_has_no_kv_usage(fleet, script, until):
    rows = []

    fleet(script({2.0: Orders(1, cordons=("pod-0001",))}), on_row=rows.append).run(until(6.0))

    assert rows[0].kv_usage is None
