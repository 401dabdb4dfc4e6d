"""What the real process takes: 45 MB resident and 1 % of a core are its budget.

After the first control call it is 55 MB: tokens are checked with cryptography.
"""

import os
import time
from pathlib import Path

import pytest
from tests.sidecar.cluster_fakes import ACCOUNT, UID, FakeApi, bearer, jwk, mint, own_secrets

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


LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


@LINUX
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


@LINUX
def test_the_sidecar_takes_at_most_55_mb_after_control_calls(engine, sidecar, tmp_path):
    engine.page = page_of_650_lines()
    api = FakeApi(tmp_path)
    api.keys = [jwk("RS256", str(number)) for number in range(8)]
    it = sidecar(
        environ=api.environ, token_dir=own_secrets(tmp_path / "secrets"), operator_account=ACCOUNT
    )
    it.until_phase("serving")
    for number in range(30):
        it.get("/v1/state")
        it.get("/metrics")
        token = mint(time.time(), kid=str(number % 8), jti=str(number))
        answer = it.post("/cordon", {"by": UID, "seconds": 60}, bearer(token))
        assert answer.status_code == 200
        assert it.post("/uncordon", {"by": UID}, bearer(token)).status_code == 200
    memory = resident_mb(it.process.pid)
    print(f"\nsidecar after control calls: {memory:.1f} MB resident")
    api.stop()

    assert memory <= 55
