"""What is wrong with an adapter, one fault at a time."""

import json

import pytest
from tests.operator.model.adapters import LLAMA, RANK, adapter, pair, safetensors, tensor

from cacheaware.model.lora.adapter import read_adapter
from cacheaware.model.lora.base_model import base_of
from cacheaware.model.lora.check import check
from cacheaware.model.lora.engines import refused_by_vllm
from cacheaware.model.lora.keys import key_of
from cacheaware.model.lora.tensors import LoraFileError

NAME = "base_model.model.model.layers.0.self_attn"
Q = pair(f"{NAME}.q_proj.lora_A.weight", f"{NAME}.q_proj.lora_B.weight", "q_proj")
V = pair(f"{NAME}.v_proj.lora_A.weight", f"{NAME}.v_proj.lora_B.weight", "v_proj")
BASE = base_of(LLAMA)


def found(folder, tensors, **config):
    return check(read_adapter(adapter(folder, tensors, config)), BASE)


def only(report, wanted):
    told = {one.id for one in report.findings}
    assert told == {wanted}
    return report.findings[0]


def test_a_good_adapter_is_silent(tmp_path):
    report = found(tmp_path, Q | V)
    assert report.findings == ()
    assert report.well
    assert [one.binds for one in report.engines] == [len(report.matches)] * 4


def test_a_module_that_the_model_has_not_is_an_error(tmp_path):
    more = {"base_model.model.model.layers.0.mlp.router.lora_A.weight": tensor([RANK, 32])}
    told = found(tmp_path, Q | more, target_modules=["q_proj", "router"])
    assert "lora-unbound" in {one.id for one in told.findings}
    vllm = next(one for one in told.engines if one.engine == "vllm >= 0.8.5")
    assert (vllm.refused, vllm.binds) == (1, 2)
    assert "not among the expected target modules" in vllm.reason


def test_a_layer_beyond_the_last_is_dropped_by_vllm_without_a_word(tmp_path):
    far = {key.replace("layers.0", "layers.2"): one for key, one in Q.items()}
    told = found(tmp_path, Q | far)
    assert "layer 2: the model has layers 0 to 1" in only(told, "lora-unbound").message
    assert [one.dropped for one in told.engines][:3] == [2, 2, 2]


def test_an_adapter_of_a_wider_model_is_an_error(tmp_path):
    wide = {f"{NAME}.q_proj.lora_A.weight": tensor([RANK, 48]),
            f"{NAME}.q_proj.lora_B.weight": tensor([48, RANK])}  # fmt: skip
    told = only(found(tmp_path, wide), "lora-shape")
    assert "[4, 48]" in told.message
    assert "[rank, 32]" in told.message


def test_a_rank_that_is_not_the_configs_is_an_error(tmp_path):
    assert (
        "its rank is 4, adapter_config.json says 16"
        in only(found(tmp_path, Q, r=16), "lora-rank").message
    )


def test_a_rank_pattern_goes_before_r(tmp_path):
    assert found(tmp_path, Q, r=16, rank_pattern={"q_proj": RANK}).findings == ()
    told = found(tmp_path, Q | V, rank_pattern={"^model\\.layers\\.0\\.self_attn\\.v_proj$": 8})
    assert only(told, "lora-rank").message.startswith("2 tensors")


def test_a_half_without_the_other_is_an_error(tmp_path):
    only(found(tmp_path, dict(list(Q.items())[:1])), "lora-pair")


def test_halves_of_two_ranks_are_an_error(tmp_path):
    bent = {**Q, f"{NAME}.q_proj.lora_B.weight": tensor([32, 2])}
    told = {one.id: one.message for one in found(tmp_path, bent).findings}
    assert "lora_A has rank 4, lora_B 2" in told["lora-pair"]


def test_products_that_are_all_zero_are_an_error(tmp_path):
    zero = {**Q, f"{NAME}.q_proj.lora_B.weight": tensor([32, RANK], values=[0.0] * 32 * RANK)}
    assert "changes nothing" in only(found(tmp_path, zero), "lora-zero").message


def test_some_products_that_are_zero_are_a_warning(tmp_path):
    zero = tensor([16, RANK], values=[-0.0] * 16 * RANK)
    told = found(tmp_path, {**Q, **V, f"{NAME}.v_proj.lora_B.weight": zero})
    assert only(told, "lora-zero").severity == "warning"
    assert "1 of 2 products are zero" in told.findings[0].message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_an_error(tmp_path, value):
    bad = tensor([32, RANK], values=[value] + [1.0] * (32 * RANK - 1))
    only(found(tmp_path, {**Q, f"{NAME}.q_proj.lora_B.weight": bad}), "lora-finite")


