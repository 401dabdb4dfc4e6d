"""Each kind of architecture, by hand: kinds of layers, rates, windows, states."""

import pytest
from tests.sidecar.kv.configs import (
    DECI,
    DEEPSEEK_V32,
    FALCON_7B,
    GEMMA_3_27B,
    GEMMA_4_31B,
    GLM_51,
    GRANITE_4,
    JAMBA,
    KIMI_K2,
    KIMI_LINEAR,
    LLAMA_4,
    LLAMA_31_8B,
    LLAMA_33_70B,
    MIMO_V2,
    MINICPM3,
    MINIMAX_01,
    MINIMAX_M3,
    MLLAMA,
    NEMOTRON_NANO,
    QWEN35_27B,
    QWEN36_35B,
    WHISPER,
    latent,
    plain,
)

from cacheaware_sidecar.kv import Kind, Parallel, geometry

SLIDING, FULL = "sliding_attention", "full_attention"

RATES = {
    "Llama-3.1-8B": (LLAMA_31_8B, 131072, 131072, 0, 0),
    "Llama-3.3-70B": (LLAMA_33_70B, 327680, 327680, 0, 0),
    "Kimi-K2, latent": (KIMI_K2, 70272, 70272, 0, 0),
    "DeepSeek-V3.2, indexer": (DEEPSEEK_V32, 78324, 78324, 0, 0),
    "GLM-5.1, indexer": (GLM_51, 100152, 100152, 0, 0),
    "Gemma-3-27B": (GEMMA_3_27B, 507904, 81920, 436207616, 0),
    "Gemma-4-31B": (GEMMA_4_31B, 901120, 81920, 838860800, 0),
    "Llama-4": (LLAMA_4, 196608, 49152, 1207959552, 0),
    "Qwen3.5-27B": (QWEN35_27B, 65536, 65536, 0, 153944064),
    "Qwen3.6-35B-A3B": (QWEN36_35B, 20480, 20480, 0, 64389120),
    "MiniMax-Text-01": (MINIMAX_01, 40960, 40960, 0, 293601280),
    "Nemotron-3-Nano": (NEMOTRON_NANO, 6144, 6144, 0, 49082368),
    "Jamba": (JAMBA, 16384, 16384, 0, 8716288),
    "Granite-4": (GRANITE_4, 16384, 16384, 0, 77322240),
    "Kimi-Linear": (KIMI_LINEAR, 8064, 8064, 0, 43417600),
    "MiniCPM3, not latent": (MINICPM3, 952320, 952320, 0, 0),
    "Falcon-7B, one KV head whatever it says": (FALCON_7B, 8192, 8192, 0, 0),
    "MiniMax-M3, sparse": (MINIMAX_M3, 137472, 137472, 0, 0),
    "MiMo-V2, K wider than V": (
        MIMO_V2,
        2 * 4 * 320 * 2 + 6 * 8 * 320 * 2,
        2 * 4 * 320 * 2,
        6 * 8 * 320 * 2 * 128,
        0,
    ),
    "Llama-3.2-Vision": (MLLAMA, 327680, 327680, 0, 0),
}


@pytest.mark.parametrize(
    ("config", "everything", "growing", "capped", "state"), RATES.values(), ids=RATES
)
def test_a_model_has_these_bytes(config, everything, growing, capped, state):
    sized = geometry(config)
    assert sized.known
    assert sized.bytes_per_token_all_layers == everything
    assert sized.bytes_per_token_growing == growing
    assert sized.window_capped_bytes_per_sequence == capped
    assert sized.state_bytes_per_sequence == state


