"""Which model types the rules cover, and why the others can't be sized."""

from collections.abc import Mapping
from typing import Any, Final

from cacheaware_sidecar.kv.hints import foreign_fields, strange_fields

LATENT: Final = frozenset(
    [
        "axk1",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_mtp",
        "glm_moe_dsa",
        "glm4_moe_lite",
        "kimi_k2",
        "kimi_linear",
        "pangu_ultra_moe",
    ]
)
"""vLLM's MLA list: one latent vector per token, if `kv_lora_rank` is not null."""
SPARSE_INDEXED: Final = frozenset({"deepseek_v32", "glm_moe_dsa"})
"""Latent models with an indexer side cache."""

PLAIN: Final = frozenset(
    [
        "apertus",
        "arcee",
        "aquila",
        "baichuan",
        "bloom",
        "chatglm",
        "codegen",
        "cohere",
        "cohere2",
        "dbrx",
        "deci",
        "deepseek",
        "dots1",
        "ernie4_5",
        "ernie4_5_moe",
        "exaone",
        "exaone4",
        "falcon",
        "gemma",
        "gemma2",
        "glm",
        "glm4",
        "glm4_moe",
        "gpt2",
        "gpt_bigcode",
        "gpt_neox",
        "gpt_oss",
        "gptj",
        "granite",
        "granitemoe",
        "granitemoehybrid",
        "helium",
        "hunyuan_v1_dense",
        "internlm",
        "internlm2",
        "internlm3",
        "jais",
        "llama",
        "llama4",
        "mimo",
        "mimo_v2_flash",
        "minicpm",
        "minicpm3",
        "minimax_m2",
        "minimax_m3",
        "minimax_m3_vl",
        "minimax_text_01",
        "minimax_m1",
        "ministral",
        "ministral3",
        "mistral",
        "mixtral",
        "mllama",
        "mpt",
        "nemotron",
        "nemotron-nas",
        "nemotron_h",
        "olmo",
        "olmo2",
        "olmo3",
        "olmoe",
        "openelm",
        "opt",
        "orion",
        "persimmon",
        "phi",
        "phi-msft",
        "phi3",
        "phi3_v",
        "phi3small",
        "phimoe",
        "qwen",
        "qwen2",
        "qwen2_5_vl",
        "qwen2_moe",
        "qwen2_vl",
        "qwen3",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_moe",
        "qwen3_next",
        "qwen3_vl",
        "qwen3_vl_moe",
        "seed_oss",
        "smollm3",
        "solar",
        "stablelm",
        "starcoder2",
        "step3p5",
        "step3p7",
        "telechat2",
        "xverse",
        "yi",
        "bamba",
        "jamba",
        "mamba",
        "mamba2",
        "falcon_mamba",
        "gemma3",
        "gemma3n",
        "gemma4",
        "glm4v",
        "glm4v_moe",
        "phi4mm",
        "qwen2_5_omni",
        "qwen3_omni_moe",
        "whisper",
    ]
)
"""Types whose layout the rules were written for (attention per layer, with or without states)."""

ENCODERS: Final = frozenset(
    [
        "bert",
        "camembert",
        "distilbert",
        "electra",
        "gte",
        "modernbert",
        "mpnet",
        "new",
        "nomic_bert",
        "roberta",
        "xlm-roberta",
        "xlm-roberta-xl",
    ]
)
"""Encoder-only models: attention without a cache."""

_UNCOVERED: Final = {
    "deepseek_v4": "compressed layers store a state per 4 or 128 tokens: there is no rate per "
    "token; use the sizes that the live engine reports",
    "falcon_h1": "each layer has attention and a state beside each other",
    "zamba": "attention blocks are shared between layers",
    "zamba2": "attention blocks are shared between layers",
    "longcat_flash": "each layer has two attention modules",
    "recurrentgemma": "recurrent layers of its own kind",
    "recurrent_gemma": "recurrent layers of its own kind",
    "bailing_hybrid": "linear layers of its own kind",
    "plamo2": "state layers of its own kind",
    "rwkv": "recurrent layers of its own kind",
    "gpt_neo": "local layers are listed in attention_types",
    "clip": "it encodes, it does not generate",
    "siglip": "it encodes, it does not generate",
    "t5": "encoder-decoder",
    "bart": "encoder-decoder",
}


def layout_type(model_type: str) -> str:
    """A model type without the suffix that marks the text part of a multimodal model."""
    for suffix in ("_text_model", "_text"):
        model_type = model_type.removesuffix(suffix)
    return model_type.lower()


def is_covered(model_type: str) -> bool:
    """Whether the rules were written for this type."""
    return model_type in PLAIN or model_type in LATENT or model_type in ENCODERS


def why_uncovered(model_type: str, values: Mapping[str, Any]) -> str | None:
    """Why this architecture can't be sized, or None where the rules cover it.

    A type that is not known is sized like the plain ones, unless a field hints at more.
    """
    if model_type in _UNCOVERED:
        return _UNCOVERED[model_type]
    if values.get("compress_ratios"):
        return _UNCOVERED["deepseek_v4"]
    if values.get("is_encoder_decoder") is True and model_type != "whisper":
        return "encoder-decoder"
    known = is_covered(model_type)
    if fields := foreign_fields(model_type, values) if known else strange_fields(values):
        return f"{', '.join(fields[:4])}: may mean another layout than attention per layer"
    return None
