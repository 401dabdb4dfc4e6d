"""Grace period, hook and the engine's own shutdown must fit together."""

import csv
import re

import pytest
from tests.operator.doctor.workloads import (
    HTTP_HOOK,
    SCRIPT_HOOK,
    body,
    engine,
    one,
    plain,
    said,
    sidecar,
    sleep,
    subject,
)  # fmt: skip

from cacheaware.doctor.examine import examine
from cacheaware.doctor.findings import Severity
from cacheaware.doctor.longest import available_s, drain_length, recommended_grace_s
from cacheaware.doctor.shutdown import active_deadline, shutdown
from cacheaware.doctor.signal import signal_reach

ROWS = {
    "a": (30, None, 0, "error", "engine-aborts"),
    "b": (60, sleep(15), 45, "warning", "no-margin"),
    "c": (75, sleep(15), 45, "ok", None),
    "d": (60, sleep(15), 60, "error", "shutdown-exceeds-grace"),
    "e": (300, sleep(330), 0, "error", "hook-exceeds-grace"),
    "f": (180, SCRIPT_HOOK, 0, "ok", None),
    "g": (30, sleep(30), 0, "error", "hook-exceeds-grace"),
    "h": (0, None, 30, "error", "grace-zero"),
}


def row(grace, hook, timeout):
    args = [f"--shutdown-timeout={timeout}"] if timeout else []
    told = sidecar(grace=155) if hook is SCRIPT_HOOK else None  # 155 - 5: waits at most 150 s
    return body(engine(hook, args=args), grace=grace, side=told)


@pytest.mark.parametrize("name", ROWS)
def test_the_table_of_the_three_timeouts(name):
    grace, hook, timeout, severity, wanted = ROWS[name]
    found = [f for f in shutdown(subject(row(grace, hook, timeout))) if f.severity != "info"]
    assert [(f.severity, f.id) for f in found] == ([] if severity == "ok" else [(severity, wanted)])


def test_the_table_is_that_of_the_field_case(case):
    expected = case("048", "expect.json")
    for line in csv.DictReader(case("048", "input.csv").splitlines()):
        grace, hook, timeout, severity, _ = ROWS[line["id"]]
        told = "none" if hook is None else str((hook.get("sleep") or {}).get("seconds", "150"))
        numbers = re.findall(r"\d+", line["preStop"]) or ["none"]
        assert (str(grace), told) == (line["terminationGracePeriodSeconds"], numbers[0])
        assert (str(timeout), severity) == (line["shutdownTimeout"], expected[line["id"]])


def test_a_drain_of_150_seconds_fits_180():
    assert available_s(subject(row(180, SCRIPT_HOOK, 0))) == 150


@pytest.mark.parametrize(
    ("image", "rest", "hook", "wanted"),
    [
        ("vllm/vllm-openai:v0.17.1", {}, sleep(15), [("error", "engine-aborts")]),
        ("vllm/vllm-openai:latest", {}, sleep(15), [("error", "engine-aborts")]),
        ("vllm/vllm-openai:v0.18.0", {"args": ["--shutdown-timeout", "$(N)"]}, sleep(15),
         [("info", "sigterm-unknown")]),
        ("vllm/vllm-openai:v0.18.0", {"args": ["--config", "x"]}, sleep(15),
         [("info", "sigterm-unknown")]),
        ("vllm/vllm-openai:v0.18.0", {"args": ["--shutdown-timeout", "60"]}, None,
         [("warning", "no-prestop")]),
        ("lmsysorg/sglang:v0.5.3", {}, sleep(15), []),
        ("lmsysorg/sglang:v0.5.3", {}, None, [("warning", "no-prestop")]),
        ("lmsysorg/sglang:v0.5.3", {"env": [{"name": "SGL_FORCE_SHUTDOWN", "value": "1"}]},
         sleep(15), [("error", "engine-aborts")]),
        ("ghcr.io/huggingface/text-generation-inference:3.0", {}, sleep(15), []),
        ("ghcr.io/huggingface/text-generation-inference:3.0",
         {"args": ["--graceful-termination-timeout", "170"]}, sleep(15),
         [("error", "shutdown-exceeds-grace")]),
        ("ghcr.io/ggml-org/llama.cpp:server", {}, sleep(15), [("error", "engine-aborts")]),
        ("example.invalid/own:1", {}, sleep(15), [("info", "sigterm-unknown")]),
        ("openmmlab/lmdeploy:v0.9", {}, None,
         [("warning", "no-prestop"), ("info", "sigterm-unknown")]),
    ],
)  # fmt: skip
def test_each_engine_has_its_habit_at_sigterm(image, rest, hook, wanted):
    assert said(shutdown, plain(engine(hook, image, **rest))) == wanted