KINDS = {
    "gpt-oss alternates, sliding first": (
        plain(4, 64, 8, 64, "gpt_oss", sliding_window=128),
        "sliding full sliding full",
    ),
    "Gemma-3 has a full layer after five": (
        plain(7, 4, 1, 256, "gemma3_text", sliding_window=512),
        "sliding sliding sliding sliding sliding full sliding",
    ),
    "Command-R7B has a full layer after three": (
        plain(4, 4, 1, 256, "cohere2", sliding_window=512),
        "sliding sliding sliding full",
    ),
    "EXAONE-4 spells its pattern": (
        plain(5, 4, 1, 64, "exaone4", sliding_window=512, sliding_window_pattern="LLG"),
        "sliding sliding full sliding sliding",
    ),
    "EXAONE-4 without a window": (
        plain(2, 4, 1, 64, "exaone4", sliding_window=None, sliding_window_pattern=None),
        "full full",
    ),
    "EXAONE-4 with a number": (
        plain(2, 4, 1, 64, "exaone4", sliding_window=512, sliding_window_pattern=2),
        "sliding full",
    ),
    "a null window makes sliding layers full": (
        plain(2, 4, 1, 64, "olmo3", sliding_window=None, layer_types=[SLIDING, FULL]),
        "full full",
    ),
    "a window switched off": (
        plain(
            2,
            4,
            1,
            64,
            "qwen2",
            sliding_window=8,
            use_sliding_window=False,
            layer_types=[SLIDING, FULL],
        ),
        "full full",
    ),
    "a list without sliding layers silences the window": (
        plain(2, 4, 1, 64, "mistral", sliding_window=8, layer_types=[FULL, FULL]),
        "full full",
    ),
    "a window on every layer": (
        plain(2, 4, 1, 64, "mistral", sliding_window=4096),
        "sliding sliding",
    ),
    "draft layers at the end of the list are cut off": (
        plain(1, 4, 1, 64, num_nextn_predict_layers=1, layer_types=[FULL, SLIDING]),
        "full",
    ),
    "Llama-4 by its list": (
        plain(2, 4, 1, 64, "llama4", attention_chunk_size=64, no_rope_layers=[1, 0]),
        "chunked full",
    ),
    "Llama-4 without chunks": (
        plain(2, 4, 1, 64, "llama4", attention_chunk_size=None),
        "full full",
    ),
    "Bamba by indices": (
        plain(3, 4, 1, 64, "bamba", attn_layer_indices=[1]),
        "state full state",
    ),
    "Qwen3-Next by its class's interval": (
        plain(4, 4, 1, 64, "qwen3_next"),
        "state state state full",
    ),
    "Nemotron-H by names": (
        {
            "model_type": "nemotron_h",
            "layers_block_type": ["mamba", "moe", "attention", "mlp"],
            "num_attention_heads": 4,
            "head_dim": 64,
        },
        "state none full none",
    ),
    "Mamba alone": ({"model_type": "mamba2", "num_hidden_layers": 2}, "state state"),
    "an encoder": (plain(2, 4, 4, 64, "bert"), "encoder-only encoder-only"),
    "Kimi counts from one": (
        latent(3, 4, "kimi_linear", linear_attn_config={"full_attn_layers": [3]}),
        "state state mla",
    ),
    "layers that share KV": (
        plain(3, 4, 1, 64, "gemma3n", num_kv_shared_layers=1, layer_types=[FULL] * 3),
        "full full shared",
    ),
    "shared layers of a latent model": (
        latent(2, 4, "deepseek_v3", num_kv_shared_layers=1),
        "mla shared",
    ),
    "Whisper crosses in every layer": (
        {**WHISPER, "decoder_layers": 2},
        "full cross full cross",
    ),
}


@pytest.mark.parametrize(("config", "kinds"), KINDS.values(), ids=KINDS)
def test_layers_have_these_kinds(config, kinds):
    assert [str(layer.kind) for layer in geometry(config).layer_list] == kinds.split()


