"""What released models of a family have: facts that rules compare with.

Sources: config.json files of the releases; class defaults of transformers 5.24; vLLM 0.32.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

THETAS: Final[Mapping[str, tuple[float, float]]] = {
    "llama": (10_000, 4e9),  # Llama 2; Llama 3 500 thousand, Yi 5 million; Gradient's 1M 2.8e9
    "mistral": (10_000, 1e9),  # 7B v0.1; Small 3.1
    "mixtral": (1e6, 1e6),
    "qwen2": (10_000, 1e7),  # Qwen 1.5; Qwen2.5 1M
    "qwen2_moe": (10_000, 1e6),
    "qwen3": (1e6, 5e6),
    "qwen3_moe": (1e6, 1e7),
    "gemma": (10_000, 10_000),
    "gemma2": (10_000, 10_000),
    "gemma3": (1e6, 1e6),
    "gpt_oss": (150_000, 150_000),
    "deepseek_v2": (10_000, 10_000),
    "deepseek_v3": (10_000, 50_000),  # DeepSeek V3; the text part of Kimi K2.5
    "kimi_k2": (50_000, 50_000),
    "glm_moe_dsa": (1e6, 8e6),
    "minimax_m2": (5e6, 5e6),
    "olmo2": (500_000, 500_000),
    "starcoder2": (10_000, 1e6),
    "phi3": (10_000, 250_000),  # Phi 3; Phi 4
    "cohere": (10_000, 75e6),  # Aya; Command R+
}
"""The lowest and highest RoPE base of the releases."""

POSITIONS: Final[Mapping[str, int]] = {
    "cohere": 8_192, "cohere2": 8_192, "deepseek_v2": 2_048, "deepseek_v3": 4_096,
    "falcon": 2_048, "gemma": 8_192, "gemma2": 8_192, "gemma3": 131_072, "gemma4": 131_072,
    "glm4": 131_072, "glm4_moe": 131_072, "glm_moe_dsa": 202_752, "gpt2": 1_024,
    "gpt_neox": 2_048, "gpt_oss": 131_072, "granite": 2_048, "kimi_linear": 4_096,
    "llama": 2_048, "minimax_m2": 196_608, "mistral": 131_072, "mixtral": 131_072,
    "olmo2": 2_048, "opt": 2_048, "phi3": 4_096, "qwen2": 32_768, "qwen2_moe": 32_768,
    "qwen3": 32_768, "qwen3_moe": 32_768, "starcoder2": 4_096,
}  # fmt: skip
"""Most positions by the class (transformers; Kimi Linear's is vLLM's) where the file has none."""

TIED: Final[Mapping[str, bool]] = {
    "llama": False, "mistral": False, "mixtral": False, "qwen2": False, "qwen3": False,
    "qwen3_moe": False, "deepseek_v3": False, "gpt_oss": False, "olmo2": False, "phi3": False,
    "gpt_neox": False, "gemma": True, "gemma2": True, "gemma3": True, "cohere": True,
    "falcon": True, "gpt2": True, "opt": True, "starcoder2": True, "mpt": True, "bloom": True,
}  # fmt: skip
"""`tie_word_embeddings` where the file has none."""
ALWAYS_TIED: Final = frozenset({"gemma", "gemma2", "gemma3", "cohere"})
"""Families whose checkpoints have no output matrix of their own."""

RMS_EPSILONS: Final[Mapping[str, float]] = {
    "llama": 1e-6, "mistral": 1e-6, "mixtral": 1e-5, "qwen2": 1e-6, "qwen3": 1e-6,
    "qwen2_moe": 1e-6, "qwen3_moe": 1e-6, "gemma": 1e-6, "gemma2": 1e-6, "gemma3": 1e-6,
    "olmo2": 1e-5, "phi3": 1e-5, "deepseek_v3": 1e-6, "gpt_oss": 1e-5,
}  # fmt: skip
"""Types that read `rms_norm_eps` and nothing else, and what they take without it."""

WITHOUT_FLOAT16: Final = frozenset({"gemma2", "gemma3", "glm4"})
"""vLLM refuses float16 for them (`_FLOAT16_NOT_SUPPORTED_MODELS`): activations overflow."""

SILU_ONLY: Final = frozenset(
    ["llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "deepseek_v2", "deepseek_v3", "granite",
     "internlm2", "exaone"]
)  # fmt: skip
"""Types whose vLLM class refuses any other activation."""

ARCHITECTURES: Final[Mapping[str, frozenset[str]]] = {
    "LlamaForCausalLM": frozenset({"llama"}),
    "MistralForCausalLM": frozenset({"mistral"}),
    "MixtralForCausalLM": frozenset({"mixtral"}),
    "Qwen2ForCausalLM": frozenset({"qwen2"}),
    "Qwen2MoeForCausalLM": frozenset({"qwen2_moe"}),
    "Qwen3ForCausalLM": frozenset({"qwen3"}),
    "Qwen3MoeForCausalLM": frozenset({"qwen3_moe"}),
    "GemmaForCausalLM": frozenset({"gemma"}),
    "Gemma2ForCausalLM": frozenset({"gemma2"}),
    "Gemma3ForCausalLM": frozenset({"gemma3_text"}),
    "Gemma3ForConditionalGeneration": frozenset({"gemma3"}),
    "Phi3ForCausalLM": frozenset({"phi3"}),
    "DeepseekV2ForCausalLM": frozenset({"deepseek_v2"}),
    "DeepseekV3ForCausalLM": frozenset({"deepseek_v3", "kimi_k2"}),
    "GptOssForCausalLM": frozenset({"gpt_oss"}),
    "Olmo2ForCausalLM": frozenset({"olmo2"}),
    "Starcoder2ForCausalLM": frozenset({"starcoder2"}),
    "FalconForCausalLM": frozenset({"falcon"}),
    "GPTNeoXForCausalLM": frozenset({"gpt_neox"}),
    "GPT2LMHeadModel": frozenset({"gpt2"}),
    "OPTForCausalLM": frozenset({"opt"}),
    "CohereForCausalLM": frozenset({"cohere"}),
}
"""The `model_type` that belongs to a class of transformers."""


@dataclass(frozen=True, slots=True)
class Release:
    """A released model: what tells it from others, and what then follows."""

    name: str
    layout: str
    hidden: int
    layers: int
    vocabulary: int
    values: Mapping[str, int]


def _dense(heads: int, kv_heads: int, intermediate: int) -> Mapping[str, int]:
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": intermediate,
    }


RELEASES: Final = (
    Release("Llama-2-7b", "llama", 4096, 32, 32_000, _dense(32, 32, 11_008)),
    Release("Llama-2-13b", "llama", 5120, 40, 32_000, _dense(40, 40, 13_824)),
    Release("Llama-2-70b", "llama", 8192, 80, 32_000, _dense(64, 8, 28_672)),
    Release("TinyLlama-1.1B", "llama", 2048, 22, 32_000, _dense(32, 4, 5_632)),
    Release("Llama-3.1-8B", "llama", 4096, 32, 128_256, _dense(32, 8, 14_336)),
    Release("Llama-3.1-70B", "llama", 8192, 80, 128_256, _dense(64, 8, 28_672)),
    Release("Llama-3.2-1B", "llama", 2048, 16, 128_256, _dense(32, 8, 8_192)),
    Release("Llama-3.2-3B", "llama", 3072, 28, 128_256, _dense(24, 8, 8_192)),
    Release("Mistral-7B-v0.1", "mistral", 4096, 32, 32_000, _dense(32, 8, 14_336)),
    Release("Mistral-7B-v0.3", "mistral", 4096, 32, 32_768, _dense(32, 8, 14_336)),
    Release("Mixtral-8x7B", "mixtral", 4096, 32, 32_000, _dense(32, 8, 14_336)),
    Release("Qwen2.5-0.5B", "qwen2", 896, 24, 151_936, _dense(14, 2, 4_864)),
    Release("Qwen2.5-1.5B", "qwen2", 1536, 28, 151_936, _dense(12, 2, 8_960)),
    Release("Qwen2.5-7B", "qwen2", 3584, 28, 152_064, _dense(28, 4, 18_944)),
    Release("Qwen2.5-14B", "qwen2", 5120, 48, 152_064, _dense(40, 8, 13_824)),
    Release("Qwen2.5-32B", "qwen2", 5120, 64, 152_064, _dense(40, 8, 27_648)),
    Release("Qwen2-72B", "qwen2", 8192, 80, 152_064, _dense(64, 8, 29_568)),
    Release("Qwen3-8B", "qwen3", 4096, 36, 151_936, _dense(32, 8, 12_288)),
    Release("Qwen3-14B", "qwen3", 5120, 40, 151_936, _dense(40, 8, 17_408)),
    Release("Qwen3-32B", "qwen3", 5120, 64, 151_936, _dense(64, 8, 25_600)),
    Release("gemma-2-9b", "gemma2", 3584, 42, 256_000, _dense(16, 8, 14_336)),
    Release("gemma-2-27b", "gemma2", 4608, 46, 256_000, _dense(32, 16, 36_864)),
)  # fmt: skip
"""Fine-tunes and quantised copies keep these values; another model of the same outline that
keeps none of them is another model, and is not judged."""
