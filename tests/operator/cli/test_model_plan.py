"""`cacheaware model plan`."""

import io
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.operator.model.configs import DEEPSEEK_R1, LLAMA_8B, LLAMA_70B

from cacheaware import cli
from cacheaware.api.models import CacheAwareScaler
from cacheaware.cli import output
from cacheaware.cli.plan import EXAMPLE, plan

USUAL = ("--rate", 8, "--prompt", 1500, "--output", 300)


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["model", "plan", *map(str, args)])
    return ended.value.code


@pytest.fixture
def write(tmp_path):
    def put(config: Any, name: str = "chat-8b/config.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config if isinstance(config, str) else json.dumps(config))
        return path

    return put


@pytest.fixture
def answer(write, capsys):
    """The exit code and the JSON of a plan."""

    def ask(config: Any, *options: object, gpu: str = "h100") -> tuple[int, dict[str, Any]]:
        code = run(write(config), "--gpu", gpu, *USUAL, *options, "-o", "json")
        return code, json.loads(capsys.readouterr().out)

    return ask


def scaler_of(text: str) -> dict[str, Any]:
    """The object below the tables."""
    at = text.index("apiVersion: ")
    return YAML(typ="safe").load(io.StringIO(text[at:]))


def test_the_help_shows_an_example_that_runs(write, capsys, monkeypatch):
    path = write(LLAMA_8B)
    monkeypatch.chdir(path.parent)
    assert run("--help") == 0
    shown = re.sub(r"[^\w\-. ]+", " ", capsys.readouterr().out)
    assert " ".join(EXAMPLE.split()) in " ".join(shown.split())
    assert run(*shlex.split(EXAMPLE)[3:]) == 0
    assert plan.__doc__


def test_json_has_stable_keys(answer):
    code, told = answer(LLAMA_8B)
    assert code == 0
    assert set(told) == {
        "file", "unknown", "model_type", "gpu", "load", "gpu_memory_utilization", "sizes",
        "refused", "tensor_parallel", "reasons", "replicas", "engine_options", "scaler", "findings",
    }  # fmt: skip
    assert set(told["sizes"][0]) == {
        "tensor", "fits", "kv_dtype", "block_size", "max_model_len", "visible_bytes",
        "weight_bytes", "activation_bytes", "other_bytes", "pool_bytes", "blocks", "tokens",
        "requests_at_max_model_len", "requests_at_expected", "requests_per_s", "at_work", "misses",
    }  # fmt: skip
    assert set(told["replicas"]) == {
        "now", "peak", "now_span", "peak_span", "at_work", "need", "full_in_s", "spare",
    }  # fmt: skip
    assert told["gpu"].pop("confirmed")
    assert told["gpu"] == {
        "name": "H100", "source": "NVIDIA H100 datasheet, SXM, sparse figures halved",
    }  # fmt: skip
    assert told["sizes"][0]["weight_bytes"] == 2 * 8_030_261_248


def test_the_table_says_what_fits_and_why(write, capsys):
    assert run(write(LLAMA_8B), "--gpu", "l40s", *USUAL, "--ttft", 1000, "--tpot", 60) == 0
    out = capsys.readouterr().out
    assert "NVIDIA L40S datasheet" in out
    assert "targets: TTFT 1000 ms, TPOT 60 ms" in out
    assert re.search(r"- weights +14\.96 ", out)
    assert re.search(r"= KV pool +\d+\.\d\d +\d+\.\d\d \.\.\. \d+\.\d\d", out)
    assert re.search(r"replicas: \d+ now \(\d+ to \d+\), \d+ at the peak", out)
    assert "burst: at 16 requests/s" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("config", [LLAMA_8B, LLAMA_70B])
def test_a_terminal_of_eighty_columns_breaks_no_line(config, write, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(output.Console, "is_terminal", True)
    options = ("--ttft", 1000, "--tpot", 60, "--count", 1, "--max-model-len", 131_072)
    run(write(config), "--gpu", "h100", *USUAL, *options)
    out = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out)
    at = next(n for n, line in enumerate(out.splitlines()) if line.startswith("TP "))
    assert max(map(len, out.splitlines()[at:])) <= 80


@pytest.mark.parametrize(
    ("config", "gpu", "options"),
    [
        (LLAMA_8B, "h100", ()),
        (LLAMA_8B, "l40s", ("--ttft", 1000, "--tpot", 60, "--count", 64)),
        (LLAMA_70B, "h100", ("--peak", 8)),
        (LLAMA_70B, "h100", ("--count", 4)),
        (LLAMA_70B, "h100", ("--rate", 100_000, "--peak", 1_000_000)),
    ],
)
def test_the_scaler_is_one_that_the_cluster_accepts(config, gpu, options, write, capsys):
    assert run(write(config), "--gpu", gpu, *USUAL, *options) in {0, 1}
    found = scaler_of(capsys.readouterr().out)
    accepted = CacheAwareScaler.model_validate(found)
    assert accepted.spec.mode == "Advise"
    assert accepted.spec.scale_target_ref.name == accepted.metadata.name == "chat-8b"


def test_the_scaler_holds_the_targets_and_the_gpus_there_are(answer):
    _, told = answer(LLAMA_8B, "--ttft", 1500, "--count", 3, "--rate", 20)
    spec = told["scaler"]["spec"]
    assert spec["targets"] == {"kvUtilizationPercent": 80, "timeToFirstTokenMs": 1500}
    assert spec["maxGpus"] == spec["maxReplicas"] == 3


def test_a_burst_that_comes_before_new_pods_asks_for_a_warm_pool(answer):
    _, told = answer(LLAMA_8B, "--rate", 20, "--peak", 100)
    (burst,) = (one for one in told["findings"] if one["id"] == "FullBeforeColdStart")
    assert told["replicas"]["full_in_s"] < 110
    assert told["scaler"]["spec"]["warmPool"] == told["replicas"]["spare"] > 0
    assert f"warmPool: {told['replicas']['spare']}" in burst["fix"]


def test_what_does_not_fit_is_one_error_that_says_by_how_much_and_what_would(answer):
    code, told = answer(LLAMA_70B, "--count", 1)
    assert code == 1
    assert told["tensor_parallel"] is None
    assert told["scaler"] is None
    (error,) = (one for one in told["findings"] if one["severity"] == "error")
    assert error["id"] == "DoesNotFit"
    assert error["subject"].endswith("config.json")
    missing = told["sizes"][-1]["pool_bytes"]["expected"] / 2**30
    assert f"{-missing:,.1f} GiB are missing" in error["message"]
    for way in ("more GPUs with TP 2", "a checkpoint in int4 with TP 1", "1 x B200"):
        assert way in error["fix"]


def test_a_length_that_does_not_fit_names_the_length_that_would(answer):
    few = ("--count", 2, "--rate", 0.1, "--peak", 0.1)
    code, told = answer(LLAMA_70B, *few, "--max-model-len", 131072)
    assert code == 1
    (error,) = (one for one in told["findings"] if one["severity"] == "error")
    assert "one request of 131,072 tokens needs" in error["message"]
    found = re.search(r"--max-model-len (\d+) with TP 2", error["fix"])
    assert "TP 4" not in error["fix"].partition("; or")[0]
    assert answer(LLAMA_70B, *few, "--max-model-len", found[1])[0] == 0


def test_a_model_too_large_for_a_node_is_sent_over_two(answer):
    huge = {**LLAMA_70B, "num_hidden_layers": 400, "num_key_value_heads": 16}
    code, told = answer(huge)
    assert code == 1
    assert "TP 16 over two nodes" in told["findings"][0]["fix"]


def test_a_model_that_nothing_holds_is_said_to_be_too_large(answer):
    code, told = answer({**LLAMA_70B, "hidden_size": 8192 * 32, "intermediate_size": 28672 * 32})
    assert code == 1
    assert told["findings"][0]["fix"] == "what would fit: a smaller model"


@pytest.mark.parametrize("option", ["--ttft", "--tpot"])
def test_a_target_that_can_not_be_met_is_an_error(answer, option):
    code, told = answer(LLAMA_8B, option, 1)
    assert code == 1
    assert told["findings"][0]["id"] == "TargetMissed"
    assert "of 1 ms can't be met" in told["findings"][0]["message"]
    assert told["replicas"] is None


@pytest.mark.parametrize(
    ("rate", "severity", "code", "who"),
    [
        (30, "warning", 0, "the peak needs 5 GPUs at 60 requests/s, there are 4"),
        (300, "error", 1, "the load needs 25 GPUs at 300 requests/s and 50 at 600, there are 4"),
    ],
)
def test_too_few_gpus_are_told(answer, rate, severity, code, who):
    ended, told = answer(LLAMA_8B, "--rate", rate, "--count", 4)
    (found,) = (one for one in told["findings"] if one["id"] == "NotEnoughGpus")
    assert (found["severity"], ended) == (severity, code)
    assert who in found["message"]


def test_a_capped_length_names_the_size_that_takes_all(answer):
    code, told = answer(LLAMA_70B, "--rate", 0.1, "--peak", 0.1)
    assert code == 0
    (found,) = (one for one in told["findings"] if one["id"] == "LengthCapped")
    assert "--max-model-len" in found["fix"]
    assert "TP 4, where all of it fits" in found["fix"]


def test_what_is_not_counted_or_not_measured_is_said(answer):
    _, told = answer({**LLAMA_8B, "vision_config": {"depth": 2}}, gpu="mi300x")
    ids = {one["id"]: one for one in told["findings"]}
    assert "vision_config" in ids["PartsNotCounted"]["message"]
    assert "GPUs of AMD" in ids["SpeedNotMeasured"]["message"]


def test_a_cache_that_ranks_share_is_said_to_be_held_twice(answer):
    narrow = {**LLAMA_70B, "num_key_value_heads": 2}
    _, told = answer(narrow, "--tpot", 25)
    ids = {one["id"]: one for one in told["findings"]}
    assert "share 2 KV heads" in ids["CacheReplicated"]["message"]


def test_float32_in_the_file_is_noted(answer):
    _, told = answer({**LLAMA_8B, "torch_dtype": "float32"})
    assert any("float32" in one["message"] for one in told["findings"])


def test_an_unknown_architecture_is_a_warning(write, capsys):
    path = write({"model_type": "deepseek_v4", "num_hidden_layers": 43})
    assert run(path, "--gpu", "h100", *USUAL, "-o", "json") == 0
    told = capsys.readouterr()
    assert "warning" in told.err
    assert json.loads(told.out)["unknown"]
    assert run(path, "--gpu", "h100", *USUAL) == 0
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--gpu", "h101"), "gpu is 'h101': allowed are T4"),
        (("--rate", 0), "--rate is 0: allowed are numbers above 0"),
        (("--rate", "nan"), "--rate is nan"),
        (("--peak", 1), "--peak is 1: allowed is --rate (8) or more"),
        (("--prompt", 0), "--prompt is 0"),
        (("--output", -5), "--output is -5"),
        (("--count", 0), "--count is 0"),
        (("--ttft", -1), "--ttft is -1"),
        (("--tpot", "inf"), "--tpot is inf"),
        (("--max-model-len", 0), "--max-model-len is 0"),
        (("--max-model-len", 100), "max-model-len is 100: prompt and output together"),
        (("--gpu-memory-utilization", 1.5), "--gpu-memory-utilization is 1.5"),
        (("--kv-dtype", "fp7"), "--kv-dtype is 'fp7'"),
        (("--weights", "q4"), "weights is 'q4'"),
    ],
)
def test_bad_options_get_one_line(write, capsys, options, text):
    assert run(write(LLAMA_8B), "--gpu", "h100", *USUAL, *options) == 2
    told = capsys.readouterr()
    assert not told.out
    assert len(told.err.splitlines()) == 1
    assert text in told.err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("[]", "config"),
        ("{", "is no JSON"),
        ({**LLAMA_8B, "num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({**LLAMA_8B, "quantization_config": {"quant_method": "gguf"}}, "name the weights' dtype"),
    ],
)
def test_bad_files_get_one_line(write, capsys, content, text):
    assert run(write(content), "--gpu", "h100", *USUAL) == 2
    told = capsys.readouterr()
    assert len(told.err.splitlines()) == 1
    assert text in told.err


