"""What the comparison is made of: the part of the trace, the two timelines, what is told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from tests.e2e.trace import telling
from tests.e2e.trace.agreement import agreement, on_grid
from tests.e2e.trace.excerpt import CONVERSATIONS, FROM_S, SCALE, SPAN_S, TO_S, excerpt
from tests.e2e.trace.scaler import scaler
from tests.e2e.trace.simulated import (
    ENGINE,
    LIMITS,
    START_REPLICAS,
    Run,
    engine_of,
    figures,
    middle,
    simulated,
)
from tests.e2e.trace.test_agreement import STEPS
from tests.e2e.trace.watching import Watch, moment
from tests.e2e.workload import Fleet
from tests.operator.api.conftest import SCHEMA, defaulted, refusals

from cacheaware.api.models import CacheAwareScaler
from cacheaware.api.policy import policy_of
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.load_trace import LoadTrace
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.ours import CacheAwarePolicy

BEGIN = datetime(2023, 11, 16, 18, tzinfo=UTC)


@pytest.fixture
def hour(tmp_path):
    """An hour of five requests a second, all alike but for a number."""
    source = tmp_path / "hour.csv"
    with source.open("w") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for number in range(5 * 3600):
            at = BEGIN + timedelta(seconds=number / 5)
            file.write(f"{at:%Y-%m-%d %H:%M:%S.%f},{1000 + number % 300},200\n")
    return source


@pytest.fixture
def part(hour, tmp_path):
    target = tmp_path / "part.csv"
    excerpt(hour, target)
    return target


def test_the_part_holds_the_requests_that_the_simulator_would_play(hour, tmp_path):
    target = tmp_path / "part.csv"
    count = excerpt(hour, target)
    whole = LoadTrace(path=hour, from_s=FROM_S, to_s=TO_S, scale=SCALE)

    played, expected = (list(one.requests()) for one in (LoadTrace(path=target), whole))

    assert len(played) == len(expected) == count
    assert [one[1:3] for one in played] == [one[1:3] for one in expected]
    first = expected[0].at
    assert [one.at for one in played] == pytest.approx(
        [one.at - first for one in expected], abs=2e-6
    )
    assert count == pytest.approx(5 * SCALE * SPAN_S, rel=0.1)


def test_the_real_part_fits_a_configmap(shared, tmp_path):
    target = tmp_path / "part.csv"

    count = excerpt(shared / CONVERSATIONS, target)

    assert 2000 <= count <= 3000
    assert target.stat().st_size < 2**19


def test_the_simulators_engine_is_the_one_that_the_mock_is_told_to_be():
    engine = engine_of(ENGINE)

    assert engine.kv_tokens == 1999 * 16
    assert engine.cost.c0_ms == pytest.approx(22.3 * 1.08 / 0.4)
    assert engine.cold_start_s == 0


def test_the_simulators_policy_wishes_what_the_scaler_on_the_cluster_says():
    body = scaler("mock")
    assert refusals(body) == []
    on_cluster = policy_of(CacheAwareScaler.model_validate(defaulted(SCHEMA, body)))

    assert CacheAwarePolicy(LIMITS)._wishes == on_cluster


def test_the_simulator_gives_a_timeline_of_the_whole_part(part):
    run = simulated(part, [29.0, 31.0], seed=1)
    span_s = max(one.at for one in LoadTrace(path=part).requests())

    rows = on_grid(run.moments, span_s)

    assert rows[0].at_s == 5
    assert rows[0].replicas == START_REPLICAS
    assert all(LIMITS.min_replicas <= one.replicas <= LIMITS.max_replicas for one in rows)
    assert all(one.serving <= one.pods for one in rows)
    assert sum(one.running or 0 for one in rows) > 0
    told = figures(run.score)
    assert told["sent"] == run.score.requests > 1000
    assert told["lost"] == 0
    assert 0 < told["ttft_p50_s"] <= told["ttft_p90_s"]


@pytest.mark.trace
def test_on_the_real_part_the_draws_of_a_run_move_replicas_less_than_the_tolerance(
    shared, tmp_path
):
    target = tmp_path / "part.csv"
    excerpt(shared / CONVERSATIONS, target)

    runs = [
        simulated(target, cold_starts_s, seed)
        for cold_starts_s in ([25.0, 27.0], [33.0, 37.0])
        for seed in range(3)
    ]

    means = [run.mean_replicas for run in runs]
    assert max(means) / min(means) < 1.1
    assert all(run.score.lost == 0 for run in runs)
    for run in runs:
        asked = [one.replicas for one in run.moments]
        assert asked[0] == START_REPLICAS
        assert max(asked) > max(asked[-1], START_REPLICAS), "it grows and shrinks"


def test_the_middle_of_the_seeds_is_a_run_that_was():
    score = Score(LatencyTargets())
    runs = [
        Run(seed, [replace(one, replicas=count) for one in STEPS], score)
        for seed, count in enumerate((5, 2, 3, 4))
    ]

    assert middle(runs).seed == 2


def pod(name, *, ready, created="2026-01-01T00:00:00Z", since="2026-01-01T00:00:31Z", **more):
    conditions = [
        {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    ]
    return {
        "metadata": {"name": name, "creationTimestamp": created, **more},
        "status": {"podIP": "10.0.0.1", "conditions": conditions},
    }


SERVING = {"phase": "serving", "running": 7, "waiting": 1}
CORDONED = {"phase": "cordoned", "running": 2, "waiting": 0}
LOADING = {"phase": "loading", "running": None, "waiting": None}


def test_a_moment_counts_pods_by_what_they_are():
    pods = [
        pod("a", ready=True),
        pod("b", ready=False),
        pod("c", ready=False),
        pod("d", ready=True, deletionTimestamp="2026-01-01T00:01:00Z"),
        pod("e", ready=False),
    ]
    states = {"a": SERVING, "b": CORDONED, "c": LOADING, "d": SERVING}

    seen = moment(3.0, 4, pods, states)

    assert (seen.replicas, seen.pods, seen.serving) == (4, 5, 1)
    assert (seen.running, seen.waiting) == (16.0, 2.0)


@pytest.mark.parametrize("state", [{}, {**SERVING, "running": None}])
def test_a_ready_pod_that_does_not_tell_makes_the_number_unknown(state):
    pods = [pod("a", ready=True), pod("b", ready=True)]

    assert moment(0.0, 2, pods, {"a": SERVING, "b": state}).running is None


@pytest.fixture
def fleet():
    return Fleet(cluster=None, namespace="n")


def answer(request):
    """The API of a cluster with one pod that serves and one that is silent."""
    base = "/api/v1/namespaces/n/pods"
    pods = {"items": [pod("a", ready=True), pod("b", ready=False)]}
    answers = {
        "/apis/apps/v1/namespaces/n/deployments/mock": {"spec": {"replicas": 2}},
        base: pods if request.url.params.get("labelSelector") == "app=mock" else {"items": []},
        f"{base}/a:9440/proxy/v1/state": SERVING,
    }
    found = answers.get(request.url.path)
    return httpx.Response(200, json=found) if found else httpx.Response(503)


def test_a_look_asks_the_api_alone_and_notes_cold_starts(fleet):
    transport = httpx.MockTransport(answer)
    with httpx.Client(transport=transport, base_url="http://api") as client:
        watch = Watch(fleet, client)
        watch.look()
        watch.look()

    assert [(one.replicas, one.pods, one.serving, one.running) for one in watch.seen] == [
        (2, 2, 1, 7.0)
    ] * 2
    assert watch.cold_starts_s == {"a": 31.0}


def test_what_an_api_does_not_answer_is_no_moment_and_no_end(fleet, capsys):
    turns = iter([True, False])
    transport = httpx.MockTransport(lambda _: httpx.Response(500))
    with httpx.Client(transport=transport, base_url="http://api") as client:
        watch = Watch(fleet, client, every_s=0.01)
        watch.follow(lambda: next(turns), within=1)

    assert watch.seen == []
    assert "500" in capsys.readouterr().out


def test_a_watch_that_never_ends_fails(fleet):
    transport = httpx.MockTransport(answer)
    with httpx.Client(transport=transport, base_url="http://api") as client:
        watch = Watch(fleet, client, every_s=0.01)
        with pytest.raises(AssertionError, match=r"still going after 0\.05 s"):
            watch.follow(lambda: True, within=0.05)


CLIENTS = {
    "sent": 100, "lost": 0, "attainment_percent": 98.5,
    "ttft_p50_s": 0.3, "ttft_p90_s": 1.2, "tpot_p50_s": 0.07,
}  # fmt: skip


def test_the_table_shows_both_and_their_distance():
    more = [replace(one, running=11.0) for one in STEPS]

    told = telling.table(
        agreement(more, STEPS), CLIENTS, {**CLIENTS, "ttft_p50_s": 0.25}, (3.1, 3.3)
    )

    rows = {line.strip().split("  ")[0]: line.split() for line in told.splitlines()}
    assert rows["mean running"][-3:] == ["11", "10", "+10.0%"]
    assert rows["ttft_p50_s"][1:] == ["0.3", "0.25", "+20.0%"]
    assert rows["lost"][1:] == ["0", "0"]
    assert "3.10 to 3.30" in told


def test_what_the_load_generator_did_not_send_is_lost():
    times = {"p50": 0.3, "p90": 1.2}
    result = {
        "sent": 98, "failed_total": 1, "not_sent": 2, "attainment_percent": 97.0,
        "ttft_s": times, "tpot_s": times,
    }  # fmt: skip

    assert telling.client_figures(result)["lost"] == 3


def test_both_timelines_are_drawn_and_written(tmp_path):
    unknown = [replace(one, running=None) for one in STEPS]

    telling.draw(tmp_path / "both.png", unknown, STEPS)
    telling.write(tmp_path / "both.csv", unknown, STEPS)

    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    header, first, *others = (tmp_path / "both.csv").read_text().splitlines()
    assert header == "of,at_s,replicas,pods,serving,running,waiting"
    assert first == "cluster,5.0,2,2,2,,1.0"
    assert len(others) == 2 * len(STEPS) - 1
