"""What SIGTERM does to a mock engine, seen from outside, as it was seen on the real engines."""

import json
import threading
import time
import urllib.error
import urllib.request

import pytest


class Client(threading.Thread):
    """One request in flight; afterwards its status (0: cut) and its events."""

    def __init__(self, mock, tokens, *, stream):
        super().__init__(daemon=True)
        body = {"prompt": "Hello", "max_tokens": tokens, "stream": stream}
        self._request = urllib.request.Request(
            mock.url + "/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        self.status = 0
        self.text = ""
        self.start()

    def run(self):
        try:
            with urllib.request.urlopen(self._request, timeout=20) as answer:
                self.status = answer.status
                self.text = answer.read().decode()
        except urllib.error.HTTPError as error:
            self.status = error.code
            self.text = error.read().decode()
        except OSError:
            self.status = 0

    @property
    def lost(self):
        return self.status != 200 or '"error"' in self.text or '"length"' not in self.text


def load(mock, tokens=400):
    """A plain and a streaming request, both running."""
    clients = [Client(mock, tokens, stream=stream) for stream in (False, True)]
    deadline = time.monotonic() + 10
    while (
        'vllm:num_requests_running{engine="0",model_name="mock"} 2.0' not in mock.get("/metrics")[1]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return clients


def finish(*clients):
    for client in clients:
        client.join(20)
        assert not client.is_alive()


def test_the_port_opens_when_the_engine_is_loaded_and_not_before(mock):
    engine = mock("--cold-start", "1.0", ready=False)
    started = time.monotonic()

    assert engine.get("/health")[0] == 0
    engine.ready()

    assert time.monotonic() - started > 0.8
    assert engine.get("/health")[0] == 200


def test_sigterm_while_loading_ends_it_at_once(mock):
    engine = mock("--cold-start", "60", ready=False)
    time.sleep(0.8)

    engine.terminate()

    assert engine.exit_code(5) == 0


def test_by_default_everything_in_flight_fails_at_once(mock):
    engine = mock()
    plain, stream = load(engine, tokens=4000)

    started = time.monotonic()
    engine.terminate()
    finish(plain, stream)
    took = time.monotonic() - started

    assert took < 2, "4,000 tokens take 16 s"
    assert (plain.status, plain.lost) == (500, True)
    assert (stream.status, stream.lost) == (200, True)
    assert stream.text.endswith("data: [DONE]\n\n")
    assert engine.exit_code() == 0


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("--shutdown-timeout", "20"), id="vLLM with a shutdown timeout"),
        pytest.param(("--sigterm", "finish"), id="finish"),
    ],
)
def test_it_finishes_while_failing_newcomers_with_a_healthy_face(mock, flags):
    engine = mock(*flags)
    clients = load(engine)

    engine.terminate()
    time.sleep(0.2)
    health = engine.get("/health")[0]
    newcomer = Client(engine, 5, stream=True)
    finish(newcomer, *clients)

    assert (health, newcomer.status) == (200, 500)
    assert not any(client.lost for client in clients)
    assert engine.exit_code() == 0


def test_at_the_shutdown_timeout_the_rest_is_cut(mock):
    engine = mock("--shutdown-timeout", "0.5")
    clients = load(engine, tokens=4000)

    started = time.monotonic()
    engine.terminate()
    finish(*clients)

    assert 0.4 < time.monotonic() - started < 2
    assert all(client.lost for client in clients)
    assert engine.exit_code() == 0


def test_it_closes_its_port_and_finishes(mock):
    engine = mock("--sigterm", "close")
    clients = load(engine)

    engine.terminate()
    time.sleep(0.2)
    health = engine.get("/health")[0]
    finish(*clients)

    assert health == 0
    assert not any(client.lost for client in clients)
    assert engine.exit_code() == 0


def test_it_never_exits_while_requests_run(mock):
    engine = mock("--sigterm", "never", "--shutdown-timeout", "0.1")
    clients = load(engine)

    engine.terminate()
    time.sleep(0.3)
    newcomer = Client(engine, 20, stream=True)
    finish(newcomer, *clients)

    assert not any(client.lost for client in (newcomer, *clients))
    assert engine.exit_code() == 0
