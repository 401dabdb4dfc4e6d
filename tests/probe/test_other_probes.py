"""Norms, precision and rotary tables on a tiny random model; the examples of the helps."""

import json
import shlex

import pytest
from tests.probe.conftest import ran

from cacheaware.cli import command_line

pytestmark = pytest.mark.probe


def run(capsys, *args):
    code, out, err = ran(capsys, "probe", *map(str, args), "-o", "json")
    return code, json.loads(out) if out else None, err


def test_norms_of_a_healthy_model_are_silent_and_a_changed_gain_is_found(
    tmp_path, tiny, healthy, capsys, torch
):
    kept = tmp_path / "norms.json"
    code, told, _ = run(capsys, "norms", healthy, "--tokens", 32, "--save", kept)
    assert (code, told["findings"], len(told["norms"])) == (0, [], 9)
    assert run(capsys, "norms", healthy, "--tokens", 32, "--baseline", kept)[0] == 0

    def change(model):
        model.model.layers[1].post_attention_layernorm.weight[3] = 40.0

    code, told, _ = run(capsys, "norms", tiny(change), "--tokens", 32, "--baseline", kept)
    assert code == 1
    assert "probe-drift" in {one["id"] for one in told["findings"]}
    loud = next(one for one in told["norms"] if "layers.1.post_attention" in one["name"])
    assert loud["largest"] == 40.0
    assert "layers.1.post_attention_layernorm" in told["findings"][-1]["message"]


def test_a_massive_gain_is_information(tiny, capsys):
    def change(model):
        model.model.norm.weight[:] = 0.01
        model.model.norm.weight[5] = 1.0

    folder = tiny(change, rms_norm_eps=1e-5)
    code, told, _ = run(capsys, "norms", folder, "--tokens", 16)
    assert (code, told["findings"]) == (0, [])


def test_drifting_logits_are_found_without_a_change_of_gains(tmp_path, tiny, healthy, capsys):
    kept = tmp_path / "norms.json"
    run(capsys, "norms", healthy, "--tokens", 32, "--save", kept)

    def change(model):
        model.lm_head.weight.mul_(1.5)

    code, told, _ = run(capsys, "norms", tiny(change), "--tokens", 32, "--baseline", kept)
    assert code == 1
    assert [one["id"] for one in told["findings"]] == ["probe-drift"]
    assert "log" in told["findings"][0]["message"]


def test_other_likeliest_tokens_are_counted(tmp_path, tiny, healthy, capsys):
    kept = tmp_path / "norms.json"
    run(capsys, "norms", healthy, "--tokens", 32, "--save", kept)

    def change(model):
        model.lm_head.weight.copy_(model.lm_head.weight.roll(1, 0))

    code, told, _ = run(capsys, "norms", tiny(change), "--tokens", 32, "--baseline", kept)
    assert code == 1
    assert "at 8 of 8 positions" in told["findings"][0]["message"]


def test_precision_of_a_healthy_model_is_silent(healthy, capsys):
    code, told, _ = run(capsys, "precision", healthy, "--tokens", 32)
    assert (code, told["findings"]) == (0, [])
    assert len(told["variances"]) == 9
    assert {one["epsilon"] for one in told["variances"]} == {1e-6}


def test_an_activation_beyond_fp16_is_found(tiny, capsys):
    def change(model):
        model.model.layers[2].mlp.down_proj.weight.mul_(1e9)

    code, told, _ = run(capsys, "precision", tiny(change), "--tokens", 32)
    assert code == 1
    ids = {one["id"] for one in told["findings"]}
    assert {"probe-overflow", "probe-squares"} <= ids
    worst = next(one for one in told["findings"] if one["id"] == "probe-overflow")
    assert worst["subject"] == "model.layers.2.mlp.down_proj"


def test_an_epsilon_that_is_zero_in_fp16_is_found(tiny, capsys):
    code, told, _ = run(capsys, "precision", tiny(rms_norm_eps=1e-12), "--tokens", 16)
    assert code == 1
    (finding,) = told["findings"]
    assert finding["id"] == "probe-epsilon"
    assert "zero in float16" in finding["message"]


SCALINGS = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 1024},
    "longrope": {"rope_type": "longrope", "short_factor": [1.0] * 8,
                 "long_factor": [1.0 + at for at in range(8)], "factor": 4.0,
                 "original_max_position_embeddings": 1024},
}  # fmt: skip


@pytest.mark.parametrize("kind", SCALINGS)
def test_frequencies_are_those_of_transformers_to_the_last_bits_of_float32(torch, kind):
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    from cacheaware.model.rope import rope_of

    config = transformers.LlamaConfig(
        hidden_size=64, num_attention_heads=4, max_position_embeddings=4096,
        rope_parameters={**SCALINGS[kind], "rope_theta": 10000.0},
    )  # fmt: skip
    ours = rope_of(config.to_dict(), 8192)
    if kind == "default":
        theirs, scale = 10000.0 ** (-torch.arange(0, 16, 2).double() / 16), 1.0
    else:
        theirs, scale = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=8192)
    assert list(ours.frequencies) == pytest.approx(theirs.tolist(), rel=2e-6)
    assert ours.scale == pytest.approx(scale)


@pytest.mark.parametrize("kind", SCALINGS)
def test_float64_paths_agree_in_each_bit_and_float32_steps_do_not(torch, kind):
    from cacheaware.model.probes.rope_device import compared, on_device
    from cacheaware.model.rope import checkpoints, fingerprint, rope_of, table

    config = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 4096,
              "rope_parameters": {**SCALINGS[kind], "rope_theta": 10000.0}}  # fmt: skip
    rope = rope_of(config)
    exact = on_device(rope, 4096, "cpu", torch.float64)
    ours = fingerprint(table(rope, checkpoints(4096)), "float32")
    assert fingerprint(exact.flatten().tolist(), "float32") == ours
    assert [one.unequal for one in compared("cpu", rope, 4096, exact)] == [0, 0, 0]
    stepped = on_device(rope, 4096, "cpu", torch.float32)
    assert fingerprint(stepped.double().flatten().tolist(), "float32") != ours
    gaps = compared("cpu", rope, 4096, stepped)
    assert gaps[0].unequal > 0
    assert gaps[0].largest < 1e-3


def test_the_models_own_embedding_is_close_to_the_reference(torch, healthy):
    from cacheaware.model.probes.rope_device import compared, own
    from cacheaware.model.rope import rope_of

    rope = rope_of(json.loads((healthy / "config.json").read_text()))
    told = compared("own", rope, 2048, own(healthy, 2048, "cpu"))
    assert told[0].largest < 1e-3
    assert told[1].unequal < told[1].entries / 100


def test_a_devices_tables_are_shown(healthy, capsys):
    code, told, _ = run(capsys, "rope", healthy / "config.json", "--tokens", 512, "--device", "cpu")
    assert code == 0
    assert {one["path"] for one in told["paths"]} == {"cpu float64", "cpu float32"}
    code, _, err = run(capsys, "rope", healthy / "config.json", "--device", "abacus")
    assert code == 2
    assert "--device is 'abacus'" in err


@pytest.mark.parametrize("name", ["attention", "norms", "precision", "rope"])
def test_the_example_of_the_help_runs(tmp_path, capsys, monkeypatch, healthy, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").symlink_to(healthy)
    command = command_line().commands["probe"].commands[name]
    words = shlex.split(command.epilog.removeprefix("Example: "))
    assert words[:3] == ["cacheaware", "probe", name]
    assert ran(capsys, *words[1:])[0] == 0
