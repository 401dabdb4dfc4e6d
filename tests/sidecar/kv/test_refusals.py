"""A field that can't be right is refused in one line: field, value, what is allowed."""

import math

import pytest
from tests.sidecar.kv.configs import (
    DECI,
    DEEPSEEK_V32,
    GEMMA_3_27B,
    GEMMA_4_31B,
    GRANITE_4,
    KIMI_K2,
    KIMI_LINEAR,
    LLAMA_31_8B,
    MINIMAX_M3,
    QWEN36_35B,
    plain,
)

from cacheaware_sidecar.kv import ConfigError, Parallel, geometry

ABSURD = {
    "zero": (0, "is 0: allowed are whole numbers 1.."),
    "negative": (-8, "is -8"),
    "a string": ("8", "is '8'"),
    "a fraction": (8.0, "is 8.0"),
    "a boolean": (True, "is True"),
    "NaN": (math.nan, "is nan"),
    "infinite": (math.inf, "is inf"),
    "10^30": (10**30, "a number of 100 bits"),
    "10^5000": (10**5000, "bits"),
    "an object": ({"a": 1}, "an object of 1 keys"),
    "a long string": ("x" * 1000 + "\n", f"is '{'x' * 40}'"),
}


@pytest.mark.parametrize(("value", "text"), ABSURD.values(), ids=ABSURD)
@pytest.mark.parametrize("field", ["num_hidden_layers", "num_attention_heads"])
def test_an_absurd_count_is_refused(field, value, text):
    with pytest.raises(ConfigError) as error:
        geometry({**LLAMA_31_8B, field: value})
    message = str(error.value)
    assert message.startswith(field)
    assert text in message
    assert "\n" not in message
    assert len(message) < 160


REFUSED = {
    "no object": ([], "config is a list of 0: allowed is an object"),
    "no layers": ({"num_attention_heads": 4, "head_dim": 64}, "num_hidden_layers is missing"),
    "no heads at all": ({"num_hidden_layers": 4, "head_dim": 64}, "num_attention_heads is missing"),
    "no widths": (
        {"num_hidden_layers": 4, "num_attention_heads": 4},
        r"hidden_size is missing: .* \(or n_embd",
    ),
    "no whole head": (
        {"num_hidden_layers": 4, "num_attention_heads": 3, "hidden_size": 64},
        "head_dim is missing and hidden size 64 is no multiple of 3 heads",
    ),
    "more KV heads than heads": (plain(2, 4, 8, 64), "num_key_value_heads is 8"),
    "heads not shared evenly": (plain(2, 6, 4, 64), "allowed are divisors of the 6"),
    "zero KV heads": (plain(2, 4, 0, 64), "num_key_value_heads is 0"),
    "a list of strings": (
        {**plain(2, 4, 4, 64), "num_key_value_heads": [1, "2"]},
        r"num_key_value_heads\[1\] is '2'",
    ),
    "model_type a number": ({"model_type": 3}, "model_type is 3: allowed is a string"),
    "text_config a string": ({"text_config": "x"}, "text_config is 'x': allowed is an object"),
    "an error inside names the place": (
        {"text_config": {**LLAMA_31_8B, "num_hidden_layers": -1}},
        "text_config.num_hidden_layers is -1",
    ),
    "layer_types a string": (plain(2, 4, 4, 64, layer_types="full"), "allowed is a list"),
    "layer_types too short": (
        plain(3, 4, 4, 64, layer_types=["full_attention"]),
        r"layer_types has 1 entries for 3 layers \(1 vs 3\)",
    ),
    "layer_types of numbers": (
        plain(1, 4, 4, 64, layer_types=[3]),
        "layer_types has the entry 3: allowed are strings",
    ),
    "an empty list of layers": (
        {"model_type": "nemotron_h", "layers_block_type": []},
        "entries of layers_block_type is 0",
    ),
    "flags that are none": (
        plain(1, 4, 4, 64, "minimax_text_01", attn_type_list=[2]),
        r"attn_type_list\[0\] is 2: allowed are whole numbers 0..1",
    ),
    "a flag that is none": (
        plain(1, 4, 4, 64, "qwen2", sliding_window=3, use_sliding_window="no"),
        "use_sliding_window is 'no': allowed are true and false",
    ),
    "a window that is none where nothing tells which layers slide": (
        plain(1, 4, 4, 64, "qwen2", sliding_window=True, use_sliding_window=True),
        "sliding_window is True: allowed are whole numbers",
    ),
    "sliding layers without a window": (
        {key: value for key, value in GEMMA_3_27B.items() if key != "sliding_window"},
        "sliding_window is missing",
    ),
    "all layers shared": (
        plain(2, 4, 4, 64, num_kv_shared_layers=2),
        "num_kv_shared_layers is 2: allowed are whole numbers 0..1",
    ),
    "a layer beyond the last": (
        plain(2, 4, 4, 64, "bamba", attn_layer_indices=[2]),
        "attn_layer_indices is 2: allowed are whole numbers 0..1",
    ),
    "Kimi without its list": (
        {**KIMI_LINEAR, "linear_attn_config": {"num_heads": 4}},
        "linear_attn_config.full_attn_layers is missing",
    ),
    "an indexer of odd width": (
        {**DEEPSEEK_V32, "index_head_dim": 100},
        "index_head_dim is 100: allowed are multiples of 128",
    ),
    "Gemma-4's global heads": (
        {**GEMMA_4_31B, "num_global_key_value_heads": 5},
        "is 5: allowed are divisors of the 32",
    ),
    "sparse flags of another length": (
        {**MINIMAX_M3, "num_hidden_layers": 59},
        r"sparse_attention_config.sparse_attention_freq has 60 entries for 59 layers \(60 vs 59\)",
    ),
    "DeciLM's list of another length": ({**DECI, "num_hidden_layers": 7}, r"\(8 vs 7\)"),
    "a block that is no object": (
        plain(1, 4, 4, 64, "nemotron-nas", block_configs=[3]),
        r"block_configs\[0\].block is 3: allowed is an object",
    ),
    "a block without attention": (
        plain(1, 4, 4, 64, "nemotron-nas", block_configs=[{}]),
        r"block_configs\[0\].attention is missing",
    ),
    "a group of a size that does not divide": (
        plain(1, 4, 4, 64, "nemotron-nas", block_configs=[{"attention": {"n_heads_in_group": 3}}]),
        "n_heads_in_group is 3: allowed are divisors of 4 heads",
    ),
    "DBRX without its KV heads": (
        {"model_type": "dbrx", "n_layers": 2, "n_heads": 48, "d_model": 6144},
        "attn_config.kv_n_heads is missing",
    ),
    "a state in 3 bits": (
        {"text_config": {**QWEN36_35B["text_config"], "mamba_ssm_dtype": "int3"}},
        "mamba_ssm_dtype is 'int3': allowed are float32",
    ),
    "a model dtype nobody serves": (
        {**LLAMA_31_8B, "torch_dtype": "float64"},
        "torch_dtype is 'float64': allowed are bfloat16, float16, half, float32",
    ),
    "a dtype that is no string": ({**LLAMA_31_8B, "torch_dtype": 16}, "torch_dtype is 16"),
    "a KV scheme nobody knows": (
        {**LLAMA_31_8B, "quantization_config": {"kv_cache_scheme": {"num_bits": 3}}},
        "quantization_config.kv_cache_scheme is an object of 1 keys",
    ),
    "an empty KV scheme": (
        {**LLAMA_31_8B, "quantization_config": {"kv_cache_scheme": {}}},
        "kv_cache_scheme is an object of 0 keys",
    ),
    "a KV algorithm nobody knows": (
        {**LLAMA_31_8B, "quantization_config": {"kv_cache_quant_algo": "W4"}},
        "kv_cache_quant_algo is 'W4': understood are fp8",
    ),
}


