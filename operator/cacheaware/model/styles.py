"""How each family names and shapes its modules, as in Hugging Face's classes.

Source: `modeling_*.py` of transformers 5; for types that it lacks, the repositories' own code.
"""

from dataclasses import dataclass, replace
from typing import Final

from cacheaware_sidecar.kv.fields import Fields

Switch = bool | tuple[str, bool]
"""A constant of the class, or a field of the file with the class's default."""


def switched(fields: Fields, switch: Switch) -> bool:
    """The value of a switch in this file."""
    if isinstance(switch, bool):
        return switch
    told = fields.flag(switch[0])
    return switch[1] if told is None else told


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Names and switches of one family; names are relative to the layer or the root."""

    root: str = "model"
    layers: str = "layers"
    embedding: str = "embed_tokens"
    learned: str | None = None
    """Learned positions; None for rotary ones or ALiBi."""
    positions: str = "rope"
    embedding_norm: str | None = None
    final_norm: str = "norm"
    head: str = "lm_head"
    head_bias: Switch = False
    tie: bool = False
    """Where the file does not say."""
    norm: str = "rms"
    """`rms`, `layer` (with bias), `layer-weight` (without), `layer-bare` (no weights)."""
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    attention: str = "self_attn"
    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    """Three names, or the one of the fused projection."""
    output: str = "o_proj"
    qkv_bias: Switch = False
    output_bias: Switch = False
    qk_norm: Switch = False
    qk_norm_width: str = "head"
    """`head` (head_dim, shared), `all` (all heads side by side)."""
    qk_norm_names: tuple[str, str] = ("q_norm", "k_norm")
    sinks: bool = False
    mlp: str = "mlp"
    gate: str | None = "gate_proj"
    """None where nothing gates; equal to `up` where both are one fused projection."""
    up: str = "up_proj"
    down: str = "down_proj"
    mlp_bias: Switch = False
    size_names: tuple[str, ...] = ("intermediate_size",)
    size_factor: int | None = None
    """Inner size over hidden size, where no field tells it."""
    moe: str = "mlp"
    router: str = "gate"
    router_bias: bool = False
    expert: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    expert_bias: bool = False
    shared: str = "shared_experts"
    state: str = "linear_attn"


_LLAMA: Final = Style(
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    mlp_bias=("mlp_bias", False),
)
_BARE: Final = Style()
_QWEN2: Final = Style(qkv_bias=True, shared="shared_expert")
_QWEN3: Final = replace(_LLAMA, mlp_bias=False, qk_norm=True, shared="shared_expert")
_GEMMA: Final = replace(_LLAMA, mlp_bias=False, tie=True)
_GEMMA2: Final = replace(
    _GEMMA,
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ),
)
_OLMO2: Final = replace(
    _LLAMA,
    mlp_bias=False,
    norms=("post_attention_layernorm", "post_feedforward_layernorm"),
    qk_norm=True,
    qk_norm_width="all",
)
_COHERE: Final = replace(
    _LLAMA,
    mlp_bias=False,
    tie=True,
    norm="layer-weight",
    norms=("input_layernorm",),
    qk_norm=("use_qk_norm", False),
    qk_norm_width="all",
)
_PHI3: Final = Style(qkv=("qkv_proj",), gate="gate_up_proj", up="gate_up_proj")
_GPT2: Final = Style(
    root="transformer",
    layers="h",
    embedding="wte",
    learned="wpe",
    positions="learned",
    final_norm="ln_f",
    tie=True,
    norm="layer",
    norms=("ln_1", "ln_2"),
    attention="attn",
    qkv=("c_attn",),
    output="c_proj",
    qkv_bias=True,
    output_bias=True,
    gate=None,
    up="c_fc",
    down="c_proj",
    mlp_bias=True,
    size_names=("n_inner",),
    size_factor=4,
)
_BLOOM: Final = Style(
    root="transformer",
    layers="h",
    embedding="word_embeddings",
    positions="alibi",
    embedding_norm="word_embeddings_layernorm",
    final_norm="ln_f",
    tie=True,
    norm="layer",
    attention="self_attention",
    qkv=("query_key_value",),
    output="dense",
    qkv_bias=True,
    output_bias=True,
    gate=None,
    up="dense_h_to_4h",
    down="dense_4h_to_h",
    mlp_bias=True,
    size_names=(),
    size_factor=4,
)
_MIXTRAL: Final = Style(moe="block_sparse_moe", expert=("w1", "w3", "w2"))
_MPT: Final = Style(
    root="transformer",
    layers="blocks",
    embedding="wte",
    positions="alibi",
    final_norm="norm_f",
    tie=True,
    norm="layer-weight",
    norms=("norm_1", "norm_2"),
    attention="attn",
    qkv=("Wqkv",),
    output="out_proj",
    mlp="ffn",
    gate=None,
    size_names=(),
    size_factor=4,
)
_PHI: Final = Style(
    final_norm="final_layernorm",
    head_bias=True,
    norm="layer",
    norms=("input_layernorm",),
    output="dense",
    qkv_bias=True,
    output_bias=True,
    qk_norm=("qk_layernorm", False),
    qk_norm_names=("q_layernorm", "k_layernorm"),
    gate=None,
    up="fc1",
    down="fc2",
    mlp_bias=True,
    size_names=("intermediate_size", "n_inner"),
    size_factor=4,
)
_DEEPSEEK: Final = Style(qkv_bias=("attention_bias", False), output_bias=("attention_bias", False))

STYLES: Final[dict[str, Style]] = {
    "llama": _LLAMA,
    "yi": _LLAMA,
    "aquila": _LLAMA,
    "deci": _LLAMA,
    "nemotron-nas": _LLAMA,
    "xverse": _BARE,
    "minicpm": replace(_LLAMA, tie=True),
    "minicpm3": replace(_LLAMA, tie=True),
    "smollm3": _LLAMA,
    "granite": _LLAMA,
    "internlm": replace(_BARE, qkv_bias=("bias", True), output_bias=("bias", True)),
    "orion": replace(_BARE, norm="layer"),
    "mimo": replace(_QWEN2, qkv_bias=("attention_bias", True)),
    "seed_oss": replace(
        _BARE,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_out_bias", False),
        mlp_bias=("mlp_bias", False),
    ),
    "arcee": replace(_LLAMA, gate=None),
    "mistral": _BARE,
    "ministral": _BARE,
    "ministral3": _BARE,
    "mixtral": _MIXTRAL,
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_moe": replace(_QWEN2, qkv_bias=("qkv_bias", True)),
    "qwen3": _QWEN3,
    "qwen3_vl": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_moe": _QWEN3,
    "qwen3_next": _QWEN3,
    "qwen3_5": _QWEN3,
    "qwen3_5_moe": _QWEN3,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3": replace(_GEMMA2, qk_norm=True),
    "gemma4": replace(_GEMMA2, qk_norm=True),
    "olmo": replace(_LLAMA, mlp_bias=False, norm="layer-bare"),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": replace(_LLAMA, mlp_bias=False, qk_norm=True, qk_norm_width="all"),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, qk_norm=False),
    "starcoder2": replace(
        _BARE,
        tie=True,
        norm="layer",
        qkv_bias=("use_bias", True),
        output_bias=("use_bias", True),
        gate=None,
        up="c_fc",
        down="c_proj",
        mlp_bias=("use_bias", True),
    ),
    "phi": _PHI,
    "phi-msft": _PHI,
    "phi3": _PHI3,
    "phi3_v": _PHI3,
    "phi4mm": _PHI3,
    "phimoe": replace(
        _MIXTRAL,
        norm="layer",
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        head_bias=("lm_head_bias", False),
    ),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gptj": replace(
        _GPT2,
        learned=None,
        positions="rope",
        head_bias=True,
        tie=False,
        norms=("ln_1",),
        qkv=("q_proj", "k_proj", "v_proj"),
        output="out_proj",
        qkv_bias=False,
        output_bias=False,
        up="fc_in",
        down="fc_out",
    ),
    "gpt_neox": replace(
        _BLOOM,
        root="gpt_neox",
        layers="layers",
        embedding="embed_in",
        positions="rope",
        embedding_norm=None,
        final_norm="final_layer_norm",
        head="embed_out",
        tie=False,
        attention="attention",
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        size_names=("intermediate_size",),
        size_factor=None,
    ),
    "bloom": _BLOOM,
    "falcon": replace(
        _BLOOM,
        positions="rope",
        embedding_norm=None,
        qkv_bias=("bias", False),
        output_bias=("bias", False),
        mlp_bias=("bias", False),
        size_names=("ffn_hidden_size",),
    ),
    "opt": Style(
        root="model.decoder",
        learned="embed_positions",
        positions="learned",
        final_norm="final_layer_norm",
        tie=True,
        norm="layer",
        norms=("self_attn_layer_norm", "final_layer_norm"),
        output="out_proj",
        qkv_bias=("enable_bias", True),
        output_bias=("enable_bias", True),
        mlp="",
        gate=None,
        up="fc1",
        down="fc2",
        mlp_bias=("enable_bias", True),
        size_names=("ffn_dim",),
    ),
    "mpt": _MPT,
    "dbrx": replace(
        _MPT,
        positions="rope",
        tie=False,
        norms=("norm_attn_norm.norm_1", "norm_attn_norm.norm_2"),
        attention="norm_attn_norm.attn",
        moe="ffn",
        router="router.layer",
        expert=("w1", "v1", "w2"),
    ),
    "gpt_oss": replace(
        _LLAMA,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        sinks=True,
        router="router",
        router_bias=True,
        expert_bias=True,
    ),
    "llama4": replace(
        _LLAMA,
        mlp_bias=False,
        mlp="feed_forward",
        size_names=("intermediate_size_mlp", "intermediate_size"),
        moe="feed_forward",
        router="router",
        shared="shared_expert",
    ),
    "deepseek": _DEEPSEEK,
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "glm_moe_dsa": _DEEPSEEK,
    "glm4_moe": replace(_DEEPSEEK, output_bias=False, qk_norm=("use_qk_norm", False)),
    "minimax_m2": replace(
        _MIXTRAL,
        qk_norm=("use_qk_norm", True),
        qk_norm_width="all",
    ),
    "chatglm": Style(
        root="transformer",
        layers="encoder.layers",
        embedding="embedding.word_embeddings",
        final_norm="encoder.final_layernorm",
        head="transformer.output_layer",
        attention="self_attention",
        qkv=("query_key_value",),
        output="dense",
        qkv_bias=("add_qkv_bias", False),
        gate="dense_h_to_4h",
        up="dense_h_to_4h",
        down="dense_4h_to_h",
        size_names=("ffn_hidden_size",),
    ),
    "exaone": Style(
        root="transformer",
        layers="h",
        embedding="wte",
        final_norm="ln_f",
        norms=("ln_1", "ln_2"),
        attention="attn.attention",
        output="out_proj",
        gate="c_fc_0",
        up="c_fc_1",
        down="c_proj",
        size_names=("intermediate_size",),
        size_factor=4,
    ),
    "nemotron_h": Style(
        positions="none",
        root="backbone",
        embedding="embeddings",
        final_norm="norm_f",
        norms=("norm",),
        attention="mixer",
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        mlp="mixer",
        gate=None,
        mlp_bias=("mlp_bias", False),
        moe="mixer",
        state="mixer",
    ),
    "jamba": Style(
        positions="none",
        final_norm="final_layernorm",
        norms=("input_layernorm", "pre_ff_layernorm"),
        mlp="feed_forward",
        moe="feed_forward",
        router="router",
        state="mamba",
    ),
    "granitemoehybrid": replace(
        _LLAMA,
        mlp="shared_mlp",
        moe="block_sparse_moe",
        router="router.layer",
        state="mamba",
    ),
}
"""By the type whose rules apply (`Model.layout` of the KV package)."""