KV_HEADS = {
    "GPTBigCode": ({**plain(2, 16, 4, 64, "gpt_bigcode"), "num_key_value_heads": None}, 1),
    "GPTBigCode with many": (
        plain(2, 16, 16, 64, "gpt_bigcode", multi_query=False),
        16,
    ),
    "Falcon with the new decoder": (
        {
            **plain(2, 128, 128, 64, "falcon", new_decoder_architecture=True),
            "num_key_value_heads": None,
            "num_kv_heads": 8,
        },
        8,
    ),
    "Falcon without multi-query": (plain(2, 64, 64, 64, "falcon", multi_query=False), 64),
    "ChatGLM with groups": (
        {
            "model_type": "chatglm",
            "num_layers": 2,
            "num_attention_heads": 32,
            "kv_channels": 128,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
        },
        2,
    ),
    "ChatGLM without": (
        {"model_type": "chatglm", "num_layers": 2, "num_attention_heads": 32, "kv_channels": 128},
        32,
    ),
    "DBRX": (
        {
            "model_type": "dbrx",
            "n_layers": 2,
            "n_heads": 48,
            "d_model": 6144,
            "attn_config": {"kv_n_heads": 8},
        },
        8,
    ),
    "MPT": ({"model_type": "mpt", "n_layers": 2, "n_heads": 8, "d_model": 512}, 8),
    "MPT multi-query": (
        {
            "model_type": "mpt",
            "n_layers": 2,
            "n_heads": 8,
            "d_model": 512,
            "attn_config": {"attn_type": "multiquery_attention"},
        },
        1,
    ),
    "MPT grouped": (
        {
            "model_type": "mpt",
            "n_layers": 2,
            "n_heads": 8,
            "d_model": 512,
            "attn_config": {"kv_n_heads": 2},
        },
        2,
    ),
    "DeciLM with one number": (plain(2, 32, 4, 128, "deci"), 4),
    "Mistral's class default": (
        {
            "model_type": "mistral",
            "num_hidden_layers": 2,
            "num_attention_heads": 32,
            "hidden_size": 4096,
        },
        8,
    ),
    "null is multi-head there, too": (
        {**plain(2, 32, 8, 128, "mistral"), "num_key_value_heads": None},
        32,
    ),
    "latent has none": (KIMI_K2, None),
    "DeepSeek-VL2-tiny has a null rank": (
        {
            **plain(2, 10, 10, 0, "deepseek_v2"),
            "hidden_size": 1280,
            "kv_lora_rank": None,
            "v_head_dim": 0,
        },
        10,
    ),
    "they differ in Gemma-4": (
        plain(
            2,
            8,
            4,
            256,
            "gemma4",
            global_head_dim=512,
            sliding_window=8,
            num_global_key_value_heads=2,
            layer_types=[SLIDING, FULL],
        ),
        (4, 2),
    ),
    "Gemma-4 without heads of its own": (
        plain(
            2,
            8,
            4,
            256,
            "gemma4",
            global_head_dim=512,
            sliding_window=8,
            layer_types=[SLIDING, FULL],
        ),
        4,
    ),
}


@pytest.mark.parametrize(("config", "kv_heads"), KV_HEADS.values(), ids=KV_HEADS)
def test_kv_heads_are_found(config, kv_heads):
    assert geometry(config).kv_heads == kv_heads


HEAD_DIMS = {
    "head_dim wins over hidden / heads": (plain(2, 32, 4, 128, hidden_size=2048), 128),
    "hidden / heads": ({**plain(2, 32, 4, 0), "hidden_size": 2048}, 64),
    "Qwen3's class default": (
        {
            "model_type": "qwen3",
            "num_hidden_layers": 2,
            "num_attention_heads": 32,
            "hidden_size": 2560,
        },
        128,
    ),
    "the latent vector": (KIMI_K2, 576),
    "Gemma-4's global layers are wider": (
        {
            **GEMMA_4_31B,
            "num_hidden_layers": 2,
            "layer_types": [SLIDING, FULL],
        },
        (256, 512),
    ),
    "a model of states has none": ({"model_type": "mamba", "num_hidden_layers": 2}, None),
}


@pytest.mark.parametrize(("config", "size"), HEAD_DIMS.values(), ids=HEAD_DIMS)
def test_head_sizes_are_found(config, size):
    assert geometry(config).head_dim == size


NESTED = {
    "text_config": {"model_type": "x", "text_config": LLAMA_31_8B},
    "llm_config": {"model_type": "internvl_chat", "llm_config": LLAMA_31_8B},
    "language_config": {"language_config": LLAMA_31_8B, "text_config": None},
    "decoder": {"decoder": LLAMA_31_8B},
    "thinker": {"thinker_config": {"text_config": LLAMA_31_8B}, "talker_config": {}},
    "an empty part is no part": {**LLAMA_31_8B, "text_config": {}},
    "fields left out": {"model_type": "llava", "text_config": {"model_type": "llama"}},
}


@pytest.mark.parametrize("config", NESTED.values(), ids=NESTED)
def test_the_text_part_of_a_multimodal_model_is_sized(config):
    sized = geometry(config, kv_dtype="bf16")
    heads = 32 if config.get("model_type") == "llava" else 8
    assert (sized.layers, sized.heads, sized.kv_heads, sized.head_dim) == (32, 32, heads, 128)