@pytest.mark.parametrize(("config", "text"), REFUSED.values(), ids=REFUSED)
def test_a_configuration_is_refused(config, text):
    with pytest.raises(ConfigError, match=text) as error:
        geometry(config)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((0,), "tensor parallel is 0: allowed are whole numbers 1..4,096"),
        ((1, -1), "pipeline parallel is -1"),
        ((1, 1, True), "decode context parallel is True"),
        ((4, 1, 3), "decode context parallel is 3: allowed are divisors of tensor parallel 4"),
    ],
)
def test_parallel_sizes_are_checked(sizes, text):
    with pytest.raises(ConfigError, match=text):
        Parallel(*sizes)


@pytest.mark.parametrize(
    ("config", "parallel", "text"),
    [
        (LLAMA_31_8B, Parallel(3), "attention heads is 32: allowed are multiples of tensor"),
        (plain(2, 24, 6, 64), Parallel(4), "KV heads is 6: with tensor parallel 4 one must divide"),
        (LLAMA_31_8B, Parallel(1, 33), r"pipeline parallel is 33: allowed is 1..32 \(layers\)"),
        (
            {**GRANITE_4, "mamba_n_heads": 126},
            Parallel(4),
            "mamba_n_heads is 126: allowed are multiples of tensor parallel 4",
        ),
        (GEMMA_3_27B, Parallel(32, 1, 2), "allowed is 1 for models with windows, states"),
        (GRANITE_4, Parallel(32, 1, 2), "allowed is 1 for models with windows, states"),
        (LLAMA_31_8B, Parallel(8, 1, 2), r"at most tensor parallel / KV heads \(8 / 8\)"),
    ],
)
def test_parallel_sizes_a_model_can_not_have_are_refused(config, parallel, text):
    with pytest.raises(ConfigError, match=text):
        geometry(config, parallel)


@pytest.mark.parametrize("block_size", [0, -16, True, 1.5, 10**30])
def test_an_absurd_block_size_is_refused(block_size):
    with pytest.raises(ConfigError, match="block size is"):
        geometry(LLAMA_31_8B, block_size=block_size)


@pytest.mark.parametrize(
    ("config", "dtype", "text"),
    [
        (LLAMA_31_8B, "fp7", "KV dtype is 'fp7': allowed are auto, bfloat16, float16, fp8"),
        (LLAMA_31_8B, 8, "KV dtype is 8: allowed are auto"),
        (LLAMA_31_8B, "fp8_ds_mla", r"allowed for models with a latent \(MLA\) cache only"),
        (KIMI_K2, "nvfp4", r"for a latent \(MLA\) cache allowed are 16 bit, fp8"),
        (KIMI_K2, "fp8_per_token_head", "for a latent"),
        (plain(2, 4, 4, 60), "nvfp4", "head size is 60: allowed are multiples of 16"),
        (plain(2, 4, 4, 63), "int4", "head size is 63: allowed are multiples of 2"),
    ],
)
def test_a_dtype_that_does_not_exist_for_a_model_is_refused(config, dtype, text):
    with pytest.raises(ConfigError, match=text):
        geometry(config, kv_dtype=dtype)