def test_a_target_without_tensors_is_told(tmp_path):
    told = only(found(tmp_path, Q, target_modules=["q_proj", "o_proj"]), "lora-target")
    assert "o_proj, for which there is no tensor" in told.message


def test_tensors_outside_the_targets_are_told(tmp_path):
    told = only(found(tmp_path, Q | V, target_modules=["q_proj"]), "lora-target")
    assert "model.layers.0.self_attn.v_proj" in told.message


def test_targets_given_as_a_pattern_are_not_compared(tmp_path):
    assert found(tmp_path, Q, target_modules="all-linear").findings == ()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"use_dora": True}, ["use_dora is True"]),
        ({"bias": "all"}, ["bias is 'all'"]),
        ({"modules_to_save": ["lm_head", "score"]}, ["modules_to_save is lm_head"]),
        ({"modules_to_save": ["classifier"]}, []),
        ({"init_lora_weights": "pissa"}, ["init_lora_weights is 'pissa', which changed the base"]),
        ({"init_lora_weights": "gaussian"}, []),
        ({"init_lora_weights": True, "bias": "none"}, []),
    ],
)
def test_what_vllm_refuses_is_told_from_the_config(config, says):
    told = refused_by_vllm(config)
    assert len(told) == len(says)
    assert all(one.startswith(start) for one, start in zip(told, says, strict=True))


def test_dora_magnitudes_that_the_config_does_not_announce_are_told(tmp_path):
    more = {f"{NAME}.q_proj.lora_magnitude_vector": tensor([32])}
    assert "use_dora is not set" in only(found(tmp_path, Q | more), "lora-feature").message


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("a.lora_A.weight", "lora_A"),
        ("a.lora_B.other.weight", "lora_B"),
        ("a.lora_embedding_B", "lora_embedding_B"),
        ("a.lora_embedding_A.default", "lora_embedding_A"),
        ("a.lora_magnitude_vector.weight", "lora_magnitude_vector"),
        ("a.dora_scale", "lora_magnitude_vector"),
        ("a.lora_B.bias", "bias"),
        ("a.alpha", "alpha"),
        ("a.processor.lora.up.weight", "lora_B"),
        ("a.weight", "full"),
        ("a.modules_to_save.default.weight", "full"),
        ("optimizer.state", None),
    ],
)
def test_an_endings_part_is_known(key, part):
    told = key_of(key)
    assert (told and told.part) == part


def test_files_are_looked_for_in_the_engines_order(tmp_path):
    folder = adapter(tmp_path / "a", Q)
    assert read_adapter(folder).weights.name == "adapter_model.safetensors"
    (folder / "adapter_model.safetensors").rename(folder / "other.safetensors")
    assert read_adapter(folder).weights.name == "other.safetensors"
    (folder / "more.safetensors").write_bytes((folder / "other.safetensors").read_bytes())
    with pytest.raises(LoraFileError, match="holds no adapter"):
        read_adapter(folder)
    assert read_adapter(folder / "more.safetensors").config is not None


@pytest.mark.parametrize(
    ("text", "says"), [("{", "no JSON"), ("[]", "no JSON object"), ("[" * 99_999, "no JSON")]
)
def test_an_adapter_config_that_is_none_is_refused(tmp_path, text, says):
    folder = adapter(tmp_path / "a", Q, False)
    (folder / "adapter_config.json").write_text(text)
    with pytest.raises(LoraFileError, match=says):
        read_adapter(folder)


