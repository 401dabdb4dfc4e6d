"""The real process from end to end, on loopback."""

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.sidecar.kv.configs import LLAMA_31_8B

from cacheaware_sidecar.lifecycle import PROOF
from cacheaware_sidecar.settings import load
from cacheaware_sidecar.version import version

FORBIDDEN = (
    *("kopf", "kubernetes", "torch", "pydantic", "typer", "rich", "aiohttp", "click", "yaml"),
    *("jwt", "cryptography"),
)
QUICK_DRAIN = {"drain_floor_seconds": 0, "grace_seconds": 20}


QUICK_HOOK = """\
import sys
sys.path.insert(0, sys.argv[1])
import wait
wait.POLL_S, wait.ANSWER_S = 0.2, 1.0
told = wait.load_settings
wait.load_settings = lambda folder: {**told(folder), "quiet_s": 1.0}
sys.exit(wait.main(wait.Path(sys.argv[1])))
"""
DRAIN_COMMAND = """\
import sys
from cacheaware_sidecar.__main__ import main
code = main(["drain"])
print(sorted({"httpx", "asyncio", "prometheus_client"} & set(sys.modules)))
sys.exit(code)
"""


def background(*command, **more):
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, **more)


def hook(folder):
    """The hook as a pod runs it."""
    return background("-I", "-S", folder / "wait.py")


def quick_hook(folder):
    """The hook with shorter times, for what happens without a sidecar."""
    return background("-I", "-S", "-c", QUICK_HOOK, folder)


def warmed_with(it):
    """Requests of the last warm-up, as the state tells them."""
    return it.get("/v1/state").json()["warmup"]["requests"]


def scrape_errors(it):
    lines = it.get("/metrics").text.splitlines()
    errors = [line for line in lines if line.startswith("cacheaware_scrape_errors_total")]
    return sum(float(line.rpartition(" ")[2]) for line in errors)


def test_a_pod_is_not_ready_before_its_long_prompt_was_answered(engine, sidecar):
    engine.hang.add("/v1/completions")
    it = sidecar()
    it.until_phase("warming")
    time.sleep(0.5)
    assert it.get("/readyz").status_code == 503

    engine.hang.clear()
    engine.woken.set()
    it.until(lambda: it.is_ready)

    tokens = [int(len(body["prompt"].split()) * 1.3) for _, body in engine.asked]
    assert max(tokens) > 512
    assert it.get("/v1/state").json()["warmup"]["verdict"] == "Warm"


def test_an_engine_that_loads_slowly_is_waited_for(engine, sidecar):
    engine.stop()
    it = sidecar()
    assert it.phase == "loading"
    it.until(lambda: "the engine's port refuses connections" in it.get("/readyz").text)

    engine.statuses["/health"] = 503
    engine.start()
    it.until(lambda: it.get("/v1/state").json()["running"] == 0)
    assert it.phase == "loading"

    engine.statuses.clear()
    it.until_phase("serving")


def test_nothing_that_is_only_seen_takes_the_pod_out_of_service(engine, sidecar):
    it = sidecar(scrape_timeout_seconds=0.2)
    it.until_phase("serving")
    troubles = [
        ("answered 401", lambda: engine.statuses.update({"/metrics": 401})),
        (
            "redirected away",
            lambda: (
                engine.statuses.update({"/metrics": 307}),
                engine.locations.update({"/metrics": "http://169.254.169.254/latest/"}),
            ),
        ),
        ("HTML", lambda: (engine.statuses.clear(), setattr(engine, "page", "<html>login"))),
        ("supported engine", lambda: setattr(engine, "page", "up 1\n")),
        ("no whole answer", lambda: engine.hang.add("/metrics")),
    ]
    for text, begin in troubles:
        begin()
        it.until(
            lambda text=text: any(
                text in problem for problem in it.get("/v1/state").json()["problems"]
            )
        )
        seen = scrape_errors(it)
        it.until(lambda seen=seen: scrape_errors(it) >= seen + PROOF)
        assert it.is_ready

    state = it.get("/v1/state").json()
    assert state["sample_age_s"] > 2
    assert state["running"] == 0
    page = it.get("/metrics").text
    for kind in ("unauthorized", "redirected_away", "unsupported", "timed_out"):
        assert f'cacheaware_scrape_errors_total{{kind="{kind}"}}' in page

    it.until(lambda: "running_requests" not in it.get("/metrics").text)
    assert len(engine.asked) == warmed_with(it)


