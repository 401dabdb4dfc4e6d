"""Released configurations and the faults that tests plant in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheaware.model.audit.view import Serving
from cacheaware.model.gpus import gpu_named

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256, "hidden_act": "silu", "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131072, "rope_theta": 500000.0, "tie_word_embeddings": False,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "bos_token_id": 128000, "eos_token_id": 128001, "torch_dtype": "bfloat16",
}  # fmt: skip
"""Llama 3.1 8B."""
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "vocab_size": 152064, "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "max_position_embeddings": 32768, "rope_theta": 1000000.0, "tie_word_embeddings": False,
    "bos_token_id": 151643, "eos_token_id": 151643, "torch_dtype": "bfloat16",
}  # fmt: skip
"""Qwen2.5 7B, without the window that its release carries and does not use."""
QWEN3_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
    "num_experts_per_tok": 8, "mlp_only_layers": [], "decoder_sparse_step": 1,
    "vocab_size": 151936, "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "max_position_embeddings": 40960, "rope_theta": 1000000.0, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
"""Qwen3 30B-A3B."""
DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8,
    "topk_group": 4, "first_k_dense_replace": 3, "moe_layer_freq": 1, "vocab_size": 129280,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "max_position_embeddings": 163840,
    "rope_theta": 10000, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "rope_scaling": {
        "type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
        "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
    },
    "quantization_config": {
        "quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
        "weight_block_size": [128, 128],
    },
}  # fmt: skip
"""DeepSeek R1."""
GEMMA2 = {
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 3584,
    "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
    "intermediate_size": 14336, "vocab_size": 256000, "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "sliding_window": 4096,
    "max_position_embeddings": 8192, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}  # fmt: skip
"""Gemma 2 9B."""
PHI3 = {
    "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 3072,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
    "intermediate_size": 8192, "vocab_size": 32064, "hidden_act": "silu", "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
    "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "rope_scaling": {
        "type": "longrope", "short_factor": [1.0] * 48, "long_factor": [4.0] * 48,
    },
}  # fmt: skip
"""Phi 3.5 mini, without its window."""
QWEN2_VL = {
    "architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl",
    "tie_word_embeddings": False, "hidden_size": 3584, "torch_dtype": "bfloat16",
    "text_config": {
        **{key: value for key, value in QWEN2.items() if key != "architectures"},
        "model_type": "qwen2_vl_text",
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    },
}  # fmt: skip
"""Qwen2-VL 7B, in its nested form."""
BASES: Mapping[str, Mapping[str, Any]] = {
    "llama": LLAMA, "qwen2": QWEN2, "qwen3_moe": QWEN3_MOE, "deepseek": DEEPSEEK,
    "gemma2": GEMMA2, "phi3": PHI3, "qwen2_vl": QWEN2_VL,
}  # fmt: skip

NOTHING = object()
"""In a change: the field is taken out."""


@dataclass(frozen=True)
class Plant:
    """A fault: what is changed in which configuration, and how it is served."""

    rule: str
    base: Mapping[str, Any]
    change: Mapping[str, Any] = field(default_factory=dict)
    serving: Serving = field(default_factory=Serving)
    severity: str = "error"

    @property
    def config(self) -> dict[str, Any]:
        """The configuration with the fault in it."""
        return changed(self.base, self.change)


def changed(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with fields replaced, inside nested objects too."""
    result = dict(base)
    for name, value in change.items():
        if value is NOTHING:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = changed(result[name], value)
        else:
            result[name] = value
    return result


def on(*names: str, **more: Any) -> Serving:
    """Served on these GPUs."""
    return Serving(gpus=tuple(map(gpu_named, names)), **more)


def tp(size: int, **more: Any) -> Serving:
    """Served on so many tensor ranks."""
    return Serving(tensor=size, **more)


SERVED = {
    "llama": on("h100", tensor=8), "qwen2": on("h100", tensor=4),
    "qwen3_moe": on("h100", tensor=4, experts=4), "deepseek": on("h200", experts=8),
    "gemma2": on("h100", tensor=8), "phi3": on("h100", tensor=8),
    "qwen2_vl": on("h100", tensor=4),
}  # fmt: skip
"""Ways to serve them in which nothing is wrong."""
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
WINDOW = {"sliding_window": 4096, "use_sliding_window": True}