def test_weights_that_the_file_does_not_tell_can_be_named(answer):
    odd = {**LLAMA_8B, "quantization_config": {"quant_method": "gguf"}}
    code, told = answer(odd, "--weights", "int4", gpu="l4")
    assert code == 0
    assert told["sizes"][0]["weight_bytes"] < 6 * 2**30


@pytest.mark.parametrize(("name", "weights"), [("chat-NVFP4", "nvfp4"), ("chat-AWQ", "int4")])
def test_a_name_that_says_more_than_the_file_is_told(write, capsys, name, weights):
    path = write(LLAMA_8B, f"{name}/config.json")
    assert run(path, "--gpu", "h100", *USUAL, "-o", "json") == 0
    ids = {one["id"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert ids["StorageNotTold"]["fix"] == f"--weights {weights}"
    assert run(path, "--gpu", "h100", *USUAL, "--weights", weights) == 0
    assert "StorageNotTold" not in capsys.readouterr().out


def test_a_large_mixture_in_eight_bits_needs_two_nodes_four_bits_or_larger_gpus(answer):
    code, told = answer(DEEPSEEK_R1)
    assert code == 1
    fix = told["findings"][0]["fix"]
    assert "checkpoint in fp8" not in fix
    for way in ("a checkpoint in int4 with TP 8", "TP 16 over two nodes", "8 x H200"):
        assert way in fix


def test_a_latent_cache_on_many_ranks_is_told(answer):
    code, told = answer(DEEPSEEK_R1, gpu="h200")
    assert code == 0
    ids = {one["id"]: one for one in told["findings"]}
    assert "--data-parallel-size 8 --enable-expert-parallel" in ids["CacheReplicated"]["fix"]
    assert "experts and a latent cache and quantised weights" in ids["SpeedNotMeasured"]["message"]


def test_a_four_bit_model_is_not_told_to_take_four_bits(answer):
    code, told = answer(LLAMA_70B, "--weights", "int4", "--count", 1, gpu="l4")
    assert code == 1
    assert "checkpoint" not in told["findings"][0]["fix"]


def test_a_length_beyond_any_pool_is_shortened_or_stored_in_eight_bits(answer):
    few = ("--count", 2, "--rate", 0.1, "--peak", 0.1)
    code, told = answer(LLAMA_70B, *few, "--max-model-len", 40_000)
    assert code == 1
    assert "--kv-dtype fp8 with TP 2" in told["findings"][0]["fix"]
    code, told = answer(LLAMA_70B, *few, "--max-model-len", 131_072, "--kv-dtype", "fp8")
    assert code == 1
    assert "--kv-dtype" not in told["findings"][0]["fix"]


def test_a_request_that_is_too_long_in_itself_is_not_told_a_shorter_one(answer):
    few = ("--count", 2, "--rate", 0.1, "--prompt", 100_000)
    code, told = answer(LLAMA_70B, *few)
    assert code == 1
    assert "one request of 100,300 tokens needs" in told["findings"][0]["message"]
    assert "--max-model-len" not in told["findings"][0]["fix"]


def test_the_table_of_what_does_not_fit_ends_with_the_reason(write, capsys):
    assert run(write(LLAMA_70B), "--gpu", "l4", *USUAL, "--count", 1) == 1
    out = capsys.readouterr().out
    assert "does not fit" in out
    assert "DoesNotFit" in out
    assert "apiVersion" not in out
    assert "replicas:" not in out


def test_the_table_of_a_missed_target_shows_the_memory_and_no_scaler(write, capsys):
    odd = {**LLAMA_8B, "num_attention_heads": 12, "head_dim": 128, "num_key_value_heads": 4}
    assert run(write(odd), "--gpu", "h100", *USUAL, "--tpot", 0.01) == 1
    out = capsys.readouterr().out
    assert "misses tpot target" in out
    assert "TP 8 can't be: num_attention_heads is 12" in out
    assert "= KV pool" in out
    assert "apiVersion" not in out


def test_the_engine_is_told_the_cache_dtype(answer):
    _, told = answer(LLAMA_8B, "--kv-dtype", "fp8")
    assert "--kv-cache-dtype fp8" in told["engine_options"]
    assert told["sizes"][0]["kv_dtype"] == "fp8"


def test_a_model_whose_blocks_are_unknown_is_planned_in_bytes(write, capsys, monkeypatch):
    from cacheaware.model import plan as planning

    exact = planning.geometry

    def ungrouped(*args: Any) -> Any:
        kept = exact(*args)
        stages = tuple(replace(one, bytes_per_block=None) for one in kept.stages)
        return replace(kept, groups=None, stages=stages)

    monkeypatch.setattr(planning, "geometry", ungrouped)
    assert run(write(LLAMA_8B), "--gpu", "h100", *USUAL) == 0
    assert "no blocks" in capsys.readouterr().out


def test_requests_of_one_token_have_a_plan(answer):
    code, told = answer(LLAMA_8B, "--prompt", 1, "--output", 1)
    assert code == 0
    assert told["replicas"]["at_work"]["ttft_s"] < 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--count", 0), "cacheaware: --count is 0"),
        (("--weights", "q4"), "cacheaware: --weights is 'q4'"),
        (
            ("--rate", "1e12"),
            "--rate is 1000000000000: allowed are numbers above 0, up to 1,000,000",
        ),
        (("--ttft", 600_001), "--ttft is 600001: allowed are numbers above 0, up to 600,000"),
        (("--prompt", "many"), "'--prompt': Input should be a valid integer"),
        (("--prompt", "many"), "(given: 'many')"),
    ],
)
def test_a_bad_option_is_not_put_down_to_the_file_and_is_told_with_its_value(
    write, capsys, options, text
):
    assert run(write(LLAMA_8B), "--gpu", "h100", *USUAL, *options) == 2
    told = capsys.readouterr()
    assert text in told.err
    assert "config.json" not in told.err
    assert len(told.err.splitlines()) == 1


