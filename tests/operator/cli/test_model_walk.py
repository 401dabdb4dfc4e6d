"""`cacheaware model walk`."""

import json
import shlex
from importlib import util
from pathlib import Path

import pytest
from tests.operator.model.configs import DEEPSEEK_R1, LLAMA_2_7B

from cacheaware import cli
from cacheaware.cli import walk as command


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["model", "walk", *map(str, args)])
    return ended.value.code


@pytest.fixture
def write(tmp_path):
    def put(config: object, name: str = "config.json") -> Path:
        path = tmp_path / name
        path.write_text(config if isinstance(config, str) else json.dumps(config))
        return path

    return put


def test_the_example_of_the_help_runs(write, monkeypatch, capsys):
    monkeypatch.chdir(write(LLAMA_2_7B).parent)
    program, *words = shlex.split(command.EXAMPLE)
    assert program == "cacheaware"
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    assert "compute-bound" in capsys.readouterr().out


def test_the_help_shows_the_example(capsys):
    assert run("--help") == 0
    assert command.EXAMPLE in " ".join(capsys.readouterr().out.split())


def test_json_has_stable_keys(write, capsys):
    path = write(LLAMA_2_7B)
    assert run(path, "--gpu", "a100", "--prompt", 10, "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == [
        "file",
        "architecture",
        "model_type",
        "phase",
        "batch",
        "new_tokens",
        "cached_tokens",
        "gpu",
        "tensor_parallel",
        "pipeline_parallel",
        "kv_dtype",
        "parameters",
        "weight_bytes_per_rank",
        "rows",
        "collectives",
        "step",
        "training",
        "notes",
    ]
    assert (answer["file"], answer["phase"], answer["training"]) == (str(path), "prefill", None)
    assert answer["parameters"]["total"] == 6_738_415_616
    rows = {row["module"]: row for row in answer["rows"]}
    assert list(rows["qkv"]) == [
        "module",
        "part",
        "layers",
        "shape",
        "dtype",
        "weights",
        "parameters",
        "flops",
        "weight_bytes",
        "activation_bytes",
        "kv_read_bytes",
        "kv_written_bytes",
        "intensity",
        "bound",
        "seconds",
        "share",
        "optimisations",
    ]
    assert rows["qkv"]["shape"] == "[10, 4096] x [4096, 12288]"
    assert rows["qkv"]["layers"] == 32
    assert rows["qkv"]["optimisations"][0]["id"] == "continuous-batching"
    assert answer["step"]["kv_written_bytes"] == 10 * 524_288


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (LLAMA_2_7B, ["--prompt", 10, "--dp", 8, "--train-bandwidth", 25]),
        (LLAMA_2_7B, ["--phase", "decode", "--batch", 256, "--context", 100_000, "--tp", 4]),
        (DEEPSEEK_R1, ["--phase", "decode", "--batch", 512, "--tp", 8, "--pp", 2]),
        (DEEPSEEK_R1, ["--prompt", 131_072, "--batch", 64, "--dp", 1024, "--train-bandwidth", 400]),
    ],
)
def test_the_table_is_readable_in_a_hundred_columns(config, options, write, capsys):
    assert run(write(config), "--gpu", "rtx-pro-6000", *options) == 0
    out = capsys.readouterr().out
    assert all(len(line.rstrip()) <= 100 for line in out.splitlines()), max(
        out.splitlines(), key=len
    )


def test_figures_of_a_pipeline_say_that_they_are_sums_over_its_stages(write, capsys):
    path = write(LLAMA_2_7B)
    steps = []
    for stages in (1, 4):
        assert run(path, "--gpu", "h100", "--pp", stages, "-o", "json") == 0
        steps.append(json.loads(capsys.readouterr().out)["step"])
    assert [one["summed_over_stages"] for one in steps] == [1, 4]
    assert steps[0]["flops"] == steps[1]["flops"]
    assert run(path, "--gpu", "h100", "--pp", 4) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "On each rank" not in out
    assert "Summed over a rank of each of 4 stages: " in out
    assert "GiB a rank on average (TP 1, PP 4" in out


def test_decode_takes_the_prompt_for_cached_and_context_goes_first(write, capsys):
    path = write(LLAMA_2_7B)
    seen = []
    for options in (["--prompt", 100], ["--prompt", 100, "--context", 300], []):
        assert run(path, "--gpu", "l40s", "--phase", "decode", "-o", "json", *options) == 0
        answer = json.loads(capsys.readouterr().out)
        seen.append((answer["new_tokens"], answer["cached_tokens"]))
    assert seen == [(1, 100), (1, 300), (1, 2048)]


