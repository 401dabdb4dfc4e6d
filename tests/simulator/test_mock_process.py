"""The mock engine as a process: what it costs, and what load does to it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cacheaware.cli import main


def metric(mock, name):
    lines = mock.get("/metrics")[1].splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}{{")]
    return float(line.rpartition(" ")[2])


def load(mock, capsys, *flags):
    with pytest.raises(SystemExit) as end:
        main(["simulate", "load", mock.url, "-o", "json", *flags])
    return end.value.code, json.loads(capsys.readouterr().out)


def test_load_beyond_its_cache_is_preempted_and_answered_like_on_the_real_vllm(mock, capsys):
    """Seen on vLLM 0.32: 24 requests of 400 tokens, 64 blocks of 32: preempted, all answered."""
    engine = mock("--profile", "cpu-tiny", "--time-scale", "10")

    flags = ("--concurrency", "24", "--requests", "24", "--prompt-tokens", "12")
    code, result = load(engine, capsys, *flags, "--output-tokens", "400")

    assert code == 0
    assert (result["sent"], result["ok"], result["failed"]) == (24, 24, {})
    assert result["completion_tokens"] == 24 * 400
    assert metric(engine, "vllm:num_preemptions_total") > 0
    assert metric(engine, "vllm:kv_cache_usage_perc") == 0.0


def test_the_same_prompt_twice_is_found_in_the_cache_while_usage_reads_zero(mock, capsys):
    engine = mock("--profile", "cpu-tiny", "--time-scale", "10")
    flags = ("--concurrency", "1", "--requests", "2", "--prompt-tokens", "240")

    load(engine, capsys, *flags, "--shared-tokens", "240", "--output-tokens", "5")

    assert metric(engine, "vllm:prefix_cache_hits_total") == 224
    assert metric(engine, "vllm:kv_cache_usage_perc") == 0.0


def test_the_first_long_prompt_stalls_and_the_second_does_not(mock, capsys):
    engine = mock("--first-shape-stall", "long-prompt=0.6")
    flags = ("--concurrency", "1", "--requests", "1", "--prompt-tokens", "600")

    times = [
        load(engine, capsys, *flags, "--output-tokens", "2", "--seed", seed)[1]["ttft_s"]["max"]
        for seed in "12"
    ]

    assert times[0] > 0.6
    assert times[1] < 0.5


def test_a_faster_engine_takes_less_time(mock, capsys):
    flags = ("--concurrency", "1", "--requests", "1", "--output-tokens", "100")

    _, slow = load(mock("--raw"), capsys, *flags)
    _, fast = load(mock("--time-scale", "4"), capsys, *flags)

    assert slow["e2e_s"]["max"] > 0.4
    assert fast["e2e_s"]["max"] < slow["e2e_s"]["max"] / 2


def test_what_was_lost_is_counted_by_kind(mock, capsys):
    engine = mock("--faults")
    flags = ("--rate", "100", "--requests", "5", "--output-tokens", "3")
    engine_faults(engine, requests="500")

    code, result = load(engine, capsys, *flags)

    assert code == 1
    assert result["failed"] == {"http-500": 5}
    assert result["ttft_s"] is None


TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:00,300,20
2023-11-16 18:15:01,40,30
2023-11-16 18:15:02,500,10
2023-11-16 18:15:09,60,40
"""


def test_a_trace_reaches_the_engine_with_its_tokens(mock, capsys, tmp_path):
    engine = mock("--time-scale", "4")
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)

    targets = ("--slo-ttft-ms", "5000", "--slo-tpot-ms", "5000")
    code, result = load(engine, capsys, "--trace", str(file), "--from", "1", "--to", "5", *targets)

    assert code == 0
    assert (result["sent"], result["ok"], result["attainment_percent"]) == (2, 2, 100)
    assert metric(engine, "vllm:prompt_tokens_total") == 540
    assert metric(engine, "vllm:generation_tokens_total") == 40
    assert 1 <= result["duration_s"] < 4


def engine_faults(mock, **order):
    import urllib.request

    request = urllib.request.Request(
        f"{mock.url}/faults", json.dumps(order).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.status == 200


def cpu_s(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_mb(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_engine_costs_no_cpu_and_little_memory(mock):
    engine = mock()
    resident = resident_mb(engine.process)

    before = cpu_s(engine.process)
    time.sleep(2)
    used = cpu_s(engine.process) - before

    print(f"\nmock engine idle: {resident:.0f} MB, {used / 2:.1%} of a core")
    assert resident < 60
    assert used <= 0.02


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        pytest.param("cacheaware_sim.__main__", ["serve", "--port", "0"], id="the image's way"),
        pytest.param("cacheaware.cli", ["simulate", "serve", "--port", "0"], id="serve"),
        pytest.param(
            "cacheaware.cli",
            ["simulate", "load", "http://x", "--rate", "1", "--requests", "1"],
            id="load",
        ),
    ],
)
def test_without_its_extra_the_command_says_what_to_install(module, arguments):
    program = (
        "import sys; sys.modules['aiohttp'] = None; import importlib; "
        f"sys.exit(importlib.import_module({module!r}).main({arguments!r}))"
    )

    end = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )

    assert end.returncode == 2
    assert end.stderr == "cacheaware: the simulator needs aiohttp: pip install 'cacheaware[sim]'\n"


NOT_IN_THE_IMAGE = ("kopf", "kubernetes", "matplotlib", "scipy")


def test_a_trace_is_sent_without_the_libraries_that_the_mock_engines_image_lacks(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    arguments = ["simulate", "load", "http://127.0.0.1:1", "--trace", str(file), "--to", "1"]
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({NOT_IN_THE_IMAGE!r})); "
        f"from cacheaware.cli import main; main({[*arguments, '--model', 'm']!r})"
    )

    end = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )

    assert end.returncode == 1, end.stderr
    assert "refused 1" in end.stdout