STATES = {
    "Mamba": (
        {
            "model_type": "mamba",
            "num_hidden_layers": 2,
            "hidden_size": 64,
            "state_size": 16,
            "conv_kernel": 4,
        },
        2 * 128 * (3 + 16) * 2,
    ),
    "Falcon-Mamba tells its inner size": (
        {
            "model_type": "falcon_mamba",
            "num_hidden_layers": 1,
            "hidden_size": 64,
            "intermediate_size": 256,
            "state_size": 16,
            "conv_kernel": 4,
        },
        256 * (3 + 16) * 2,
    ),
    "Mamba-2": (
        {
            "model_type": "mamba2",
            "num_hidden_layers": 1,
            "hidden_size": 64,
            "expand": 2,
            "num_heads": 4,
            "head_dim": 32,
            "n_groups": 1,
            "state_size": 16,
            "conv_kernel": 4,
        },
        3 * (128 + 32) * 2 + 4 * 32 * 16 * 2,
    ),
    "an fp32 state that a file asks for": (
        {
            "model_type": "mamba2",
            "num_hidden_layers": 1,
            "hidden_size": 64,
            "expand": 2,
            "num_heads": 4,
            "head_dim": 32,
            "n_groups": 1,
            "state_size": 16,
            "conv_kernel": 4,
            "mamba_ssm_dtype": "torch.float32",
        },
        3 * (128 + 32) * 2 + 4 * 32 * 16 * 4,
    ),
}


@pytest.mark.parametrize(("config", "size"), STATES.values(), ids=STATES)
def test_a_model_of_states_alone_keeps_a_constant(config, size):
    sized = geometry(config)
    assert sized.state_bytes_per_sequence == size
    assert sized.bytes_per_token_all_layers == 0
    assert sized.bytes_per_request(1000) == size
    assert sized.bytes_per_block == size
    assert sized.page_bytes == size // sized.layers
    assert sized.tokens_from_bytes(1 << 30) is None
    assert sized.tokens_in_blocks(10, 1000, state_blocks=1) == 10000


def test_qwen3_next_keeps_its_state_in_16_bit():
    fields = QWEN36_35B["text_config"] | {"model_type": "qwen3_next"}
    size = geometry(fields).state_bytes_per_sequence
    assert size == 30 * (3 * (2 * 16 * 128 + 32 * 128) * 2 + 32 * 128 * 128 * 2)


