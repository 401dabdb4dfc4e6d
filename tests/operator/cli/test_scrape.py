"""`cacheaware scrape` as it is called: files, stdin, servers, and what is refused."""

import io
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.operator.cli.conftest import example, ran

from cacheaware.cli import main
from cacheaware.cli.scrape_view import size

PAGE = """\
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 4000.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1000.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 4000.0
vllm:generation_tokens_total{engine="0",model_name="m"} 300.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 10.0
vllm:num_preemptions_total{engine="0",model_name="m"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 2.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 0.3
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="100"} 1.0
process_start_time_seconds 1.7e+09
"""
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def files(tmp_path):
    def write(**contents: str) -> list[str]:
        for name, content in contents.items():
            (tmp_path / name).write_text(content)
        return [str(tmp_path / name) for name in contents]

    return write


@pytest.fixture
def scrape(capsys):
    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["scrape", *args])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def scrape_json(scrape):
    def run(*args: str):
        code, out, err = scrape(*args, "-o", "json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


def test_the_json_of_a_page(files, scrape_json):
    page, config = files(page=PAGE, config=json.dumps(CONFIG))
    assert scrape_json(page, "--config", config) == {
        "source": page,
        "engine": "vllm",
        "version": ">0.19",
        "models": ["m"],
        "engines": 1,
        "running": 3,
        "waiting": 3,
        "waiting_by_reason": {"capacity": 2, "deferred": 1},
        "kv": {
            "usage": 0.25,
            "usage_max": 0.25,
            "used_bytes": 25 * 2_097_152,
            "capacity_bytes": 100 * 2_097_152,
            "used_tokens": 400,
            "capacity_tokens": 1600,
            "page_bytes": 65_536,
            "block_size": 16,
            "estimated": False,
            "num_blocks": 100,
            "dtype": "auto",
        },
        "prefix_hit_ratio": None,
        "counters": {
            "prompt_tokens": 4000,
            "generation_tokens": 300,
            "requests": 10,
            "preemptions": 1,
            "prefix_queries": 4000,
            "prefix_hits": 1000,
        },
        "latency": {
            "ttft_s": {"count": 2, "sum": 0.3, "buckets": [[0.1, 1], ["+Inf", 2]]},
            "tpot_s": None,
            "e2e_s": None,
            "queue_s": None,
        },
        "started_at": 1.7e9,
        "problems": [],
    }


def test_what_is_unknown_is_null(files, scrape_json):
    (page,) = files(page="tgi_queue_size 7\n")
    told = scrape_json(page)
    assert (told["engine"], told["waiting"], told["running"]) == ("tgi", 7, None)
    assert (told["kv"]["usage"], told["kv"]["capacity_bytes"]) == (None, None)
    assert told["waiting_by_reason"] is None
    assert told["problems"] == ["tgi_batch_current_size: not on the page"]


def test_the_table_of_a_page(files, scrape):
    page, config = files(page=PAGE, config=json.dumps(CONFIG))
    code, out, _ = scrape(page, "--config", config)
    assert code == 0
    shown = {line[:22].strip(): line[22:].strip() for line in out.splitlines()}
    assert shown["engine"] == "vllm >0.19"
    assert shown["KV usage"] == "25.0%"
    assert shown["KV tokens"] == "400 of 1,600"
    assert shown["KV bytes"] == "50 MiB of 200 MiB"
    assert shown["KV blocks"] == "100 of 16 tokens"
    assert shown["page of one layer"] == "64 KiB"
    assert shown["prefix cache hits"] == "25.0%"
    assert shown["time to first token"] == "150 ms, mean of 2"
    assert shown["whole request"] == "-"


def test_the_table_shows_problems_and_estimates(files, scrape):
    lines = ["num_running_reqs 1", "num_queue_reqs 0", "token_usage 0.5", "cache_hit_rate 0.31"]
    lines = [f"sglang:{line}" for line in (*lines, "max_total_num_tokens 1000", "num_pages NaN")]
    page, config = files(page="\n".join(lines) + "\n", config=json.dumps(CONFIG))
    _, out, _ = scrape(page, "--config", config)
    assert next(line for line in out.splitlines() if "blocks" in line).split() == [
        "KV",
        "blocks",
        "-",
    ]
    assert "62.5 MiB of 125 MiB (estimated)" in out
    assert "31.0%" in out
    assert "! sglang:num_pages: nan is not a number from 0 or more" in out


@pytest.mark.parametrize(("tp", "total"), [("1", 1600 * 131_072), ("4", 1600 * 131_072)])
def test_bytes_are_those_of_the_pod(files, scrape_json, tp, total):
    page, config = files(page=PAGE, config=json.dumps(CONFIG))
    kv = scrape_json(page, "--config", config, "--tp", tp)["kv"]
    assert kv["capacity_bytes"] == total
    assert kv["page_bytes"] == 65_536 // int(tp)


def test_a_dtype_that_is_given_beats_the_pages(files, scrape_json):
    page, config = files(page=PAGE, config=json.dumps(CONFIG))
    assert scrape_json(page, "--config", config, "--kv-dtype", "fp8")["kv"]["page_bytes"] == 32_768


def test_a_dtype_of_the_page_that_nobody_knows_leaves_bytes_unknown(files, scrape_json):
    page, config = files(page=PAGE.replace('"auto"', '"fp3"'), config=json.dumps(CONFIG))
    told = scrape_json(page, "--config", config)
    assert told["kv"]["capacity_bytes"] is None
    assert told["kv"]["capacity_tokens"] == 1600
    assert "bytes are unknown: " in told["problems"][0]


def test_a_model_that_cannot_be_sized_leaves_bytes_unknown(files, scrape_json):
    page, config = files(page=PAGE, config=json.dumps(CONFIG | {"model_type": "deepseek_v4"}))
    told = scrape_json(page, "--config", config)
    assert told["kv"]["capacity_bytes"] is None
    assert told["problems"][0].startswith("bytes are unknown: ")


def test_stdin_is_a_page(monkeypatch, scrape_json):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PAGE.encode())))
    told = scrape_json("-")
    assert (told["source"], told["running"]) == ("-", 3)


