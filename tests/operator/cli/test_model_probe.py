"""`cacheaware probe` without torch: rotary tables, bad options, and what to install."""

import importlib.util
import json

import pytest
from tests.operator.cli.conftest import ran
from tests.operator.model.adapters import LLAMA, config_file

from cacheaware.cli.probe import plain
from cacheaware.cli.probe_rope import differing


@pytest.fixture
def config(tmp_path):
    return str(config_file(tmp_path, LLAMA))


def other(tmp_path, capsys, **fields):
    (tmp_path / "other").mkdir()
    path = str(config_file(tmp_path / "other", {**LLAMA, **fields}))
    _, out, _ = ran(capsys, "probe", "rope", path, "-o", "json")
    kept = tmp_path / "there.json"
    kept.write_text(out)
    return str(kept)


def test_rotary_tables_have_hashes(config, capsys):
    code, out, _ = ran(capsys, "probe", "rope", config, "-o", "json")
    told = json.loads(out)
    assert code == 0
    assert {key: told[key] for key in ("kind", "pairs", "scale", "sections", "tokens")} == {
        "kind": "default", "pairs": 4, "scale": 1.0, "sections": [], "tokens": 128
    }  # fmt: skip
    assert set(told["hashes"]) == {
        "frequencies", "float64", "float32", "bfloat16", "float16", "float32 at each step"
    }  # fmt: skip
    assert all(len(one) == 64 for one in told["hashes"].values())
    code, out, _ = ran(capsys, "probe", "rope", config)
    assert code == 0
    assert "default: 4 pairs, scale 1, 128 tokens" in out


def test_a_host_with_the_same_tables_is_silent(tmp_path, config, capsys):
    there = other(tmp_path, capsys)
    assert ran(capsys, "probe", "rope", config, "--against", there)[0] == 0


def test_a_host_with_other_tables_is_found(tmp_path, config, capsys):
    there = other(tmp_path, capsys, rope_theta=500000.0)
    code, out, _ = ran(capsys, "probe", "rope", config, "--against", there)
    assert code == 1
    assert "rope-differs" in out
    assert "--hf-overrides" in out


def test_the_last_bit_of_another_libm_is_no_fault():
    own = {"frequencies": "a", "float64": "b", "float32": "c"}
    (told,) = differing(own, {**own, "float64": "d"}, "there.json")
    assert (told.id, told.severity) == ("rope-libm", "info")
    (told,) = differing(own, {"frequencies": "a"}, "there.json")
    assert (told.id, told.severity) == ("rope-differs", "error")
    assert differing(own, own, "there.json") == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("rope", "nothing.json"), "can't be read"),
        (("rope", "CONFIG", "--against", "CONFIG"), "allowed is the JSON of probe rope"),
        (("attention", ".", "--band", "-1"), "--band is '-1'"),
        (("attention", ".", "--baseline", "nothing.json"), "can't be read"),
        (("norms", ".", "--baseline", "CONFIG"), "is no baseline"),
    ],
)
def test_bad_input_is_one_line(config, capsys, given, says):
    words = [config if one == "CONFIG" else one for one in given]
    code, out, err = ran(capsys, "probe", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"hashes": {}}, "hashes.frequencies is None: allowed is the text"),
        ({"hashes": []}, "allowed is the JSON of probe rope"),
        ({"tokens": 64}, "tokens is 64 there, 128 here: allowed are tables of one length"),
        ({"tokens": None}, "tokens is None: allowed is the number"),
        ({"float64": []}, "hashes.float64 is []: allowed is the text"),
    ],
)
def test_a_table_that_can_not_be_compared_is_bad_input_and_no_difference(
    tmp_path, config, capsys, fields, says
):
    there = tmp_path / "there.json"
    there.write_text(ran(capsys, "probe", "rope", config, "-o", "json")[1])
    told = json.loads(there.read_text())
    if "float64" in fields:
        told["hashes"] |= fields
    else:
        told |= fields
    there.write_text(json.dumps(told))
    code, out, err = ran(capsys, "probe", "rope", config, "--against", str(there))
    assert (code, out) == (2, "")
    assert f"--against {there}: {says}" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("field", [{"rope_theta": 0}, {"rope_scaling": {"type": "magic"}}])
def test_a_config_without_a_table_is_one_line(tmp_path, capsys, field):
    path = config_file(tmp_path, {**LLAMA, **field})
    code, _, err = ran(capsys, "probe", "rope", str(path))
    assert code == 2
    assert "allowed are" in err
    path.write_text("[]")
    assert "no JSON object" in ran(capsys, "probe", "rope", str(path))[2]


def test_a_config_without_fields_is_said_to_miss_them(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text("{}")
    code, _, err = ran(capsys, "probe", "rope", str(path))
    assert code == 2
    assert "hidden_size is missing" in err


def test_the_trained_length_is_that_of_the_text_part(tmp_path, capsys):
    path = config_file(tmp_path, {"text_config": LLAMA, "max_position_embeddings": "x"})
    code, out, _ = ran(capsys, "probe", "rope", str(path), "-o", "json")
    assert (code, json.loads(out)["tokens"]) == (0, 128)


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is not None, reason="torch is installed: nothing is missing"
)
@pytest.mark.parametrize("name", ["attention", "norms", "precision"])
def test_without_torch_it_is_said_what_to_install(tmp_path, capsys, name):
    code, _, err = ran(capsys, "probe", name, str(tmp_path))
    assert code == 2
    assert "torch is not installed; pip install 'cacheaware[probe]' brings it" in err


def test_what_is_no_number_is_null_in_json():
    given = {"a": [float("nan"), 1.0], "b": (float("inf"),), "c": "x"}
    assert plain(given) == {"a": [None, 1.0], "b": [None], "c": "x"}
