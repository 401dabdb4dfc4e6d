"""The model against request logs of a real vLLM 0.19 (LLMServingSim's repository)."""

import json
import time
from statistics import fmean

import pytest

from cacheaware_sim.engine import Engine
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.profiles import PROFILES
from cacheaware_sim.request import Request


def replay(profile, rows):
    """Every logged request at its logged time; the requests as the model served them."""
    start = rows[0]["queued_ts"]
    engine = Engine(
        EngineConfig(
            cost=profile.cost,
            num_blocks=profile.num_blocks,
            max_model_len=profile.max_model_len,
            max_num_seqs=profile.max_num_seqs,
            max_num_batched_tokens=profile.max_num_batched_tokens,
        )
    )
    requests = [
        Request(number, row["input_toks"], row["output_toks"]) for number, row in enumerate(rows)
    ]
    arrivals = [(row["queued_ts"] - start, one) for row, one in zip(rows, requests, strict=True)]
    arrivals.reverse()
    ends_at = None
    while arrivals or ends_at is not None:
        now = arrivals[-1][0] if ends_at is None else ends_at
        while arrivals and arrivals[-1][0] <= now:
            arrived_at, request = arrivals.pop()
            engine.submit(request, arrived_at)
        duration = engine.step(now).duration_s
        ends_at = None if duration is None else now + duration
    return engine, requests


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figures(values):
    return [fmean(values), *(quantile(values, share) for share in (0.5, 0.9, 0.99))]


@pytest.mark.parametrize(
    ("run", "profile", "preempts"),
    [
        pytest.param("RTXPRO6000_Llama-3.1-8B", "llama-3.1-8b-rtxpro6000", False, id="roomy"),
        pytest.param("RTX4090_Llama-3.1-8B", "llama-3.1-8b-rtx4090", True, id="short of cache"),
    ],
)
def test_the_model_is_within_six_percent_of_the_real_engine(shared, run, profile, preempts):
    lines = (shared / f"data/latency/{run}/requests.jsonl").read_text().splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: row["queued_ts"])

    started = time.perf_counter()
    engine, requests = replay(PROFILES[profile], rows)
    seconds = time.perf_counter() - started

    real = {
        "ttft": [row["first_token_ts"] - row["queued_ts"] for row in rows],
        "tpot": [
            (row["last_token_ts"] - row["first_token_ts"]) / (row["output_toks"] - 1)
            for row in rows
            if row["output_toks"] > 1
        ],
        "e2e": [row["last_token_ts"] - row["queued_ts"] for row in rows],
    }
    ours = {
        "ttft": [one.first_token_at - one.arrived_at for one in requests],
        "tpot": [
            (one.finished_at - one.first_token_at) / (one.output_tokens - 1)
            for one in requests
            if one.output_tokens > 1
        ],
        "e2e": [one.finished_at - one.arrived_at for one in requests],
    }
    print(f"\n{run}: {engine.stats.iterations / seconds:,.0f} iterations/s")
    for name, values in real.items():
        errors = [
            mine / theirs - 1
            for mine, theirs in zip(figures(ours[name]), figures(values), strict=True)
        ]
        print(f"  {name} mean/p50/p90/p99: " + " ".join(f"{error:+.1%}" for error in errors))
        assert max(map(abs, errors)) < 0.06
    assert (engine.stats.preemptions > 0) == preempts