def test_a_page_behind_a_redirect_on_the_same_host_is_read(engine, sidecar):
    engine.statuses["/metrics-old"] = 307
    engine.locations["/metrics-old"] = "/metrics"
    engine.running = 3
    it = sidecar(metrics_path="/metrics-old")

    it.until(lambda: it.get("/v1/state").json()["running"] == 3)


def test_an_engine_on_ipv6_is_read_and_the_sidecar_answers_on_both(engine, sidecar):
    engine.stop()
    engine.family, engine.port = socket.AF_INET6, 0
    try:
        engine.start()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    it = sidecar()
    it.until_phase("serving")

    assert httpx.get(f"http://[::1]:{it.port}/readyz", trust_env=False).status_code == 200


def test_an_engine_that_is_replaced_is_warmed_up_again(engine, sidecar):
    it = sidecar()
    it.until_phase("serving")
    engine.asked.clear()
    engine.restart()
    it.until(lambda: len(engine.asked) > 3)
    it.until_phase("serving")

    state = it.get("/v1/state").json()
    assert any("replaced" in problem for problem in state["problems"])
    assert "cacheaware_engine_restarts_total 1.0" in it.get("/metrics").text


def test_an_engine_that_dies_in_its_warmup_is_warmed_from_the_start(engine, sidecar):
    engine.hang.add("/v1/completions")
    it = sidecar()
    it.until_phase("warming")
    engine.stop()
    it.until_phase("loading")
    engine.hang.clear()
    engine.started += 7
    engine.start()

    it.until_phase("serving")


def test_an_engine_that_dies_is_not_ready(engine, sidecar):
    it = sidecar()
    it.until(lambda: it.is_ready)
    engine.stop()
    it.until(lambda: not it.is_ready)

    assert it.get("/v1/state").json()["running"] is None


def test_a_killed_sidecar_goes_on_where_it_was_without_a_second_warmup(engine, sidecar):
    it = sidecar()
    it.until_phase("serving")
    it.stop(signal.SIGKILL)
    it.start()

    assert it.is_ready
    it.until(lambda: it.get("/v1/state").json()["sample_seq"] > 2)
    assert len(engine.asked) == warmed_with(it)


def test_a_sidecar_that_was_away_when_the_engine_was_replaced_finds_out(engine, sidecar):
    it = sidecar()
    it.until_phase("serving")
    it.stop(signal.SIGKILL)
    engine.asked.clear()
    engine.restart()
    it.start()

    it.until(lambda: len(engine.asked) > 3)
    it.until_phase("serving")


def test_sigterm_ends_the_sidecar_well_within_a_second(engine, sidecar):
    it = sidecar()
    it.until_phase("serving")
    with socket.create_connection(("127.0.0.1", it.port)):
        began = time.monotonic()
        assert it.stop() == 0

    assert time.monotonic() - began < 1
    assert not (it.folder / "drain.sock").exists()


def test_hooks_of_all_kinds_wait_until_the_last_request_is_done(engine, sidecar):
    it = sidecar(**QUICK_DRAIN)
    it.until_phase("serving")
    engine.running = 2
    over_socket = hook(it.folder)
    it.until_phase("draining")
    command = background("-c", DRAIN_COMMAND, env=it.environment)
    with ThreadPoolExecutor() as pool:
        over_http = pool.submit(it.get, "/drain/wait", timeout=20)
        time.sleep(1)
        state = it.get("/v1/state").json()
        assert it.is_ready
        assert state["drain"]["running"] == 2
        assert 0 < state["drain"]["deadline_s"] < 15

        engine.running = 0
        began = time.monotonic()
        said, _ = over_socket.communicate(timeout=20)
        assert 4.5 < time.monotonic() - began < 12

    assert over_socket.returncode == 0
    assert "empty" in said
    assert "says the sidecar" in said
    assert (over_http.result().status_code, over_http.result().text) == (200, "done: empty\n")
    said, loaded = command.communicate(timeout=10)[0].splitlines()
    assert command.returncode == 0
    assert said.startswith("cacheaware: empty after ")
    assert loaded == "[]"
    assert (it.phase, it.is_ready) == ("drained", False)
    assert "cacheaware_drain_cut_requests 0.0" in it.get("/metrics").text
    assert it.get("/drain/wait").text == "done: empty\n"


