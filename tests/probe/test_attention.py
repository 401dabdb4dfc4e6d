"""Entropy of attention on a tiny random model: by hand, linear in memory, drift found and named."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.operator.model.adapters import adapter, tensor
from tests.probe.conftest import ran

pytestmark = pytest.mark.probe


def run(capsys, *args):
    code, out, err = ran(capsys, "probe", "attention", *map(str, args), "-o", "json")
    return code, json.loads(out) if out else None, err


@pytest.fixture
def measured(torch):
    from cacheaware.model.probes import attention, loaded

    def go(folder, length=200, band=16):
        model = loaded.load(folder)
        return attention.probe(model, loaded.canary(model, length), band)

    return go


@pytest.mark.parametrize("band", [16, None])
def test_entropies_are_those_of_eager_attention(torch, healthy, measured, band):
    from cacheaware.model.probes import loaded

    length = 200
    model = loaded.load(healthy)
    model.set_attn_implementation("eager")
    canary = loaded.canary(model, length)
    with torch.no_grad():
        weights = model(input_ids=canary.ids, output_attentions=True).attentions
    told = {(one.layer, one.head): one for one in measured(healthy, length, band).heads}
    gap = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    allowed = (gap >= 0) & (gap <= (band or length))
    for layer, found in enumerate(weights):
        for head in range(4):
            share = torch.where(allowed, found[0, head].double(), 0.0)
            share = share / share.sum(-1, keepdim=True)
            rows = -torch.where(share > 0, share * share.log(), 0.0).sum(-1)
            rows = rows[1:] / allowed.sum(-1)[1:].double().log()
            one = told[layer, head]
            assert one.mean == pytest.approx(float(rows.mean()), abs=1e-4)
            assert one.p05 <= one.p50 <= one.p95 <= 1 + 1e-6


def test_watching_does_not_change_what_the_model_says(torch, healthy):
    from cacheaware.model.probes import attention, loaded

    model = loaded.load(healthy)
    canary = loaded.canary(model, 100)
    with torch.no_grad():
        before = model(input_ids=canary.ids).logits
        with attention.watching(model, attention.Watch(16)):
            during = model(input_ids=canary.ids).logits
        after = model(input_ids=canary.ids).logits
    assert torch.equal(before, during)
    assert torch.equal(before, after)


def test_a_sliding_window_is_attended_to_block_by_block(torch, tiny):
    transformers = pytest.importorskip("transformers")
    from cacheaware.model.probes import attention, loaded

    torch.manual_seed(0)
    config = transformers.MistralConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=128, sliding_window=24,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    model = transformers.MistralForCausalLM(config).eval()
    canary = loaded.canary(model, 100)
    with torch.no_grad():
        before = model(input_ids=canary.ids).logits
        with attention.watching(model, attention.Watch(None)):
            during = model(input_ids=canary.ids).logits
    assert torch.allclose(before, during, atol=1e-5)


def test_a_healthy_model_is_silent_and_a_damaged_layer_is_found(
    tmp_path, tiny, healthy, capsys, torch
):
    kept = tmp_path / "healthy.json"
    assert run(capsys, healthy, "--tokens", 200, "--save", kept)[0] == 0
    assert run(capsys, healthy, "--tokens", 200, "--baseline", kept)[:2][0] == 0

    def damage(model):
        weight = model.model.layers[2].self_attn.q_proj.weight
        weight[:32].zero_()

    code, told, _ = run(capsys, tiny(damage), "--tokens", 200, "--baseline", kept)
    assert code == 1
    (finding,) = told["findings"]
    assert (finding["id"], finding["subject"]) == ("probe-drift", "layer 2")
    assert "2.0 by" in finding["message"]
    assert "2.1 by" in finding["message"]


def test_damage_outside_attention_shows_in_the_next_layer(tmp_path, tiny, healthy, capsys):
    kept = tmp_path / "healthy.json"
    run(capsys, healthy, "--tokens", 200, "--save", kept)

    def damage(model):
        model.model.layers[1].mlp.down_proj.weight.mul_(300.0)

    code, told, _ = run(capsys, tiny(damage), "--tokens", 200, "--baseline", kept)
    assert (code, told["findings"][0]["subject"]) == (1, "layer 2")


def test_values_that_are_no_numbers_are_one_finding(tiny, capsys):
    def damage(model):
        model.model.layers[1].input_layernorm.weight[0] = math.nan

    code, told, _ = run(capsys, tiny(damage), "--tokens", 64)
    assert code == 1
    assert [one["id"] for one in told["findings"]] == ["probe-nan"]
    assert told["findings"][0]["subject"] == "layer 1"
    assert told["attn_entropy_p95"] is None


def lora(folder, prefix):
    name = f"{prefix}model.layers.0.self_attn.q_proj"
    return adapter(folder, {
        f"{name}.lora_A.weight": tensor([4, 64], values=[0.1] * 256),
        f"{name}.lora_B.weight": tensor([64, 4], values=[0.1] * 256),
    })  # fmt: skip


def test_a_lora_that_binds_is_information_and_one_that_does_not_is_found(tmp_path, healthy, capsys):
    good = lora(tmp_path / "good", "base_model.model.")
    code, told, _ = run(capsys, healthy, "--tokens", 64, "--adapter", good)
    assert code == 0
    assert "1 modules were changed" in told["findings"][0]["message"]
    bad = lora(tmp_path / "bad", "base_model.model.base_model.model.")
    code, told, _ = run(capsys, healthy, "--tokens", 64, "--adapter", bad)
    assert code == 1
    assert told["findings"][0]["severity"] == "error"
    assert "changes nothing" in told["findings"][0]["message"]


def test_a_merged_model_that_is_still_the_base_is_found(tmp_path, tiny, healthy, capsys):
    kept = tmp_path / "base.json"
    run(capsys, healthy, "--tokens", 64, "--save", kept)
    code, told, _ = run(capsys, healthy, "--tokens", 64, "--baseline", kept, "--expect-drift")
    assert (code, told["findings"][0]["id"]) == (1, "probe-unchanged")

    def merged(model):
        model.model.layers[0].self_attn.q_proj.weight.add_(0.5)

    again = run(capsys, tiny(merged), "--tokens", 64, "--baseline", kept, "--expect-drift")
    assert again[0] == 0


PEAK = """
import gc, sys, pathlib, torch
from cacheaware.model.probes import attention, loaded
torch.set_num_threads(1)
model = loaded.load(pathlib.Path(sys.argv[1]))
band = None if sys.argv[2] == "whole" else int(sys.argv[2])

