"""A pod on its way out: pod, watch, shared folder and the kernel's tables together."""

from dataclasses import replace

import pytest
from tests.sidecar.test_watch import VLLM, Bench, run

from cacheaware_sidecar import engine_sockets, store
from cacheaware_sidecar.engine_client import Health, SomeMissingError
from cacheaware_sidecar.engine_sockets import Rest
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.fetch import FetchError, FetchFailure
from cacheaware_sidecar.lifecycle import Cordoned, Lifecycle, Uncordoned
from cacheaware_sidecar.pod import Pod

BUSY = VLLM.replace(b"running 0.0", b"running 2.0")
SILENT = FetchError(FetchFailure.TIMED_OUT, "no whole answer in 5 s")
SAMPLE = EngineSample(engine="vllm", engines=1, running=0.0, waiting=0.0, requests=5.0)
BLIND = "the engine's connections can't be read in /proc/net"


@pytest.fixture
def bench(tmp_path):
    def serving(**settings):
        it = Bench(tmp_path, **settings)
        it.serve()
        return it

    return serving


@pytest.fixture
def rest(monkeypatch):
    """What lies in the connections, as told."""
    told = {"rest": Rest()}
    monkeypatch.setattr(engine_sockets, "read_rest", lambda ports: told["rest"])
    return told


async def drain_for(it, seconds, look_s=5.0):
    """Looks that take some seconds each, and a tick after each."""
    it.engine.seconds = look_s
    end = it.engine.now + seconds
    while it.engine.now < end:
        await it.look()
        it.pod.tick(it.engine.now)


def refused(engines=2):
    closed = FetchError(FetchFailure.REFUSED, "closed")
    closed.__context__ = ConnectionRefusedError()
    return SomeMissingError([closed], engines)


async def test_a_cordoned_pod_is_watched_each_second_even_where_scrapes_are_rare(bench, rest):
    it = bench(scrape_interval_seconds=30)
    it.pod.apply(Cordoned("op", 60.0), 0.0)
    await run(it.watch.scrape_forever, 7, it.engine)
    assert it.engine.looks == [0, 1, 2, 3, 4, 5, 6]
    assert it.pod.pod_state(6.0).drain.empty is True


class TestConnections:
    async def test_they_are_read_on_the_way_out_only(self, bench, monkeypatch):
        asked = []
        monkeypatch.setattr(engine_sockets, "read_rest", asked.append)
        it = bench(engine_ports=(8001,))
        await it.look(3)
        assert asked == []
        it.pod.begin_drain(0.0)
        await it.look()
        assert asked == [{8000, 8001}]

    async def test_what_lies_there_keeps_the_pod_from_being_empty(self, bench, rest):
        it = bench(grace_seconds=100)
        rest["rest"] = Rest(unsent=1)
        it.pod.begin_drain(0.0)
        await drain_for(it, 30.0, look_s=1.0)
        assert it.pod.phase == "draining"
        rest["rest"] = Rest()
        await drain_for(it, 7.0, look_s=1.0)
        assert it.pod.phase == "drained"

    async def test_where_they_can_not_be_read_this_is_said_once_and_the_rest_decides(
        self, bench, rest, caplog
    ):
        it = bench(grace_seconds=100)
        rest["rest"] = None
        await it.look()
        assert BLIND not in it.pod.problems(it.engine.now)
        it.pod.begin_drain(0.0)
        await drain_for(it, 10.0, look_s=1.0)
        assert it.pod.phase == "drained"
        assert BLIND in it.pod.problems(it.engine.now)
        assert caplog.text.count(BLIND) == 1


class TestHung:
    async def phase_after(self, it, seconds):
        it.pod.begin_drain(0.0)
        await drain_for(it, seconds)
        return it.pod.phase

    async def test_an_engine_without_a_sign_of_life_ends_the_drain(self, bench, rest, caplog):
        it = bench(grace_seconds=200)
        it.engine.told, it.engine.says, rest["rest"] = SILENT, Health.SILENT, Rest(unread=150)
        assert await self.phase_after(it, 30.0) == "draining"
        await drain_for(it, 10.0)
        assert (it.pod.phase, it.pod.drain_end) == ("drained", "the engine is hung")
        assert "no sign of life of the engine for 30 s" in caplog.text

    async def test_one_that_reads_is_late_and_is_waited_for(self, bench, rest):
        it = bench(grace_seconds=200)
        it.engine.told, it.engine.says = SILENT, Health.SILENT
        assert await self.phase_after(it, 120.0) == "draining"

    @pytest.mark.parametrize("says", [Health.WELL, Health.UNWELL, Health.NO_ROUTE])
    async def test_any_answer_about_its_health_is_a_sign_of_life(self, bench, rest, says):
        it = bench(grace_seconds=200)
        it.engine.told, it.engine.says, rest["rest"] = SILENT, says, Rest(unread=150)
        assert await self.phase_after(it, 120.0) == "draining"
        assert len(it.engine.health_asked) >= 20

    async def test_an_engine_whose_health_generates_is_not_asked(self, bench, rest):
        it = bench(grace_seconds=200)
        it.engine.told = b"sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\n"
        await it.look()
        it.engine.told, rest["rest"] = SILENT, Rest(unread=150)
        assert await self.phase_after(it, 40.0) == "drained"
        assert it.engine.health_asked == []

    async def test_silence_before_the_way_out_does_not_count(self, bench, rest):
        it = bench(grace_seconds=200)
        it.engine.told, it.engine.says, rest["rest"] = SILENT, Health.SILENT, Rest(unread=150)
        await drain_for(it, 60.0)
        assert it.pod.phase == "serving"
        it.pod.begin_drain(it.engine.now)
        await drain_for(it, 25.0)
        assert it.pod.phase == "draining"

    async def test_a_page_that_stands_still_is_neither_hung_nor_empty(self, bench, rest):
        it = bench(grace_seconds=200)
        it.engine.told, rest["rest"] = BUSY, Rest(unread=150)
        assert await self.phase_after(it, 120.0) == "draining"


