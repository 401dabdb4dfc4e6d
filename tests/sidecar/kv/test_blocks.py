"""Pages, groups and blocks; ranks and pods."""

import pytest
from tests.sidecar.kv.configs import (
    GEMMA_3_27B,
    GEMMA_4_31B,
    KIMI_K2,
    KIMI_LINEAR,
    LLAMA_4,
    LLAMA_31_8B,
    MINIMAX_M3,
    QWEN3_235B,
    QWEN35_27B,
    QWEN36_35B,
    plain,
)

from cacheaware_sidecar.kv import Parallel, geometry


def test_the_worked_example_of_llama():
    sized = geometry(LLAMA_31_8B)
    assert sized.page_bytes == 65536
    assert sized.bytes_per_block == sized.pod_bytes_per_block == 2097152
    assert sized.bytes_per_token_growing == sized.pod_bytes_per_token_growing == 131072
    assert sized.blocks_per_request(1) == 1
    assert sized.blocks_per_request(17) == 2
    assert sized.blocks_per_request(0) == 0
    assert sized.tokens_in_blocks(100) == 1600


def test_a_block_size_scales_pages_and_blocks():
    sized = geometry(LLAMA_31_8B, block_size=32)
    assert (sized.block_size, sized.page_bytes, sized.bytes_per_block) == (32, 131072, 4194304)


GROUPS = {
    "one for plain models": (LLAMA_31_8B, [32]),
    "10 full, 52 sliding: six of 9 or 8 beside the 10": (GEMMA_3_27B, [10, 9, 9, 9, 9, 8, 8]),
    "10 full, 50 sliding": (GEMMA_4_31B, [10] * 6),
    "16 full, 48 states": (QWEN35_27B, [16] * 4),
    "7 latent, 20 states": (KIMI_LINEAR, [7, 7, 7, 6]),
    "chunked like full": (LLAMA_4, [48]),
    "three and two: half more is not nearly equal": (
        plain(
            5,
            4,
            1,
            64,
            "olmo3",
            sliding_window=64,
            layer_types=["sliding_attention"] * 3 + ["full_attention"] * 2,
        ),
        [2, 2, 1],
    ),
    "counts within half: the larger is the size": (
        plain(
            9,
            4,
            1,
            64,
            "olmo3",
            sliding_window=64,
            layer_types=["sliding_attention"] * 5 + ["full_attention"] * 4,
        ),
        [5, 4],
    ),
}


@pytest.mark.parametrize(("config", "sizes"), GROUPS.values(), ids=GROUPS)
def test_layers_are_grouped_as_the_engine_does(config, sizes):
    groups = geometry(config).groups
    assert sorted((len(group.layers) for group in groups), reverse=True) == sorted(
        sizes, reverse=True
    )


def test_smaller_pages_get_longer_blocks():
    """Gemma-4: 16 sliding heads of 256 beside 4 full ones of 512."""
    sized = geometry(GEMMA_4_31B)
    assert {group.block_size for group in sized.groups} == {16, 32}
    assert {page for group in sized.groups for page in group.page_bytes} == {262144}
    assert sized.bytes_per_block == 10 * 262144
    assert set(sized.page_bytes) == {262144, 131072}
    assert sized.blocks_per_request(3200, max_num_batched_tokens=3200) == 100 + 5 * 200