def memory(field):
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split(field + ":")[1].split()[0])

attention.probe(model, loaded.canary(model, 256), band)
for length in (1024, 4096, 16384):
    gc.collect()
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    attention.probe(model, loaded.canary(model, length), band)
    print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's to tell")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("band", ["16", "whole"])
def test_memory_grows_with_the_length_and_not_with_its_square(healthy, band):
    settings = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(healthy), band],
        capture_output=True, text=True, check=True, timeout=550, env={**os.environ, **settings},
    )  # fmt: skip
    one, four, sixteen = map(int, done.stdout.split())
    print(f"band {band}: KiB at 1k, 4k, 16k: {one}, {four}, {sixteen}")
    assert sixteen < 5 * four
    scores_of_one_layer = 4 * 16384 * 16384 * 4 // 1024
    assert sixteen < scores_of_one_layer / 16


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--band", "0"), "--band is '0'"),
        (("--band", "wide"), "and whole"),
        (("--dtype", "int4"), "--dtype is 'int4'"),
        (("--baseline", "nothing.json"), "can't be read"),
        (("--prompt", "nothing.txt"), "can't be read"),
        (("--adapter", "nothing"), "can't be read"),
    ],
)
def test_bad_options_are_one_line(healthy, capsys, more, says):
    code, told, err = run(capsys, healthy, "--tokens", 16, *more)
    assert (code, told) == (2, None)
    assert says in err
    assert err.count("\n") == 1


def test_a_baseline_of_another_canary_is_refused(tmp_path, healthy, capsys):
    kept = tmp_path / "healthy.json"
    run(capsys, healthy, "--tokens", 64, "--save", kept)
    code, _, err = run(capsys, healthy, "--tokens", 65, "--baseline", kept)
    assert code == 2
    assert "measured with canary" in err
    code, _, err = run(capsys, healthy, "--tokens", 64, "--save", kept)
    assert code == 2
    assert "can't be written" in err


def test_a_folder_without_weights_and_no_folder_are_refused(tmp_path, capsys, torch):
    assert "allowed is the folder" in run(capsys, tmp_path / "none")[2]
    code, _, err = run(capsys, tmp_path)
    assert code == 2
    assert "can't be loaded" in err