def test_training_is_told_with_both_options(write, capsys):
    path = write(LLAMA_2_7B)
    options = ["--dp", 8, "--train-bandwidth", 25]
    assert run(path, "--gpu", "h100", *options, "-o", "json") == 0
    training = json.loads(capsys.readouterr().out)["training"]
    assert training["buckets"] == 226
    assert training["zero_bytes_per_rank"][0] == 16 * 6_738_415_616
    assert run(path, "--gpu", "h100", *options) == 0
    assert "ZeRO" in capsys.readouterr().out


def test_an_unknown_architecture_is_a_warning(write, capsys):
    path = write(LLAMA_2_7B | {"model_type": "brandnew"})
    assert run(path, "--gpu", "h100", "-o", "json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["architecture"] == "unknown"
    assert err.startswith("cacheaware: warning: ")
    assert err.count("\n") == 1
    assert run(path, "--gpu", "h100") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--gpu", "abacus"], "cacheaware: --gpu is 'abacus': allowed are T4"),
        (
            ["--gpu", "h100", "--phase", "train"],
            "--phase is 'train': allowed are prefill and decode",
        ),
        (["--gpu", "h100", "--prompt", 0], "cacheaware: --prompt is 0"),
        (["--gpu", "h100", "--batch", 0], "--batch is 0"),
        (["--gpu", "h100", "--context", -1], "--context is -1"),
        (["--gpu", "h100", "--tp", 0], "--tp is 0: allowed are whole numbers 1..4,096"),
        (["--gpu", "h100", "--pp", 0], "--pp is 0: allowed are whole numbers 1..4,096"),
        (["--gpu", "h100", "--tp", 3], "3"),
        (["--gpu", "h100", "--kv-dtype", "fp3"], "--kv-dtype is 'fp3'"),
        (["--gpu", "h100", "--weights", "fp3"], "--weights is 'fp3'"),
        (["--gpu", "h100", "--dp", 8], "--dp and --train-bandwidth belong together"),
        (["--gpu", "h100", "--dp", 8, "--train-bandwidth", 0], "--train-bandwidth is 0.0"),
        (["--gpu", "h100", "--dp", 2, "--train-bandwidth", "1e-320"], "allowed are 1e-06..1,000"),
        (["--gpu", "h100", "--dp", 2, "--train-bandwidth", "1e300"], "allowed are 1e-06..1,000"),
        (["--gpu", "h100", "--dp", 2, "--train-bandwidth", "nan"], "allowed are 1e-06..1,000"),
        (["--gpu", "h100", "--plot", "roof.exe"], "allowed are names that end with .png"),
        ([], "gpu"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, line, write, capsys):
    assert run(write(LLAMA_2_7B), *options) == 2
    out, err = capsys.readouterr()
    assert line in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.parametrize("content", ["[", "[]", "{}", '{"model_type": "llama"}'])
def test_a_bad_file_is_refused_in_one_line_that_names_it(content, write, capsys):
    path = write(content)
    assert run(path, "--gpu", "h100") == 2
    err = capsys.readouterr().err
    assert str(path) in err
    assert err.count("\n") == 1


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_computed(
    write, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(command, "find_spec", lambda name: util)
    folder = tmp_path / "folder.png"
    folder.mkdir()
    for place in (folder, tmp_path / "none" / "roof.png"):
        assert run(write(LLAMA_2_7B), "--gpu", "a100", "--plot", place) == 2
        out, err = capsys.readouterr()
        assert f"--plot {place}: allowed are files in a directory that exists" in err
        assert (out, err.count("\n")) == ("", 1)


def test_a_folder_with_several_files_is_refused(write, capsys):
    write(LLAMA_2_7B, "a.json")
    folder = write(LLAMA_2_7B, "b.json").parent
    assert run(folder, "--gpu", "h100") == 2
    assert "2 files: name one config.json" in capsys.readouterr().err


def test_the_plot_is_a_picture_with_a_mark_for_each_product(write, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    picture = tmp_path / "roofline.png"
    assert run(write(LLAMA_2_7B), "--gpu", "a100", "--plot", picture) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()


def test_without_matplotlib_the_plot_is_refused_before_anything_is_computed(
    write, monkeypatch, capsys
):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "matplotlib" else util)
    assert run(write(LLAMA_2_7B), "--gpu", "a100", "--plot", "roof.png") == 2
    assert "pip install 'cacheaware[plot]'" in capsys.readouterr().err
