"""The 129 published configurations give the expected numbers (KV in 16 bit, one rank)."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from cacheaware_sidecar.kv import geometry

SHARED = Path(__file__).parents[4] / "shared"
NAMES = sorted(path.name for path in (SHARED / "data/model-configs").glob("*.json"))
FIGURES = {
    "layers": "layers",
    "bytes_per_token_all_layers": "bytes_per_token_all_layers",
    "bytes_per_token_growing": "bytes_per_token_growing",
    "window_capped_bytes_per_sequence": "window_capped_bytes_per_seq",
    "state_bytes_per_sequence": "mamba_state_bytes_per_seq",
}
DECLARING_8_BIT = {
    "Qwen__Qwen3-32B-FP8-Static-PerTensor.json",
    "nvidia__GLM-5.2-NVFP4.json",
    "nvidia__Gemma-4-26B-A4B-NVFP4.json",
    "nvidia__Gemma-4-31B-IT-NVFP4.json",
    "nvidia__Kimi-K2.5-NVFP4.json",
    "nvidia__Kimi-K2.6-NVFP4.json",
    "nvidia__Kimi-K2.7-Code-NVFP4.json",
    "nvidia__MiniMax-M2.5-NVFP4.json",
    "nvidia__Qwen3.5-122B-A10B-NVFP4.json",
}


@pytest.fixture(scope="module")
def expected(shared: Path) -> dict[str, dict[str, str]]:
    with (shared / "data/model-configs/expected.tsv").open() as table:
        return {row["file"]: row for row in csv.DictReader(table, delimiter="\t")}


def config(shared: Path, name: str) -> dict[str, Any]:
    return json.loads((shared / "data/model-configs" / name).read_text())


def test_there_are_129_configurations(expected):
    assert sorted(expected) == NAMES
    assert len(NAMES) == 129


@pytest.mark.parametrize("name", NAMES)
def test_a_published_configuration_gives_the_expected_bytes(shared, expected, name):
    sized = geometry(config(shared, name), kv_dtype="bf16")
    row = expected[name]
    wanted = {ours: int(row[theirs]) if row[theirs] else None for ours, theirs in FIGURES.items()}
    assert {figure: getattr(sized, figure) for figure in FIGURES} == wanted
    if wanted["bytes_per_token_growing"] is None:
        assert any("no rate per token" in warning for warning in sized.warnings)


@pytest.mark.parametrize("name", NAMES)
def test_heads_agree_where_all_layers_are_alike(shared, expected, name):
    sized, row = geometry(config(shared, name), kv_dtype="bf16"), expected[name]
    assert sized.heads == int(row["heads"])
    if row["kv_heads"] == "MLA":
        assert sized.kv_heads is None
    elif (
        row["kv_heads"] and row["model_type"] != "nemotron-nas" and isinstance(sized.kv_heads, int)
    ):
        assert sized.kv_heads == int(row["kv_heads"])


@pytest.mark.parametrize("name", NAMES)
def test_every_group_of_layers_is_known(shared, name):
    sized = geometry(config(shared, name), kv_dtype="bf16")
    assert (sized.groups is None) == (sized.unknown_reason is not None)
    if sized.groups is not None:
        grouped = sorted(at for group in sized.groups for at in group.layers)
        caching = [
            at
            for at, layer in enumerate(sized.layer_list)
            if layer.bytes_per_token or layer.state_bytes
        ]
        assert grouped == caching


def test_nine_checkpoints_declare_an_8_bit_cache(shared):
    auto = {name: geometry(config(shared, name)) for name in NAMES}
    assert {name for name, sized in auto.items() if sized.kv_dtype == "fp8"} == DECLARING_8_BIT


@pytest.mark.parametrize("name", sorted(DECLARING_8_BIT - {"nvidia__GLM-5.2-NVFP4.json"}))
def test_auto_halves_what_a_checkpoint_declares_8_bit(shared, name):
    auto, wide = geometry(config(shared, name)), geometry(config(shared, name), kv_dtype="bf16")
    assert auto.bytes_per_token_all_layers * 2 == wide.bytes_per_token_all_layers
    assert auto.window_capped_bytes_per_sequence * 2 == wide.window_capped_bytes_per_sequence
    assert auto.state_bytes_per_sequence == wide.state_bytes_per_sequence


def test_auto_halves_the_vector_and_not_the_indexer(shared):
    sized = geometry(config(shared, "nvidia__GLM-5.2-NVFP4.json"))
    assert sized.bytes_per_token_all_layers == 78 * 576 + 21 * 132
