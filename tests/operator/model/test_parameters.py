import json
from typing import Any

import pytest
from tests.operator.model.configs import LLAMA_2_7B

from cacheaware.model.architecture import UnknownArchitectureError, architecture
from cacheaware.model.modules import Role
from cacheaware.model.parameters import count_parameters

# Sums over `named_parameters` of transformers 5.24.0's own causal language model on the `meta`
# device, for the text part of each configuration.
COUNTED = {
    "nvidia__Gemma-4-26B-A4B-NVFP4": 25_233_141_760,
    "nvidia__Gemma-4-31B-IT-NVFP4": 30_697_345_280,
    "01-ai__Yi-34B": 34_388_917_248,
    "Alibaba-NLP__gte-Qwen2-7B-instruct": 7_612_620_288,
    "CohereForAI__aya-23-8B": 8_028_033_024,
    "EleutherAI__gpt-j-6b": 6_050_882_784,
    "EleutherAI__gpt-neox-20b": 20_554_567_680,
    "LGAI-EXAONE__EXAONE-3.0-7.8B-Instruct": 7_818_448_896,
    "MiniMaxAI__MiniMax-M2.5": 228_689_748_992,
    "MiniMaxAI__MiniMax-M2.7": 228_689_748_992,
    "Qwen__Qwen1.5-MoE-A2.7B": 14_315_784_192,
    "Qwen__Qwen2-7B": 7_615_616_512,
    "Qwen__Qwen2.5-0.5B": 494_032_768,
    "Qwen__Qwen2.5-1.5B": 1_543_714_304,
    "Qwen__Qwen2.5-14B": 14_770_033_664,
    "Qwen__Qwen2.5-32B": 32_763_876_352,
    "Qwen__Qwen2.5-72B": 72_706_203_648,
    "Qwen__Qwen3-1.7B": 1_720_574_976,
    "Qwen__Qwen3-14B": 14_768_307_200,
    "Qwen__Qwen3-235B-A22B": 235_093_634_560,
    "Qwen__Qwen3-30B-A3B": 30_532_122_624,
    "Qwen__Qwen3-30B-A3B-FP8": 30_532_122_624,
    "Qwen__Qwen3-30B-A3B-Instruct-2507": 30_532_122_624,
    "Qwen__Qwen3-32B-FP8": 32_762_123_264,
    "Qwen__Qwen3-32B-FP8-Static-PerTensor": 32_762_123_264,
    "Qwen__Qwen3-8B": 8_190_735_360,
    "Qwen__Qwen3-Embedding-8B": 8_188_515_328,
    "Qwen__Qwen3-Next-80B-A3B-Instruct": 79_674_391_296,
    "Qwen__Qwen3.5-27B": 26_895_998_464,
    "Qwen__Qwen3.5-35B-A3B": 34_660_610_688,
    "Qwen__Qwen3.5-397B-A17B": 396_346_350_336,
    "RedHatAI__Llama-4-Scout-17B-16E-Instruct-FP8-dynamic": 107_769_861_120,
    "TinyLlama__TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "ai21labs__Jamba-v0.1": 51_570_323_328,
    "allenai__OLMo-2-1124-7B": 7_298_617_344,
    "bigcode__gpt_bigcode-santacoder": 1_124_886_528,
    "bigcode__starcoder2-7b": 7_173_923_840,
    "codellama__CodeLlama-34b-Instruct-hf": 33_743_970_304,
    "databricks__dbrx-instruct": 131_596_523_520,
    "deepseek-ai__DeepSeek-R1": 671_026_404_352,
    "google__gemma-2-27b": 27_227_128_320,
    "google__gemma-2-9b": 9_241_705_984,
    "google__gemma-2b": 2_506_172_416,
    "google__gemma-3-1b-it": 999_885_952,
    "google__gemma-3-27b-it": 27_009_346_304,
    "intfloat__e5-mistral-7b-instruct": 7_241_732_096,
    "llava-hf__llava-1.5-7b-hf": 6_738_939_904,
    "meta-llama__Llama-2-13b-hf": 13_015_864_320,
    "meta-llama__Llama-2-70b-hf": 68_976_648_192,
    "meta-llama__Llama-3.1-70B": 70_553_706_496,
    "meta-llama__Llama-3.1-8B": 8_030_261_248,
    "meta-llama__Llama-3.2-1B": 1_235_814_400,
    "meta-llama__Llama-3.2-3B": 3_212_749_824,
    "meta-llama__Llama-4-Maverick-17B-128E-Instruct": 400_711_848_960,
    "meta-llama__Meta-Llama-3.1-70B": 70_553_706_496,
    "meta-llama__Meta-Llama-3.1-8B": 8_030_261_248,
    "microsoft__Phi-3.5-mini-instruct": 3_821_079_552,
    "microsoft__Phi-4-mini-instruct": 3_836_021_760,
    "microsoft__Phi-mini-MoE-instruct": 7_647_632_704,
    "mistralai__Ministral-3-3B-Instruct-2512": 3_429_006_336,
    "mistralai__Mistral-7B-Instruct-v0.2": 7_241_732_096,
    "mistralai__Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "mistralai__Mixtral-8x7B-v0.1": 46_702_792_704,
    "nvidia__DeepSeek-V3.1-NVFP4": 671_026_404_352,
    "nvidia__DeepSeek-V3.2-NVFP4": 671_877_929_216,
    "nvidia__GLM-5-NVFP4": 743_911_199_232,
    "nvidia__GLM-5.2-NVFP4": 743_377_000_704,
    "nvidia__Kimi-K2.5-NVFP4": 1_026_408_209_408,
    "nvidia__Kimi-K2.6-NVFP4": 1_026_408_209_408,
    "nvidia__Kimi-K2.7-Code-NVFP4": 1_026_408_209_408,
    "nvidia__MiniMax-M2.5-NVFP4": 228_689_748_992,
    "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4": 31_577_937_344,
    "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8": 120_668_687_360,
    "nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": 549_308_968_960,
    "nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4": 549_308_968_960,
    "nvidia__NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": 31_577_937_344,
    "nvidia__Nemotron-H-56B-Base-8K": 56_324_350_464,
    "nvidia__Qwen3-235B-A22B-NVFP4": 235_093_634_560,
    "nvidia__Qwen3.5-122B-A10B-NVFP4": 122_111_526_912,
    "nvidia__Qwen3.6-35B-A3B-NVFP4": 34_660_610_688,
    "openai-community__gpt2-medium": 354_823_168,
    "openai__gpt-oss-20b": 20_914_757_184,
    "openbmb__MiniCPM3-4B": 4_073_875_968,
    "tiiuae__falcon-7b": 6_921_720_704,
    "togethercomputer__RedPajama-INCITE-Chat-3B-v1": 2_775_864_320,
    "zai-org__GLM-5-FP8": 743_911_199_232,
    "zai-org__GLM-5.1": 743_911_199_232,
    "zai-org__GLM-5.1-FP8": 743_911_199_232,
    "zai-org__GLM-5.2-FP8": 743_377_000_704,
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_count_is_exactly_that_of_the_model_class(name: str, shared: Any) -> None:
    config = json.loads((shared / f"data/model-configs/{name}.json").read_text())
    assert count_parameters(architecture(config)).total == COUNTED[name]


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (LLAMA_2_7B, 6_738_415_616),
        (
            {
                "model_type": "gpt2",
                "n_embd": 768,
                "n_head": 12,
                "n_layer": 12,
                "n_positions": 1024,
                "vocab_size": 50257,
            },
            124_439_808,
        ),
        (
            {
                "model_type": "opt",
                "hidden_size": 768,
                "ffn_dim": 3072,
                "num_attention_heads": 12,
                "num_hidden_layers": 12,
                "max_position_embeddings": 2048,
                "word_embed_proj_dim": 768,
                "vocab_size": 50272,
            },
            125_239_296,
        ),
        (
            {
                "model_type": "opt",
                "hidden_size": 1024,
                "ffn_dim": 4096,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "max_position_embeddings": 2048,
                "word_embed_proj_dim": 512,
                "do_layer_norm_before": False,
                "vocab_size": 50272,
            },
            331_196_416,
        ),
        (
            {
                "model_type": "bloom",
                "hidden_size": 1024,
                "n_head": 16,
                "n_layer": 24,
                "vocab_size": 250880,
            },
            559_214_592,
        ),
        (
            {
                "model_type": "mixtral",
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "num_attention_heads": 32,
                "num_hidden_layers": 32,
                "num_key_value_heads": 8,
                "num_local_experts": 8,
                "num_experts_per_tok": 2,
                "vocab_size": 32000,
            },
            46_702_792_704,
        ),
    ],
    ids=["llama-2-7b", "gpt2", "opt-125m", "opt-350m", "bloom-560m", "mixtral-8x7b"],
)
def test_well_known_models_have_their_well_known_counts(config: Any, count: int) -> None:
    assert count_parameters(architecture(config)).total == count


