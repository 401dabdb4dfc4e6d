"""How weights are stored and multiplied."""

from typing import Any

import pytest

from cacheaware.model.architecture import architecture
from cacheaware.model.gpus import gpu_named
from cacheaware.model.modules import Module
from cacheaware.model.precision import named, precision_of
from cacheaware_sidecar.kv import ConfigError

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "tie_word_embeddings": False,
    "vocab_size": 100,
}
H100, A100, B200 = (gpu_named(name) for name in ("h100", "a100", "b200"))


def module(name: str) -> Module:
    (one,) = [one for one in architecture(LLAMA).modules() if one.name == name]
    return one


QUERY = module("model.layers.1.self_attn.q_proj")
DOWN = module("model.layers.0.mlp.down_proj")
HEAD = module("lm_head")


def quantised(**section: Any) -> dict[str, Any]:
    return LLAMA | {"quantization_config": section}


def scheme(bits: int, kind: str, targets: list[str]) -> dict[str, Any]:
    return {"weights": {"num_bits": bits, "type": kind}, "targets": targets}


@pytest.mark.parametrize(
    ("section", "stored"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, "fp8"),
        ({"quant_method": "gptq", "bits": 4}, "int4"),
        ({"quant_method": "awq", "w_bit": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": scheme(8, "float", ["Linear"])},
            },
            "fp8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": scheme(4, "int", ["Linear"])},
            },
            "int4",
        ),
    ],
)
def test_each_way_to_tell_of_quantised_weights_is_read(section: Any, stored: str) -> None:
    found = precision_of(quantised(**section), H100)
    assert found.weights(QUERY) == stored
    assert found.weights(HEAD) == "bf16"


def test_groups_that_name_modules_apply_to_those_alone() -> None:
    groups = {
        "group_0": scheme(8, "float", ["model.layers.1.self_attn.q_proj"]),
        "group_1": scheme(4, "float", ["model.layers.0.mlp.down_proj"]),
    }
    found = precision_of(quantised(quant_method="modelopt", config_groups=groups), H100)
    assert found.weights(QUERY) == "fp8"
    assert found.weights(DOWN) == "nvfp4"
    assert found.weights(module("model.layers.0.self_attn.q_proj")) == "bf16"


@pytest.mark.parametrize(
    "pattern",
    [
        "model.layers.1.self_attn*",
        "model.layers.*.self_attn",
        "model.layers.1*",
        "re:.*self_attn.*",
        "q_proj",
        "model.layers.1.self_attn.q_proj",
        "language_model.model.layers.1.self_attn",
    ],
)
def test_a_module_that_a_list_leaves_out_stays_in_sixteen_bit(pattern: str) -> None:
    found = precision_of(quantised(quant_method="fp8", modules_to_not_convert=[pattern]), H100)
    assert found.weights(QUERY) == "bf16"
    assert found.weights(DOWN) == "fp8"


def test_parts_of_a_name_count_only_as_whole_words() -> None:
    assert not named("model.layers.0.mlp.gate_proj", ("gate",))
    assert named("model.layers.0.mlp.gate", ("gate",))
    assert not named("model.layers.11.mlp.up_proj", ("model.layers.1",))


@pytest.mark.parametrize(
    ("weights", "gpu", "dtype"),
    [
        ("fp8", H100, "fp8"),
        ("fp8", A100, "bf16"),
        ("nvfp4", B200, "fp4"),
        ("nvfp4", H100, "bf16"),
        ("int8", A100, "int8"),
        ("int4", H100, "bf16"),
        ("fp16", H100, "fp16"),
        ("auto", H100, "bf16"),
    ],
)
def test_a_product_is_computed_in_its_weights_dtype_where_the_gpu_can(
    weights: str, gpu: Any, dtype: str
) -> None:
    assert precision_of(LLAMA, gpu, weights).computed(QUERY, gpu) == dtype


def test_float16_of_the_file_is_kept_and_float32_is_served_in_sixteen_bit() -> None:
    assert precision_of(LLAMA | {"torch_dtype": "float16"}, H100).half == "fp16"
    whole = precision_of(LLAMA | {"dtype": "float32"}, H100)
    assert whole.half == "bf16"
    assert any("float32" in note for note in whole.notes)


@pytest.mark.parametrize(
    ("config", "gpu", "weights", "line"),
    [
        (LLAMA, H100, "fp7", "weights is 'fp7': allowed are auto, bf16"),
        (LLAMA, gpu_named("t4"), "bf16", "weights is 'bf16': T4 computes in fp16"),
        (quantised(quant_method="magic"), H100, "auto", "quantization_config.quant_method is"),
        (quantised(quant_method="gptq", bits=3), H100, "auto", "quantization_config.quant_method"),
    ],
)
def test_what_is_not_understood_is_refused(config: Any, gpu: Any, weights: str, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        precision_of(config, gpu, weights)