def test_a_length_that_nothing_tells_is_a_warning_where_it_is_not_given(answer):
    config = {key: value for key, value in LLAMA_8B.items() if key != "max_position_embeddings"}
    _, told = answer(config)
    assert "LengthUnknown" in {one["id"] for one in told["findings"]}
    _, told = answer(config, "--max-model-len", 8192)
    assert "LengthUnknown" not in {one["id"] for one in told["findings"]}


MAMBA = LLAMA_8B | {
    "model_type": "nemotron_h",
    "num_hidden_layers": 4,
    "hybrid_override_pattern": "M-*-",
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
}


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [
        (LLAMA_8B, ("--kv-dtype", "fp8"), "not with a quantised cache:"),
        (LLAMA_8B, ("--weights", "int4"), "not with quantised weights:"),
        (MAMBA, (), "not with layers of constant state:"),
    ],
)
def test_speeds_that_were_not_measured_are_said_to_be_so(answer, config, options, said):
    _, told = answer(config, *options)
    (found,) = (one for one in told["findings"] if one["id"] == "SpeedNotMeasured")
    assert said in found["message"]
    _, plain = answer(LLAMA_8B)
    assert "SpeedNotMeasured" not in {one["id"] for one in plain["findings"]}


def test_the_longest_target_is_one_that_the_scaler_allows(answer, write, capsys):
    _, told = answer(LLAMA_8B, "--ttft", 600_000)
    assert told["scaler"]["spec"]["targets"]["timeToFirstTokenMs"] == 600_000
    CacheAwareScaler.model_validate(told["scaler"])
    assert run(write(LLAMA_8B), "--gpu", "h100", *USUAL, "--ttft", 600_001) == 2
    assert "--ttft is 600001: allowed are numbers above 0, up to 600,000" in capsys.readouterr().err