def test_at_the_deadline_the_hook_says_what_is_left(engine, sidecar):
    it = sidecar(drain_floor_seconds=0, grace_seconds=7)
    it.until_phase("serving")
    engine.running, engine.waiting = 3, 1
    waiting = hook(it.folder)
    said, _ = waiting.communicate(timeout=10)

    assert waiting.returncode == 0
    assert re.search(r"3 running, 1 waiting after [23]\.", said)
    assert (it.phase, it.is_ready) == ("draining", False)
    assert "cacheaware_drain_cut_requests 4.0" in it.get("/metrics").text
    assert any("deadline" in problem for problem in it.get("/v1/state").json()["problems"])


@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_dead_sidecar_costs_no_request_because_the_hook_asks_the_engine(engine, sidecar, moment):
    it = sidecar(**QUICK_DRAIN)
    it.until_phase("serving")
    engine.running = 1
    if moment == "before":
        it.stop(signal.SIGKILL)
    waiting = quick_hook(it.folder)
    if moment == "during":
        it.until_phase("draining")
        it.stop(signal.SIGKILL)
    time.sleep(1.5)
    assert waiting.poll() is None

    engine.running = 0
    began = time.monotonic()
    output, _ = waiting.communicate(timeout=20)
    assert time.monotonic() - began > 0.9
    assert "empty" in output
    assert "the sidecar is gone" in output


def test_a_sidecar_killed_in_a_drain_goes_on_with_it(engine, sidecar):
    it = sidecar(**QUICK_DRAIN)
    it.until_phase("serving")
    engine.running = 1
    waiting = hook(it.folder)
    it.until_phase("draining")
    left = it.get("/v1/state").json()["drain"]["deadline_s"]
    it.stop(signal.SIGKILL)
    it.start()

    assert it.phase == "draining"
    assert it.get("/v1/state").json()["drain"]["deadline_s"] < left
    waiting.kill()
    waiting.communicate(timeout=5)


def test_a_silent_sidecar_is_not_waited_for(engine, sidecar):
    it = sidecar(**QUICK_DRAIN)
    it.until_phase("serving")
    assert it.process
    it.process.send_signal(signal.SIGSTOP)
    output, _ = quick_hook(it.folder).communicate(timeout=20)
    it.process.send_signal(signal.SIGCONT)

    assert "the sidecar is gone" in output
    assert "empty" in output


def test_an_engine_that_ends_ends_the_drain(engine, sidecar):
    it = sidecar(**QUICK_DRAIN)
    it.until_phase("serving")
    engine.running = 1
    waiting = hook(it.folder)
    it.until_phase("draining")
    engine.stop()

    output, _ = waiting.communicate(timeout=10)
    assert "the engine has ended" in output
    assert it.phase == "drained"


def test_a_hook_that_ran_because_the_engines_container_was_restarted_does_no_harm(engine, sidecar):
    it = sidecar(**QUICK_DRAIN)
    it.until_phase("serving")
    engine.running = 1
    waiting = hook(it.folder)
    it.until_phase("draining")
    engine.running = 0
    engine.asked.clear()
    engine.restart()
    assert "the engine was replaced" in waiting.communicate(timeout=10)[0]

    it.until_phase("serving")
    assert len(engine.asked) == warmed_with(it)


def test_a_key_is_read_anew_when_the_secret_changes_and_is_never_shown(engine, sidecar, tmp_path):
    key_file = tmp_path / "key"
    key_file.write_text("sk-first\n")
    engine.key = "sk-first"
    it = sidecar(api_key_file=key_file)
    it.until_phase("serving")
    engine.key = "sk-second"
    it.until(lambda: any("401" in each for each in it.get("/v1/state").json()["problems"]))
    key_file.write_text("sk-second\n")
    it.until(lambda: not it.get("/v1/state").json()["problems"])

    shown = it.log.read_text() + it.get("/v1/state").text + it.get("/metrics").text
    assert "sk-" not in shown
    assert it.is_ready


def test_an_engine_that_wants_a_key_for_everything_is_ready_with_a_problem(engine, sidecar):
    engine.key = "sk-unknown"
    it = sidecar()
    it.until(lambda: it.is_ready)

    state = it.get("/v1/state").json()
    assert state["warmup"]["verdict"] == "NotApplicable"
    assert any("CACHEAWARE_API_KEY_FILE" in problem for problem in state["problems"])