def test_a_token_of_mixtral_goes_through_two_of_eight_experts(shared: Any) -> None:
    config = json.loads(
        (shared / "data/model-configs/mistralai__Mixtral-8x7B-v0.1.json").read_text()
    )
    counts = count_parameters(architecture(config))
    idle = counts.by_role[Role.EXPERTS] * 6 // 8
    unread_rows = (32000 - 1) * 4096
    assert counts.active == counts.total - idle - unread_rows


def test_a_tied_head_counts_once_and_a_token_goes_through_it_once() -> None:
    tied = count_parameters(architecture({**LLAMA_2_7B, "tie_word_embeddings": True}))
    assert tied.total == 6_738_415_616 - 32000 * 4096
    assert tied.by_role[Role.HEAD] == 0
    assert tied.active == tied.total


def test_the_sum_over_the_roles_is_the_total() -> None:
    counts = count_parameters(architecture(LLAMA_2_7B))
    assert sum(counts.by_role.values()) == counts.total
    assert counts.by_role[Role.QKV] == 32 * 3 * 4096 * 4096


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({**LLAMA_2_7B, "model_type": "brandnew"}, "weights of model_type 'brandnew'"),
        ({**LLAMA_2_7B, "model_type": "deepseek_v4"}, "layout of model_type 'deepseek_v4'"),
        (
            {**LLAMA_2_7B, "model_type": "qwen2", "num_experts": 8, "num_experts_per_tok": 2},
            "nothing tells which layers have experts",
        ),
    ],
)
def test_an_architecture_that_no_rule_covers_is_not_guessed(config: Any, reason: str) -> None:
    with pytest.raises(UnknownArchitectureError, match=reason):
        architecture(config)