def test_groups_of_a_state_that_can_not_be_split_are_one_per_rank():
    whole, split = geometry(GRANITE_4), geometry(GRANITE_4, Parallel(4))
    conv, state = 3 * (8192 + 2 * 128) * 2, 128 * 64 * 128 * 2
    assert whole.state_bytes_per_sequence == 36 * (conv + state)
    assert split.state_bytes_per_sequence == 36 * (3 * (2048 + 2 * 128) * 2 + state // 4)


@pytest.mark.parametrize(
    "config",
    [
        plain(4, 16, 2, 256, "qwen3_next", full_attention_interval=4),
        plain(8, 32, 8, 128, "hybrid", layers_block_type=(["mamba"] * 3 + ["attention"]) * 2),
        plain(4, 4, 1, 64, "lfm2", layer_types=["conv", FULL, "conv", FULL]),
    ],
    ids=["sizes are missing", "type is not known", "convolutions"],
)
def test_a_state_of_unknown_size_is_said_and_the_rate_stays(config):
    sized = geometry(config)
    assert sized.bytes_per_token_growing > 0
    assert sized.state_bytes_per_sequence is None
    assert sized.pod_state_bytes_per_sequence is None
    assert sized.bytes_per_request(100) is None
    assert sized.bytes_per_block is None
    assert sized.blocks_per_request(100) is None
    assert sized.blocks_from_bytes(1 << 30) is None
    assert sized.tokens_in_blocks(10, 100) is None
    assert any("constant state" in warning for warning in sized.warnings)


def test_an_encoder_keeps_nothing():
    sized = geometry(plain(2, 4, 4, 64, "bert"))
    assert (sized.bytes_per_token_all_layers, sized.bytes_per_block) == (0, 0)
    assert sized.groups == ()
    assert sized.page_bytes is None
    assert sized.tokens_from_bytes(100) is None
    assert any("encoder" in warning for warning in sized.warnings)


def test_whisper_adds_the_audio_once_per_request():
    sized = geometry(WHISPER)
    rate = 20 * 128 * 2
    assert sized.layers == 4
    assert sized.bytes_per_token_all_layers == 4 * rate
    assert sized.cross_bytes_per_sequence == 4 * rate * 1500
    assert sized.bytes_per_request(100) == 4 * rate * 1600
    assert sized.blocks_per_request(100) == 7 + 94


def test_the_image_of_llama_vision_is_said_to_be_unknown():
    sized = geometry(MLLAMA)
    assert sized.cross_bytes_per_sequence is None
    assert sized.bytes_per_request(100) is None
    assert sized.blocks_per_request(100) is None
    assert sized.bytes_per_block == 20 * 65536
    assert any("cross-attention" in warning for warning in sized.warnings)


GLM_52 = {
    "indexer_types": latent(
        78,
        64,
        "glm_moe_dsa",
        index_head_dim=128,
        indexer_types=["full" if i < 3 or (i - 2) % 4 == 0 else "shared" for i in range(78)],
    ),
    "frequency and offset": latent(
        78, 64, "glm_moe_dsa", index_head_dim=128, index_topk_freq=4, index_skip_topk_offset=3
    ),
}


@pytest.mark.parametrize("config", GLM_52.values(), ids=GLM_52)
def test_glm_52_shares_its_indexers(config):
    sized = geometry(config)
    assert sized.bytes_per_token_growing == 92628
    assert sum(layer.indexer_bytes_per_token > 0 for layer in sized.layer_list) == 21
    assert set(sized.page_bytes) == {16 * 1152, 16 * 1284}
    assert sized.bytes_per_block == 16 * 92628


def test_sparse_attention_switched_off_has_no_index():
    config = {**MINIMAX_M3, "sparse_attention_config": {"use_sparse_attention": False}}
    assert geometry(config).bytes_per_token_growing == 122880


def test_sparse_attention_may_leave_out_the_list_of_values():
    sparse = dict(MINIMAX_M3["sparse_attention_config"])
    del sparse["sparse_disable_index_value"]
    sized = geometry({**MINIMAX_M3, "sparse_attention_config": sparse})
    assert sized.bytes_per_token_growing == 137472


def test_a_pruned_model_may_name_its_kv_heads():
    blocks = [
        {"attention": {"num_key_value_heads": 2}},
        {"attention": {"replace_with_linear": True}},
    ]
    sized = geometry(plain(2, 4, 4, 64, "nemotron-nas", block_configs=blocks))
    assert sized.kv_heads == 2
    assert sized.bytes_per_token_growing == 2 * 128 * 2


def test_deci_shows_both_and_is_sized_as_the_engine_allocates():
    sized = geometry(DECI)
    assert sized.declared_bytes_per_token == 11264
    assert sized.bytes_per_token_growing == 16384
    assert any("11,264" in warning and "16,384" in warning for warning in sized.warnings)
    assert geometry(DECI, Parallel(2)).declared_bytes_per_token == (4 * 2 + 2 * 1 + 2 * 1) * 512


def test_kinds_read_as_words():
    assert f"{Kind.ENCODER_ONLY} {Kind.MLA}" == "encoder-only mla"


def test_a_missing_type_is_sized_as_plain_attention_with_a_note():
    config = {key: value for key, value in LLAMA_31_8B.items() if key != "model_type"}
    sized = geometry(config)
    assert sized.bytes_per_token_growing == 131072
    assert sized.warnings == ("model_type is missing: sized as plain attention",)


def test_a_pruned_layer_keeps_nothing():
    blocks = [{"attention": {"n_heads_in_group": 4}}, {"attention": {"no_op": True}}]
    sized = geometry(plain(2, 16, 16, 64, "nemotron-nas", block_configs=blocks))
    assert [str(layer.kind) for layer in sized.layer_list] == ["full", "none"]
    assert sized.bytes_per_token_growing == 4 * 128 * 2


def test_a_window_that_a_mistral_file_leaves_out_is_said():
    assert any("sliding_window is missing" in note for note in geometry(MISTRAL).warnings)
    assert geometry(MISTRAL | {"sliding_window": None}).warnings == ()


MISTRAL = plain(2, 32, 8, 128, "mistral")