@pytest.mark.parametrize(
    ("image", "hint"),
    [
        ("vllm/vllm-openai:v0.18.0", True),
        ("vllm/vllm-openai:latest", True),
        ("vllm/vllm-openai:v0.17.1", False),
        ("ghcr.io/ggml-org/llama.cpp:server", False),
    ],
)
def test_the_engines_own_timeout_is_only_suggested_where_there_is_one(image, hint):
    found = one(shutdown, plain(engine(sleep(5), image)), longest_request_s=118.0)
    assert ("--shutdown-timeout 128 " in found.fix) is hint
    assert ("terminationGracePeriodSeconds 148" in found.fix) is hint
    assert "take 118 s" in found.message


def test_a_hook_of_ones_own_is_said_to_be_unknown():
    loop = {"exec": {"command": ["/drain.sh"]}}
    assert said(shutdown, plain(engine(loop))) == [("info", "hook-unknown")]
    assert "aborts at SIGTERM" in one(shutdown, plain(engine(loop))).message
    finishing = plain(engine(loop, args=["--shutdown-timeout=600"]))
    assert said(shutdown, finishing) == [
        ("error", "shutdown-exceeds-grace"),
        ("info", "hook-unknown"),
    ]


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (body(engine()), []),
        (plain(engine()), [("error", "drain-hook-without-sidecar")]),
        (body(engine(HTTP_HOOK)), [("warning", "drain-hook-fragile")]),
        (body(engine(HTTP_HOOK, args=["--shutdown-timeout=60"])), []),
        (body(engine(HTTP_HOOK, "ghcr.io/ggml-org/llama.cpp:server")), []),
        (body(engine(image="ghcr.io/ggml-org/llama.cpp:server")),
         [("warning", "hook-needs-python")]),
        (body(engine({"httpGet": {"path": "/drain/wait", "port": 8000}},
                     "lmsysorg/sglang:v0.5.3")), [("error", "drain-hook-port")]),
        (body(engine({"httpGet": {"path": "/drain/wait", "port": "cacheaware"}},
                     "lmsysorg/sglang:v0.5.3")), [("error", "drain-hook-port")]),
    ],
)  # fmt: skip
def test_our_own_hook_needs_its_sidecar(manifest, wanted):
    assert said(shutdown, manifest) == wanted


def test_a_grace_period_that_is_shorter_than_the_longest_request(case):
    manifest = plain({"name": "engine", "lifecycle": {"preStop": sleep(15)}}, grace=30)
    looked = subject(manifest, longest_request_s=118.0)
    assert (available_s(looked), recommended_grace_s(looked)) == (15, 143)
    (found,) = drain_length(looked)
    assert (found.id, found.severity) == ("drain-too-short", Severity.ERROR)
    assert "have 15 s to end, the longest (p99.9) take 118 s: those are cut" in found.message
    assert found.fix == "set terminationGracePeriodSeconds to at least 143"

    assert case("047", "expect.json") == {"available": 15, "recommended_min": 143}
    latency = case("047", "input.latency.json")["e2e_request_latency_seconds"]
    assert latency["p99.9"] == 118


