"""A fake engine on loopback, and the real sidecar process beside it."""

import json
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
PAGE = """\
process_start_time_seconds {started}
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {running}
vllm:num_requests_waiting{{engine="0",model_name="m"}} {waiting}
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} 0.5
vllm:cache_config_info{{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="101"}} 1.0
vllm:prompt_tokens_total{{engine="0",model_name="m"}} {prompts}
"""


class FakeEngine:
    """An engine that does what its attributes say; it can die and come back on its port."""

    def __init__(self) -> None:
        self.port = 0
        self.started = 1.7e9
        self.running = self.waiting = 0.0
        self.prompts = 0.0
        self.page: str | None = None
        """Instead of the usual page."""
        self.statuses: dict[str, int] = {}
        self.locations: dict[str, str] = {}
        self.hang: set[str] = set()
        """Paths that are never answered."""
        self.key: str | None = None
        self.tokens_per_word = 1.3
        self.models: Any = {"data": [{"id": "m", "max_model_len": 4096}]}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Prompts, with their path."""
        self.headers: list[dict[str, str]] = []
        self.counting = threading.Lock()
        self.woken = threading.Event()
        self.links: list[socket.socket] = []
        self.tls: ssl.SSLContext | None = None
        self.family = socket.AF_INET
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        scheme = "https" if self.tls else "http"
        host = "[::1]" if self.family is socket.AF_INET6 else "127.0.0.1"
        return f"{scheme}://{host}:{self.port}"

    def start(self) -> None:
        """Listens, on the port it had before if any."""
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                engine.answer(self, None)

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                engine.answer(self, json.loads(self.rfile.read(length)))

            def log_message(self, *arguments: Any) -> None:
                """Says nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            address_family = engine.family

            def process_request(self, request: Any, client_address: Any) -> None:
                engine.links.append(request)
                super().process_request(request, client_address)

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Says nothing when a peer has gone."""

        self.woken.clear()
        host = "::1" if self.family is socket.AF_INET6 else "127.0.0.1"
        self._server = Server((host, self.port), Handler)
        if self.tls:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Dies: the port is closed, and so are all connections."""
        self.woken.set()
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        while self.links:
            with suppress(OSError):
                self.links.pop().shutdown(socket.SHUT_RDWR)

    def restart(self) -> None:
        """Another process in its place."""
        self.stop()
        self.started += 100
        self.start()

    def answer(self, request: BaseHTTPRequestHandler, body: dict[str, Any] | None) -> None:
        path = request.path
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if path in self.hang:
            self.woken.wait(60)
            request.close_connection = True
            return
        status, text = self.statuses.get(path, 200), ""
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            status = 401
        if status == 200:
            status, text = self._content(path, body)
        with suppress(OSError):
            request.send_response(status)
            if path in self.locations:
                request.send_header("location", self.locations[path])
            request.send_header("content-length", str(len(text.encode())))
            request.end_headers()
            request.wfile.write(text.encode())

    def _content(self, path: str, body: dict[str, Any] | None) -> tuple[int, str]:
        if path == "/metrics":
            page = PAGE.format(
                started=self.started,
                running=self.running,
                waiting=self.waiting,
                prompts=self.prompts,
            )
            return 200, self.page or page
        if path == "/health":
            return 200, ""
        if path == "/v1/models":
            return 200, json.dumps(self.models)
        if body is None:
            return 404, ""
        with self.counting:
            self.asked.append((path, body))
        text = body.get("prompt") or body["messages"][0]["content"]
        tokens = int(len(text.split()) * self.tokens_per_word)
        choice = {"text": "ok"} if "prompt" in body else {"message": {"content": "ok"}}
        with self.counting:
            self.prompts += tokens
        return 200, json.dumps({"choices": [choice], "usage": {"prompt_tokens": tokens}})


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    """A fake engine that runs."""
    fake = FakeEngine()
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture(name="free_port")
def free_port_fixture() -> int:
    """A port that nobody listens on."""
    return free_port()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# No certificates are loaded and no connection outlives a process: asking is cheap and always new.
CLIENT = httpx.Client(
    trust_env=False, verify=False, limits=httpx.Limits(max_keepalive_connections=0)
)


class Sidecar:
    """The real process."""

    def __init__(
        self,
        engine: FakeEngine,
        folder: Path,
        program: Sequence[str] = ("-m", "cacheaware_sidecar"),
        environ: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        self.folder = folder
        self.program = program
        self.port = free_port()
        given = {
            "engine_url": engine.url,
            "port": self.port,
            "shared_dir": folder,
            "scrape_interval_seconds": 0.2,
            "scrape_timeout_seconds": 1,
            **settings,
        }
        self.environment = {
            "PATH": os.environ["PATH"],
            **(environ or {}),
            **{f"CACHEAWARE_{name.upper()}": str(value) for name, value in given.items()},
        }
        self.said, self.log = folder / "said", folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Sidecar":
        command = [sys.executable, *self.program]
        with self.said.open("ab") as said, self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stdout=said, stderr=log)
        self.until(lambda: self.get("/livez").status_code == 200)
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(10)

    def get(self, path: str, timeout: float = 5.0) -> httpx.Response:
        return CLIENT.get(f"http://127.0.0.1:{self.port}{path}", timeout=timeout)

    def post(self, path: str, body: Any, headers: dict[str, str]) -> httpx.Response:
        return CLIENT.post(f"http://127.0.0.1:{self.port}{path}", json=body, headers=headers)

    @property
    def phase(self) -> str:
        return str(self.get("/v1/state").json()["phase"])

    @property
    def is_ready(self) -> bool:
        return self.get("/readyz").status_code == 200

    def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Waits for a condition; a sidecar that does not listen does not meet it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(httpx.TransportError):
                if condition():
                    return
            time.sleep(0.05)
        pytest.fail(f"never came true; log:\n{self.log.read_text()}")

    def until_phase(self, *phases: str) -> None:
        self.until(lambda: self.phase in phases)


@pytest.fixture
def sidecar(engine: FakeEngine, tmp_path: Path) -> Iterator[Callable[..., Sidecar]]:
    """Starts sidecars beside the fake engine."""
    started: list[Sidecar] = []

    def start(**settings: object) -> Sidecar:
        started.append(Sidecar(engine, tmp_path, **settings))
        return started[-1].start()

    yield start
    for each in started:
        if each.process and each.process.poll() is None:
            each.process.kill()
            each.process.wait(10)


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Logging that a test may set up: afterwards it is as it was."""
    root, ours = logging.getLogger(), logging.getLogger("cacheaware_sidecar")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
