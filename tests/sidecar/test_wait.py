import ast
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cacheaware_sidecar import engine_sockets, wait
from cacheaware_sidecar.engines.detect import DIALECTS
from cacheaware_sidecar.install import counts_of, hook_settings
from cacheaware_sidecar.settings import Settings

SOURCE = Path(wait.__file__)
COUNTS = wait.DEFAULTS["counts"]
IDLE = 'vllm:num_requests_running{engine="0"} 0.0\nvllm:num_requests_waiting{engine="0"} 0.0\n'


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch):
    monkeypatch.setattr(wait, "TABLES", ())


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(wait, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (IDLE, (0.0, 2)),
        (IDLE.replace(" 0.0\n", " 2.0\n", 1), (2.0, 2)),
        (IDLE + IDLE.replace('"0"', '"1"'), (0.0, 4)),
        (IDLE + 'vllm:num_requests_waiting_by_reason{reason="capacity"} 9.0\n', (0.0, 2)),
        ("# HELP vllm:num_requests_running 5\n" + IDLE, (0.0, 2)),
        ("running_requests 1\npending_requests 2 1700000000\n", (3.0, 2)),
        (
            """\
nv_trt_llm_request_metrics{model="m",request_type="max"} 512
nv_trt_llm_request_metrics{model="m",request_type="active"} 1
nv_trt_llm_request_metrics{model="m",request_type="waiting"} 0
""",
            (1.0, 2),
        ),
        (IDLE + "running_requests 4\npending_requests 0\n", (4.0, 4)),
        ('vllm:num_requests_running{a="}{ 1"} 1\nvllm:num_requests_waiting 0\n', (1.0, 2)),
    ],
    ids=[
        "idle",
        "busy",
        "two ranks",
        "a longer name",
        "comments",
        "generic with a timestamp",
        "triton by label",
        "two dialects",
        "odd labels",
    ],
)
def test_requests_are_counted_by_whole_names(page, expected):
    assert wait.count_requests(page, COUNTS) == expected


@pytest.mark.parametrize(
    "page",
    ["", "<html>", "up 1\n", "vllm:num_requests_running 0\n", "vllm:num_requests_running x\n"],
    ids=["empty", "html", "foreign", "only one of the two", "no number"],
)
def test_a_page_without_the_names_is_missing_and_not_empty(page):
    with pytest.raises(wait.MissingPageError):
        wait.count_requests(page, COUNTS)


def test_not_a_number_is_not_zero():
    total, _ = wait.count_requests(IDLE.replace(" 0.0\n", " NaN\n", 1), COUNTS)

    assert total != 0


def poll(monkeypatch, pages, floor_s=0.0, deadline=30.0):
    """Polls an engine that answers these pages, the last one for ever."""
    seen = iter(pages)
    last = [None]

    def fetch(base, settings, until):
        last[0] = next(seen, last[0])
        if isinstance(last[0], BaseException):
            raise last[0]
        return last[0]

    monkeypatch.setattr(wait, "fetch", fetch)
    return wait.poll_engine({**wait.DEFAULTS, "floor_s": floor_s}, 0.0, deadline)


BUSY = IDLE.replace(" 0.0\n", " 1.0\n", 1)
TWO_RANKS = IDLE + IDLE.replace('"0"', '"1"')
REFUSED = ConnectionRefusedError()


@pytest.mark.parametrize(
    ("pages", "outcome", "seconds"),
    [
        ([IDLE], "empty", 5),
        ([BUSY, BUSY, IDLE], "empty", 7),
        ([IDLE, IDLE, BUSY, IDLE], "empty", 8),
        ([IDLE, wait.MissingPageError(), IDLE], "empty", 7),
        ([TWO_RANKS, IDLE], "deadline", 30),
        ([BUSY], "deadline", 30),
        ([OSError("timed out")], "deadline", 30),
        ([RuntimeError("what ever")], "deadline", 30),
        ([REFUSED], "the engine has ended", 2),
        ([REFUSED, REFUSED, BUSY, REFUSED, REFUSED, REFUSED], "the engine has ended", 5),
        ([REFUSED, REFUSED, OSError(), REFUSED, REFUSED, IDLE], "empty", 10),
    ],
    ids=[
        "idle",
        "busy first",
        "busy between",
        "a missing page",
        "a missing rank",
        "busy",
        "silent",
        "broken",
        "ended",
        "ended later",
        "refused twice",
    ],
)
def test_the_empty_rule_without_a_sidecar(monkeypatch, clock, pages, outcome, seconds):
    assert poll(monkeypatch, pages) == outcome
    assert clock.now == seconds


