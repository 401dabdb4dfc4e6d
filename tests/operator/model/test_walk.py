"""One step of a request through a model."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operator.model.configs import DEEPSEEK_R1, LLAMA_2_7B, LLAMA_8B

from cacheaware.model.architecture import UnknownArchitectureError
from cacheaware.model.gpus import Gpu, gpu_named
from cacheaware.model.parameters import count_parameters
from cacheaware.model.roofline import Bound
from cacheaware.model.walk import Row, Served, Walk, walk
from cacheaware.model.work import Part, Phase, Step
from cacheaware_sidecar.kv import ConfigError, Parallel, geometry

MIXTRAL = LLAMA_2_7B | {
    "model_type": "mixtral",
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
SLIDING = LLAMA_2_7B | {"model_type": "mistral", "sliding_window": 1024}
MLA = DEEPSEEK_R1 | {"num_hidden_layers": 4, "quantization_config": None}
HYBRID = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 151936,
}
A100 = gpu_named("a100")
PROMPT = Step(Phase.PREFILL, 2048, 0, 1)
TOKEN = Step(Phase.DECODE, 1, 2048, 1)


def walked(
    config: Any, step: Step, gpu: Gpu = A100, ranks: tuple[int, int] = (1, 1), **options: str
) -> Walk:
    return walk(config, step, Served(gpu, Parallel(*ranks), **options))


def rows(found: Walk, part: Part) -> list[Row]:
    return [row for row in found.rows if row.operation.part is part]


def row(found: Walk, name: str) -> Row:
    (one,) = [row for row in found.rows if row.operation.name == name]
    return one


def test_llama_2_7b_with_ten_tokens_has_the_textbook_shapes() -> None:
    found = walked(LLAMA_2_7B, Step(Phase.PREFILL, 10, 0, 1))
    assert {one.operation.name: one.operation.shape for one in found.rows} == {
        "embedding": "[10] -> [10, 4096]",
        "norm": "2 x [10, 4096]",
        "qkv": "[10, 4096] x [4096, 12288]",
        "rope": "[10, 32 + 32, 128]",
        "kv write": "[10, 8192]",
        "attention": "1 x 32 x [10, 128] x [128, 10]",
        "output": "[10, 4096] x [4096, 4096]",
        "ffn up": "[10, 4096] x [4096, 22016]",
        "ffn act": "[10, 11008]",
        "ffn down": "[10, 11008] x [11008, 4096]",
        "final norm": "[1, 4096]",
        "head": "[1, 4096] x [4096, 32000]",
    }
    # 10 tokens x 2 (K and V) x 4,096 values x 2 bytes x 32 layers
    assert found.kv_written == 10 * 2 * 4096 * 2 * 32


def test_the_parameters_of_all_rows_are_those_of_the_model() -> None:
    for config in (LLAMA_2_7B, LLAMA_8B, MIXTRAL, SLIDING, MLA, HYBRID):
        found = walked(config, PROMPT)
        counted = sum(one.times * one.operation.parameters for one in found.rows)
        assert counted == count_parameters(found.model).total


@pytest.mark.parametrize("gpu", ["a100", "l40s", "h100"])
@pytest.mark.parametrize("config", [LLAMA_2_7B, LLAMA_8B], ids=["llama-2-7b", "llama-3-8b"])
def test_decode_waits_for_memory_and_a_long_prompt_for_arithmetic(config: Any, gpu: str) -> None:
    decoded, prefilled = (walked(config, step, gpu_named(gpu)) for step in (TOKEN, PROMPT))
    assert decoded.bound is Bound.MEMORY
    assert all(one.bound is Bound.MEMORY for one in decoded.rows)
    assert prefilled.bound is Bound.COMPUTE
    products = [Part.QKV, Part.OUTPUT, Part.FFN, Part.ATTENTION]
    assert all(one.bound is Bound.COMPUTE for part in products for one in rows(prefilled, part))


def test_a_token_costs_about_two_flops_for_each_parameter_of_a_product() -> None:
    found = walked(LLAMA_2_7B, Step(Phase.DECODE, 1, 0, 1))
    table = 32000 * 4096
    assert found.flops == pytest.approx(2 * (6_738_415_616 - table), rel=0.001)


def test_a_decode_step_reads_each_weight_and_the_whole_cache_once() -> None:
    found = walked(LLAMA_8B, TOKEN)
    read = sum(one.times * one.operation.weight_bytes for one in found.rows)
    assert read == pytest.approx(2 * (8_030_261_248 - 128256 * 4096), rel=0.0001)
    assert found.kv_read == 2049 * 131_072
    assert found.kv_written == 131_072


def test_gqa_reads_a_quarter_of_the_cache_that_as_many_heads_would() -> None:
    many = walked(LLAMA_8B | {"num_key_value_heads": 32}, TOKEN)
    assert walked(LLAMA_8B, TOKEN).kv_read * 4 == many.kv_read


def test_a_window_caps_what_a_decode_step_reads_and_what_a_prompt_computes() -> None:
    short, long = (walked(SLIDING, Step(Phase.DECODE, 1, n, 1)) for n in (3000, 4000))
    assert short.kv_read == long.kv_read == 1024 * 2 * 4096 * 2 * 32
    windowed = row(walked(SLIDING, Step(Phase.PREFILL, 4096, 0, 1)), "attention (sliding)")
    whole = row(walked(LLAMA_2_7B, Step(Phase.PREFILL, 4096, 0, 1)), "attention")
    pairs = 1024 * 1025 // 2 + 3072 * 1024
    assert windowed.operation.flops * 4096 * 4097 // 2 == whole.operation.flops * pairs


def test_mla_reads_one_latent_vector_whatever_the_heads_and_folds_it_in_decode() -> None:
    found = walked(MLA, TOKEN)
    attention = row(found, "attention (mla)").operation
    assert attention.kv_read == 2049 * (512 + 64) * 2
    assert attention.flops == 2 * 128 * 2049 * (512 + 64 + 512)
    prefilled = row(walked(MLA, PROMPT), "attention (mla)").operation
    assert prefilled.flops == 2 * 128 * (2048 * 2049 // 2) * (128 + 64 + 128)


def test_mla_makes_keys_and_values_of_a_cached_prefix_anew() -> None:
    fresh = row(walked(MLA, Step(Phase.PREFILL, 100, 0, 1)), "attention (mla)").operation
    cached = row(walked(MLA, Step(Phase.PREFILL, 100, 400, 1)), "attention (mla)").operation
    pairs = 2 * 128 * (100 * 400) * (128 + 64 + 128)
    assert cached.flops - fresh.flops == pairs + 2 * 400 * 512 * 128 * (128 + 128)


def test_a_latent_vector_is_read_whole_on_each_rank() -> None:
    one, eight = (walked(MLA, TOKEN, ranks=(ranks, 1)) for ranks in (1, 8))
    assert one.kv_read == eight.kv_read


def test_a_sparse_indexer_caps_attention_and_still_scores_every_token() -> None:
    sparse = MLA | {
        "model_type": "deepseek_v32",
        "index_n_heads": 64,
        "index_head_dim": 128,
        "index_topk": 2048,
    }
    found = walked(sparse, Step(Phase.DECODE, 1, 99_999, 1))
    attention, indexer = row(found, "attention (mla)").operation, row(found, "indexer").operation
    assert attention.flops == 2 * 128 * 2048 * (512 + 64 + 512)
    assert indexer.kv_read == 100_000 * 132


def test_one_token_reads_two_experts_and_many_tokens_all_of_them() -> None:
    each = 2 * 4096 * 14336 * 2
    one = row(walked(MIXTRAL, TOKEN), "experts up").operation
    assert one.weight_bytes == 2 * each
    many = row(walked(MIXTRAL, PROMPT), "experts up").operation
    assert many.weight_bytes == pytest.approx(8 * each)
    assert many.flops == 2048 * one.flops


def test_projections_around_narrow_embeddings_and_norms_behind_them_are_rows() -> None:
    small = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100}
    opt = small | {
        "model_type": "opt",
        "ffn_dim": 256,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
        "word_embed_proj_dim": 32,
    }
    found = walked(opt, Step(Phase.PREFILL, 8, 0, 1))
    assert row(found, "project in").operation.shape == "[8, 32] x [32, 64]"
    assert row(found, "project out").operation.shape == "[1, 64] x [64, 32]"
    bloom = walked(small | {"model_type": "bloom", "n_head": 4}, Step(Phase.PREFILL, 8, 0, 1))
    assert [one.operation.shape for one in rows(bloom, Part.NORM)] == [
        "[8, 64]",
        "2 x [8, 64]",
        "[1, 64]",
    ]
    assert not rows(bloom, Part.ROPE)
    counts = [sum(o.times * o.operation.parameters for o in one.rows) for one in (found, bloom)]
    assert counts == [count_parameters(one.model).total for one in (found, bloom)]


def test_norms_without_weights_still_read_and_write() -> None:
    found = walked(LLAMA_2_7B | {"model_type": "olmo"}, PROMPT)
    assert row(found, "norm").operation.shape == "2 x [2048, 4096]"
    assert row(found, "norm").operation.parameters == 0
    assert row(found, "final norm").operation.moved > 0


def test_chunked_layers_look_no_further_than_their_chunk_and_full_ones_have_no_rope(
    shared: Path,
) -> None:
    path = shared / "data/model-configs/RedHatAI__Llama-4-Scout-17B-16E-Instruct-FP8-dynamic.json"
    found = walked(json.loads(path.read_text()), Step(Phase.DECODE, 1, 20_000, 1))
    chunked, full = row(found, "attention (chunked)"), row(found, "attention")
    assert (chunked.times, full.times) == (36, 12)
    assert chunked.operation.kv_read * 20_001 == full.operation.kv_read * (20_000 % 8192 + 1)
    assert [one.times for one in rows(found, Part.ROPE)] == [36]


def test_parallel_attention_and_ffn_may_share_a_sum() -> None:
    config = LLAMA_2_7B | {"model_type": "cohere"}
    assert any(
        "one all-reduce for both" in note for note in walked(config, TOKEN, ranks=(2, 1)).notes
    )
    assert not any("one all-reduce" in note for note in walked(config, TOKEN).notes)


def test_a_state_layer_moves_its_constant_state_at_any_context() -> None:
    short, long = (walked(HYBRID, Step(Phase.DECODE, 1, n, 3)) for n in (10, 100_000))
    states = [row(found, "state (gated delta)") for found in (short, long)]
    assert states[0].operation == states[1].operation
    kept = geometry(HYBRID).state_bytes_per_sequence
    assert kept is not None
    assert states[0].times * states[0].operation.kv_read == 3 * kept
    assert row(long, "attention").operation.kv_read > row(short, "attention").operation.kv_read


def test_tensor_parallel_ranks_share_products_and_say_two_sums_a_layer() -> None:
    one, four = (walked(LLAMA_8B, PROMPT, ranks=(ranks, 1)) for ranks in (1, 4))
    assert row(one, "ffn up").operation.flops == 4 * row(four, "ffn up").operation.flops
    assert one.collectives == ()
    sums = {c.when: c for c in four.collectives if c.name == "all-reduce"}
    assert [c.count for c in sums.values()] == [1, 32, 32]
    for sum_ in sums.values():
        assert sum_.payload == 2048 * 4096 * 2
        assert sum_.volume == sum_.payload * 2 * 3 // 4
        assert sum_.seconds == pytest.approx(sum_.volume / 300e9)


def test_kv_heads_are_replicated_beyond_their_number() -> None:
    eight, sixteen = (walked(LLAMA_8B, TOKEN, ranks=(ranks, 1)) for ranks in (8, 16))
    assert eight.kv_read == sixteen.kv_read
    assert row(sixteen, "qkv").operation.shape == "[1, 4096] x [4096, 512]"


def test_pipeline_stages_send_what_a_layer_hands_on() -> None:
    (sent,) = walked(LLAMA_8B, PROMPT, ranks=(1, 4)).collectives
    assert (sent.name, sent.count, sent.volume) == ("send", 3, 2048 * 4096 * 2)


def test_the_shares_of_all_rows_and_exchanges_are_one() -> None:
    found = walked(MIXTRAL, PROMPT, ranks=(2, 2))
    shares = sum(one.share for one in found.rows)
    exchanged = sum(one.total_s for one in found.collectives)
    assert shares + exchanged / found.seconds == pytest.approx(1)


def test_fp8_weights_halve_the_reading_and_double_the_arithmetic_where_the_gpu_can() -> None:
    h100 = gpu_named("h100")
    half, eight = (
        row(walked(LLAMA_8B, TOKEN, h100, weights=name), "ffn up").operation
        for name in ("auto", "fp8")
    )
    assert eight.weight_bytes * 2 == half.weight_bytes
    assert (eight.dtype, half.dtype) == ("fp8", "bf16")
    assert row(walked(LLAMA_8B, TOKEN, weights="fp8"), "ffn up").operation.dtype == "bf16"


def test_an_fp8_cache_halves_what_attention_reads() -> None:
    half, eight = (walked(LLAMA_8B, TOKEN, kv_dtype=name) for name in ("auto", "fp8"))
    assert eight.kv_read * 2 == half.kv_read


def test_what_acts_on_a_row_follows_from_what_it_waits_for() -> None:
    decoded, prefilled = walked(LLAMA_8B, TOKEN), walked(LLAMA_8B, PROMPT, gpu_named("h100"))

    def ids(found: Walk, name: str) -> set[str]:
        return {remedy.id for remedy in row(found, name).remedies}

    assert ids(decoded, "ffn up") == {
        "continuous-batching",
        "weight-quantisation",
        "speculative-decoding",
    }
    assert ids(prefilled, "ffn up") == {"fp8-gemm", "tensor-parallel", "pd-split"}
    assert ids(decoded, "attention") == {"kv-quantisation", "gqa", "paged-kv", "split-kv"}
    assert "flash-attention" in ids(prefilled, "attention")
    assert all(one.remedies for one in (*decoded.rows, *prefilled.rows))
    eight = walked(LLAMA_8B, TOKEN, kv_dtype="fp8", weights="int4")
    assert ids(eight, "attention") == {"gqa", "paged-kv", "split-kv"}
    assert ids(eight, "ffn up") == {"continuous-batching", "speculative-decoding"}


def test_batching_is_free_until_the_ridge() -> None:
    under, over = (walked(LLAMA_8B, Step(Phase.DECODE, 1, 0, n)) for n in (140, 180))
    assert row(under, "ffn up").bound is Bound.MEMORY
    assert row(over, "ffn up").bound is Bound.COMPUTE
    assert "about 153 tokens" in row(under, "ffn up").remedies[0].text


def test_what_does_not_fit_is_noted() -> None:
    assert any("raise TP or PP" in note for note in walked(MIXTRAL, TOKEN).notes)
    assert not any("raise TP or PP" in note for note in walked(MIXTRAL, TOKEN, ranks=(2, 1)).notes)
    long = walked(LLAMA_2_7B, Step(Phase.PREFILL, 5000, 0, 1))
    assert "5,000 tokens are more than the model's 4,096 positions" in long.notes


def test_a_card_without_bf16_computes_in_fp16_and_says_so() -> None:
    found = walked(LLAMA_2_7B, TOKEN, gpu_named("t4"))
    assert row(found, "qkv").operation.dtype == "fp16"
    assert any("T4 has no BF16" in note for note in found.notes)


@pytest.mark.parametrize(
    ("phase", "new", "context", "batch", "word"),
    [
        (Phase.PREFILL, 0, 0, 1, "prompt is 0"),
        (Phase.PREFILL, 1, -1, 1, "context is -1"),
        (Phase.DECODE, 1, 1, 0, "batch is 0"),
        (Phase.DECODE, 2, 1, 1, "a decode step computes one token"),
    ],
)
def test_a_step_that_cannot_be_is_refused(
    phase: Phase, new: int, context: int, batch: int, word: str
) -> None:
    with pytest.raises(ConfigError, match=word):
        Step(phase, new, context, batch)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 50))
def test_pairs_are_what_the_mask_leaves(new: int, context: int, window: int) -> None:
    step = Step(Phase.PREFILL, new, context, 1)
    positions = range(context, context + new)
    assert step.pairs(None) == sum(at + 1 for at in positions)
    assert step.pairs(window) == sum(min(at + 1, window) for at in positions)
    assert step.chunked_pairs(window) == sum(at % window + 1 for at in positions)
    seen = {key for at in positions for key in range(max(0, at + 1 - window), at + 1)}
    assert step.in_view(window) == len(seen)


def measured(shared: Path, run: str) -> list[dict[str, float]]:
    with (shared / f"data/latency/{run}/timeseries.csv").open() as lines:
        return [{k: float(v) for k, v in one.items()} for one in csv.DictReader(lines)]


def llama_31_8b(shared: Path) -> Any:
    return json.loads((shared / "data/model-configs/meta-llama__Llama-3.1-8B.json").read_text())


@pytest.mark.parametrize(
    ("run", "gpu", "ratio"),
    [("RTX4090_Llama-3.1-8B", "rtx-4090", 1.23), ("RTXPRO6000_Llama-3.1-8B", "pro6000", 1.43)],
)
def test_measured_decode_steps_take_longer_than_the_roofline_by_a_quarter_or_so(
    shared: Path, run: str, gpu: str, ratio: float
) -> None:
    """In seconds without prefill a step takes running / (generated tokens per second).

    The second log lacks the cache's use: 1,183 tokens a request (mean prompt, half the output).
    """
    config, ratios = llama_31_8b(shared), []
    alone = [one for one in measured(shared, run) if not one["prompt_throughput"]]
    for second in alone[::3]:
        batch = int(second["running"])
        if batch < 2 or not second["gen_throughput"]:
            continue
        cached = 41_408 * second["kv_cache_pct"] / 100 or 1183 * batch
        step = Step(Phase.DECODE, 1, round(cached / batch), batch)
        least = walked(config, step, gpu_named(gpu)).seconds
        ratios.append(batch / second["gen_throughput"] / least)
    assert median(ratios) == pytest.approx(ratio, abs=0.06)


def test_measured_prefill_takes_a_fifth_longer_than_the_sum_of_the_rows(shared: Path) -> None:
    """RTX 4090, the first four seconds: 35,865 prompt tokens, in chunks of 2,048."""
    requests = read_requests(shared, "RTX4090_Llama-3.1-8B")
    begin = min(one["queued_ts"] for one in requests)
    done = sum(one["input_toks"] for one in requests if one["first_token_ts"] - begin <= 4)
    found = walked(llama_31_8b(shared), PROMPT, gpu_named("rtx-4090"))
    assert done == 35_865
    assert 4 / done * 2048 / found.seconds == pytest.approx(1.19, abs=0.03)
    assert found.least_seconds < found.seconds


@pytest.mark.parametrize(
    ("run", "gpu", "ratio"),
    [("RTX4090_Llama-3.1-8B", "rtx-4090", 3.0), ("RTXPRO6000_Llama-3.1-8B", "pro6000", 2.2)],
)
def test_the_first_request_of_a_run_waits_for_more_than_its_arithmetic(
    shared: Path, run: str, gpu: str, ratio: float
) -> None:
    """2,358 tokens alone on a fresh engine: first shapes are slow."""
    first = min(read_requests(shared, run), key=lambda one: one["queued_ts"])
    step = Step(Phase.PREFILL, int(first["input_toks"]), 0, 1)
    took = first["first_token_ts"] - first["scheduled_ts"]
    assert took / walked(llama_31_8b(shared), step, gpu_named(gpu)).seconds == pytest.approx(
        ratio, rel=0.1
    )


def read_requests(shared: Path, run: str) -> list[dict[str, Any]]:
    lines = (shared / f"data/latency/{run}/requests.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_every_configuration_that_is_known_can_be_walked(shared: Path) -> None:
    known = 0
    for path in sorted((shared / "data/model-configs").glob("*.json")):
        config = json.loads(path.read_text())
        try:
            found = walked(config, replace(TOKEN, batch=7), gpu_named("h200"))
        except (ConfigError, UnknownArchitectureError):
            continue
        known += 1
        assert found.seconds >= found.least_seconds > 0
        counted = sum(one.times * one.operation.parameters for one in found.rows)
        assert counted == count_parameters(found.model).total, path.name
    assert known >= 100
