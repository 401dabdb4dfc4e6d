"""`cacheaware lora`."""

import json
import os
import pickle
import shlex
from pathlib import Path

import pytest
from tests.operator.cli.conftest import ran
from tests.operator.model.adapters import LLAMA, adapter, config_file, pair, tensor, torch_file

from cacheaware.cli import command_line

NAME = "model.layers.0.self_attn.q_proj"
PEFT = f"base_model.model.{NAME}"


def keys(name):
    return pair(f"{name}.lora_A.weight", f"{name}.lora_B.weight", "q_proj")


@pytest.fixture
def config(tmp_path):
    return str(config_file(tmp_path, LLAMA))


def test_a_good_adapter_ends_well(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(PEFT))
    code, out, _ = ran(capsys, "lora", "check", str(folder), "--config", config)
    assert code == 0
    assert "2 tensors, 2 under the key that PEFT writes" in out


def test_findings_end_with_one_and_say_what_to_do(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME))
    code, out, _ = ran(capsys, "lora", "check", str(folder), "--config", config)
    assert code == 1
    assert "base_model.model. is missing before it" in out
    assert "cacheaware lora fix" in out


def test_json_has_stable_keys(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME))
    code, out, _ = ran(capsys, "lora", "check", str(folder), "--config", config, "-o", "json")
    told = json.loads(out)
    assert code == 1
    assert set(told) == {"adapter", "tensors", "engines", "findings"}
    assert told["tensors"][0] == {
        "key": f"{NAME}.lora_A.weight",
        "dtype": "F32",
        "shape": [4, 32],
        "style": "peft",
        "part": "lora_A",
        "modules": [NAME],
        "binds": False,
        "why": None,
    }
    assert set(told["engines"][0]) == {
        "engine", "binds", "refused", "dropped", "unsure", "reason"
    }  # fmt: skip
    assert set(told["findings"][0]) == {"id", "severity", "subject", "message", "fix"}


def test_fix_writes_a_copy_beside_and_proves_it(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME))
    before = (folder / "adapter_model.safetensors").read_bytes()
    out_dir = str(tmp_path / "out")
    code, out, _ = ran(capsys, "lora", "fix", str(folder), "--config", config, "--out", out_dir)
    assert code == 0
    assert "2 tensors, 2 under the key that PEFT writes" in out
    assert (folder / "adapter_model.safetensors").read_bytes() == before
    again = ran(capsys, "lora", "check", out_dir, "--config", str(tmp_path))
    assert again[0] == 0


def test_fix_says_what_it_left_out(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME) | {"step": tensor([1])})
    given = ("lora", "fix", str(folder), "--config", config, "--out", str(tmp_path / "out"))
    code, out, _ = ran(capsys, *given, "-o", "json")
    assert code == 1
    assert json.loads(out)["leftOut"] == [["step", "its ending is no LoRA's"]]
    other = (*given[:-1], str(tmp_path / "other"))
    assert "left out step" in ran(capsys, *other)[2]


def test_the_input_is_never_the_output(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME))
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    link = tmp_path / "link"
    link.symlink_to(folder)
    for out in (folder, link, tmp_path / "b" / ".." / "a", folder / "adapter_model.safetensors"):
        code, _, err = ran(
            capsys, "lora", "fix", str(folder), "--config", config, "--out", str(out)
        )
        assert code == 2
        assert "--out" in err
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_a_malicious_pickle_ends_with_one_line_and_is_not_run(tmp_path, config, capsys):
    planted = tmp_path / "planted"

    class Plant:
        def __reduce__(self):
            return os.mkdir, (str(planted),)

    path = torch_file(tmp_path / "adapter_model.bin", pickle.dumps({"x": Plant()}, protocol=2))
    code, out, err = ran(capsys, "lora", "check", str(path), "--config", config)
    assert (code, out) == (2, "")
    assert "would import posix.mkdir: refused" in err
    assert err.count("\n") == 1
    assert not planted.exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("nothing", None), "nothing: can't be read"),
        ((".", None), "the folder holds no adapter"),
        (("a", "{"), "is no JSON"),
        (("a", '{"model_type": "no_such_model"}'), "--config"),
    ],
)
def test_bad_input_is_one_line(tmp_path, config, capsys, given, says):
    adapter_name, config_text = given
    adapter(tmp_path / "a", keys(PEFT))
    if config_text:
        (tmp_path / "config.json").write_text(config_text)
    code, out, err = ran(capsys, "lora", "check", str(tmp_path / adapter_name), "--config", config)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_name_that_would_move_the_cursor_is_escaped(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(PEFT) | {"\x1b[2Jx.lora_A.weight": tensor([1])})
    _, out, _ = ran(capsys, "lora", "check", str(folder), "--config", config)
    assert "\x1b" not in out