def test_the_floor_holds_without_a_sidecar_too(monkeypatch, clock):
    assert poll(monkeypatch, [IDLE], floor_s=12.0) == "empty"
    assert clock.now == 12


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"drain_s": "long", "floor_s": null, "counts": {}}', "\udc80"],
)
def test_settings_that_can_not_be_read_leave_the_defaults(tmp_path, text):
    (tmp_path / "wait.json").write_text(text, errors="surrogateescape")

    assert wait.load_settings(tmp_path)["drain_s"] == 25.0
    assert wait.load_settings(tmp_path / "nowhere") == wait.DEFAULTS


def test_the_sidecar_writes_what_the_script_reads(tmp_path):
    told = hook_settings(Settings(ca_file="/ca", grace_seconds=90))
    (tmp_path / "wait.json").write_text(json.dumps(told))

    assert wait.load_settings(tmp_path) == told
    assert told["drain_s"] == 85.0
    assert set(told) == set(wait.DEFAULTS)


def test_for_every_engine_the_sidecar_knows_the_script_gets_its_names():
    assert len(counts_of("auto")) == len(DIALECTS)
    assert counts_of("inference-sim") == counts_of("vllm")[:1]
    assert counts_of("triton-trtllm")[0][0] == ['nv_trt_llm_request_metrics{request_type="active"}']


def test_the_scripts_own_names_are_among_those_of_the_engines():
    known = {name for pair in counts_of("auto") for names in pair for name in names}

    assert {name for pair in COUNTS for names in pair for name in names} <= known


