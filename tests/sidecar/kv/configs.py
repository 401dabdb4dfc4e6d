"""Configurations typed in: the fields that decide, nothing else."""

from typing import Any


def plain(
    layers: int, heads: int, kv_heads: int, head_dim: int, model_type: str = "llama", **more: Any
) -> dict[str, Any]:
    """Attention in every layer."""
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "torch_dtype": "bfloat16",
        **more,
    }


LLAMA_31_8B = plain(32, 32, 8, 128, max_position_embeddings=131072)
LLAMA_33_70B = plain(80, 64, 8, 128)
LLAMA_32_3B = plain(28, 24, 8, 128)
PHI_4 = plain(40, 40, 10, 128, "phi3")
OPT_125M = plain(12, 12, 12, 64, "opt")
QWEN25_05B = plain(24, 14, 2, 64, "qwen2")
QWEN25_15B = plain(28, 12, 2, 128, "qwen2")
QWEN25_3B = plain(36, 16, 2, 128, "qwen2")
QWEN3_235B = plain(94, 64, 4, 128, "qwen3_moe")
QWEN3_30B = plain(48, 32, 4, 128, "qwen3_moe")
R1_DISTILL_14B = plain(48, 40, 8, 128, "qwen2")


def latent(layers: int, heads: int, model_type: str = "deepseek_v3", **more: Any) -> dict[str, Any]:
    """One latent vector of 512 + 64 values in every layer."""
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "torch_dtype": "bfloat16",
        **more,
    }


KIMI_K2 = latent(61, 64, "kimi_k2")
DEEPSEEK_V32 = latent(61, 128, "deepseek_v32", index_head_dim=128)
GLM_51 = latent(78, 64, "glm_moe_dsa", index_head_dim=128)


def gated_delta(
    layers: int, heads: int, kv_heads: int, value_heads: int, model_type: str = "qwen3_5"
) -> dict[str, Any]:
    """Qwen3.5's mix: three linear layers, one with attention."""
    return {
        "model_type": model_type,
        "text_config": {
            "model_type": f"{model_type}_text",
            "num_hidden_layers": layers,
            "full_attention_interval": 4,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": 256,
            "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": value_heads,
            "dtype": "bfloat16",
        },
    }


QWEN35_27B = gated_delta(64, 24, 4, 48)
QWEN36_35B = gated_delta(40, 16, 2, 32, "qwen3_5_moe")

GEMMA_3_27B = plain(62, 32, 16, 128, "gemma3_text", sliding_window=1024)
LLAMA_4 = plain(
    48, 40, 8, 128, "llama4_text", attention_chunk_size=8192, max_position_embeddings=1048576
)
MINIMAX_01 = plain(80, 64, 8, 128, "minimax_text_01", attn_type_list=([0] * 7 + [1]) * 10)
NEMOTRON_NANO = plain(
    52,
    32,
    2,
    128,
    "nemotron_h",
    hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    mamba_num_heads=64,
    mamba_head_dim=64,
    ssm_state_size=128,
    n_groups=8,
    conv_kernel=4,
    mamba_ssm_cache_dtype="float32",
)
JAMBA = plain(
    32,
    32,
    8,
    128,
    "jamba",
    hidden_size=4096,
    attn_layer_period=8,
    attn_layer_offset=4,
    mamba_d_state=16,
    mamba_d_conv=4,
    mamba_expand=2,
)
GRANITE_4 = plain(
    40,
    32,
    8,
    128,
    "granitemoehybrid",
    hidden_size=4096,
    layer_types=(["mamba"] * 9 + ["attention"]) * 4,
    mamba_n_heads=128,
    mamba_d_head=64,
    mamba_d_state=128,
    mamba_n_groups=1,
    mamba_d_conv=4,
    mamba_expand=2,
)
KIMI_LINEAR = latent(
    27,
    32,
    "kimi_linear",
    linear_attn_config={
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
)
GEMMA_4_31B = plain(
    60,
    32,
    16,
    256,
    "gemma4_text",
    sliding_window=1024,
    global_head_dim=512,
    num_global_key_value_heads=4,
    layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 10,
)
MINICPM3 = {
    **plain(62, 40, 40, 0, "minicpm3"),
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "kv_lora_rank": 256,
}
WHISPER = {
    "model_type": "whisper",
    "is_encoder_decoder": True,
    "d_model": 1280,
    "num_hidden_layers": 32,
    "decoder_layers": 4,
    "decoder_attention_heads": 20,
    "max_source_positions": 1500,
    "torch_dtype": "float16",
}
MLLAMA = plain(100, 64, 8, 128, "mllama_text_model", cross_attention_layers=list(range(3, 100, 5)))
FALCON_7B = plain(32, 71, 71, 64, "falcon", multi_query=True, new_decoder_architecture=False)
DECI = {
    **plain(8, 32, 4, 128, "deci"),
    "num_key_value_heads": None,
    "num_key_value_heads_per_layer": [4, 4, 4, 4, 2, 2, 1, 1],
}
MIMO_V2 = plain(
    8,
    64,
    4,
    192,
    "mimo_v2_flash",
    v_head_dim=128,
    swa_head_dim=192,
    swa_v_head_dim=128,
    swa_num_key_value_heads=8,
    sliding_window=128,
    hybrid_layer_pattern=[0, 1, 1, 1, 1, 1, 1, 0],
)
MINIMAX_M3 = plain(
    60,
    64,
    4,
    128,
    "minimax_m3",
    sparse_attention_config={
        "use_sparse_attention": True,
        "sparse_index_dim": 128,
        "sparse_attention_freq": [0] * 3 + [1] * 57,
        "sparse_disable_index_value": [0] * 3 + [1] * 57,
    },
)
DEEPSEEK_V4 = plain(43, 64, 1, 512, "deepseek_v4", compress_ratios=[0, 4, 128])
