"""The canary by schedule, against a fake engine: when it asks, and when not."""

import asyncio
import random

import pytest
from tests.sidecar.canary.fakes import Engine, baseline, run

from cacheaware_sidecar.canary.baseline_json import as_text
from cacheaware_sidecar.canary.completion import Way
from cacheaware_sidecar.canary.watch import CanaryWatch
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.lifecycle import (
    Cordoned,
    Healthy,
    Lifecycle,
    Refused,
    Uncordoned,
    Verdict,
    WarmupEnded,
)
from cacheaware_sidecar.pod import Pod
from cacheaware_sidecar.settings import Settings

IDLE = EngineSample(engine="vllm", running=0.0, waiting=0.0, requests=5.0, prompt_tokens=900.0)


class Bench:
    def __init__(self, folder, seconds=300, **settings):
        self.now = 0.0
        self.engine = Engine()
        given = Settings(shared_dir=str(folder), canary_seconds=seconds, **settings)
        self.pod = Pod(given, Lifecycle(since=0.0), boot="b")
        self.pod.apply(Healthy(), 0.0)
        self.pod.apply(WarmupEnded(1, Verdict.WARM), 0.0)
        self.watch = CanaryWatch(
            given,
            self.pod,
            self.engine,
            clock=lambda: self.now,
            sleep=self.sleep,
            dice=random.Random(1),
        )
        self.left = 0
        self.sample = IDLE

    async def sleep(self, seconds):
        self.now += seconds
        self.left -= 1
        if self.left < 0:
            raise asyncio.CancelledError
        self.look()

    def look(self):
        if self.sample:
            self.pod.observed.good(self.sample, self.now)

    async def seconds(self, count):
        self.look()
        self.left = count
        with pytest.raises(asyncio.CancelledError):
            await self.watch.ask_forever()

    @property
    def canary(self):
        return self.pod.canary.state(self.now)


@pytest.fixture
def bench(tmp_path):
    return lambda **settings: Bench(tmp_path, **settings)


@pytest.fixture
def healthy(tmp_path):
    file = tmp_path / "healthy.json"
    file.write_text(as_text(baseline(model="m", engine="vllm", version="0.32.0")))
    return str(file)


async def test_off_the_loop_ends_and_nothing_is_asked(bench):
    it = bench(seconds=None)
    await it.watch.ask_forever()

    assert it.engine.asked == []
    assert it.pod.pod_state(0.0).canary is None


async def test_it_asks_by_schedule_with_a_mark_and_a_bound(bench, healthy):
    it = bench(canary_file=healthy)
    await it.seconds(3600)

    assert 10 <= len(it.engine.asked) <= 13
    assert {each[2] for each in it.engine.asked} == {30.0}
    assert all(each[3] == {"x-cacheaware-canary": "true"} for each in it.engine.asked)
    assert it.engine.most_at_once == 1
    assert it.canary.verdict == "Same"
    assert it.canary.answered == len(it.engine.asked)
    assert it.pod.pod_state(it.now).problems == ()


async def test_pods_of_a_fleet_do_not_ask_at_once(tmp_path, healthy):
    firsts = []
    for seed in range(20):
        it = Bench(tmp_path, canary_file=healthy)
        it.watch._dice = random.Random(seed)
        await it.seconds(1)
        firsts.append(it.watch._due)

    assert min(firsts) < 60
    assert max(firsts) > 240


async def test_it_learns_each_minute_and_then_keeps_to_its_schedule(bench):
    it = bench()
    await it.seconds(300 + 9 * 72)
    assert it.canary.baseline == "learned"
    assert it.canary.answered >= 8


async def test_a_drift_is_told_after_three_runs(bench, healthy):
    it = bench(canary_file=healthy)
    it.engine.model = run(weights=8)
    await it.seconds(300 + 3 * 72)

    assert it.canary.drifted_runs in {3, 4}
    assert [(one.id, one.severity) for one in it.pod.findings] == [("canary-drift", "error")]
    assert it.pod.pod_state(it.now).findings[0].id == "canary-drift"
    assert "health: canary-drift (error)" in it.pod.problems(it.now)
    assert it.pod.is_ready(it.now)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (EngineSample(engine="vllm", running=8.0, waiting=3.0), "3 requests wait"),
        (EngineSample(engine="vllm", running=8.0), "doesn't tell whether requests wait"),
        (EngineSample(engine="vllm", waiting=0.0, sleeping=True), "the engine sleeps"),
        (None, "the engine's page is not known now"),
    ],
    ids=["waiting", "unknown", "sleeping", "no-page"],
)
async def test_users_come_first_and_that_is_said(bench, sample, said):
    it = bench()
    it.sample = sample
    await it.seconds(200)

    assert it.engine.asked == []
    assert it.canary.skipped == 1
    assert said in it.canary.reason