def serve_socket(folder, lines, hold=False):
    """A sidecar's socket that says these lines."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "drain.sock"))
    server.listen(1)

    def run():
        with suppress(OSError):
            link, _ = server.accept()
            with link:
                link.recv(100)
                for line in lines:
                    link.sendall(line)
                if hold:
                    link.recv(100)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return server


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b'{"state": "waiting"}\n', b'{"state": "done", "text": "empty"}\n'], "empty"),
        ([b'{"state": "wai', b'ting"}\n{"state": "deadline", "text": "3 running"}\n'], "3 running"),
    ],
    ids=["a line at a time", "broken anywhere"],
)
def test_the_sidecars_word_is_taken(tmp_path, lines, expected):
    with serve_socket(tmp_path, lines):
        assert wait.ask_sidecar(tmp_path, time.monotonic() + 5) == expected


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b'{"state": "waiting"}\n'],
        [b'{"state": "error", "text": "allowed: something else"}\n'],
        [b"nonsense\n"],
        [b"[]\n"],
        [b"\xff\n"],
        [b"x" * 70_000],
    ],
    ids=["nothing", "half way", "a refusal", "no JSON", "no object", "no text", "endless"],
)
def test_a_sidecar_that_breaks_off_is_gone(tmp_path, lines):
    with serve_socket(tmp_path, lines), pytest.raises(wait.SidecarGoneError):
        wait.ask_sidecar(tmp_path, time.monotonic() + 5)


def test_a_sidecar_that_says_nothing_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(wait, "ANSWER_S", 0.2)
    with serve_socket(tmp_path, [], hold=True), pytest.raises(wait.SidecarGoneError):
        wait.ask_sidecar(tmp_path, time.monotonic() + 5)


def test_a_sidecar_that_waits_past_the_deadline_is_not_waited_for(tmp_path):
    lines = [b'{"state": "waiting"}\n']
    with serve_socket(tmp_path, lines, hold=True):
        assert wait.ask_sidecar(tmp_path, time.monotonic() - 2) == "deadline"


def test_without_a_socket_the_sidecar_is_gone(tmp_path):
    with pytest.raises(wait.SidecarGoneError, match="FileNotFoundError"):
        wait.ask_sidecar(tmp_path, 1.0)


def settings_for(engine, **more):
    return {**wait.DEFAULTS, "urls": [engine.url], **more}


def soon():
    return time.monotonic() + 5


def test_a_page_is_fetched_with_the_key_where_its_file_is_here_too(engine, tmp_path):
    engine.key = "sk-x"
    (tmp_path / "key").write_text("sk-x\n")

    assert "vllm:" in wait.fetch(
        engine.url, settings_for(engine, api_key_file=str(tmp_path / "key")), soon()
    )
    with pytest.raises(wait.MissingPageError):
        wait.fetch(engine.url, settings_for(engine, api_key_file="/nowhere"), soon())


def test_redirects_are_followed_on_the_same_host_only(engine):
    engine.statuses["/a"] = engine.statuses["/b"] = 307
    engine.locations.update({"/a": "/metrics", "/b": "http://127.0.0.1:1/metrics"})

    assert "vllm:" in wait.fetch(engine.url, settings_for(engine, path="/a"), soon())
    with pytest.raises(wait.MissingPageError):
        wait.fetch(engine.url, settings_for(engine, path="/b"), soon())
    engine.locations["/a"] = "/a"
    with pytest.raises(wait.MissingPageError):
        wait.fetch(engine.url, settings_for(engine, path="/a"), soon())


def test_a_page_that_is_too_large_or_too_late_is_missing(engine, monkeypatch):
    engine.page = IDLE + "x 1\n" * 1000
    monkeypatch.setattr(wait, "LARGEST_PAGE", 100)
    with pytest.raises(wait.MissingPageError):
        wait.fetch(engine.url, settings_for(engine), soon())
    engine.hang.add("/metrics")
    with pytest.raises(OSError, match="timed out"):
        wait.fetch(engine.url, settings_for(engine), time.monotonic() + 0.2)


def test_an_engine_that_is_not_there_refuses(engine):
    engine.stop()

    with pytest.raises(ConnectionRefusedError):
        wait.fetch(engine.url, settings_for(engine), soon())


def make_certificate(folder):
    openssl = shutil.which("openssl") or pytest.skip("openssl is missing")
    folder.mkdir()
    command = (
        f"{openssl} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
        f" subjectAltName=IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/cert.pem"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def certificate(tmp_path):
    return make_certificate(tmp_path / "one")


@pytest.fixture
def other_certificate(tmp_path):
    return make_certificate(tmp_path / "other")


def test_tls_is_verified_where_the_authority_is_known_and_else_taken_as_it_is(
    engine, certificate, other_certificate
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    engine.stop()
    engine.tls = context
    engine.start()

    assert "vllm:" in wait.fetch(
        engine.url, settings_for(engine, ca_file=str(certificate[0])), soon()
    )
    assert "vllm:" in wait.fetch(engine.url, settings_for(engine, ca_file="/nowhere"), soon())
    with pytest.raises(ssl.SSLCertVerificationError):
        wait.fetch(engine.url, settings_for(engine, ca_file=str(other_certificate[0])), soon())


def test_main_prints_one_line_and_never_fails(tmp_path, monkeypatch, clock, capsys):
    monkeypatch.setattr(wait, "fetch", lambda base, settings, deadline: IDLE)

    assert wait.main(tmp_path) == 0
    assert re.fullmatch(
        r"cacheaware: empty after 5\.0 s, says the engine's page, because the sidecar is gone"
        r" \(FileNotFoundError: .*\)\n",
        capsys.readouterr().out,
    )


def test_the_script_is_written_in_python_3_6():
    ast.parse(SOURCE.read_text(), feature_version=(3, 6))


def test_the_script_needs_the_standard_library_only():
    tree = ast.parse(SOURCE.read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
        if name
    }

    assert imported <= sys.stdlib_module_names


def pythons():
    """Those of this machine that run, from 3.6 on."""
    found = [shutil.which(f"python3.{minor}") for minor in range(6, 20)]
    return [
        python
        for python in found
        if python
        and not subprocess.run([python, "-V"], check=False, capture_output=True).returncode
    ]


def test_the_script_runs_isolated_on_each_python_of_this_machine(engine, tmp_path):
    engine.running = 1
    told = {**hook_settings(Settings()), "urls": [engine.url], "drain_s": 0.3, "floor_s": 0.0}
    (tmp_path / "wait.json").write_text(json.dumps(told))
    shutil.copy(SOURCE, tmp_path)
    for python in {sys.executable, *pythons()}:
        command = [python, "-I", "-S", tmp_path / "wait.py"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)

        assert (done.returncode, done.stderr) == (0, ""), python
        assert done.stdout.startswith("cacheaware: deadline after 0."), python


COUNTED = ["vllm:request_success_total"]


def moving(monkeypatch, pages, **settings):
    seen = iter(pages)
    last = [None]

    def fetch(base, told, until):
        last[0] = next(seen, last[0])
        if isinstance(last[0], BaseException):
            raise last[0]
        return last[0]

    monkeypatch.setattr(wait, "fetch", fetch)
    told = {**wait.DEFAULTS, "floor_s": 0.0, "counters": COUNTED, **settings}
    return wait.poll_engine(told, 0.0, 60.0)


def test_without_a_sidecar_a_counter_that_moves_is_not_empty_either(clock, monkeypatch):
    pages = [IDLE + f"vllm:request_success_total {min(n, 4)}\n" for n in range(40)]
    assert moving(monkeypatch, pages) == "empty"
    assert clock.now == 10.0  # the last one ended between the looks at 3 s and 4 s


LATE = TimeoutError()


def rests(monkeypatch, told):
    """The connections as told, look by look, the last one for ever."""
    seen = iter(told)
    last = [None]

    def read_rest(urls):
        last[0] = next(seen, last[0])
        return last[0]

    monkeypatch.setattr(wait, "read_rest", read_rest)


UNREAD = wait.Rest(unread=1)


@pytest.mark.parametrize(
    ("pages", "told", "outcome"),
    [
        pytest.param([LATE], [None], "the engine is hung", id="silent"),
        pytest.param([LATE], [UNREAD], "the engine is hung", id="it reads nothing"),
        pytest.param([LATE], [wait.Rest(abandoned=1)], "the engine is hung", id="nor before"),
        pytest.param([LATE], [wait.Rest()], "deadline", id="it reads and answers late"),
        pytest.param([LATE], [UNREAD] * 20 + [wait.Rest(), UNREAD], "deadline", id="it read once"),
        pytest.param([LATE] * 20 + [BUSY] + [LATE], [UNREAD], "deadline", id="it answered once"),
        pytest.param(
            [LATE],
            [wait.Rest(99 - n, 1) for n in range(60)],
            "deadline",
            id="bytes go out to clients",
        ),
        pytest.param([LATE], [wait.Rest(99, 1)], "the engine is hung", id="bytes stay"),
        pytest.param([BUSY], [UNREAD], "deadline", id="a page that stands still"),
    ],
)
def test_without_a_sidecar_an_engine_without_a_sign_of_life_is_hung(
    clock, monkeypatch, pages, told, outcome
):
    rests(monkeypatch, told)
    assert poll(monkeypatch, pages, deadline=45.0) == outcome
    assert clock.now == (30.0 if outcome == "the engine is hung" else 45.0)


@pytest.mark.parametrize(
    ("kinds", "missing"),
    [
        pytest.param([IDLE, IDLE], None, id="all there"),
        pytest.param([REFUSED, REFUSED], wait.REFUSED, id="nobody is there"),
        pytest.param([LATE, LATE], wait.SILENT, id="none answers"),
        pytest.param([REFUSED, LATE], wait.SILENT, id="one gone, one silent"),
        pytest.param([IDLE, REFUSED], wait.BROKEN, id="one gone, one goes on"),
        pytest.param([IDLE, LATE], wait.BROKEN, id="one silent, one goes on"),
        pytest.param([wait.MissingPageError(), LATE], wait.BROKEN, id="one answers anything"),
        pytest.param([IDLE, "up 1\n"], wait.BROKEN, id="a page that says nothing"),
    ],
)
def test_of_several_engines_all_must_be_gone_or_silent(monkeypatch, kinds, missing):
    told = dict(zip(["http://a:1", "http://b:2"], kinds, strict=True))

    def fetch(base, settings, until):
        if isinstance(told[base], BaseException):
            raise told[base]
        return told[base]

    monkeypatch.setattr(wait, "fetch", fetch)
    assert wait.look_at({**wait.DEFAULTS, "urls": list(told)}, 9.0).missing == missing


ROWS = [
    ("01", 5, 3),
    ("0A", 9, 2),
    ("06", 7, 7),
    ("08", 1, 4),
]


def test_the_script_and_the_sidecar_read_the_kernels_tables_alike(monkeypatch, tmp_path):
    rows = (f"0: 0:1F40 0:9C40 {state} {out:08X}:{unread:08X} x" for state, out, unread in ROWS)
    table = tmp_path / "tcp"
    table.write_text("\n".join(["head", *rows, "0: 0:1F41 0:1 01 00000009:00000009 x", "", "odd"]))
    monkeypatch.setattr(wait, "TABLES", (table, tmp_path / "no tcp6"))

    found = wait.read_rest(["http://127.0.0.1:8000"])
    assert (found.unsent, found.unread, found.abandoned) == (6, 5, 4)
    assert engine_sockets.rest_of([table.read_text()], {8000}) == engine_sockets.Rest(6, 5, 4)

    table.write_bytes(b"\xff")
    assert wait.read_rest(["http://127.0.0.1:8000"]) is None


def test_without_a_sidecar_what_lies_unsent_is_not_empty_either(clock, monkeypatch, tmp_path):
    table = tmp_path / "tcp"
    row = "0: 0100007F:1F40 0100007F:9C40 01 000000FF:00000000 00:0 0 0"
    table.write_text(f"head\n{row}\n")
    monkeypatch.setattr(wait, "TABLES", (table, tmp_path / "none"))
    assert moving(monkeypatch, [IDLE], urls=["http://127.0.0.1:8001"]) == "empty"
    assert moving(monkeypatch, [IDLE]) == "deadline"


def test_without_a_sidecar_every_engine_of_the_pod_is_asked(clock, monkeypatch):
    asked = []

    def fetch(base, told, until):
        asked.append(base)
        return IDLE if base.endswith("0") else BUSY

    monkeypatch.setattr(wait, "fetch", fetch)
    urls = ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    assert wait.poll_engine({**wait.DEFAULTS, "urls": urls}, 0.0, 20.0) == "deadline"
    assert set(asked) == set(urls)
