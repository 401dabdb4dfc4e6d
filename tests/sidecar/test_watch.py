import asyncio

import httpx
import pytest

from cacheaware_sidecar.engine_answers import Answer
from cacheaware_sidecar.engine_client import Health
from cacheaware_sidecar.fetch import FetchError, FetchFailure
from cacheaware_sidecar.lifecycle import Cordoned, Healthy, Lifecycle, Verdict, WarmupEnded
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.pod import Pod
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.watch import Watch

VLLM = b"vllm:num_requests_running 0.0\nvllm:num_requests_waiting 0.0\n"
TGI = b"tgi_batch_current_size 0\ntgi_queue_size 0\n"
SGLANG = b"sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n"


class Done(BaseException):
    """Ends a loop that never ends."""


class Engine:
    """Answers as told; a page takes some seconds."""

    def __init__(self):
        self.now = 0.0
        self.seconds = 0.0
        self.told: object = VLLM
        self.pages_told: list[bytes] = []
        """Told first."""
        self.served = {"data": [{"id": "m"}]}
        self.held: asyncio.Event | None = None
        """Until then no prompt is answered."""
        self.says = Health.WELL
        self.controlled = []
        self.looks = []
        self.health_asked = []
        self.slept = []
        self.rounds = 1
        self.answer = Answer(200, {"choices": [{"text": "x"}], "usage": {"prompt_tokens": 600}})

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        if len(self.slept) >= self.rounds:
            raise Done
        await asyncio.sleep(0)

    async def pages(self):
        self.looks.append(self.now)
        self.now += self.seconds
        if self.pages_told:
            return [self.pages_told.pop(0)]
        if isinstance(self.told, BaseException):
            raise self.told
        return [self.told]

    async def health(self, timeout_s):
        self.health_asked.append(self.now)
        return self.says

    async def models(self):
        return self.served

    async def control(self, base, method, path, timeout_s, payload=None):
        self.controlled.append((method, path.partition("?")[0]))
        return Answer(200, {"is_paused": False, "aborted": 3})

    async def ask(self, path, body, timeout_s):
        if self.held:
            await self.held.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Bench:
    """A pod, its engine, and who watches."""

    def __init__(self, folder, **settings):
        self.engine = Engine()
        given = Settings(shared_dir=str(folder), **settings)
        self.pod = Pod(given, Lifecycle(since=0.0), boot="b")
        engine = self.engine
        self.watch = Watch(given, self.pod, engine, clock=engine.clock, sleep=engine.sleep)

    async def look(self, times=1):
        for _ in range(times):
            await self.watch.look()
            for _ in range(999):
                await asyncio.sleep(0)

    def serve(self):
        self.pod.apply(Healthy(), 0.0)
        self.pod.apply(WarmupEnded(1, Verdict.WARM), 0.0)


@pytest.fixture
def bench(tmp_path):
    return lambda **settings: Bench(tmp_path, **settings)


async def run(loop, rounds, engine):
    engine.rounds = rounds
    with pytest.raises(Done):
        await loop()


async def test_looks_keep_their_beat_whatever_one_takes(bench):
    it = bench()
    it.engine.seconds = 0.3
    await run(it.watch.scrape_forever, 5, it.engine)

    assert it.engine.looks == pytest.approx([0, 1, 2, 3, 4])


async def test_a_slow_page_makes_looks_fall_out_and_none_pile_up(bench):
    it = bench()
    it.engine.seconds = 2.5
    await run(it.watch.scrape_forever, 3, it.engine)

    assert it.engine.looks == pytest.approx([0, 3, 6])


async def test_a_drain_is_watched_each_second_even_where_scrapes_are_rare(bench):
    it = bench(scrape_interval_seconds=30)
    it.serve()
    it.pod.begin_drain(0.0)
    await run(it.watch.scrape_forever, 3, it.engine)

    assert it.engine.looks == [0, 1, 2]


async def test_a_drain_that_begins_between_two_rare_scrapes_is_noticed_within_a_second(bench):
    it = bench(scrape_interval_seconds=30)
    it.serve()
    sleep = it.engine.sleep

    async def begin_drain_at_ten(seconds):
        await sleep(seconds)
        if it.engine.now == 10:
            it.pod.begin_drain(10.0)

    it.watch._sleep = begin_drain_at_ten
    await run(it.watch.scrape_forever, 13, it.engine)

    assert it.engine.looks == [0, 11, 12]