def test_a_budget_that_is_used_up_makes_the_pod_ready_with_a_problem(engine, sidecar):
    engine.statuses["/v1/completions"] = 500
    it = sidecar(warmup_budget_seconds=1)
    it.until(lambda: it.is_ready)

    assert any("1 s were not enough" in each for each in it.get("/v1/state").json()["problems"])


def test_or_keeps_it_not_ready_and_says_so(engine, sidecar):
    engine.statuses["/v1/completions"] = 500
    it = sidecar(warmup_budget_seconds=1, warmup_verdict="Fail")
    it.until(lambda: it.get("/v1/state").json()["warmup"]["verdict"] == "Failed")

    answer = it.get("/readyz")
    assert answer.status_code == 503
    assert "1 s were not enough" in answer.text
    assert answer.text.count("\n") == 1


def test_a_warmup_that_is_off_asks_nothing(engine, sidecar):
    it = sidecar(warmup="off")
    it.until(lambda: it.is_ready)

    assert engine.asked == []
    assert it.get("/v1/state").json()["warmup"]["verdict"] == "Off"


def test_bytes_come_from_the_configuration_and_its_lack_stops_nothing(engine, sidecar, tmp_path):
    config = tmp_path / "config.json"
    it = sidecar(config_file=config)
    it.until_phase("serving")
    state = it.get("/v1/state").json()
    assert state["kv"]["capacity_bytes"] is None
    assert state["kv"]["capacity_tokens"] == 1616
    assert any("MissingFile" in problem for problem in state["problems"])
    assert "cacheaware_config_loaded 0.0" in it.get("/metrics").text
    it.stop()

    config.write_text(json.dumps(LLAMA_31_8B))
    it.start()
    it.until(lambda: it.get("/v1/state").json()["kv"]["page_bytes"] == 65536)
    kv = it.get("/v1/state").json()["kv"]
    assert kv["capacity_bytes"] == 101 * 2_097_152
    assert "kv_page_bytes 65536.0" in it.get("/metrics").text


def test_logs_are_lines_of_json_where_asked_for_and_none_is_per_scrape(engine, sidecar):
    it = sidecar(log_format="json")
    it.until_phase("serving")
    it.until(lambda: it.get("/v1/state").json()["sample_seq"] > 4)
    it.stop()
    lines = [json.loads(line) for line in it.log.read_text().splitlines()]

    assert [line["message"].split(",")[0] for line in lines] == [
        f"cacheaware-sidecar {version()} listens on port {it.port}",
        "phase warming",
        f"warm-up of engine 1: Warm after {lines[2]['message'].split()[6]} s",
        "phase serving",
        "stops",
    ]


def test_a_port_that_is_taken_is_one_line_and_code_one(tmp_path):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "cacheaware_sidecar"],
            env={"CACHEAWARE_SHARED_DIR": str(tmp_path), "CACHEAWARE_PORT": port},
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        )

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Address already in use" in done.stderr


def test_the_sidecar_loads_nothing_heavy(engine, sidecar):
    """Everything that a run loads, seen at its end."""
    code = (
        "import sys\n"
        "from cacheaware_sidecar.__main__ import main\n"
        "main([])\n"
        "print(sorted({name.partition('.')[0] for name, module in sys.modules.items() if module}))"
    )
    it = sidecar(program=("-c", code))
    it.until_phase("serving")
    it.stop()
    loaded = set(ast.literal_eval(it.said.read_text()))

    assert loaded & set(FORBIDDEN) == set()
    assert {"cacheaware_sidecar", "httpx", "prometheus_client"} <= loaded
    assert len(engine.asked) > 2


def test_the_installed_hook_is_what_the_settings_say(engine, sidecar):
    it = sidecar(grace_seconds=60, engine_shutdown_seconds=20, engine_type="sglang")
    told = json.loads((it.folder / "wait.json").read_text())

    assert os.access(it.folder / "wait.py", os.X_OK)
    assert told["drain_s"] == load(it.environment).drain_seconds == 35
    assert told["counts"][0][0][0] == "sglang:num_running_reqs"
    assert len(told["counts"]) == 1