def test_more_replicas_than_one_scaler_allows_are_told(answer):
    code, told = answer(LLAMA_8B, "--rate", 1_000_000)
    found = {one["id"]: one for one in told["findings"]}["BeyondOneScaler"]
    assert (code, found["severity"]) == (1, "error")
    assert f"needs {told['replicas']['now']} replicas" in found["message"]
    CacheAwareScaler.model_validate(told["scaler"])
    code, told = answer(LLAMA_8B, "--peak", 500_000)
    found = {one["id"]: one for one in told["findings"]}["BeyondOneScaler"]
    assert (code, found["severity"]) == (0, "warning")
    _, told = answer(LLAMA_8B)
    assert "BeyondOneScaler" not in {one["id"] for one in told["findings"]}


@pytest.mark.parametrize("name", ["on", "y", "null", "1e3", "8b"])
def test_a_name_that_kubectl_takes_for_something_else_is_quoted(write, capsys, name):
    assert run(write(LLAMA_8B, f"{name}.json"), "--gpu", "h100", *USUAL) == 0
    assert capsys.readouterr().out.count(f'name: "{name}"') == 2


def test_a_quantisation_method_that_is_not_known_is_told(answer):
    def notes(method):
        section = {"quant_method": method, "bits": 4}
        _, told = answer({**LLAMA_8B, "quantization_config": section})
        return [one["message"] for one in told["findings"] if one["id"] == "Precision"]

    assert any("quant_method is 'new', which is not known here" in one for one in notes("new"))
    assert notes("awq") == []
