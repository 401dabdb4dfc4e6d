"""What becomes of requests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheaware_sim.engine import Engine
from cacheaware_sim.fleet.events import Events, Kind
from cacheaware_sim.fleet.faults import (
    MetricsStale,
    PodKilled,
    SlowNode,
    SlowStarts,
    WritesRefused,
)
from cacheaware_sim.fleet.fleet import EPILOGUE_S
from cacheaware_sim.fleet.pod import Stage
from cacheaware_sim.fleet.sent import Sent
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.policy import Orders
from cacheaware_sim.traces.trace import TraceRequest
from cacheaware_sim.virtual_time import VirtualTimeEngine


def alone(engine, trace):
    """The same requests on one engine without a fleet: (TTFT, TPOT) of each."""
    driver, sent = VirtualTimeEngine(Engine(engine)), []
    for number, request in enumerate(trace, 1):
        while driver.wake_at is not None and driver.wake_at <= request.at:
            driver.advance(driver.wake_at)
        sent.append(Sent(number, request))
        driver.submit(sent[-1], request.at)
    while driver.wake_at is not None:
        driver.advance(driver.wake_at)
    return [
        (
            one.first_token_at - one.sent_at,
            (one.finished_at - one.first_token_at) / max(1, one.output_tokens - 1),
        )
        for one in sent
    ]


def test_a_fleet_of_one_constant_pod_is_that_engine_alone(fleet, engine, request_at):
    trace = [
        request_at(0.037 * n, output=1 + n * 7 % 50, prompt=1 + n * 31 % 500) for n in range(90)
    ]
    times = alone(engine, trace)
    targets = LatencyTargets(ttft_s=4.0, tpot_s=0.15)

    score = fleet(targets=targets).run(trace)

    assert score.finished == len(trace)
    assert score.preemptions > 0
    assert score.good == sum(ttft <= 4.0 and tpot <= 0.15 for ttft, tpot in times)
    assert 0 < score.good < len(trace)
    for quantile in (0.5, 0.9, 0.99):
        ordered = sorted(ttft for ttft, _ in times)
        assert score.ttft_s.at(quantile) == pytest.approx(
            ordered[-(-int(quantile * 100) * len(ordered) // 100) - 1], rel=0.005
        )


def test_a_request_that_arrives_when_an_iteration_ends_is_not_in_the_next(fleet, request_at):
    # the first one's second token comes at 0.2, its third at 0.3; the second waits for 0.3
    score = fleet().run([request_at(0.0, output=9), request_at(0.2, output=1)])

    assert score.ttft_s.at(1.0) == pytest.approx(0.2, rel=0.005)


def test_requests_wait_at_the_router_while_no_pod_serves(fleet, script, request_at, until):
    policy = script(
        {2.0: Orders(1, cordons=("pod-0001",)), 8.0: Orders(1, uncordons=("pod-0001",))}
    )
    rows = []

    score = fleet(policy, on_row=rows.append).run(until(20.0, request_at(3.0)))

    assert score.finished == 2
    assert score.good == 1
    assert score.ttft_s.at(1.0) == pytest.approx(5.1, rel=0.005)
    assert [row.waiting for row in rows] == [1, 0, 0, 0]


def test_what_never_finds_a_pod_is_unfinished_and_no_loss(fleet, script, request_at):
    orders = {float(now): Orders(1, cordons=("pod-0001",)) for now in range(2, 6)}

    score = fleet(script(orders)).run([request_at(3.0), request_at(5.0)])

    # the lease ends after the trace, and they are served then
    assert (score.finished, score.lost, score.unfinished, score.good) == (2, 0, 0, 0)


def test_the_epilogue_is_bounded(fleet, request_at):
    slow = SlowNode(1.0, 1e6, factor=1000.0)

    score = fleet(faults=(slow,)).run([request_at(0.0), request_at(2.0, output=20)])

    assert score.unfinished == 1
    assert score.finished == 1
    assert score.attainment == 0.5
    assert EPILOGUE_S == 600.0


def test_requests_longer_than_a_pool_are_lost_and_told(fleet, request_at):
    score = fleet().run([request_at(0.0), request_at(1.0, prompt=640), request_at(2.0)])

    assert (score.requests, score.finished, score.lost, score.never_fit) == (3, 2, 1, 1)
    assert score.lost_to_scale_down == 0
    assert score.attainment == pytest.approx(2 / 3)


def test_time_per_token_counts_from_the_second_token_on(fleet, request_at):
    score = fleet(targets=LatencyTargets(1.0, 0.05)).run([request_at(0.0, output=1)])
    assert (score.good, score.tpot_s.count) == (1, 0)

    score = fleet(targets=LatencyTargets(1.0, 0.05)).run([request_at(0.0, output=2)])
    assert (score.good, score.tpot_s.count) == (0, 1)
    assert score.tpot_s.at(0.5) == pytest.approx(0.1, rel=0.005)


def test_an_empty_trace_costs_nothing_and_misses_nothing(fleet):
    score = fleet().run([])

    assert (score.requests, score.attainment, score.total_pod_seconds) == (0, 1.0, 0.0)
    assert score.ttft_s.at(0.5) is None


def test_events_of_a_moment_come_by_kind_then_as_they_were_pushed():
    events = Events()
    events.push(2.0, Kind.WAKE, "later")
    for kind, what in [(Kind.POLICY, 5), (Kind.READY, 3), (Kind.WAKE, 1), (Kind.WAKE, 2)]:
        events.push(1.0, kind, what)
    taken = []
    for _, _, what in events.until(1.0, Kind.SCRAPE):
        taken.append(what)
        if what == 3:
            events.push(1.0, Kind.KILL, 4)

    assert taken == [1, 2, 3, 4]
    assert [what for _, _, what in events.until(2.0)] == [5, "later"]


def in_order(trace):
    return sorted(trace, key=lambda request: request.at)


FAULTS = st.one_of(
    st.builds(PodKilled, st.floats(0, 60)),
    st.builds(MetricsStale, st.floats(0, 60), st.floats(0, 30)),
    st.builds(SlowNode, st.floats(0, 60), st.floats(0, 30), st.floats(1, 5)),
    st.builds(SlowStarts, st.floats(0, 60), st.floats(0, 30)),
    st.builds(WritesRefused, st.floats(0, 60), st.floats(0, 30)),
)
NAMES = st.lists(st.sampled_from([f"pod-{n:04}" for n in range(1, 9)]), max_size=3).map(tuple)
ORDERS = st.dictionaries(
    st.integers(1, 60).map(float),
    st.builds(Orders, st.integers(0, 6), victims=NAMES, cordons=NAMES, uncordons=NAMES),
    max_size=20,
)
REQUESTS = st.lists(
    st.builds(
        TraceRequest,
        st.floats(0, 60),
        prompt_tokens=st.integers(1, 660),
        output_tokens=st.integers(1, 120),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(
    trace=REQUESTS,
    orders=ORDERS,
    changes=st.fixed_dictionaries(
        {
            "faults": st.lists(FAULTS, max_size=3).map(tuple),
            "grace_s": st.sampled_from([0.0, 2.0, 30.0]),
        }
    ),
)
def test_requests_and_pod_seconds_are_conserved(fleet, script, trace, orders, changes):
    one = fleet(script(orders), **changes)
    trace = in_order(trace)

    score = one.run(trace)

    there = sum(pod.outstanding for pod in one.workload.pods) + one.traffic.held
    assert score.requests == len(trace)
    assert score.unfinished == there
    assert score.good <= score.finished
    assert score.lost_to_scale_down + score.never_fit <= score.lost
    assert len([pod for pod in one.workload.pods if pod.exists]) == one.workload.replicas
    assert all(pod.stage is not Stage.GONE for pod in one.workload.pods)
    if not changes["faults"] and not orders:
        assert score.lost == score.never_fit
    end = trace[-1].at if trace else 0.0
    written = [(0.0, 0, 1), *score.changes]
    until = [*(at for at, _, _ in score.changes), end]
    # each replica costs from its order on, terminating ones come on top
    ordered = sum(
        replicas * (after - at) for (at, _, replicas), after in zip(written, until, strict=True)
    )
    alive = score.total_pod_seconds - score.pod_seconds[Stage.TERMINATING]
    assert alive == pytest.approx(ordered, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(trace=REQUESTS, orders=ORDERS, faults=st.lists(FAULTS, max_size=3).map(tuple))
def test_the_same_seed_is_the_same_run(fleet, script, trace, orders, faults):
    def played():
        rows = []
        one = fleet(
            script(orders), faults=faults, cold_start_s=(10.0, 3.0), on_row=rows.append, seed=7
        )
        score = one.run(in_order(trace))
        counts = (score.good, score.finished, score.lost, score.pod_seconds, score.changes)
        return counts, score.ttft_s.at(0.9), rows

    assert played() == played()
