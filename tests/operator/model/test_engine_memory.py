"""The memory of a rank, against what engines logged."""

from dataclasses import replace
from typing import Any

import pytest
from tests.operator.model.configs import LLAMA_8B

from cacheaware.model.architecture import architecture
from cacheaware.model.engine_memory import (
    GIB,
    RankMemory,
    Scheduler,
    activations,
    default_scheduler,
    rank_memory,
    rank_weights,
    visible_bytes,
)
from cacheaware.model.gpus import GPUS, gpu_named
from cacheaware.model.layers import Layer
from cacheaware.model.precision import precision_of
from cacheaware_sidecar.kv import Parallel, geometry

QWEN_1_5B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_attention_heads": 12,
    "num_hidden_layers": 28,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
}
MIXTURE: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
}
LATENT: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 1,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 129280,
}

# (GPU, utilization, KV GiB): vLLM's own log lines, Llama-3.1-8B in bf16 on one GPU: 0.32 and V0 on
# an 80 GiB Hopper card, V0 on a 22.07 GiB A10, V1 on an A5000 and an A100 with 40 GiB, and 0.19's
# 2,588 blocks on an RTX 4090.
LOGGED_POOLS = [
    ("h100", 0.92, 56.21),
    ("h100", 0.90, 54.93),
    ("a10", 0.90, 4.60),
    ("a5000", 0.90, 5.29),
    ("a100-40", 0.90, 19.92),
    ("rtx-4090", 0.90, 5.05),
]


def memory_of(config: dict[str, Any], gpu: str, tensor: int = 1, share: float = 0.9) -> RankMemory:
    on = gpu_named(gpu)
    kept = geometry(config, Parallel(tensor))
    return rank_memory(architecture(config), precision_of(config, on), kept, on, share)


@pytest.mark.parametrize(("gpu", "share", "logged"), LOGGED_POOLS)
def test_pools_that_engines_logged_lie_within_the_span(gpu, share, logged):
    pool = memory_of(LLAMA_8B, gpu, share=share).pool
    assert pool.low / GIB < logged < pool.high / GIB
    assert pool.expected / GIB == pytest.approx(logged, abs=0.8)


def test_the_pool_of_a_mixture_in_eight_bits_on_two_ranks_is_what_was_logged():
    """vLLM 0.10.2, Qwen3-30B-A3B in FP8 on two L40S at 0.95: 25.91 GiB, 566,016 tokens."""
    stored = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    pool = memory_of({**MIXTURE, **stored}, "l40s", 2, 0.95).pool
    assert pool.low / GIB < 25.91 < pool.high / GIB
    assert pool.expected / GIB == pytest.approx(25.91, abs=0.8)


def test_a_pool_is_the_budget_without_all_that_is_taken():
    memory = memory_of(LLAMA_8B, "l40s")
    rest = memory.weights + memory.activations.expected + memory.other.expected
    assert memory.pool.expected == pytest.approx(0.9 * memory.visible.expected - rest)


# vLLM's logs. "PyTorch activation peak memory takes": Qwen2.5-1.5B with 32,768 tokens, Llama-3-8B
# with 8,192 and Llama-3.1-8B with 2,048, 256 requests each; "for peak activation" without graphs.
@pytest.mark.parametrize(
    ("config", "scheduler", "logged_gib"),
    [
        (QWEN_1_5B, Scheduler(32768, 256), 2.02),
        (LLAMA_8B, Scheduler(8192, 256), 1.26),
        (LLAMA_8B, Scheduler(2048, 256), 0.22),
        (LLAMA_8B, Scheduler(8192, 1024), 1.21),
    ],
)
def test_activations_that_engines_logged_lie_within_the_span(config, scheduler, logged_gib):
    found = activations(architecture(config), 1, scheduler)
    assert found.low / GIB < logged_gib < found.high / GIB


def test_activations_are_the_widest_layer_and_the_logits():
    found = activations(architecture(LLAMA_8B), 1, Scheduler(1000, 10))
    layer = 1000 * 2 * (2 * 4096 + 3 * 14336)
    logits = 10 * 128256
    assert found.low == layer
    assert found.expected == layer + 6 * logits
    assert found.high == layer + 26 * logits


def test_experts_take_room_for_every_chosen_one():
    found = activations(architecture(MIXTURE), 1, Scheduler(1000, 1))
    assert found.low == 1000 * 2 * (2 * 2048 + 8 * (2048 + 768))


def test_a_latent_cache_is_widened_to_heads_in_prefill():
    found = activations(architecture({**LATENT, "num_experts_per_tok": 1}), 1, Scheduler(1000, 1))
    assert found.low == 1000 * 2 * (2 * 7168 + 128 * 2 * (192 + 128))


def test_a_layer_without_parts_takes_its_input_and_the_residual():
    empty = replace(architecture(LLAMA_8B), layers=(Layer(0, None, None, ()),))
    assert activations(empty, 1, Scheduler(1000, 1)).low == 1000 * 2 * 2 * 4096


def test_ranks_share_what_is_split():
    one, four = (
        activations(architecture(LLAMA_8B), tensor, Scheduler(1000, 1)).low for tensor in (1, 4)
    )
    assert one - four == 1000 * 2 * 3 * 14336 * 3 // 4


def test_weights_of_a_rank_are_its_share_and_what_is_not_split():
    model, precision = architecture(LLAMA_8B), precision_of(LLAMA_8B, gpu_named("h100"))
    whole = rank_weights(model, precision, geometry(LLAMA_8B, Parallel(1)))
    assert whole == 2 * 8_030_261_248
    norms = 2 * 4096 * 65
    split = rank_weights(model, precision, geometry(LLAMA_8B, Parallel(4)))
    assert split == (whole - norms) / 4 + norms


def test_kv_heads_beyond_one_per_rank_are_held_twice():
    model, precision = architecture(QWEN_1_5B), precision_of(QWEN_1_5B, gpu_named("h100"))
    two, four = (
        rank_weights(model, precision, geometry(QWEN_1_5B, Parallel(ranks))) for ranks in (2, 4)
    )
    norms = 2 * 1536 * 57
    halved = (two - norms) / 2 + norms
    assert four - halved == 28 * 1536 * (128 + 128) * 2 // 2


def test_pipeline_stages_share_the_weights():
    model, precision = architecture(LLAMA_8B), precision_of(LLAMA_8B, gpu_named("h100"))
    assert rank_weights(model, precision, geometry(LLAMA_8B, Parallel(1, 2))) == 8_030_261_248


def test_several_ranks_hold_buffers_for_their_exchanges():
    assert memory_of(LLAMA_8B, "h100", 2).other.low > memory_of(LLAMA_8B, "h100", 1).other.low


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_no_engine_sees_more_than_is_sold(gpu):
    seen = visible_bytes(gpu)
    assert 0.9 * gpu.memory_gib * GIB < seen.low < seen.high < gpu.memory_gib * GIB


def test_the_api_servers_defaults_depend_on_the_card():
    assert default_scheduler(gpu_named("h100")) == Scheduler(8192, 1024)
    assert default_scheduler(gpu_named("a100")) == Scheduler(2048, 256)
    assert default_scheduler(gpu_named("l40s")) == Scheduler(2048, 256)
