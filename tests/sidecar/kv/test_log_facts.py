"""What engines logged in public, computed from the configuration alone.

GiB are logged with two decimals: a fact agrees if it lies inside that interval.
"""

import pytest
from tests.sidecar.kv.configs import (
    GLM_51,
    KIMI_K2,
    LLAMA_31_8B,
    LLAMA_32_3B,
    LLAMA_33_70B,
    OPT_125M,
    PHI_4,
    QWEN3_30B,
    QWEN3_235B,
    QWEN25_05B,
    QWEN25_3B,
    QWEN25_15B,
    QWEN35_27B,
    QWEN36_35B,
    R1_DISTILL_14B,
)

from cacheaware_sidecar.kv import Parallel, geometry

GIB = 1 << 30


def interval(gib: float) -> tuple[int, int]:
    return int((gib - 0.005) * GIB), int((gib + 0.005) * GIB)


BLOCKS = {
    "Llama-3.1-8B on an RTX 3090": (LLAMA_31_8B, 3.81, 1952),
    "Llama-3.1-8B, 2.89 GiB": (LLAMA_31_8B, 2.89, 1478),
    "Llama-3.1-8B, 4 GiB of swap": (LLAMA_31_8B, 4.0, 2048),
    "Qwen2.5-1.5B": (QWEN25_15B, 2.36, 5519),
    "Qwen2.5-1.5B, 4 GiB on a CPU": (QWEN25_15B, 4.0, 9362),
    "Qwen2.5-0.5B": (QWEN25_05B, 2.32, 12652),
    "Llama-3.2-3B": (LLAMA_32_3B, 2.38, 1395),
    "Llama-3.2-3B, 4 GiB of swap": (LLAMA_32_3B, 4.0, 2340),
    "OPT-125m": (OPT_125M, 20.33, 37011),
    "OPT-125m, 4 GiB of swap": (OPT_125M, 4.0, 7281),
    "Phi-4": (PHI_4, 2.18, 715),
    "Phi-4, 4 GiB of swap": (PHI_4, 4.0, 1310),
}


@pytest.mark.parametrize(("config", "gib", "blocks"), BLOCKS.values(), ids=BLOCKS)
def test_blocks_of_a_log_come_out(config, gib, blocks):
    sized = geometry(config)
    least, most = (sized.blocks_from_bytes(size) for size in interval(gib))
    assert least <= blocks <= most
    assert most - least <= 0.011 * GIB / sized.bytes_per_block


TOKENS = {
    "Llama-3.1-8B on an A5000": (LLAMA_31_8B, Parallel(), "auto", 16, 5.29, 43296),
    "131,072 B a token on an A100": (LLAMA_31_8B, Parallel(), "bf16", 16, 19.92, 163168),
    "Llama-3.3-70B with fp8 KV": (LLAMA_33_70B, Parallel(), "fp8", 16, 5.11, 33504),
    "Kimi-K2-Thinking, TP 8": (KIMI_K2, Parallel(8), "auto", 64, 46.80, 715072),
    "Kimi-K2-Thinking, TP 8, DCP 8": (KIMI_K2, Parallel(8, 1, 8), "auto", 64, 46.80, 5721088),
    "GLM-5.1, TP 8": (GLM_51, Parallel(8), "auto", 64, 32.11, 344192),
}


@pytest.mark.parametrize(
    ("config", "parallel", "dtype", "block", "gib", "tokens"), TOKENS.values(), ids=TOKENS
)
def test_tokens_of_a_log_come_out(*, config, parallel, dtype, block, gib, tokens):
    sized = geometry(config, parallel, dtype, block)
    least, most = (sized.tokens_in_blocks(sized.blocks_from_bytes(size)) for size in interval(gib))
    assert least <= tokens <= most
    assert tokens % (block * parallel.decode_context) == 0


HYBRIDS = {
    "Qwen3.8-27B, bf16, TP 1": (QWEN35_27B, Parallel(), "auto", 784),
    "Qwen3.8-27B, fp8, TP 2": (QWEN35_27B, Parallel(2), "fp8", 1568),
    "Qwen3.6-35B-A3B, fp8": (QWEN36_35B, Parallel(), "fp8", 2096),
}


@pytest.mark.parametrize(("config", "parallel", "dtype", "block"), HYBRIDS.values(), ids=HYBRIDS)
def test_a_hybrid_raises_its_block_as_the_engine_does(config, parallel, dtype, block):
    sized = geometry(config, parallel, dtype)
    assert sized.block_size == block
    assert any(f"from 16 to {block} tokens" in warning for warning in sized.warnings)


POOLS = {
    "Qwen3.8-27B, 10 GiB": (QWEN35_27B, Parallel(), "auto", 10.0, 208, 32768, 141994, 4.3333),
    "Qwen3.8-27B, fp8, TP 2": (QWEN35_27B, Parallel(2), "fp8", 4.99, 208, 131072, 302921, 2.31),
    "Qwen3.6-35B-A3B, fp8": (QWEN36_35B, Parallel(), "fp8", 6.01, 300, 131072, 569878, 4.35),
}


@pytest.mark.parametrize(
    ("config", "parallel", "dtype", "gib", "blocks", "longest", "tokens", "requests"),
    POOLS.values(),
    ids=POOLS,
)
def test_the_pool_of_a_hybrid_comes_out(
    *, config, parallel, dtype, gib, blocks, longest, tokens, requests
):
    sized = geometry(config, parallel, dtype)
    assert sized.blocks_from_bytes(int(gib * GIB)) == blocks
    assert sized.tokens_in_blocks(blocks, longest) == tokens
    assert blocks / sized.blocks_per_request(longest) == pytest.approx(requests, abs=0.005)


def test_the_error_text_for_qwen3_coder_comes_out():
    """24.0 GiB needed for 262,144 tokens."""
    assert geometry(QWEN3_30B).bytes_per_request(262144) == 24 * GIB


def test_the_request_of_a_log_for_qwen25_3b_comes_out():
    assert geometry(QWEN25_3B).bytes_per_request(32000) / GIB == pytest.approx(1.1, abs=0.005)


def test_the_key_cache_of_sglang_comes_out():
    """367,404 tokens of Qwen3-235B over four ranks: 8.23 GiB of K, V the same."""
    sized = geometry(QWEN3_235B, Parallel(4))
    assert 367404 * sized.bytes_per_token_growing / 2 / GIB == pytest.approx(8.23, abs=0.005)


NOT_OF_ONE_RANK = {
    "Qwen3-235B, TP 4": (QWEN3_235B, Parallel(4), 8.11, 178880),
    "R1-Distill-Qwen-14B, TP 2": (R1_DISTILL_14B, Parallel(2), 8.69, 81536),
}


@pytest.mark.parametrize(
    ("config", "parallel", "gib", "tokens"), NOT_OF_ONE_RANK.values(), ids=NOT_OF_ONE_RANK
)
def test_the_pool_is_smaller_than_the_logged_rank_alone_allows(config, parallel, gib, tokens):
    """The log shows one rank, the pool follows the tightest: an upper bound, no equality."""
    assert tokens < geometry(config, parallel).tokens_from_bytes(int(gib * GIB))