@pytest.mark.parametrize(
    ("manifest", "available"),
    [
        (body(engine()), 175),
        (body(engine(), side=sidecar(grace=60)), 55),
        (body(engine(), side=sidecar(grace=300)), 175),
        (body(engine(), side=sidecar(env={"GRACE_SECONDS": {"valueFrom": {}}}), grace=60), 55),
        (body(engine(args=["--shutdown-timeout=20"]),
              side=sidecar(env={"ENGINE_SHUTDOWN_SECONDS": "20"})), 175),
        (body(engine(args=["--shutdown-timeout=20"])), 175),
        (plain(engine()), None),
        (body(engine(), side=sidecar(env={"PORT": "x"})), None),
        (plain(engine(sleep(15))), None),
        (plain(engine({"exec": {"command": ["/x"]}})), None),
        (plain(engine(sleep(15), args=["--shutdown-timeout=45"])), 45),
        (plain(engine(sleep(150), args=["--shutdown-timeout=45"])), 30),
        (plain(engine(sleep(15), "lmsysorg/sglang:v0.5.3")), 165),
        (plain(engine(sleep(200), "lmsysorg/sglang:v0.5.3")), 0),
        (plain(engine(sleep(15), "lmsysorg/sglang:v0.5.3"), grace=None), 15),
    ],
)  # fmt: skip
def test_what_requests_have_left_when_their_pod_goes(manifest, available):
    assert available_s(subject(manifest)) == available


@pytest.mark.parametrize(
    ("longest", "wanted"),
    [
        (None, [("info", "request-length-unknown")]),
        (100.0, []),
        (165.0, []),
        (170.0, [("warning", "drain-tight")]),
        (175.0, [("warning", "drain-tight")]),
        (176.0, [("error", "drain-too-short")]),
    ],
)
def test_a_drain_should_have_ten_seconds_to_spare(longest, wanted):
    assert said(drain_length, body(), longest_request_s=longest) == wanted


def test_where_nothing_is_left_there_is_nothing_to_compare():
    assert said(drain_length, plain(grace=0)) == []
    assert said(drain_length, plain(engine(sleep(15)))) == []


def test_the_change_names_all_numbers_that_have_to_change():
    found = one(drain_length, body(), longest_request_s=200.0, requests=5000.0)
    assert "take 200 s (of 5,000 requests): those are cut" in found.message
    assert found.fix.endswith("at least 215 (and CACHEAWARE_GRACE_SECONDS with it)")
    timed = plain(engine(sleep(15), args=["--shutdown-timeout=45"]))
    found = one(drain_length, timed, longest_request_s=200.0, longest_is_bound=True)
    assert "take at least 200 s" in found.message
    assert found.fix.endswith("at least 225, and --shutdown-timeout to 210")


@pytest.mark.parametrize(
    ("manifest", "longest", "grace"),
    [
        (plain(engine(sleep(15))), None, 145),
        (plain(engine(None)), 30.0, 40),
        (plain(engine()), 100.0, 115),
        (body(engine(), side=sidecar(env={"ENGINE_SHUTDOWN_SECONDS": "20"})), 100.0, 135),
    ],
)
def test_the_grace_period_to_recommend(manifest, longest, grace):
    assert recommended_grace_s(subject(manifest, longest_request_s=longest)) == grace


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (["vllm", "serve", "m"], []),
        (["sh", "-c", "exec vllm serve m"], []),
        (["sh", "-c", "vllm serve m"], [("info", "shell-without-exec")]),
        (["sh", "-c", "export A=1; vllm serve m"], [("warning", "sigterm-not-passed-on")]),
        (["sh", "-c", "exec vllm serve m | tee log"], [("warning", "sigterm-not-passed-on")]),
        (["sh", "-c", "trap 'kill $p' TERM; vllm serve m & p=$!; wait"], []),
    ],
    ids=str,
)
def test_sigterm_has_to_reach_the_engine(command, wanted):
    assert said(signal_reach, body(engine(command=command))) == wanted


def test_a_deadline_of_jobs_is_none_of_a_server():
    assert said(active_deadline, body()) == []
    manifest = body(pod={"activeDeadlineSeconds": 3600}, kind="StatefulSet")
    found = one(active_deadline, manifest)
    assert (found.id, found.severity) == ("active-deadline", "error")
    assert "the pods of a StatefulSet" in found.message


def test_what_inject_makes_is_content():
    assert {f.severity for f in examine(subject(body()))} == {Severity.INFO}
    found = examine(subject(body(), longest_request_s=100.0, load_s=60.0, from_cluster=True))
    assert [f.id for f in found] == ["kubelet-shutdown-unknown"]