async def test_a_fault_of_ours_spoils_one_look_only(bench):
    it = bench()
    it.engine.told = RuntimeError("bug")
    await run(it.watch.scrape_forever, 3, it.engine)

    assert len(it.engine.looks) == 3
    assert it.pod.observed.errors == {"fault": 3}
    assert it.pod.observed.problem == "our own fault: RuntimeError: bug"


@pytest.mark.parametrize("kind", list(FetchFailure))
async def test_each_way_to_fail_is_counted_by_its_name_and_unserves_nothing(bench, kind):
    it = bench()
    it.serve()
    it.engine.told = FetchError(kind, "why")
    await it.look(9)
    (counted,) = it.pod.observed.errors

    assert " " not in counted
    assert it.pod.observed.errors[counted] == 9
    assert it.pod.phase == "serving"


async def test_a_port_that_closes_between_page_and_health_counts_once(bench):
    it = bench()
    it.serve()
    it.engine.says = Health.REFUSED
    await it.look()

    assert it.pod.state.refused == 1


async def test_three_closed_ports_are_proof(bench):
    it = bench()
    it.serve()
    it.engine.told = FetchError(FetchFailure.REFUSED, "why")
    it.engine.told.__context__ = ConnectionRefusedError()
    it.engine.says = Health.REFUSED
    await it.look(2)
    assert it.pod.phase == "serving"
    await it.look()
    assert it.pod.phase == "loading"


async def test_an_engine_that_dies_during_its_warmup_is_seen_although_health_is_asked(bench):
    it = bench()
    it.pod.apply(Healthy(), 0.0)
    it.engine.answer = Answer(None)
    it.engine.told = FetchError(FetchFailure.REFUSED, "why")
    it.engine.told.__context__ = ConnectionRefusedError()
    it.engine.says = Health.REFUSED
    await it.look(3)

    assert it.pod.phase == "loading"
    await it.watch.stop()


@pytest.mark.parametrize(
    ("health", "page", "phase"),
    [
        (Health.WELL, VLLM, "serving"),
        (Health.WELL, FetchError(FetchFailure.STATUS, "404"), "serving"),
        (Health.NO_ROUTE, VLLM, "serving"),
        (Health.NO_ROUTE, FetchError(FetchFailure.STATUS, "404"), "loading"),
        (Health.NO_ROUTE, b"up 1\n", "loading"),
        (Health.UNWELL, VLLM, "loading"),
        (Health.SILENT, VLLM, "loading"),
        (Health.REFUSED, VLLM, "loading"),
    ],
)
async def test_when_an_engine_counts_as_healthy(bench, health, page, phase):
    it = bench()
    it.engine.says, it.engine.told = health, page
    await it.look()

    assert it.pod.phase == phase


@pytest.mark.parametrize(
    ("page", "asked"),
    [(VLLM, [0, 5, 10]), (TGI, []), (SGLANG, [])],
    ids=["vllm", "tgi", "sglang"],
)
async def test_health_of_a_serving_engine_is_asked_seldom_and_only_where_it_tells(
    bench, page, asked
):
    it = bench()
    it.serve()
    it.engine.told = page
    await run(it.watch.scrape_forever, 12, it.engine)

    assert it.engine.health_asked == asked


async def test_three_unwell_answers_in_service_are_proof_and_then_health_is_asked_each_time(bench):
    it = bench()
    it.serve()
    it.engine.says = Health.UNWELL
    await run(it.watch.scrape_forever, 13, it.engine)

    assert it.engine.health_asked == [0, 5, 10, 11, 12]
    assert it.pod.phase == "loading"


async def test_in_a_drain_health_is_not_asked(bench):
    it = bench()
    it.serve()
    it.pod.begin_drain(0.0)
    await it.look(3)

    assert it.engine.health_asked == []


async def test_a_pod_is_warmed_up_once(bench):
    it = bench()
    await it.look(5)

    assert it.pod.phase == "serving"
    assert it.pod.warmup.step == it.pod.warmup.steps == 7
    assert it.pod.pod_state(0.0).warmup.verdict == "Warm"