def test_a_huge_adapter_config_and_an_empty_file_are_refused(tmp_path):
    folder = adapter(tmp_path / "a", Q, False)
    (folder / "adapter_config.json").write_text(json.dumps("x" * 5_000_000))
    with pytest.raises(LoraFileError, match="larger"):
        read_adapter(folder)
    with pytest.raises(LoraFileError, match="no tensor"):
        read_adapter(adapter(tmp_path / "b", {}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("r", one) for one in ("4", True, None, "1e999", 4.0, 0, -1, [4], 10**400)),
        *(("lora_alpha", one) for one in ("x", 0, -3, None, True, 10**400)),
        ("lora_alpha", float("nan")),
        ("lora_alpha", float("inf")),
        ("lora_dropout", "x"),
        ("alpha_pattern", {"q_proj": "z"}),
        ("alpha_pattern", {"q_proj": 0}),
        ("alpha_pattern", [1]),
        ("rank_pattern", {"(": 4}),
        ("rank_pattern", {"q_proj": "4"}),
        ("rank_pattern", {"q_proj": True}),
        ("rank_pattern", ["q_proj"]),
        ("rank_pattern", "q_proj"),
        ("target_modules", 5),
        ("target_modules", "("),
        ("target_modules", ["q_proj", 5]),
        ("exclude_modules", {}),
        ("peft_type", "PREFIX_TUNING"),
        ("peft_type", None),
        ("layers_to_transform", "x"),
        ("layers_to_transform", [True]),
        ("layers_to_transform", -1),
        ("layer_replication", [[0]]),
        ("modules_to_save", 5),
        ("modules_to_save", "score"),
        ("bias", []),
        ("use_dora", "false"),
        ("use_rslora", "false"),
        ("init_lora_weights", {}),
        ("some_other_field", {"deep": [float("nan")]}),
    ],
)
def test_a_value_that_nobody_can_read_is_an_error_that_names_its_field(tmp_path, field, value):
    report = found(tmp_path, Q, **{field: value})
    told = [one for one in report.findings if one.id == "lora-config"]
    assert [one.severity for one in told] == ["error"]
    assert f"{field} " in told[0].message
    assert "allowed " in told[0].message
    assert len(told[0].message) < 250


def test_a_rank_beyond_all_floats_is_an_error(tmp_path):
    folder = adapter(tmp_path, Q)
    path = folder / "adapter_config.json"
    path.write_text(path.read_text().replace(f'"r": {RANK}', '"r": 1e999'))
    told = only(check(read_adapter(folder), BASE), "lora-config")
    assert "r is inf" in told.message


@pytest.mark.parametrize(
    "config",
    [
        {"lora_alpha": 0.5, "lora_dropout": 0.0, "bias": "none", "use_rslora": True},
        {"rank_pattern": {}, "alpha_pattern": {"q_proj": 3.5}, "modules_to_save": None},
        {"rank_pattern": None, "layers_to_transform": None, "layers_pattern": None},
        {"layers_to_transform": 0, "layers_pattern": "layers"},
        {"layers_to_transform": [0]},
        {"layers_to_transform": []},
        {"target_modules": ".*q_proj", "exclude_modules": ["lm_head"]},
        {"target_modules": None, "target_parameters": ["experts.down_proj"]},
        {"init_lora_weights": "gaussian", "use_dora": False, "layer_replication": None},
    ],
)
def test_values_that_peft_writes_are_no_findings(tmp_path, config):
    assert found(tmp_path, Q, **config).findings == ()


@pytest.mark.parametrize("field", ["r", "lora_alpha", "target_modules"])
def test_a_field_without_which_vllm_refuses_is_missed(tmp_path, field):
    folder = adapter(tmp_path, Q)
    path = folder / "adapter_config.json"
    told = json.loads(path.read_text())
    del told[field]
    path.write_text(json.dumps(told))
    assert f"has no {field}:" in only(check(read_adapter(folder), BASE), "lora-config").message


def test_a_layer_that_the_config_leaves_out_is_an_error(tmp_path):
    second = {key.replace("layers.0", "layers.1"): one for key, one in Q.items()}
    told = only(found(tmp_path, Q | second, layers_to_transform=[0]), "lora-target")
    assert told.severity == "error"
    assert "leaves out layer 1" in told.message


def test_a_layer_that_the_config_names_and_no_tensor_has_is_told(tmp_path):
    told = only(found(tmp_path, Q, layers_to_transform=[0, 1]), "lora-target")
    assert (told.severity, "names layer 1" in told.message) == ("warning", True)


@pytest.mark.parametrize(
    ("dtype", "form", "severity"),
    [
        ("I8", "<b", "error"),
        ("U8", "<B", "error"),
        ("BOOL", "<?", "error"),
        ("I32", "<i", "error"),
        ("I64", "<q", "error"),
        ("F8_E4M3", "<B", "warning"),
        ("F8_E5M2", "<B", "warning"),
    ],
)
def test_weights_that_need_a_scale_are_told(tmp_path, dtype, form, severity):
    folder = adapter(tmp_path, Q)
    ones = {key: (shape, [1] * len(values)) for key, (shape, values) in Q.items()}
    safetensors(folder / "adapter_model.safetensors", ones, form, dtype)
    told = only(check(read_adapter(folder), BASE), "lora-dtype")
    assert told.severity == severity
    assert dtype in told.message
    assert "2 tensors" in told.message