PLANTS = (
    # heads
    Plant("head-dim-missing", LLAMA, {"num_attention_heads": 30, "num_key_value_heads": 30}),
    Plant("kv-heads-divide", LLAMA, {"num_key_value_heads": 6}),
    Plant("head-dim-no-kernel", LLAMA, {"head_dim": 20}),
    Plant("head-dim-kernel", LLAMA, {"head_dim": 100}, severity="warning"),
    Plant("head-dim-wide", LLAMA, {"head_dim": 512}, severity="info"),
    Plant("head-dim-flashinfer", PHI3, {}, on("b200"), severity="info"),
    Plant("tp-heads", LLAMA, {}, tp(3)),
    Plant("tp-kv-heads", LLAMA, {"num_attention_heads": 36, "num_key_value_heads": 9}, tp(6)),
    Plant("kv-heads-replicated", LLAMA, {}, tp(16), severity="warning"),
    Plant("mla-replicated", DEEPSEEK, {}, tp(8), severity="info"),
    # rotary positions
    Plant("rope-type", LLAMA, {"rope_scaling": {"rope_type": "lama3"}}),
    Plant("rope-keys", LLAMA, {"rope_scaling": {"high_freq_factor": NOTHING}}),
    Plant("rope-keys", QWEN2, {"rope_scaling": {"type": "dynamic"}}),
    Plant("rope-two-types", LLAMA, {"rope_scaling": {"type": "linear"}}, severity="warning"),
    Plant(
        "rope-two-thetas", LLAMA, {"rope_scaling": {"rope_theta": 10000.0}}, severity="warning"
    ),
    Plant("rope-factor", LLAMA, {"rope_scaling": {"factor": 0.125}}),
    Plant("rope-factor", LLAMA, {"rope_scaling": {"factor": "8"}}),
    Plant("rope-bands", LLAMA, {"rope_scaling": {"low_freq_factor": 8.0}}),
    Plant("rope-bands", DEEPSEEK, {"rope_scaling": {"beta_slow": 64}}),
    Plant(
        "rope-original-missing", DEEPSEEK,
        {"rope_scaling": {"original_max_position_embeddings": NOTHING}}, severity="warning",
    ),
    Plant("rope-original-length", LLAMA, {"max_position_embeddings": 8192}, severity="warning"),
    Plant("rope-yarn-length", DEEPSEEK, {"rope_scaling": {"factor": 4}}, severity="warning"),
    Plant("rope-yarn-length", DEEPSEEK, {"max_position_embeddings": 4096}, severity="warning"),
    Plant("rope-longrope-factors", PHI3, {"rope_scaling": {"long_factor": [4.0] * 47}}),
    Plant(
        "rope-mrope-section", QWEN2_VL,
        {"text_config": {"rope_scaling": {"mrope_section": [16, 24, 16]}}},
    ),
    Plant("rope-share", LLAMA, {"partial_rotary_factor": 1.5}),
    Plant("rope-odd", LLAMA, {"head_dim": 127}),
    Plant("rope-theta", LLAMA, {"rope_theta": 1.0}),
    Plant("rope-theta", LLAMA, {"rope_theta": 1e39}),
    Plant("rope-theta", LLAMA, {"rope_theta": "500000"}),
    Plant("rope-theta-family", GEMMA2, {"rope_theta": 1e6}, severity="warning"),
    Plant(
        "rope-reach", QWEN2, {"rope_theta": 10000.0, "max_position_embeddings": 131072},
        severity="warning",
    ),
    Plant("rope-theta-missing", QWEN2, {"rope_theta": NOTHING}, severity="info"),
    # feed-forward
    Plant("ffn-ratio", QWEN2, {"intermediate_size": 1894}, severity="warning"),
    Plant("activation-unknown", QWEN2, {"hidden_act": "sillu"}, severity="warning"),
    Plant("activation-refused", QWEN2, {"hidden_act": "gelu"}),
    Plant("tp-ffn", QWEN2, {"intermediate_size": 18946}, tp(4)),
    Plant("tp-ffn", QWEN3_MOE, {"moe_intermediate_size": 770}, tp(4)),
    Plant(
        "tp-quantization-block", QWEN2, {"quantization_config": GPTQ}, tp(8),
    ),
    Plant(
        "tp-quantization-block", QWEN3_MOE,
        {"quantization_config": DEEPSEEK["quantization_config"]}, tp(4), severity="warning",
    ),
    # norms
    Plant("norm-epsilon", LLAMA, {"rms_norm_eps": 0.0}),
    Plant("norm-epsilon", LLAMA, {"rms_norm_eps": "1e-5"}),
    Plant("norm-epsilon-size", LLAMA, {"rms_norm_eps": 1e-2}, severity="warning"),
    Plant("norm-epsilon-size", LLAMA, {"rms_norm_eps": 1e-15}, severity="warning"),
    Plant(
        "norm-epsilon-float16", LLAMA, {"rms_norm_eps": 1e-8, "torch_dtype": "float16"},
        severity="warning",
    ),
    Plant(
        "norm-epsilon-name", LLAMA, {"rms_norm_eps": NOTHING, "layer_norm_eps": 1e-5},
        severity="warning",
    ),
    Plant("norm-epsilon-twice", LLAMA, {"layer_norm_eps": 1e-6}, severity="warning"),
    # dtypes
    Plant("dtype-missing", LLAMA, {"torch_dtype": NOTHING}, severity="info"),
    Plant("dtype-unknown", LLAMA, {"torch_dtype": "bf16"}),
    Plant("dtype-float32", LLAMA, {"torch_dtype": "float32"}, severity="warning"),
    Plant("dtype-twice", LLAMA, {"dtype": "float16"}, severity="warning"),
    Plant("dtype-float16-refused", GEMMA2, {"torch_dtype": "float16"}),
    Plant("dtype-gpu", QWEN2, {}, on("v100"), severity="warning"),
    Plant("dtype-gpu-refused", GEMMA2, {}, on("t4", tensor=4)),
    # vocabulary
    Plant("tp-vocabulary", QWEN2, {"vocab_size": 152000}, tp(7)),
    Plant("vocabulary-padding", QWEN2, {"vocab_size": 151665}, severity="info"),
    Plant(
        "token-outside-vocabulary", LLAMA, {"eos_token_id": [128001, 128256]}, severity="warning"
    ),
    Plant("token-outside-vocabulary", LLAMA, {"pad_token_id": 128256}, severity="warning"),
    Plant("tie-twice", QWEN2_VL, {"tie_word_embeddings": True}, severity="info"),
    Plant("tie-family", GEMMA2, {"tie_word_embeddings": False}, severity="warning"),
    Plant("tie-missing", LLAMA, {"tie_word_embeddings": NOTHING}, severity="info"),
    # windows
    Plant(
        "window-off", QWEN2, {"sliding_window": 4096, "use_sliding_window": False}, severity="info"
    ),
    Plant("window-long", GEMMA2, {"sliding_window": 8192}, severity="info"),
    Plant("window-unused", QWEN2, WINDOW | {"max_window_layers": 28}, severity="warning"),
    Plant("window-some-layers", QWEN2, WINDOW | {"max_window_layers": 21}),
    Plant(
        "window-missing", QWEN2,
        {"layer_types": ["full_attention"] * 14 + ["sliding_attention"] * 14},
    ),
    Plant(
        "window-unlisted", QWEN2,
        {"sliding_window": 4096, "layer_types": ["full_attention"] * 28}, severity="info",
    ),
    # quantisation
    Plant("quantization-unnamed", QWEN2, {"quantization_config": {"bits": 4}}),
    Plant("quantization-unknown", QWEN2, {"quantization_config": {"quant_method": "awk"}}),
    Plant(
        "quantization-engine", QWEN2, {"quantization_config": {"quant_method": "hqq"}},
        severity="warning",
    ),
    Plant("quantization-bits", QWEN2, {"quantization_config": GPTQ | {"bits": 5}}),
    Plant("quantization-group", QWEN2, {"quantization_config": GPTQ | {"group_size": 96}}),
    Plant("quantization-block", DEEPSEEK, {"quantization_config": {"weight_block_size": [128]}}),
    Plant(
        "quantization-activations", DEEPSEEK,
        {"quantization_config": {"activation_scheme": "static"}},
    ),
    Plant(
        "quantization-activations", DEEPSEEK,
        {"quantization_config": {"activation_scheme": "weekly"}},
    ),
    Plant(
        "quantization-twice", QWEN2_VL,
        {"quantization_config": GPTQ, "text_config": {"quantization_config": {"bits": 4}}},
        severity="warning",
    ),
    Plant("quantization-gpu", QWEN3_MOE, {"quantization_config": {"quant_method": "awq"}},
          on("v100")),
    Plant(
        "quantization-stored-only", QWEN2,
        {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}},
        on("a100"), severity="warning",
    ),
    Plant(
        "quantization-stored-only", QWEN2, {"quantization_config": {"quant_algo": "NVFP4"}},
        on("h100"), severity="warning",
    ),
    # experts
    Plant("experts-top-k", QWEN3_MOE, {"num_experts_per_tok": 129}),
    Plant("experts-top-k-missing", QWEN3_MOE, {"num_experts_per_tok": NOTHING}, severity="info"),
    Plant("experts-twice", QWEN3_MOE, {"num_local_experts": 64}, severity="warning"),
    Plant("experts-groups", DEEPSEEK, {"n_group": 7}),
    Plant("experts-groups", DEEPSEEK, {"topk_group": 9}),
    Plant("experts-groups", DEEPSEEK, {"n_group": 64, "topk_group": 1}),
    Plant("experts-unused", DEEPSEEK, {"first_k_dense_replace": 61}, severity="warning"),
    Plant("experts-layers", QWEN3_MOE, {"mlp_only_layers": [0, 48]}),
    Plant("experts-shared", DEEPSEEK, {"n_shared_experts": 256}, severity="warning"),
    Plant("ep-dense", LLAMA, {}, Serving(experts=8), severity="warning"),
    Plant("ep-experts", QWEN3_MOE, {}, Serving(experts=256)),
    Plant("ep-uneven", QWEN3_MOE, {}, Serving(experts=48), severity="warning"),
    # length
    Plant("length-missing", QWEN2, {"max_position_embeddings": NOTHING}, severity="info"),
    Plant("length-beyond", QWEN2, {}, Serving(max_model_len=65536)),
    Plant("weights-gpu", LLAMA, {}, on("t4")),
    Plant("length-kv", LLAMA, {"max_position_embeddings": 1048576}, on("h100")),
    Plant("length-few", LLAMA, {}, on("a100-40"), severity="info"),
    # contradictions
    Plant("field-type", LLAMA, {"intermediate_size": "14336"}),
    Plant("no-model", {}, {}),
    Plant("model-type-missing", LLAMA, {"model_type": NOTHING}, severity="info"),
    Plant("architectures-missing", LLAMA, {"architectures": NOTHING}, severity="info"),
    Plant("architecture-type", LLAMA, {"architectures": ["MistralForCausalLM"]},
          severity="warning"),
    Plant("nested-differs", QWEN2_VL, {"hidden_size": 4096}, severity="warning"),
    Plant("release-differs", LLAMA, {"num_key_value_heads": 4}, severity="warning"),
    Plant("llama3-theta", LLAMA, {"rope_theta": 10000.0}, severity="warning"),
    Plant("llama3-scaling", LLAMA, {"rope_scaling": NOTHING}, severity="warning"),
    Plant("architecture-unknown", LLAMA, {"model_type": "my_llama"}, severity="warning"),
    Plant("layout-unsized", LLAMA, {"model_type": "deepseek_v4"}, severity="info"),
    Plant("geometry-refused", LLAMA, {"num_hidden_layers": NOTHING}, severity="info"),
    Plant("geometry-refused", GEMMA2, {"layer_types": ["full_attention"] * 41}),
)  # fmt: skip
"""At least one for each rule."""