async def test_requests_of_the_warmup_are_no_load(bench):
    it = bench()
    it.engine.held = asyncio.Event()
    it.engine.told = VLLM.replace(b"running 0.0", b"running 3.0")
    await it.look(2)
    state = it.pod.pod_state(0.0)
    assert (state.phase, state.running) == ("warming", 2), "one of the three is ours"

    it.engine.held.set()
    await it.look(2)
    assert (it.pod.phase, it.pod.pod_state(0.0).running) == ("serving", 3)


COUNTED = VLLM + b'vllm:request_success_total{finished_reason="stop"} %d\n'


async def test_the_steps_of_a_warmup_of_an_engine_that_is_gone_are_not_told(bench):
    it = bench()
    it.pod.apply(Healthy(), 0.0)
    runner = it.watch._runner_for(1, "m", ())
    runner.progress(3)
    assert it.pod.warmup.step == 3
    it.pod.warmup.engine = 2
    runner.progress(4)
    assert it.pod.warmup.step == 3


async def test_a_users_numbers_begin_when_the_page_shows_all_of_the_warmup(bench):
    it = bench()
    it.engine.rounds = 99
    it.engine.told = COUNTED % 5
    it.engine.pages_told = [COUNTED % 5, COUNTED % 6, COUNTED % 7]
    await it.look()
    asked = it.pod.warmup.result.requests
    assert it.engine.slept == [0.2] * 5, "a page that never shows it is not waited for for ever"
    assert (it.pod.phase, asked > 20) == ("serving", True)

    other = bench()
    other.engine.rounds = 99
    other.engine.pages_told = [COUNTED % 5, COUNTED % 6, COUNTED % (5 + asked)]
    other.engine.told = COUNTED % (5 + asked)
    await other.look()
    assert other.engine.slept == [0.2]
    assert other.pod.observed.sample.requests == 5 + asked


async def test_a_page_that_is_gone_at_the_end_of_the_warmup_ends_it_all_the_same(bench):
    it = bench()
    it.engine.pages_told = [VLLM]
    it.engine.told = FetchError(FetchFailure.STATUS, "404")
    await it.look()

    assert it.pod.phase == "serving"


async def test_what_the_plan_is_made_of(bench, tmp_path):
    (tmp_path / "prefix").write_text("You are Ada.")
    it = bench(warmup_features=("lora",), hot_prefixes_file=str(tmp_path / "prefix"))
    it.engine.told = VLLM + (
        b'vllm:cache_config_info{block_size="16",num_gpu_blocks="13",cache_dtype="auto"} 1\n'
    )
    it.engine.served = {"data": [{"id": "m"}, {"id": "sql", "parent": "m"}]}
    await it.look()
    shapes = {each.name: each.note for each in it.pod.pod_state(0.0).warmup.shapes}

    assert "skipped: the KV cache holds only 208 tokens" in shapes["together"]
    assert {"lora:sql", "prefix:prefix"} <= shapes.keys()
    assert it.pod.warmup.problems == ()


async def test_prefixes_that_can_not_be_read_are_a_problem_of_the_warmup(bench, tmp_path):
    it = bench(hot_prefixes_file=str(tmp_path / "none"))
    await it.look()

    assert it.pod.phase == "serving"
    assert it.pod.warmup.problems == ("hot prefixes: none: No such file or directory",)


async def test_a_pod_that_warms_up_is_not_cordoned(bench):
    it = bench()
    it.pod.apply(Cordoned("op"), 0.0)
    await it.look(2)

    assert it.pod.phase == "serving"


async def test_a_warmup_that_is_off_is_told(bench):
    it = bench(warmup=False)
    await it.look(2)

    assert it.pod.pod_state(0.0).warmup.verdict == "Off"
    assert it.pod.pod_state(0.0).warmup.duration_s is None


@pytest.mark.parametrize(("verdict", "phase"), [("Ready", "serving"), ("Fail", "warming")])
async def test_a_fault_in_the_warmup_ends_it_with_the_verdict_that_was_set(
    bench, caplog, verdict, phase
):
    it = bench(warmup_verdict=verdict)
    it.engine.answer = RuntimeError("bug")
    await it.look(3)

    assert it.pod.phase == phase
    assert "warm-up: broke off, see the log" in it.pod.problems(0.0)
    assert "RuntimeError: bug" in caplog.text


