"""`cacheaware model audit`."""

import json
import shlex
from pathlib import Path

import pytest
from tests.operator.cli.conftest import ran
from tests.operator.model.audit.plants import LLAMA, QWEN2, changed

AUDIT = ("model", "audit")


@pytest.fixture
def write(tmp_path):
    def put(config: object, name: str = "config.json") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config if isinstance(config, str) else json.dumps(config))
        return str(path)

    return put


def test_json_is_one_object_with_findings_of_stable_keys(write, capsys):
    path = write(changed(LLAMA, {"torch_dtype": "float32"}))
    code, out, err = ran(capsys, *AUDIT, path, "-o", "json")
    (found,) = json.loads(out).pop("findings")
    assert (code, err) == (0, "")
    assert list(json.loads(out)) == ["findings"]
    assert list(found) == ["id", "severity", "subject", "message", "fix"]
    assert (found["id"], found["severity"], found["subject"]) == ("dtype-float32", "warning", path)


def test_the_table_names_the_file_the_finding_and_what_to_do(write, capsys):
    path = write(changed(LLAMA, {"rope_theta": 1.0}))
    code, out, _ = ran(capsys, *AUDIT, path)
    assert code == 1
    assert out.startswith(f"{path}: 1 error")
    assert "error    rope-theta" in out
    assert "Fix: Take it from the model's own release." in out


def test_a_whole_configuration_is_well(write, capsys):
    code, out, _ = ran(capsys, *AUDIT, write(LLAMA))
    assert code == 0
    assert "nothing found" in out


def test_several_files_are_told_apart(write, capsys):
    first, second = write(LLAMA), write(QWEN2, "second/config.json")
    _, out, _ = ran(capsys, *AUDIT, first, second)
    assert out == f"{first}: nothing found\n\n{second}: nothing found\n"


@pytest.mark.parametrize(("threshold", "code"), [("error", 0), ("warning", 1)])
def test_warnings_fail_only_where_they_are_asked_to(write, capsys, threshold, code):
    path = write(changed(LLAMA, {"torch_dtype": "float32"}))
    assert ran(capsys, *AUDIT, path, "--fail-on", threshold)[0] == code


def test_the_good_ones_of_several_are_answered_and_a_bad_one_sets_the_code(write, capsys):
    good, bad = write(LLAMA), write("{", "bad/config.json")
    code, out, err = ran(capsys, *AUDIT, bad, good, "/none/config.json", "-o", "json")
    assert code == 2
    assert json.loads(out) == {"findings": []}
    assert [line.split(": ")[1] for line in err.splitlines()] == [bad, "/none/config.json"]


def test_a_folder_stands_for_its_config(write, capsys):
    path = Path(write(LLAMA))
    code, out, _ = ran(capsys, *AUDIT, str(path.parent))
    assert code == 0
    assert str(path) in out


def test_what_is_no_configuration_is_bad_input(write, capsys):
    code, _, err = ran(capsys, *AUDIT, write([]))
    assert code == 2
    assert err.endswith("config is a list of 0: allowed is an object\n")


def test_an_unknown_architecture_is_a_warning(write, capsys):
    path = write(changed(QWEN2, {"model_type": "my_model", "architectures": ["MyModel"]}))
    code, out, _ = ran(capsys, *AUDIT, path, "-o", "json")
    (found,) = json.loads(out)["findings"]
    assert (code, found["id"], found["severity"]) == (0, "architecture-unknown", "warning")


def test_gpus_and_ranks_reach_the_rules(write, capsys):
    options = ("--gpu", "t4, h100", "--tp", "16", "--ep", "2", "-o", "json")
    _, out, _ = ran(capsys, *AUDIT, write(LLAMA), *options)
    found = {one["id"] for one in json.loads(out)["findings"]}
    assert found == {"kv-heads-replicated", "dtype-gpu", "ep-dense"}


def test_the_engines_share_and_length_reach_the_rules(write, capsys):
    path = write(LLAMA)
    assert ran(capsys, *AUDIT, path, "--gpu", "a100-40")[0] == 0
    assert ran(capsys, *AUDIT, path, "--gpu", "a100-40", "--gpu-memory-utilization", "0.5")[0] == 1
    short = ("--gpu-memory-utilization", "0.5", "--max-model-len", "8192")
    assert ran(capsys, *AUDIT, path, "--gpu", "a100-40", *short)[0] == 0


def test_the_least_share_of_the_smallest_card_is_answered(write, capsys):
    options = ("--gpu", "t4", "--gpu-memory-utilization", "0.001", "-o", "json")
    code, out, _ = ran(capsys, *AUDIT, write(LLAMA), *options)
    assert code == 1
    assert "weights-gpu" in {one["id"] for one in json.loads(out)["findings"]}


def test_another_engine_is_not_judged_by_what_vllm_refuses(write, capsys):
    path = write(changed(QWEN2, {"hidden_act": "gelu"}))
    assert ran(capsys, *AUDIT, path)[0] == 1
    assert ran(capsys, *AUDIT, path, "--engine", "other")[0] == 0


@pytest.mark.parametrize(("option", "value", "said"), [
    ("--gpu", "h100,g7", "--gpu is 'g7': allowed are T4, V100"),
    ("--gpu", "", "--gpu is '': allowed are T4"),
    ("--gpu", ",", "--gpu is '': allowed are T4"),
    ("--gpu", "h100,", "--gpu is '': allowed are T4"),
    ("--tp", "0", "--tp is 0: allowed are whole numbers 1..4,096"),
    ("--ep", "-1", "--ep is -1: allowed are whole numbers 1..4,096"),
    ("--max-model-len", "0", "--max-model-len is 0: allowed are whole numbers 1.."),
    ("--gpu-memory-utilization", "92", "is 92: allowed are 0.001..1"),
    ("--gpu-memory-utilization", "nan", "is nan: allowed are 0.001..1"),
    ("--gpu-memory-utilization", "1e-300", "is 1e-300: allowed are 0.001..1"),
    ("--gpu-memory-utilization", "0", "is 0: allowed are 0.001..1"),
])  # fmt: skip
def test_a_bad_option_is_one_line(write, capsys, option, value, said):
    code, _, err = ran(capsys, *AUDIT, write(LLAMA), option, value)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_quantisation_beside_the_config_counts(write, capsys):
    path = write(LLAMA)
    told = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}}
    assert ran(capsys, *AUDIT, path, "--gpu", "t4", "--max-model-len", "8192")[0] == 1
    write(told, "hf_quant_config.json")
    code, out, _ = ran(capsys, *AUDIT, path, "--gpu", "t4", "--max-model-len", "8192")
    assert code == 0
    assert "quantization-stored-only" in out


def test_a_malformed_file_beside_the_config_is_bad_input(write, capsys):
    path = write(LLAMA)
    write([], "hf_quant_config.json")
    code, _, err = ran(capsys, *AUDIT, path)
    assert code == 2
    assert "hf_quant_config.json beside it has no object `quantization`" in err


def test_the_example_of_the_help_runs(write, capsys, monkeypatch):
    code, out, _ = ran(capsys, *AUDIT, "--help")
    assert code == 0
    (line,) = [line for line in out.splitlines() if "Example: " in line]
    example = shlex.split(line.partition("Example: ")[2])
    monkeypatch.chdir(Path(write(LLAMA)).parent)
    assert example[0] == "cacheaware"
    assert ran(capsys, *example[1:])[0] == 0