def test_several_pages_are_a_list(files, scrape_json):
    told = scrape_json(*files(one=PAGE, two="tgi_queue_size 7\ntgi_batch_current_size 1\n"))
    assert [each["engine"] for each in told] == ["vllm", "tgi"]


def test_several_pages_are_rows(files, scrape):
    code, out, _ = scrape(*files(one=PAGE, two="tgi_queue_size 7\n"))
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:3] == ["page", "engine", "version"]
    assert rows[1][1:] == ["vllm", ">0.19", "3", "3", "25.0%", "400", "1,600", "-"]
    assert "two: tgi_batch_current_size: not on the page" in out


def test_a_bad_page_sets_the_code_and_the_good_are_answered(files, scrape):
    (page,) = files(page=PAGE)
    code, out, err = scrape("/nowhere/page", page, "-o", "json")
    assert code == 2
    assert [each["engine"] for each in json.loads(out)] == ["vllm"]
    assert err == "cacheaware: /nowhere/page: No such file or directory\n"


def test_a_page_of_no_engine_is_a_finding(files, scrape):
    (page,) = files(page="up 1\n")
    code, out, _ = scrape(page)
    assert code == 1
    assert "nothing that could be read" in out
    assert "UnsupportedEngine: " in out


def test_one_engine_can_be_asked_for(files, scrape_json):
    (page,) = files(page=PAGE + "sglang:num_running_reqs 9\n")
    assert scrape_json(page, "--engine", "sglang")["running"] == 9


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(["--engine", "vlm"], "--engine is 'vlm'; allowed: auto, vllm", id="engine"),
        pytest.param(
            ["--timeout", "0"], "--timeout is 0.0; allowed: more than 0", id="timeout zero"
        ),
        pytest.param(["--timeout", "nan"], "--timeout is nan; allowed", id="timeout NaN"),
        pytest.param(["--tp", "0"], "tensor parallel is 0", id="tp"),
        pytest.param(["--dcp", "2"], "decode context parallel is 2", id="dcp"),
        pytest.param(
            ["--config", "/nowhere/config.json"],
            "/nowhere/config.json: No such file",
            id="no config",
        ),
        pytest.param(
            ["--token-file", "/nowhere/token"], "/nowhere/token: No such file", id="no token"
        ),
        pytest.param(
            ["localhost:8000"],
            "localhost:8000: a URL begins with http:// or https://",
            id="no scheme",
        ),
        pytest.param(
            ["ftp://pod/metrics"], "a URL begins with http:// or https://", id="other scheme"
        ),
        pytest.param(["/"], "/: Is a directory", id="a directory"),
        pytest.param(["http://pod:x/metrics"], "is not valid", id="no port"),
        pytest.param(["a\0b"], "null", id="no path"),
        pytest.param([""], "a source is empty", id="no name"),
        pytest.param(["http://127.0.0.1:99999"], "port", id="a port too high"),
    ],
)
def test_what_cannot_be_right_is_one_line_and_code_2(files, scrape, args, message):
    (page,) = files(page=PAGE)
    code, _, err = scrape(page, *args)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "a JSON object is allowed"),
        ("[" * 100_000, "nested too deeply"),
        (json.dumps(CONFIG | {"num_attention_heads": 0}), "num_attention_heads"),
    ],
)
def test_a_config_that_cannot_be_right_is_refused(files, scrape, content, message):
    page, config = files(page=PAGE, config=content)
    code, out, err = scrape(page, "--config", config)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_json_of_one_page_that_can_not_be_read_is_null(scrape):
    code, out, _ = scrape("/no/such/page", "-o", "json")
    assert (code, json.loads(out)) == (2, None)