@pytest.mark.parametrize("name", ["check", "fix"])
def test_the_example_of_the_help_runs(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    adapter(tmp_path / "my-adapter", keys(PEFT))
    (tmp_path / "llama-3-8b").mkdir()
    config_file(tmp_path / "llama-3-8b", LLAMA)
    command = command_line().commands["lora"].commands[name]
    words = shlex.split(command.epilog.removeprefix("Example: "))
    assert words[:3] == ["cacheaware", "lora", name]
    assert ran(capsys, *words[1:])[0] == 0


def refused(capsys, folder, config, out_dir):
    """What `lora fix` says when it refuses; nothing may have changed in the input's folder."""
    before = sorted(folder.rglob("*"))
    given = ("lora", "fix", str(folder), "--config", config, "--out", str(out_dir))
    code, out, err = ran(capsys, *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--out is" in err
    assert "allowed is" in err
    assert sorted(folder.rglob("*")) == before
    return err


@pytest.mark.parametrize("below", ["sub", "sub/deeper", "../a/sub"])
def test_a_copy_below_the_input_is_refused(tmp_path, config, capsys, below):
    folder = adapter(tmp_path / "a", keys(NAME))
    assert "below the input's folder" in refused(capsys, folder, config, f"{folder}/{below}")


@pytest.mark.parametrize("where", ["", ".", "../other/../a"])
def test_a_copy_in_place_of_the_input_is_refused(tmp_path, config, capsys, where):
    folder = adapter(tmp_path / "a", keys(NAME))
    assert "the input's own folder" in refused(capsys, folder, config, f"{folder}/{where}")


def test_a_copy_below_the_current_folder_is_refused_where_that_is_the_input(
    tmp_path, config, capsys, monkeypatch
):
    monkeypatch.chdir(adapter(tmp_path / "a", keys(NAME)))
    assert "outside of it" in refused(capsys, Path(), config, "./fixed")


def test_a_file_is_copied_to_a_new_folder_beside_it(tmp_path, config, capsys, monkeypatch):
    folder = adapter(tmp_path / "a", keys(NAME))
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    monkeypatch.chdir(folder)
    given = ("lora", "fix", "adapter_model.safetensors", "--config", config, "--out")
    for out_dir in ("./fixed", "deeper/fixed", str(folder / "whole")):
        assert ran(capsys, *given, out_dir)[0] == 0
        assert ran(capsys, "lora", "check", out_dir, "--config", config)[0] == 0
    assert {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()} == before


@pytest.mark.parametrize("out", [".", "sub/..", "adapter_model.safetensors"])
def test_a_file_is_never_copied_over_itself_or_into_its_own_folder(
    tmp_path, config, capsys, monkeypatch, out
):
    folder = adapter(tmp_path / "a", keys(NAME))
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    monkeypatch.chdir(folder)
    code, told, err = ran(
        capsys, "lora", "fix", "adapter_model.safetensors", "--config", config, "--out", out
    )
    assert (code, told, err.count("\n")) == (2, "", 1)
    assert "--out" in err
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_a_file_behind_a_link_is_never_copied_into_the_folder_of_its_tensors(
    tmp_path, config, capsys
):
    folder = adapter(tmp_path / "a", keys(NAME))
    link = tmp_path / "linked.safetensors"
    link.symlink_to(folder / "adapter_model.safetensors")
    given = ("lora", "fix", str(link), "--config", config, "--out", str(folder))
    code, _, err = ran(capsys, *given)
    assert code == 2
    assert "the input's own folder" in err


def test_a_copy_below_the_input_behind_links_is_refused(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME))
    (tmp_path / "link").symlink_to(folder)
    told = refused(capsys, folder, config, tmp_path / "link" / "sub")
    assert "below the input's folder" in told
    assert "below" in refused(capsys, tmp_path / "link", config, folder / "sub")
    linked = tmp_path / "b"
    linked.mkdir()
    (linked / "adapter_model.safetensors").symlink_to(folder / "adapter_model.safetensors")
    assert "below" in refused(capsys, linked, config, folder / "sub")
    assert "below" in refused(capsys, linked, config, linked / "sub")


def test_a_copy_where_no_folder_can_be_is_one_clear_line(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME))
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    assert "a link to nothing" in refused(capsys, folder, config, tmp_path / "dangling")
    assert "below a file" in refused(capsys, folder, config, f"{config}/sub/deeper")
    refused(capsys, folder, config, "x\0y")
    refused(capsys, folder, config, "")
    refused(capsys, folder, config, config)


def test_a_copy_that_cannot_be_written_is_one_clear_line(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME))
    given = ("lora", "fix", str(folder), "--config", config, "--out", str(tmp_path / ("x" * 300)))
    code, out, err = ran(capsys, *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--out is" in err


def test_an_adapters_name_with_a_zero_byte_is_one_line(config, capsys):
    code, out, err = ran(capsys, "lora", "check", "x\0y", "--config", config)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "ADAPTER is" in err


def test_a_copy_beside_the_input_is_allowed(tmp_path, config, capsys):
    folder = adapter(tmp_path / "a", keys(NAME))
    given = ("lora", "fix", str(folder), "--config", config, "--out", f"{folder}-fixed")
    assert ran(capsys, *given)[0] == 0
