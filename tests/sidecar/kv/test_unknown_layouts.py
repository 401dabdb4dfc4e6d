"""Layouts that the rules do not cover: unknown with a reason, never a wrong number."""

import pytest
from tests.sidecar.kv.configs import (
    DEEPSEEK_V4,
    JAMBA,
    MIMO_V2,
    NEMOTRON_NANO,
    latent,
    plain,
)

from cacheaware_sidecar.kv import geometry

SLIDING, FULL = "sliding_attention", "full_attention"


UNKNOWN = {
    "DeepSeek-V4": (DEEPSEEK_V4, "no rate per token"),
    "its layout under another name": ({**DEEPSEEK_V4, "model_type": "other"}, "no rate"),
    "Falcon-H1": (plain(2, 4, 1, 64, "falcon_h1"), "beside each other"),
    "T5": (plain(2, 4, 4, 64, "mt5", is_encoder_decoder=True), "encoder-decoder"),
    "a new latent type": (plain(2, 4, 4, 64, "new_one", kv_lora_rank=512), "kv_lora_rank"),
    "a known type with a latent rank": (plain(2, 4, 4, 64, kv_lora_rank=512), "kv_lora_rank"),
    "a window nobody assigns": (plain(2, 4, 4, 64, "new_one", sliding_window=9), "sliding_window"),
    "a window on some Qwen2 layers": (
        plain(2, 4, 4, 64, "qwen2", sliding_window=9, use_sliding_window=True),
        "which layers slide",
    ),
    "a window beside states": (
        {**JAMBA, "model_type": "mistral", "sliding_window": 9},
        "other kinds",
    ),
    "a kind of layer nobody knows": (
        plain(2, 4, 4, 64, layer_types=["full_attention", "wavelet"]),
        "'wavelet'",
    ),
    "a symbol nobody knows": ({**NEMOTRON_NANO, "hybrid_override_pattern": "W" * 52}, "'W'"),
    "a pattern nobody knows": (
        plain(2, 4, 4, 64, "exaone4", sliding_window=9, sliding_window_pattern="LX"),
        "'LX'",
    ),
    "half a period": (plain(2, 4, 4, 64, "jamba", attn_layer_period=2), "both"),
    "silence where files speak": (plain(2, 4, 4, 64, "step3p7"), "which kind each layer is"),
    "shared layers of Gemma-3n left out": (
        plain(2, 4, 1, 64, "gemma3n", layer_types=[FULL, FULL]),
        "num_kv_shared_layers",
    ),
    "V of another width": (plain(2, 4, 4, 64, v_head_dim=32), "v_head_dim 32"),
    "a latent type without its rank": (
        plain(2, 4, 4, 64, "deepseek_v3", v_head_dim=64),
        "kv_lora_rank is missing",
    ),
    "a latent type that slides": (
        latent(2, 4, sliding_window=9, layer_types=[SLIDING, FULL]),
        "sliding layers with a latent",
    ),
    "a block with a window of its own": (
        plain(
            1,
            4,
            4,
            64,
            "nemotron-nas",
            block_configs=[{"attention": {"n_heads_in_group": 1, "window_length": 9}}],
        ),
        "window or sink",
    ),
    "indexers of another kind": (
        latent(1, 4, "glm_moe_dsa", index_head_dim=128, indexer_types=["half"]),
        "indexer_types[0]",
    ),
    "indexers by a pattern": (
        latent(1, 4, "glm_moe_dsa", index_head_dim=128, index_topk_pattern="FS"),
        "index_topk_pattern",
    ),
    "index values beside keys": (
        plain(
            1,
            4,
            4,
            64,
            "minimax_m3",
            sparse_attention_config={
                "sparse_index_dim": 128,
                "sparse_attention_freq": [1],
                "sparse_disable_index_value": [0],
            },
        ),
        "index values",
    ),
}


@pytest.mark.parametrize(("config", "reason"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_layout_the_rules_do_not_cover_is_unknown_with_a_reason(config, reason):
    sized = geometry(config)
    assert not sized.known
    assert reason in sized.unknown_reason
    assert sized.warnings == (
        f"layout of model_type {config['model_type']!r} not supported: {sized.unknown_reason}",
    )
    assert sized.layers == config["num_hidden_layers"]
    figures = (
        sized.bytes_per_token_all_layers,
        sized.bytes_per_token_growing,
        sized.bytes_per_token_reserved,
        sized.window_capped_bytes_per_sequence,
        sized.state_bytes_per_sequence,
        sized.cross_bytes_per_sequence,
        sized.page_bytes,
        sized.largest_page_bytes,
        sized.bytes_per_block,
        sized.block_size,
        sized.groups,
        sized.rank,
        sized.kv_heads,
        sized.head_dim,
        sized.bytes_per_request(1),
        sized.blocks_per_request(1),
        sized.bytes_from_tokens(1),
        sized.tokens_from_bytes(1),
        sized.blocks_from_bytes(1),
        sized.tokens_in_blocks(1),
        sized.pod_bytes_per_token_all_layers,
        sized.pod_bytes_per_token_growing,
        sized.pod_bytes_per_token_reserved,
        sized.pod_window_capped_bytes_per_sequence,
        sized.pod_state_bytes_per_sequence,
        sized.pod_bytes_per_block,
    )
    assert set(figures) == {None}


def test_an_unknown_layout_may_keep_its_layer_count_to_itself():
    assert geometry({"model_type": "rwkv"}).layers is None


def test_an_unknown_type_with_plain_fields_is_sized_with_a_note():
    sized = geometry(plain(32, 32, 8, 128, "brand_new"))
    assert sized.bytes_per_token_growing == 131072
    assert sized.warnings == (
        "model_type 'brand_new' is not known: sized by its fields like attention per layer",
    )


@pytest.mark.parametrize(
    "extra",
    [
        {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 3},
        {"vision_config": {}, "moe_intermediate_size": 8, "q_norm": True, "layer_types": [FULL]},
        {"sliding_window": None, "kv_lora_rank": None, "mamba_d_state": 0},
    ],
    ids=["a window that is off", "experts and images", "set to nothing"],
)
def test_fields_without_a_say_do_not_make_a_type_unknown(extra):
    assert geometry(plain(1, 4, 4, 64, "brand_new", **extra)).known


@pytest.mark.parametrize(
    "field",
    ["ssm_state_size", "attention_chunk_size", "num_kv_groups_per_layer", "local_attention_every"],
)
def test_fields_that_hint_at_a_layout_make_an_unknown_type_unknown(field):
    sized = geometry(plain(1, 4, 4, 64, "brand_new", **{field: 4}))
    assert field in (sized.unknown_reason or "")


def test_unlike_pages_that_do_not_divide_leave_the_blocks_unknown():
    """A sliding page of 3 heads beside a full one of 2: no common page."""
    config = {**MIMO_V2, "num_attention_heads": 60, "swa_num_key_value_heads": 6}
    sized = geometry(config)
    assert sized.bytes_per_token_all_layers > 0
    assert sized.groups is None
    assert sized.bytes_per_block is None
    assert sized.pod_bytes_per_block is None
    assert any("can't be made equal" in warning for warning in sized.warnings)
