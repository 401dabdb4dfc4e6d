"""KV dtypes: bytes per token, and what `auto` means."""

import pytest
from tests.sidecar.kv.configs import DEEPSEEK_V32, KIMI_K2, LLAMA_31_8B, MINIMAX_M3, latent

from cacheaware_sidecar.kv import geometry

HEADS = 32 * 8
BYTES = {
    "bf16": HEADS * 512,
    "bfloat16": HEADS * 512,
    "fp16": HEADS * 512,
    "float16": HEADS * 512,
    "half": HEADS * 512,
    "torch.bfloat16": HEADS * 512,
    "FP8": HEADS * 256,
    "fp8_e4m3": HEADS * 256,
    "fp8_e4m3fn": HEADS * 256,
    "fp8_e5m2": HEADS * 256,
    "fp8_inc": HEADS * 256,
    "int8": HEADS * 256,
    "fp8_per_token_head": HEADS * (256 + 8),
    "int8_per_token_head": HEADS * (256 + 8),
    "int4": HEADS * 128,
    "int4_per_token_head": HEADS * (128 + 8),
    "nvfp4": HEADS * 2 * (64 + 8),
}


@pytest.mark.parametrize(("dtype", "size"), BYTES.items(), ids=BYTES)
def test_a_dtype_has_its_bytes(dtype, size):
    assert geometry(LLAMA_31_8B, kv_dtype=dtype).bytes_per_token_growing == size


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("bf16", 1152),
        ("fp8", 576),
        ("int8", 576),
        ("int4", 288),
        ("fp8_ds_mla", 656),
        ("nvfp4_ds_mla", 352),
    ],
)
def test_a_latent_vector_has_its_bytes(dtype, size):
    assert geometry(KIMI_K2, kv_dtype=dtype).bytes_per_token_growing == 61 * size


def test_an_indexer_keeps_its_bytes_whatever_the_dtype():
    sized = geometry(DEEPSEEK_V32, kv_dtype="fp8_ds_mla")
    assert sized.bytes_per_token_growing == 61 * (656 + 132)
    assert geometry(MINIMAX_M3, kv_dtype="fp8").bytes_per_token_growing == 61440 + 57 * 256


def test_the_packed_format_is_known_for_one_width_only():
    sized = geometry(latent(2, 4, qk_rope_head_dim=32), kv_dtype="fp8_ds_mla")
    assert "512 + 64 values a token, not 512 + 32" in (sized.unknown_reason or "")


def test_a_packed_format_is_offered_where_engines_may_choose_it():
    assert any("fp8_ds_mla" in note for note in geometry(DEEPSEEK_V32, kv_dtype="fp8").warnings)


def test_a_dtype_no_engine_offers_for_a_latent_cache_is_said():
    assert any("int8" in note for note in geometry(KIMI_K2, kv_dtype="int8").warnings)


AUTO = {
    "model dtype": ({"torch_dtype": "bfloat16"}, "bfloat16", None),
    "the new name": ({"torch_dtype": None, "dtype": "float16"}, "float16", None),
    "half": ({"torch_dtype": "torch.half"}, "float16", None),
    "float32 serves as 16 bit": ({"torch_dtype": "float32"}, "float16", "float32 in the file"),
    "missing": ({"torch_dtype": None}, "bfloat16", "16 bit assumed"),
    "compressed-tensors": (
        {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}},
        "fp8",
        "declared by quantization_config.kv_cache_scheme",
    ),
    "a scheme without a type": (
        {"compression_config": {"kv_cache_scheme": {"num_bits": 8}}},
        "fp8",
        "declared by compression_config.kv_cache_scheme",
    ),
    "whole numbers": (
        {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "int"}}},
        "int8",
        "declared",
    ),
    "its bare name": ({"quantization_config": {"kv_cache_scheme": "FP8"}}, "fp8", "declared"),
    "modelopt": ({"quantization_config": {"kv_cache_quant_algo": "FP8"}}, "fp8", "declared"),
    "modelopt in four bits": (
        {"quantization_config": {"kv_cache_quant_algo": "NVFP4"}},
        "nvfp4",
        "declared",
    ),
    "one level deeper": (
        {"quantization_config": {"quantization": {"kv_cache_quant_algo": "FP8"}}},
        "fp8",
        "declared by quantization_config.quantization.kv_cache_quant_algo",
    ),
    "weights alone": (
        {"quantization_config": {"quant_method": "fp8", "kv_cache_scheme": None}},
        "bfloat16",
        None,
    ),
}


@pytest.mark.parametrize(("extra", "dtype", "note"), AUTO.values(), ids=AUTO)
def test_auto_is_what_the_checkpoint_asks_for(extra, dtype, note):
    sized = geometry({**LLAMA_31_8B, **extra})
    assert sized.kv_dtype == dtype
    assert (sized.warnings == ()) if note is None else (note in sized.warnings[0])


def test_a_declaration_of_the_text_part_counts():
    text = {**LLAMA_31_8B, "quantization_config": {"kv_cache_scheme": "fp8_e4m3"}}
    sized = geometry({"model_type": "x", "text_config": text})
    assert sized.kv_dtype == "fp8_e4m3"
    assert "text_config.quantization_config.kv_cache_scheme" in sized.warnings[0]


def test_a_dtype_named_by_the_user_wins_over_the_checkpoint():
    config = {**LLAMA_31_8B, "quantization_config": {"kv_cache_scheme": "FP8"}}
    assert geometry(config, kv_dtype="bf16").bytes_per_token_growing == 131072


def test_the_dtype_of_the_whole_file_serves_a_part_without_one():
    text = {**LLAMA_31_8B, "torch_dtype": None}
    assert geometry({"dtype": "float16", "text_config": text}).kv_dtype == "float16"