@contextmanager
def server(status: int = 200, body: str = PAGE, **headers: str):
    """A server on loopback that notes what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: object) -> None:
            """Not to the test's output."""

    with HTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}", asked
        finally:
            listener.shutdown()
            thread.join()


@pytest.mark.parametrize(("path", "asked_for"), [("", "/metrics"), ("/", "/metrics"), ("/x", "/x")])
def test_a_server_is_asked_for_its_page(scrape_json, path, asked_for):
    with server() as (url, asked):
        assert scrape_json(url + path)["running"] == 3
    assert asked == [(asked_for, None)]


def test_a_token_is_sent_and_never_shown(files, scrape):
    (token,) = files(token="sk-EXAMPLE-not-real\n")
    with server(status=401, body="{}") as (url, asked):
        code, out, err = scrape(url, "--token-file", token)
    assert asked == [("/metrics", "Bearer sk-EXAMPLE-not-real")]
    assert code == 2
    assert f"cacheaware: {url}/metrics: answered 401, a key is needed\n" == err
    assert "sk-EXAMPLE" not in out + err


@pytest.mark.parametrize("content", ["", "two\nlines", "schlüssel"])
def test_a_token_that_no_header_can_hold_is_refused(files, scrape, content):
    (token,) = files(token=content)
    code, _, err = scrape("http://127.0.0.1:1", "--token-file", token)
    assert code == 2
    assert "one line of printable ASCII is allowed" in err


def test_a_redirect_away_is_refused(scrape):
    with server(status=307, body="", Location="http://169.254.169.254/latest/") as (url, _):
        code, _, err = scrape(f"{url}/metrics")
    assert code == 2
    assert "redirected away to http://169.254.169.254, which is not followed" in err


def test_nobody_there_is_one_line(scrape):
    code, out, err = scrape("http://127.0.0.1:1/metrics", "--timeout", "2")
    assert (code, out) == (2, "")
    assert err.startswith("cacheaware: http://127.0.0.1:1/metrics: ")
    assert err.count("\n") == 1


def test_a_file_without_end_is_refused(monkeypatch, files, scrape):
    (page,) = files(page=PAGE)
    monkeypatch.setattr("cacheaware.cli.scrape.LARGEST_FILE", 100)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PAGE.encode())))
    code, out, err = scrape(page, "-")
    assert (code, out) == (2, "")
    assert (
        err == f"cacheaware: {page}: more than 100 bytes\ncacheaware: stdin: more than 100 bytes\n"
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (512, "512 B"),
        (65536, "64 KiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2**41, "2 TiB"),
    ],
)
def test_bytes_are_shown_in_the_unit_that_suits_them(number, text):
    assert size(number) == text


def test_all_public_pages_are_read(shared, scrape_json):
    pages = sorted((shared / "data" / "metrics").glob("*.prom"))
    told = scrape_json(*map(str, pages))
    assert len(told) == 25
    assert all(each["engine"] for each in told)


def test_the_example_of_the_help_runs(files, capsys, monkeypatch, tmp_path):
    files(**{"metrics.prom": PAGE, "config.json": json.dumps(CONFIG)})
    monkeypatch.chdir(tmp_path)
    assert ran(capsys, *example("scrape"))[0] == 0