class TestSeveralPorts:
    async def test_in_service_a_port_that_is_closed_is_proof(self, bench):
        it = bench()
        it.engine.told, it.engine.says = refused(), Health.REFUSED
        await it.look(3)
        assert it.pod.phase == "loading"
        assert it.pod.observed.errors == {"partly_refused": 3}

    async def test_in_a_drain_the_other_engines_go_on_and_are_waited_for(self, bench, rest):
        it = bench(grace_seconds=200)
        it.engine.told = refused()
        it.pod.begin_drain(0.0)
        await drain_for(it, 60.0)
        assert it.pod.phase == "draining"
        assert "1 of 2 engines give no page: closed" in it.pod.problems(60.0)[0]

    async def test_one_that_is_silent_beside_one_that_answers_is_not_hung(self, bench, rest):
        it = bench(grace_seconds=200)
        it.engine.told, rest["rest"] = SomeMissingError([SILENT], 2), Rest(unread=150)
        it.pod.begin_drain(0.0)
        await drain_for(it, 60.0)
        assert it.pod.phase == "draining"
        assert set(it.pod.observed.errors) == {"partly_missing"}


class TestNothingSeenUnserves:
    async def test_a_page_that_stands_still_leaves_a_serving_pod_ready(self, bench):
        it = bench()
        it.engine.told = BUSY
        for _ in range(300):
            await it.look()
            it.pod.tick(it.engine.now)
            it.engine.now += 1.0
        assert it.pod.is_ready(it.engine.now)

    async def test_a_sidecar_that_gets_no_cpu_leaves_a_serving_pod_ready(self, bench):
        it = bench()
        it.engine.told = SILENT  # whoever is not run sees every answer come too late
        for _ in range(20):
            await it.look()
            it.engine.now += 45.0
            it.pod.tick(it.engine.now)
            assert it.pod.is_ready(it.engine.now)

    async def test_nor_does_it_take_a_drain_for_ended(self, bench, rest):
        it = bench(grace_seconds=3600)
        it.engine.told = BUSY
        it.pod.begin_drain(0.0)
        await it.look()
        it.engine.told, it.engine.says = SILENT, Health.SILENT
        for _ in range(20):
            await it.look()
            it.engine.now += 45.0
            it.pod.tick(it.engine.now)
        assert it.pod.phase == "draining"
        assert it.pod.is_ready(it.engine.now)


class TestClosing:
    def again(self, folder, state):
        it = Bench(folder)
        return Pod(it.pod.settings, state, boot="b")

    def test_the_file_follows_the_phase(self, bench, tmp_path):
        pod, file = bench().pod, tmp_path / "closing"
        assert not file.exists()
        pod.apply(Cordoned("op", 60.0), 1.0)
        assert file.exists()
        pod.apply(Uncordoned(), 2.0)
        assert not file.exists()
        pod.apply(Cordoned("op", 60.0), 3.0)
        pod.pass_time(63.0)
        assert not file.exists()
        pod.begin_drain(64.0)
        assert file.exists()

    def test_a_sidecar_that_starts_again_puts_right_what_it_finds(self, bench, tmp_path):
        pod, file = bench().pod, tmp_path / "closing"
        pod.apply(Cordoned("op", 60.0), 1.0)
        file.unlink()
        self.again(tmp_path, store.restore(tmp_path, "b", 20.0))
        assert file.exists()
        self.again(tmp_path, Lifecycle(since=0.0))
        assert not file.exists()


class TestWhatIsTold:
    def test_a_sidecar_that_starts_again_in_a_drain_has_the_same_deadline(self, bench, tmp_path):
        it = bench(grace_seconds=100)
        it.pod.begin_drain(10.0)
        again = Pod(it.pod.settings, store.restore(tmp_path, "b", 20.0), boot="b")
        assert again.pod_state(30.0).drain.deadline_s == 75.0
        assert again.is_ready(30.0)

    def test_of_a_cordon_arrivals_and_emptiness(self, bench):
        pod = bench().pod
        pod.scraped(SAMPLE, 1.0)
        assert pod.pod_state(1.0).drain.empty is None
        pod.apply(Cordoned("op", 60.0), 2.0)
        pod.scraped(replace(SAMPLE, running=1.0), 3.0)
        told = pod.pod_state(5.0).drain
        assert (told.empty, told.arrival_age_s, told.running) == (False, 2.0, 1.0)
        for second in range(6, 13):
            pod.scraped(replace(SAMPLE, requests=6.0), float(second))
        told = pod.pod_state(12.0).drain
        assert (told.empty, told.arrival_age_s) == (True, 9.0)