async def test_the_clock_ends_drains_and_beats(bench):
    it = bench()
    it.serve()
    it.pod.begin_drain(0.0)
    it.engine.now = 25.0
    await run(it.watch.tick_forever, 1, it.engine)

    assert it.pod.state.drain.cut
    assert it.watch.beats["tick"] == 25.0


CONFIG = {"model_type": "llama"}


async def read_config(it, rounds, *answers):
    told = iter(answers)
    await run(
        lambda: it.watch.read_config_forever(httpx.MockTransport(lambda _: next(told))),
        rounds,
        it.engine,
    )


async def test_a_hub_is_asked_until_it_answers_with_growing_pauses(bench):
    it = bench(config_url="https://h/c")
    answers = [httpx.Response(status) for status in (429, 403, 500)]
    await read_config(it, 3, *answers)
    first, second, third = it.engine.slept

    assert 60 <= first <= 72
    assert 120 <= second <= 144
    assert 20 <= third <= 24
    assert it.pod.config_problem == "ServerError: https://h/c answers 500: it has a problem"

    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=CONFIG))
    await it.watch.read_config_forever(transport)
    assert it.pod.config_problem is None
    assert it.pod.geometry.config == CONFIG


async def test_a_file_is_read_again_because_a_configmap_may_change(bench, tmp_path):
    file = tmp_path / "config.json"
    it = bench(config_file=str(file))
    await read_config(it, 1)
    file.write_text('{"model_type": "llama"}')
    it.engine.slept.clear()
    await read_config(it, 1)

    assert it.engine.slept == [60.0]
    assert it.pod.geometry.config == CONFIG


async def test_without_a_source_nothing_is_read(bench):
    it = bench()
    await it.watch.read_config_forever()

    assert it.pod.config_problem is None
    await it.watch.stop()


async def test_findings_about_the_cache_come_with_the_looks_at_a_pod_that_serves(bench):
    it = bench()
    it.engine.told = VLLM + b"vllm:kv_cache_usage_perc 0.95\n"
    await it.look()
    assert it.pod.health.findings == ()  # it loads

    it.serve()
    await it.look()
    assert {one.id for one in it.pod.health.findings} >= {"kv-full"}
    assert "health: kv-full (warning)" in it.pod.problems(it.engine.now)
    told = {one.id: one.severity for one in it.pod.pod_state(it.engine.now).findings}
    assert told["kv-full"] == "warning"


FULL = b"vllm:num_requests_running 9\nvllm:num_requests_waiting 9\nvllm:kv_cache_usage_perc 1.0\n"
RELIEF = {"relief": True, "relief_after_seconds": 5, "relief_cordon_seconds": 30,
          "relief_every_seconds": 60}  # fmt: skip


async def looks_at(it, *seconds):
    for second in seconds:
        it.engine.now = float(second)
        it.pod.pass_time(it.engine.now)
        await it.look()


async def test_a_full_pod_relieves_itself_and_aborts_where_that_is_allowed(bench):
    it = bench(**RELIEF, relief_abort=True)
    it.serve()
    it.engine.told = FULL
    await looks_at(it, 100, 103, 106)
    assert it.pod.phase is Phase.CORDONED
    assert it.engine.controlled == []
    await looks_at(it, 112, 117, 120)
    assert it.engine.controlled == [("GET", "/is_paused"), ("POST", "/abort_requests")]
    assert it.pod.relief.aborts == {"aborted": 1}
    await looks_at(it, 137)
    assert it.pod.phase is Phase.SERVING
    await it.watch.stop()


async def test_without_the_users_word_nothing_is_aborted(bench):
    it = bench(**RELIEF)
    it.serve()
    it.engine.told = FULL
    await looks_at(it, 100, 106, 117, 125)
    assert it.pod.phase is Phase.CORDONED
    assert it.engine.controlled == []


async def test_an_engine_that_a_sidecar_before_left_paused_is_let_go_on(bench, tmp_path):
    mark = tmp_path / "paused-by-relief"
    mark.touch()
    it = bench()
    await it.look()
    assert it.engine.controlled == [("POST", "/resume")]
    assert not mark.exists()
