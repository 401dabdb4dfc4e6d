"""What the real process takes: 45 MB resident and 1 % of a core are its budget."""

import os
import time
from pathlib import Path

import pytest

SECONDS = 6.0


def page_of_650_lines():
    bounds = [0.001 * 1.25**i for i in range(40)]
    lines = [
        'vllm:num_requests_running{engine="0",model_name="m"} 7.0',
        'vllm:num_requests_waiting{engine="0",model_name="m"} 2.0',
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.4',
        "process_start_time_seconds 1.7e+09",
    ]
    for name in (
        "time_to_first_token_seconds",
        "inter_token_latency_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
        "request_prefill_time_seconds",
        "request_decode_time_seconds",
        "request_inference_time_seconds",
        "request_prompt_tokens",
        "request_generation_tokens",
        "request_params_n",
        "request_params_max_tokens",
        "iteration_tokens_total",
        "request_time_per_output_token_seconds",
        "request_max_num_generation_tokens",
        "request_num_preemptions",
    ):
        lines += [f"# HELP vllm:{name} Some words.", f"# TYPE vllm:{name} histogram"]
        labels = 'engine="0",model_name="m"'
        lines += [
            f'vllm:{name}_bucket{{{labels},le="{bound:g}"}} {count}.0'
            for count, bound in enumerate([*bounds, float("inf")])
        ]
        lines += [f"vllm:{name}_count{{{labels}}} 40.0", f"vllm:{name}_sum{{{labels}}} 12.5"]
    return "\n".join(lines) + "\n"


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (resident,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(resident) / 1024


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_the_sidecar_takes_at_most_45_mb_and_1_percent_of_a_core(engine, sidecar):
    engine.page = page_of_650_lines()
    assert 640 <= engine.page.count("\n") <= 700
    it = sidecar(scrape_interval_seconds=1)
    it.until_phase("serving")
    for _ in range(50):
        it.get("/v1/state")
        it.get("/metrics")
    pid = it.process.pid
    began, used = time.monotonic(), cpu_seconds(pid)
    while time.monotonic() - began < SECONDS:
        assert it.get("/readyz").status_code == 200  # the kubelet's probe, once a second
        time.sleep(1)
    share = (cpu_seconds(pid) - used) / (time.monotonic() - began)
    memory = resident_mb(pid)
    print(f"\nsidecar: {memory:.1f} MB resident, {share:.2%} of a core")

    assert memory <= 45
    assert share <= 0.01