async def test_a_pod_that_does_not_serve_is_not_asked(bench):
    it = bench(seconds=60)
    it.pod.apply(Cordoned("op", 3000.0), 0.0)
    await it.seconds(300)
    assert it.engine.asked == []

    it.pod.apply(Uncordoned(), it.now)
    await it.seconds(70)
    assert len(it.engine.asked) == 1


async def held_run(it):
    it.engine.held = asyncio.Event()
    it.look()
    it.watch._due = 0.0
    task = asyncio.create_task(it.watch.turn())
    for _ in range(99):
        await asyncio.sleep(0)
    assert it.engine.asked
    return task


async def test_a_run_is_let_go_when_the_pod_leaves_service(bench):
    it = bench()
    task = await held_run(it)
    assert it.pod.canary.in_flight == 1
    it.pod.apply(Cordoned("op", 60.0), 0.0)
    await task

    assert it.pod.canary.in_flight == 0
    assert it.engine.at_once == 0
    assert it.canary.answered == 0


async def test_a_run_is_let_go_when_the_loop_ends(bench):
    it = bench()
    task = await held_run(it)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert (it.pod.canary.in_flight, it.engine.at_once) == (0, 0)


async def test_another_engine_begins_anew(bench, healthy):
    it = bench(canary_file=healthy)
    it.engine.model = run(shift=0.5)
    await it.seconds(300 + 3 * 72)
    assert it.pod.findings
    for _ in range(3):
        it.pod.apply(Refused(), it.now)
    it.pod.apply(Healthy(), it.now)
    it.pod.apply(WarmupEnded(it.pod.state.engine, Verdict.WARM), it.now)
    await it.seconds(1)

    assert it.pod.findings == ()
    assert it.canary.verdict is None


async def test_our_own_requests_are_no_rate(bench):
    it = bench(seconds=60)
    it.look()
    it.watch._due = 0.0
    it.now = 10.0
    it.look()
    await it.watch.turn()
    it.now = 20.0
    it.sample = EngineSample(
        engine="vllm", running=0.0, waiting=0.0, requests=6.0, prompt_tokens=940.0
    )
    it.look()

    assert it.pod.observed.rates(20.0).requests_per_s == 0
    assert it.pod.observed.rates(20.0).prompt_tokens_per_s == 0


async def test_a_failing_engine_changes_no_verdict_and_no_readiness(bench, healthy):
    it = bench(canary_file=healthy)
    it.engine.status = 500
    await it.seconds(700)

    assert it.canary.verdict is None
    assert it.canary.failed == 2
    assert "the last run failed: HTTP 500" in it.canary.reason
    assert it.pod.is_ready(it.now)
    assert it.pod.problems(it.now) == ()


async def test_an_engine_without_log_probabilities_is_said_to_be(bench):
    it = bench()
    it.engine.refuses = set(Way)
    await it.seconds(400)

    assert it.canary.verdict == "NotApplicable"
    assert [each[0] for each in it.engine.asked[:3]] == list(Way)
    assert "echo: HTTP 400: no echo" in it.pod.problems(it.now)[0]


async def test_a_baseline_that_cannot_be_read_is_a_problem(bench, tmp_path):
    it = bench(canary_file=str(tmp_path / "none.json"))
    await it.seconds(400)

    assert it.engine.asked == []
    assert "can't be read: No such file" in it.pod.problems(it.now)[0]


async def test_our_own_fault_does_not_end_the_loop(bench, caplog):
    it = bench()
    it.engine.model = None
    await it.seconds(400)

    assert "our own fault" in caplog.text
    assert it.pod.canary.in_flight == 0
