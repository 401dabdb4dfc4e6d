"""The shares of the roofline, against times that were measured."""

from typing import Any

import pytest

from cacheaware.model.architecture import architecture
from cacheaware.model.engine_speed import DECODE_SHARE, PREFILL_SHARE, Replica, Roofs, roofs
from cacheaware.model.gpus import gpu_named
from cacheaware.model.precision import precision_of
from cacheaware.model.serving_load import Load, rate_of, token_s
from cacheaware.model.walk import Served, walk
from cacheaware.model.work import Phase, Step
from cacheaware_sidecar.kv import Parallel, geometry

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
LLAMA_70B: dict[str, Any] = {
    **LLAMA_8B,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
}


def replica_of(config: dict[str, Any], gpu: str, ranks: int = 1) -> Replica:
    on = gpu_named(gpu)
    kept = geometry(config, Parallel(ranks))
    return Replica(architecture(config), kept, precision_of(config, on), on)


# AIConfigurator 0.12.0 (vLLM 0.24, bf16): tokens a second of a prompt of 2,048, and c0, c1, c2 of a
# decode step: ms, ms per sequence, ms per 1,000 cached tokens. Sums of kernel times: real runs take
# 20 % more for prompts and 8 % more for c0.
MEASURED = [
    (LLAMA_8B, "h100", 1, 47_072, (6.41, 0.0105, 0.0417)),
    (LLAMA_8B, "h200", 1, 47_187, (4.96, 0.0107, 0.0295)),
    (LLAMA_8B, "a100", 1, 16_360, (11.6, 0.0283, 0.0846)),
    (LLAMA_8B, "l40s", 1, 14_135, (22.3, 0.0352, 0.1895)),
    (LLAMA_70B, "h100", 4, 15_732, (15.2, 0.0323, 0.0265)),
    (LLAMA_70B, "h100", 8, 23_837, (9.97, 0.0237, 0.0134)),
    (LLAMA_70B, "a100", 4, 6_073, (27.6, 0.0975, 0.0584)),
    (LLAMA_70B, "a100", 8, 9_077, (17.3, 0.0682, 0.0270)),
]
ROWS = pytest.mark.parametrize(("config", "gpu", "ranks", "tokens_per_s", "step"), MEASURED)


@ROWS
def test_measured_prompts_and_steps_lie_within_the_shares(config, gpu, ranks, tokens_per_s, step):
    roof = roofs(replica_of(config, gpu, ranks), 2048, 2048, 64)
    c0, c1, c2 = step
    prompt_s = 2048 / tokens_per_s * 1.2
    step_s = (1.08 * c0 + 64 * (c1 + c2 * 2.048)) / 1000
    assert PREFILL_SHARE.low < roof.prompt_s / prompt_s < PREFILL_SHARE.high
    assert DECODE_SHARE.low < roof.step_s[64] / step_s < DECODE_SHARE.high


def test_the_expected_shares_are_the_middle_of_what_was_measured():
    prompts, steps = [], []
    for config, gpu, ranks, tokens_per_s, (c0, c1, c2) in MEASURED:
        roof = roofs(replica_of(config, gpu, ranks), 2048, 2048, 16)
        prompts.append(roof.prompt_s / (2048 / tokens_per_s * 1.2))
        steps.append(roof.step_s[16] * 1000 / (1.08 * c0 + 16 * (c1 + c2 * 2.048)))
    assert sum(prompts) / len(prompts) == pytest.approx(PREFILL_SHARE.expected, abs=0.04)
    assert sum(steps) / len(steps) == pytest.approx(DECODE_SHARE.expected, abs=0.04)


# Real vLLM 0.19 runs of 300 requests of 857 + 653 tokens on average: an RTX PRO 6000 with 128 at a
# time (66 s, begin and end included; 32.5 ms a token), an RTX 4090 with 41,408 tokens of cache,
# which 27 requests of full length fill (184 s, 32.4 ms; it ran up to 49, as requests grow to their
# length). Ratios are planned over measured: requests a second, time of a token.
@pytest.mark.parametrize(
    ("gpu", "batch", "measured", "ratios"),
    [("rtx-pro-6000", 128, (66, 32.5), (1.07, 1.24)), ("rtx-4090", 27, (184, 32.4), (0.72, 1.09))],
)
def test_real_runs_are_met_within_a_third(gpu, batch, measured, ratios):
    run_s, token_ms = measured
    rate_ratio, token_ratio = ratios
    load = Load(10, 857, 653)
    roof = roofs(replica_of(LLAMA_8B, gpu), 857, 857 + 326, 128)
    speed = roof.speed(PREFILL_SHARE.expected, DECODE_SHARE.expected)
    assert rate_of(speed, load, batch) * run_s / 300 == pytest.approx(rate_ratio, abs=0.02)
    assert token_s(speed, load, batch) * 1000 / token_ms == pytest.approx(token_ratio, abs=0.02)


def test_a_small_models_steps_take_the_time_of_their_launches():
    speed = Roofs(layers=24, prompt_s=1e-6, step_s={1: 1e-6}).speed(1, 1)
    assert speed.prefill_s == speed.step(1) == pytest.approx(126e-6 + 24 * 32.1e-6)


def test_steps_are_computed_up_to_the_most_sequences():
    replica = replica_of(LLAMA_8B, "h100")
    assert sorted(roofs(replica, 10, 10, 100).step_s) == [1, 4, 16, 64, 100]
    assert sorted(roofs(replica, 10, 10, 1).step_s) == [1]


@pytest.mark.parametrize("step", [Step(Phase.PREFILL, 500, 0, 1), Step(Phase.DECODE, 1, 500, 9)])
def test_a_step_takes_as_long_as_a_walk_through_it(step):
    walked = walk(LLAMA_70B, step, Served(gpu_named("h100"), Parallel(4)))
    assert replica_of(LLAMA_70B, "h100", 4).seconds(step) == pytest.approx(walked.seconds)
