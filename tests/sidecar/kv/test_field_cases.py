"""Configurations that broke other tools."""

import pytest

from cacheaware_sidecar.kv import ConfigError, geometry


@pytest.mark.parametrize("variant", ["missing", "null"])
def test_073_no_kv_heads_are_multi_head_and_said_so(case, variant):
    sized = geometry(case("073", f"input.{variant}.json"))
    wanted = case("073", "expect.json")[variant]
    assert sized.bytes_per_token_growing == wanted
    assert sized.bytes_per_block == 16 * wanted == 8388608
    assert any("multi-head assumed" in warning for warning in sized.warnings)


def test_073_zero_heads_name_the_key(case):
    with pytest.raises(ConfigError, match="num_attention_heads is 0"):
        geometry(case("073", "input.zero.json"))


def test_079_shared_layers_and_windows_are_not_paid_for(case):
    sized, wanted = geometry(case("079", "input.json")), case("079", "expect.json")
    assert sized.bytes_per_token_all_layers == wanted["short_per_token"]
    assert sized.bytes_per_request(32768) == wanted["ctx32768"] == 285212672
    assert sized.bytes_per_request(512) == 512 * wanted["short_per_token"]


def test_080_kv_heads_may_differ_by_layer(case):
    sized = geometry(case("080", "input.json"))
    assert sized.bytes_per_token_growing == case("080", "expect.json")["input"]
    assert sized.kv_heads == (3,) * 5 + (4,) * 7 + (5,) * 4
    assert sized.heads == (12,) * 5 + (16,) * 7 + (20,) * 4
    assert (min(sized.page_bytes), max(sized.page_bytes)) == (12288, 20480)
    assert sized.largest_page_bytes == 20480
    assert sized.bytes_per_block == 16 * 16128


def test_080_a_short_list_names_both_lengths(case):
    with pytest.raises(ConfigError, match=r"num_kv_heads has 3 entries for 16 layers \(3 vs 16\)"):
        geometry(case("080", "input.badlen.json"))


def test_081_decilm_is_sized_as_the_engine_allocates(case):
    sized, wanted = geometry(case("081", "input.decilm.json")), case("081", "expect.json")
    assert sized.declared_bytes_per_token == wanted["decilm_config"]
    assert sized.bytes_per_token_growing == wanted["decilm_vllm"]


def test_081_pruned_layers_keep_nothing(case):
    sized = geometry(case("081", "input.blocks.json"))
    assert sized.bytes_per_token_growing == case("081", "expect.json")["blocks"]
    assert sized.kv_heads == (8, 4, 0, 8)
    assert sized.page_bytes == (65536, 32768, 0, 65536)


@pytest.mark.parametrize("variant", ["interval", "types"])
def test_087_only_attention_layers_grow(case, variant):
    sized = geometry(case("087", f"input.{variant}.json"))
    assert sized.bytes_per_token_growing == case("087", "expect.json")[variant]
    assert sized.state_bytes_per_sequence is None
    assert any("take the live block size" in warning for warning in sized.warnings)
