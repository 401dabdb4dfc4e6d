"""The audit: planted faults are found, whole configurations are silent, nothing makes it fail."""

import ast
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operator.model.audit.plants import (
    BASES,
    GEMMA2,
    LLAMA,
    NOTHING,
    PLANTS,
    QWEN2,
    QWEN2_VL,
    QWEN3_MOE,
    SERVED,
    Plant,
    changed,
    on,
    tp,
)

from cacheaware.doctor.findings import Severity
from cacheaware.model.audit import examine
from cacheaware.model.audit.examine import audit
from cacheaware.model.audit.view import Serving
from cacheaware_sidecar.kv import ConfigError

ROOT = Path(__file__).parents[4]
TELLERS = {"error", "warning", "info", "tell"}


def ids(config, serving=Serving()):  # noqa: B008 - frozen
    return [one.id for one in audit("config.json", config, serving)]


def told_ids():
    """The ids in the source: the second argument of each error(), warning(), info()."""
    calls = [
        node
        for file in Path(examine.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in TELLERS
    ]
    return {call.args[1].value for call in calls}


@pytest.mark.parametrize("name", BASES)
def test_a_release_is_silent(name):
    assert audit("config.json", BASES[name]) == []
    assert audit("config.json", BASES[name], SERVED[name]) == []


@pytest.mark.parametrize(
    "plant", PLANTS, ids=[f"{place}-{plant.rule}" for place, plant in enumerate(PLANTS)]
)
def test_a_planted_fault_is_found(plant: Plant):
    found = audit("x/config.json", plant.config, plant.serving)
    (hit, *_) = [one for one in found if one.id == plant.rule]
    assert hit.severity == plant.severity
    assert hit.subject == "x/config.json"
    assert hit.message
    assert "\n" not in hit.message + hit.fix


def test_there_is_a_plant_for_each_rule():
    assert {plant.rule for plant in PLANTS} == told_ids()
    assert len(told_ids()) >= 25


def test_each_rule_is_in_the_docs_with_its_severity():
    page = (ROOT / "docs/model-audit.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([a-z, ]+) \|", page, re.MULTILINE)
    expected = {}
    for plant in PLANTS:
        expected.setdefault(plant.rule, set()).add(plant.severity)
    assert {rule: set(words.split(", ")) for rule, words in rows} == expected


def test_worst_findings_come_first():
    config = changed(LLAMA, {"torch_dtype": "float32", "rope_theta": 1.0, "architectures": NOTHING})
    found = [one.severity for one in audit("config.json", config)]
    assert found == sorted(found, key=list(Severity).index)
    assert set(found) == set(Severity)


def test_the_cost_of_replicated_heads_is_told_in_bytes():
    (found,) = [one for one in audit("c", LLAMA, tp(16)) if one.id == "kv-heads-replicated"]
    assert "262,144 B a token instead of 131,072: 131,072 B (50%) are copies" in found.message


GEMMA4 = {
    "model_type": "gemma4_text", "architectures": ["Gemma4ForCausalLM"], "dtype": "bfloat16",
    "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 6,
    "num_attention_heads": 32, "num_key_value_heads": 16, "num_global_key_value_heads": 4,
    "head_dim": 256, "global_head_dim": 512, "attention_k_eq_v": True, "vocab_size": 262144,
    "sliding_window": 1024, "max_position_embeddings": 262144, "tie_word_embeddings": True,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
}  # fmt: skip
"""Layers with a window have 16 KV heads, the others 4."""


@pytest.mark.parametrize("ranks", [8, 16, 32])
def test_the_advised_ranks_keep_each_head_once_where_layers_have_different_heads(ranks):
    (found,) = [one for one in audit("c", GEMMA4, tp(ranks)) if one.id == "kv-heads-replicated"]
    assert found.message.startswith("4 to 16, by layer, KV heads")
    advised = int(re.search(r"--tp (\d+)", found.fix)[1])
    assert advised == 4
    assert "kv-heads-replicated" not in ids(GEMMA4, tp(advised))


def test_ranks_are_held_against_the_heads_of_every_layer():
    assert "tp-kv-heads" not in ids(GEMMA4, tp(8))
    odd = GEMMA4 | {"num_attention_heads": 48, "num_key_value_heads": 24,
                    "num_global_key_value_heads": 4}  # fmt: skip
    assert "tp-kv-heads" in ids(odd, tp(16))


def test_heads_that_do_not_fill_the_hidden_size_are_no_fault():
    assert ids(QWEN3_MOE) == []
    assert QWEN3_MOE["num_attention_heads"] * QWEN3_MOE["head_dim"] == 2 * 2048


@pytest.mark.parametrize("width", [2.67, 3.5, 5.29, 8])
def test_no_one_ratio_is_the_law_for_a_gated_feed_forward_part(width):
    change = {"intermediate_size": round(56 * width) * 64, "vocab_size": 152128}
    assert ids(changed(QWEN2, change)) == []


@pytest.mark.parametrize("kinds", [
    {"rope_scaling": {"rope_type": "llama3", "factor": 32.0}},
    {"rope_scaling": {"low_freq_factor": 1.0, "high_freq_factor": 1.0}},
])  # fmt: skip
def test_llama3_scaling_need_not_multiply_up_to_the_length(kinds):
    assert ids(changed(LLAMA, kinds)) == []


def test_an_epsilon_below_float16_is_told_in_float16_alone():
    assert ids(changed(LLAMA, {"rms_norm_eps": 1e-6, "torch_dtype": "float16"})) == []
    assert ids(changed(LLAMA, {"rms_norm_eps": 1e-8})) == []


def test_weights_in_float32_are_served_in_float16_on_an_old_card_without_a_loss():
    assert ids(changed(QWEN2, {"torch_dtype": "float32"}), on("v100")) == ["dtype-float32"]
    assert "dtype-gpu-refused" in ids(changed(GEMMA2, {"torch_dtype": "float32"}), on("v100"))


def test_bases_are_judged_by_family():
    assert "rope-theta-family" not in ids(changed(QWEN2, {"rope_theta": 1e7}))
    assert "rope-theta-family" in ids(changed(GEMMA2, {"rope_theta": 1e7}))


def test_what_only_vllm_refuses_is_left_out_for_other_engines():
    only = {
        plant.rule
        for plant in PLANTS
        if plant.rule in ids(plant.config, plant.serving)
        and plant.rule not in ids(plant.config, other(plant.serving))
    }
    assert only == {
        "head-dim-no-kernel", "head-dim-kernel", "head-dim-wide", "head-dim-flashinfer",
        "activation-refused", "tp-quantization-block", "dtype-float16-refused",
        "window-some-layers", "quantization-engine", "quantization-gpu",
        "quantization-stored-only",
    }  # fmt: skip


def other(serving):
    return Serving(
        gpus=serving.gpus, tensor=serving.tensor, experts=serving.experts,
        max_model_len=serving.max_model_len, utilization=serving.utilization, vllm=False,
    )  # fmt: skip


def test_experts_of_their_own_rank_are_not_split():
    odd = changed(QWEN3_MOE, {"moe_intermediate_size": 770})
    assert "tp-ffn" in ids(odd, tp(4))
    assert "tp-ffn" not in ids(odd, tp(4, experts=4))


def test_a_dense_width_that_no_layer_uses_is_not_judged():
    assert "tp-ffn" not in ids(changed(QWEN3_MOE, {"intermediate_size": 6145}), tp(4))
    mixed = {"intermediate_size": 6145, "mlp_only_layers": [0]}
    assert "tp-ffn" in ids(changed(QWEN3_MOE, mixed), tp(4))


def test_vllm_takes_the_factor_of_the_old_scaling_types_into_the_length():
    scaled = changed(QWEN2, {"rope_scaling": {"type": "linear", "factor": 4.0}})
    assert "length-beyond" not in ids(scaled, Serving(max_model_len=131072))
    assert "length-beyond" in ids(scaled, Serving(max_model_len=131073))


@pytest.mark.parametrize(("kind", "said"), [
    ("gemma3_text", "default of the class gemma3, 131,072, counts"),
    ("qwen2", "default of the class qwen2, 32,768, counts"),
    ("my_model", "vLLM takes 2,048"),
])  # fmt: skip
def test_a_length_that_is_missing_is_that_of_the_class(kind, said):
    config = changed(QWEN2, {"model_type": kind, "max_position_embeddings": NOTHING})
    (found,) = [one for one in audit("c", config) if one.id == "length-missing"]
    assert said in found.message


def test_the_length_of_the_class_is_checked_like_one_of_the_file():
    config = changed(QWEN2, {"max_position_embeddings": NOTHING})
    assert "length-beyond" not in ids(config, Serving(max_model_len=32768))
    assert "length-beyond" in ids(config, Serving(max_model_len=32769))
    told = changed(config, {"model_max_length": 65536})
    assert ids(told, Serving(max_model_len=65536)) == []


def test_the_length_that_fits_is_told_and_right():
    config = changed(LLAMA, {"max_position_embeddings": 1048576})
    (found,) = [one for one in audit("c", config, on("h100")) if one.id == "length-kv"]
    below = int(re.search(r"less than ([\d,]+)", found.fix)[1].replace(",", ""))
    left = int(80 * 1024**3 * 0.92) - 8030261248 * 2
    assert (below - 1) * 131072 <= left < below * 131072


@pytest.mark.parametrize(("layers", "said"), [
    (600, r"^At least 32 such GPUs are needed \(--tp 32\), or"),
    (150, r"^At least 8 such GPUs are needed \(--tp 8\), or"),
    (6_000, r"^At least \d+ such GPUs are needed, more than tensor parallelism splits"),
])  # fmt: skip
def test_the_gpus_that_heavy_weights_need_are_a_number_that_splits_the_heads(layers, said):
    heavy = changed(LLAMA, {"num_hidden_layers": layers})
    (found,) = [one for one in audit("c", heavy, on("t4", tensor=4)) if one.id == "weights-gpu"]
    assert re.match(said, found.fix), found.fix


def test_no_share_of_the_memory_makes_the_audit_fail():
    serving = Serving(gpus=on("t4").gpus, utilization=1e-300)
    assert "weights-gpu" in ids(LLAMA, serving)


def test_a_card_of_two_dies_has_half_the_memory_for_each():
    big = changed(LLAMA, {"max_position_embeddings": 8192, "rope_scaling": NOTHING,
                          "num_hidden_layers": 160})  # fmt: skip
    assert "weights-gpu" in ids(big, on("mi250x"))
    assert "weights-gpu" not in ids(big, on("h200"))


def test_quantised_weights_are_counted_at_their_least():
    packed = changed(LLAMA, {"quantization_config": {"quant_method": "gptq", "bits": 4,
                                                     "group_size": 128}})  # fmt: skip
    assert "weights-gpu" in ids(LLAMA, on("t4"))
    assert "weights-gpu" not in ids(packed, on("t4"))


def test_a_window_of_the_nested_part_is_named_with_its_place():
    off = {"sliding_window": 4096, "use_sliding_window": False}
    (found,) = audit("c", changed(QWEN2_VL, {"text_config": off}))
    assert found.message.startswith("text_config.sliding_window 4,096 is ignored")


@pytest.mark.parametrize("config", [[], "x", None, {"text_config": "x"}, {"model_type": 7}])
def test_what_is_no_configuration_is_refused_in_one_line(config):
    with pytest.raises(ConfigError) as refused:
        audit("config.json", config)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("config", [
    {}, {"findings": []}, {"text_config": {}}, {"architectures": ["LlamaForCausalLM"]},
    {"model_type": None, "torch_dtype": "bfloat16"}, {"vocab_size": 32000, "version": "1.0"},
    {"model_type": ""}, {"model_type": "my_model"},
])  # fmt: skip
def test_an_object_that_is_no_model_is_an_error(config):
    found = audit("config.json", config)
    assert [one.id for one in found if one.severity == Severity.ERROR] == ["no-model"]


@pytest.mark.parametrize("config", [
    {"model_type": "llama"}, {"model_type": "deepseek_v4"}, {"hidden_size": 64},
])  # fmt: skip
def test_a_type_or_a_size_makes_it_a_model(config):
    assert "no-model" not in ids(config)


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_a_missing_key_is_no_error_where_its_default_fits(base):
    for name in {*base, *base.get("text_config", {})}:
        change = {name: NOTHING} if name in base else {"text_config": {name: NOTHING}}
        found = audit("config.json", changed(base, change))
        errors = {one.id for one in found if one.severity == Severity.ERROR}
        no_default_fits = name == "num_key_value_heads" and base in (QWEN2, QWEN2_VL)
        assert errors == set() or no_default_fits, name


def test_a_missing_key_whose_default_does_not_fit_is_an_error():
    """Qwen2's class has 32 KV heads by default; this model has 28 heads."""
    (found,) = audit("config.json", changed(QWEN2, {"num_key_value_heads": NOTHING}))
    assert found.severity == Severity.ERROR
    assert "KV heads is 32: allowed are divisors of the 28 attention heads" in found.message


@pytest.mark.parametrize("windows", [
    {"sliding_window": 4096, "layer_types": ["sliding_attention"] * 28},
    {"position_embedding_type": "nope"},
])  # fmt: skip
def test_positions_that_never_meet_need_no_far_reach(windows):
    far = {"rope_theta": 10000.0, "max_position_embeddings": 131072}
    assert "rope-reach" in ids(changed(QWEN2, far))
    assert "rope-reach" not in ids(changed(QWEN2, far | windows))


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(), st.text(max_size=4),
    st.sampled_from([10**400, "\x1b[2J", [1, "a", {}], [], {}, {"a": {}}, {"rope_type": []}]),
    st.lists(st.integers(-2, 40), max_size=3),
)  # fmt: skip
NAMES = sorted({name for base in BASES.values() for name in base} | {
    "rope_parameters", "layer_types", "sliding_window", "use_sliding_window", "max_window_layers",
    "partial_rotary_factor", "quantization_config", "num_local_experts", "head_dim", "dtype",
})  # fmt: skip
ANY_CARDS = on("t4", "h100", "mi300x", tensor=2, experts=2)


@settings(max_examples=400, deadline=None)
@given(
    base=st.sampled_from(list(BASES.values())),
    change=st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=3),
    inner=st.dictionaries(
        st.sampled_from(["factor", "rope_type", "type", "mrope_section", "long_factor",
                         "rope_theta", "bits", "group_size", "quant_method", "weight_block_size"]),
        JUNK, max_size=2,
    ),
)  # fmt: skip
def test_no_value_makes_the_audit_fail(base, change, inner):
    config = dict(base) | change
    for name in ("rope_scaling", "quantization_config"):
        if isinstance(config.get(name), dict):
            config[name] = config[name] | inner
    try:
        found = audit("config.json", config, ANY_CARDS)
    except ConfigError:
        return
    for one in found:
        assert (one.message + one.fix).isprintable()
        json.dumps(one.message)