def test_a_window_caps_the_blocks_of_its_groups():
    sized = geometry(GEMMA_3_27B)
    capped = -(-(1024 - 1 + 8192) // 16) + 1
    assert sized.blocks_per_request(100) == 7 * 7
    assert sized.blocks_per_request(131072) == 8192 + 6 * capped
    assert sized.blocks_per_request(131072, max_num_batched_tokens=2048) == 8192 + 6 * 193


def test_chunked_layers_are_charged_in_full():
    sized = geometry(LLAMA_4)
    assert sized.bytes_per_token_reserved == 196608
    assert sized.bytes_per_request(100000) == 196608 * 100000
    assert sized.blocks_per_request(100000) == 6250
    assert any("plan with the rate of all layers" in warning for warning in sized.warnings)


def test_a_chunk_no_shorter_than_the_model_is_no_chunk():
    sized = geometry({**LLAMA_4, "max_position_embeddings": 8192})
    assert sized.bytes_per_token_growing == 196608
    assert sized.window_capped_bytes_per_sequence == 0


def test_a_window_no_shorter_than_the_model_is_effectively_full():
    config = plain(2, 4, 4, 64, "phi3", sliding_window=8192, max_position_embeddings=8192)
    sized = geometry(config)
    assert sized.bytes_per_token_growing == sized.bytes_per_token_all_layers == 2048
    assert sized.window_capped_bytes_per_sequence == 0
    assert any("effectively full" in warning for warning in sized.warnings)


def test_with_a_window_in_every_layer_the_pool_still_pays_by_token():
    sized = geometry(plain(2, 4, 4, 64, "mistral", sliding_window=64))
    assert (sized.bytes_per_token_growing, sized.bytes_per_token_reserved) == (0, 2048)
    assert sized.bytes_per_request(1000) == sized.window_capped_bytes_per_sequence == 64 * 2048
    assert any("growth stops at 64 tokens" in warning for warning in sized.warnings)


def test_state_groups_take_two_blocks_with_prefix_caching_and_one_without():
    sized = geometry(QWEN36_35B, kv_dtype="fp8")
    assert sized.blocks_per_request(131072) == 63 + 6
    assert sized.blocks_per_request(131072, state_blocks=1) == 63 + 3
    assert sized.bytes_per_request(1000) == 10240 * 1000 + 64389120
    assert sized.tokens_in_blocks(300) is None


def test_a_latent_hybrid_is_aligned_to_128_tokens():
    sized = geometry(KIMI_LINEAR)
    assert sized.block_size == 1920
    assert sized.page_bytes == 1920 * 1152


def test_a_larger_block_than_the_state_needs_is_kept():
    assert geometry(QWEN35_27B, block_size=1024).block_size == 1024
    assert geometry(QWEN35_27B, block_size=784).warnings == ()


def test_tensor_parallel_ranks_share_the_heads():
    sized = geometry(LLAMA_31_8B, Parallel(4))
    assert sized.bytes_per_token_growing == 131072 // 4
    assert sized.page_bytes == 65536 // 4
    assert sized.pod_bytes_per_token_growing == 131072
    assert sized.pod_bytes_per_block == 2097152
    assert sized.kv_heads == 8
    assert sized.scope == "per rank of the largest pipeline stage (TP 4, PP 1, DCP 1)"


def test_heads_are_replicated_beyond_their_number():
    sized = geometry(QWEN3_235B, Parallel(16))
    assert sized.bytes_per_token_growing == 192512 // 4
    assert sized.pod_bytes_per_token_growing == 192512 * 4
    assert any("4 KV heads on 16 ranks" in warning for warning in sized.warnings)


def test_a_latent_vector_is_replicated_on_each_rank():
    sized = geometry(KIMI_K2, Parallel(8))
    assert sized.bytes_per_token_growing == 70272
    assert sized.pod_bytes_per_token_growing == 8 * 70272
    assert any("on each of the 8 ranks" in warning for warning in sized.warnings)


def test_decode_context_ranks_share_the_tokens():
    sized = geometry(KIMI_K2, Parallel(8, 1, 8))
    assert sized.pod_bytes_per_token_growing == 70272
    assert sized.pod_bytes_per_block == 8 * 61 * 16 * 1152
    assert sized.blocks_per_request(129) == 2
    assert sized.tokens_in_blocks(2) == 256
    assert sized.bytes_from_tokens(9) == 2 * 70272
    assert sized.tokens_from_bytes(2 * 70272) == 16
    assert sized.bytes_per_request(16) == 2 * 70272


def test_decode_context_ranks_need_replicated_heads():
    assert geometry(QWEN3_235B, Parallel(16, 1, 4)).pod_bytes_per_token_growing == 192512


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [(61, 1, [61]), (61, 2, [31, 30]), (10, 4, [2, 3, 3, 2]), (11, 4, [3, 3, 3, 2])],
)
def test_layers_are_dealt_to_stages_as_vllm_does(layers, stages, sizes):
    assert [len(held) for held in Parallel(pipeline=stages).stages(layers)] == sizes


def test_the_largest_stage_decides_and_the_pod_is_their_sum():
    sized = geometry(KIMI_K2, Parallel(1, 2))
    assert sized.bytes_per_token_growing == 31 * 1152
    assert sized.bytes_per_block == 31 * 16 * 1152
    assert sized.pod_bytes_per_token_growing == 70272
    assert sized.pod_bytes_per_block == 61 * 16 * 1152


def test_groups_are_spread_over_the_stages():
    """Every stage of Gemma-3 holds layers of every group."""
    sized = geometry(GEMMA_3_27B, Parallel(2, 2))
    assert len(sized.groups) == 7
    assert [stage.bytes_per_block for stage in sized.stages] == [5 * 65536, 5 * 65536]
    assert sized.pod_window_capped_bytes_per_sequence == 436207616
    assert sized.pod_bytes_per_token_all_layers == 507904
    assert sized.pod_bytes_per_token_reserved == 81920


def test_states_are_split_over_ranks_and_stages():
    sized = geometry(QWEN35_27B, Parallel(2, 2))
    assert sized.pod_state_bytes_per_sequence == 153944064
    assert sized.state_bytes_per_sequence == 153944064 // 4


def test_an_indexer_is_replicated():
    assert geometry(MINIMAX_M3, Parallel(4)).bytes_per_token_growing == 122880 // 4 + 57 * 256
