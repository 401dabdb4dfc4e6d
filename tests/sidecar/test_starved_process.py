"""The real process when it gets little CPU, or sees an engine that shows nothing new."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

RUNS_S, STANDS_S = 0.01, 0.09
"""As the kernel does it with a limit of a tenth of a core: 10 ms in each 100 ms."""
PROBE_TIMEOUT_S = 2.0


@contextmanager
def throttled(process):
    """Lets the process run for a tenth of the time."""
    over = threading.Event()

    def throttle():
        while not over.is_set():
            process.send_signal(signal.SIGSTOP)
            time.sleep(STANDS_S)
            process.send_signal(signal.SIGCONT)
            time.sleep(RUNS_S)

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        process.send_signal(signal.SIGCONT)


def probes(it, seconds):
    """What the kubelet's readiness probes see: a status each, None for no answer in time."""
    seen = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            seen.append(it.get("/readyz", timeout=PROBE_TIMEOUT_S).status_code)
        except httpx.TimeoutException:
            seen.append(None)
        time.sleep(0.3)
    return seen


def test_a_sidecar_with_a_tenth_of_a_core_leaves_a_serving_pod_ready(engine, sidecar):
    it = sidecar(scrape_interval_seconds=1, scrape_timeout_seconds=5)
    it.until_phase("serving")
    with throttled(it.process):
        assert set(probes(it, 6.0)) == {200}
    assert it.phase == "serving"


def test_nor_does_one_that_stood_still_for_longer_than_all_its_timeouts(engine, sidecar):
    it = sidecar()
    it.until_phase("serving")
    it.process.send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    it.process.send_signal(signal.SIGCONT)
    assert set(probes(it, 2.0)) == {200}


def test_a_page_that_stands_still_leaves_a_serving_pod_ready(engine, sidecar):
    it = sidecar()
    it.until_phase("serving")
    engine.running = 2
    it.until(lambda: it.get("/v1/state").json()["running"] == 2)
    assert set(probes(it, 3.0)) == {200}
    assert it.get("/v1/state").json()["sample_age_s"] < 2  # each is a new look at the old numbers


def test_a_sidecar_killed_in_service_comes_back_serving_and_without_a_closing_file(engine, sidecar):
    it = sidecar()
    it.until_phase("serving")
    (it.folder / "closing").touch()
    it.stop(signal.SIGKILL)
    it.start()
    assert it.is_ready
    assert not (it.folder / "closing").exists()


def test_a_sidecar_killed_in_a_drain_leaves_the_closing_file(engine, sidecar):
    it = sidecar(drain_floor_seconds=0, grace_seconds=20)
    it.until_phase("serving")
    engine.running = 1
    with ThreadPoolExecutor() as pool:
        hook = pool.submit(it.get, "/drain/wait", timeout=20)
        it.until_phase("draining")
        assert (it.folder / "closing").exists()
        it.stop(signal.SIGKILL)
        assert isinstance(hook.exception(), httpx.TransportError)
    assert (it.folder / "closing").exists()
    it.start()
    assert (it.phase, it.is_ready) == ("draining", True)
    assert (it.folder / "closing").exists()
