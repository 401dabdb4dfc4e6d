"""Adapters in the key styles of many writers: checked, fixed, and the copy checked."""

import json
import struct

import pytest
from tests.operator.model.adapters import (
    FEATURES,
    GPT2,
    LLAMA,
    PHI3,
    RANK,
    VISION,
    adapter,
    pair,
    read_back,
    tensor,
)

from cacheaware.model.lora.adapter import read_adapter
from cacheaware.model.lora.base_model import base_of
from cacheaware.model.lora.check import check
from cacheaware.model.lora.fix import fixed, write
from cacheaware.model.lora.placed import alpha_of
from cacheaware.model.lora.tensors import LoraFileError, Tensor

PEFT = "base_model.model."
WORDS = {
    "q_proj": "self_attn", "k_proj": "self_attn", "v_proj": "self_attn", "o_proj": "self_attn",
    "gate_proj": "mlp", "up_proj": "mlp", "down_proj": "mlp",
}  # fmt: skip


def every(template, config=LLAMA):
    """A pair for each matrix of each layer; `template` makes the two keys of a module."""
    told = {}
    for layer in range(config["num_hidden_layers"]):
        for at, (word, block) in enumerate(WORDS.items()):
            down, up = template(layer, block, word)
            told |= pair(down, up, word, start=100 * layer + at)
    return told


def dotted(prefix, down="lora_A.weight", up="lora_B.weight"):
    return lambda layer, block, word: (
        f"{prefix}layers.{layer}.{block}.{word}.{down}",
        f"{prefix}layers.{layer}.{block}.{word}.{up}",
    )


TORCHTUNE = {"q_proj": "attn.q_proj", "k_proj": "attn.k_proj", "v_proj": "attn.v_proj",
             "o_proj": "attn.output_proj", "gate_proj": "mlp.w1", "up_proj": "mlp.w3",
             "down_proj": "mlp.w2"}  # fmt: skip
META = {"q_proj": "attention.wq", "k_proj": "attention.wk", "v_proj": "attention.wv",
        "o_proj": "attention.wo", "gate_proj": "feed_forward.w1", "up_proj": "feed_forward.w3",
        "down_proj": "feed_forward.w2"}  # fmt: skip


def renamed(words, prefix, down="lora_A.weight", up="lora_B.weight"):
    return lambda layer, _, word: (
        f"{prefix}layers.{layer}.{words[word]}.{down}",
        f"{prefix}layers.{layer}.{words[word]}.{up}",
    )


def kohya(prefix):
    return lambda layer, block, word: tuple(
        f"{prefix}model_layers_{layer}_{block}_{word}.lora_{part}.weight" for part in ("down", "up")
    )


STYLES = {
    "peft": dotted(f"{PEFT}model."),
    "the adapter's name in the key": dotted(
        f"{PEFT}model.", "lora_A.default.weight", "lora_B.default.weight"
    ),
    "no prefix": dotted("model."),
    "no prefix and no model": dotted(""),
    "prefix twice": dotted(f"{PEFT}{PEFT}model."),
    "model three times": dotted(f"{PEFT}model.model."),
    "FSDP": dotted(f"{PEFT}model._fsdp_wrapped_module."),
    "compiled": dotted("_orig_mod.model."),
    "names of a multimodal model": dotted(f"{PEFT}model.language_model."),
    "transformer.h": lambda layer, block, word: tuple(
        f"{PEFT}transformer.h.{layer}.{block}.{word}.lora_{part}.weight" for part in "AB"
    ),
    "kohya": kohya("lora_te_"),
    "kohya of a diffusion model": kohya("lora_unet_"),
    "diffusers": dotted("model.", "lora.down.weight", "lora.up.weight"),
    "torchtune": renamed(TORCHTUNE, "", "lora_a.weight", "lora_b.weight"),
    "Meta's names": renamed(META, ""),
    "no .weight": dotted(f"{PEFT}model.", "lora_A", "lora_B"),
}


def opened(folder, tensors, config=LLAMA, adapter_config=None):
    return read_adapter(adapter(folder, tensors, adapter_config)), base_of(config)


def ids(report):
    return {one.id for one in report.findings}


def copied(tmp_path, read, base):
    made = fixed(read, base)
    write(made, tmp_path / "out")
    return made, check(read_adapter(tmp_path / "out"), base)


@pytest.mark.parametrize("style", STYLES)
def test_a_style_is_told_and_its_copy_binds_everywhere_with_the_same_numbers(tmp_path, style):
    read, base = opened(tmp_path / "in", every(STYLES[style]))
    report = check(read, base)
    told = all(one.binds for one in report.matches)
    assert told == (style == "peft")
    assert ("lora-key" in ids(report)) == (style != "peft")
    _, proof = copied(tmp_path, read, base)
    assert proof.findings == ()
    assert all(one.binds for one in proof.matches)
    assert [one.binds for one in proof.engines] == [len(proof.matches)] * 4
    wanted = every(STYLES["peft"])
    assert read_back(tmp_path / "out" / "adapter_model.safetensors") == {
        key: (shape, values) for key, (shape, values) in wanted.items()
    }


@pytest.mark.parametrize(
    ("style", "engine", "verdict"),
    [
        ("peft", "vllm <= 0.7.3", "binds"),
        ("no prefix", "vllm <= 0.7.3", "refused"),
        ("no prefix", "vllm >= 0.8.5", "binds"),
        ("no prefix", "peft", "dropped"),
        ("prefix twice", "vllm <= 0.7.3", "dropped"),
        ("prefix twice", "vllm >= 0.8.5", "binds"),
        ("prefix twice", "sglang 0.4, 0.5", "binds"),
        ("the adapter's name in the key", "vllm >= 0.8.5", "refused"),
        ("the adapter's name in the key", "sglang 0.4, 0.5", "binds"),
        ("names of a multimodal model", "vllm >= 0.8.5", "dropped"),
        ("transformer.h", "sglang 0.4, 0.5", "dropped"),
        ("kohya", "vllm >= 0.8.5", "refused"),
        ("torchtune", "vllm >= 0.8.5", "refused"),
    ],
)
def test_each_engine_has_its_own_rule(tmp_path, style, engine, verdict):
    read, base = opened(tmp_path / "in", every(STYLES[style]))
    (told,) = [one for one in check(read, base).engines if one.engine == engine]
    assert getattr(told, verdict) == len(read.tensors)


def test_a_multimodal_models_own_names_bind(tmp_path):
    read, base = opened(tmp_path / "in", every(dotted(f"{PEFT}model.language_model.")), VISION)
    assert check(read, base).findings == ()
    plain, _ = opened(tmp_path / "old", every(dotted(f"{PEFT}model.")), VISION)
    assert "lora-key" in ids(check(plain, base))
    _, proof = copied(tmp_path, plain, base)
    assert proof.findings == ()


def test_what_a_multimodal_config_does_not_tell_is_not_judged(tmp_path):
    more = {f"{PEFT}model.visual.blocks.0.attn.qkv.lora_A.weight": tensor([4, 8])}
    read, base = opened(
        tmp_path / "in", every(dotted(f"{PEFT}model.language_model.")) | more, VISION
    )
    assert "lora-unchecked" in ids(check(read, base))


def test_gpt2s_own_names_bind_and_its_short_ones_are_found(tmp_path):
    full = f"{PEFT}transformer.h.0.attn.c_attn"
    read, base = opened(
        tmp_path / "in", pair(f"{full}.lora_A.weight", f"{full}.lora_B.weight", "c_attn"), GPT2
    )
    assert check(read, base).findings == ()
    short, _ = opened(
        tmp_path / "short",
        pair("h.0.attn.c_attn.lora_A.weight", "h.0.attn.c_attn.lora_B.weight", "c_attn"),
    )
    assert check(short, base).matches[0].shown == "transformer.h.0.attn.c_attn"


def rows(values, width, *ranges):
    return [one for start, end in ranges for one in values[start * width : end * width]]


def test_a_fused_qkv_is_cut_by_rows(tmp_path):
    name = f"{PEFT}model.layers.1.self_attn.qkv_proj"
    given = pair(f"{name}.lora_A.weight", f"{name}.lora_B.weight", "qkv")
    read, base = opened(tmp_path / "in", given)
    assert "lora-fused" in ids(check(read, base))
    made, proof = copied(tmp_path, read, base)
    assert proof.findings == ()
    assert made.config["target_modules"] == ["k_proj", "q_proj", "v_proj"]
    out = read_back(tmp_path / "out" / "adapter_model.safetensors")
    down, up = given[f"{name}.lora_A.weight"], given[f"{name}.lora_B.weight"]
    for word, span in {"q_proj": (0, 32), "k_proj": (32, 48), "v_proj": (48, 64)}.items():
        own = f"{PEFT}model.layers.1.self_attn.{word}"
        assert out[f"{own}.lora_A.weight"] == down
        assert out[f"{own}.lora_B.weight"] == ([span[1] - span[0], RANK], rows(up[1], RANK, span))


def test_megatrons_rows_are_taken_group_by_group(tmp_path):
    name = "decoder.layers.0.self_attention.linear_qkv.adapter"
    given = pair(f"{name}.linear_in.weight", f"{name}.linear_out.weight", "qkv")
    other = "decoder.layers.0.mlp.linear_fc1.adapter"
    given |= pair(f"{other}.linear_in.weight", f"{other}.linear_out.weight", "gate_up")
    read, base = opened(tmp_path / "in", given)
    _, proof = copied(tmp_path, read, base)
    assert proof.findings == ()
    out = read_back(tmp_path / "out" / "adapter_model.safetensors")
    up = given[f"{name}.linear_out.weight"][1]
    # two KV groups of 16 query rows, 8 key rows and 8 value rows
    wanted = {
        "q_proj": ((0, 16), (32, 48)),
        "k_proj": ((16, 24), (48, 56)),
        "v_proj": ((24, 32), (56, 64)),
    }
    for word, spans in wanted.items():
        own = f"{PEFT}model.layers.0.self_attn.{word}.lora_B.weight"
        assert out[own][1] == rows(up, RANK, *spans)
    gate_up = given[f"{other}.linear_out.weight"][1]
    gate = f"{PEFT}model.layers.0.mlp.gate_proj.lora_B.weight"
    assert out[gate][1] == rows(gate_up, RANK, (0, 64))


def test_nemos_first_names_are_known(tmp_path):
    name = "model.language_model.encoder.layers.0.self_attention.adapter_layer.lora_kqv_adapter"
    given = pair(f"{name}.linear_in.weight", f"{name}.linear_out.weight", "qkv")
    read, base = opened(tmp_path / "in", given)
    _, proof = copied(tmp_path, read, base)
    assert proof.findings == ()
    assert len(proof.matches) == 6


def product(out, module, inputs, outputs):
    """lora_B times lora_A of a module, as rows."""
    (rank, _), down = out[f"{PEFT}{module}.lora_A.weight"]
    _, up = out[f"{PEFT}{module}.lora_B.weight"]
    return [
        [
            sum(up[row * rank + at] * down[at * inputs + col] for at in range(rank))
            for col in range(inputs)
        ]
        for row in range(outputs)
    ]


def test_parts_are_joined_where_the_model_has_a_fusion_and_the_product_stays(tmp_path):
    given = {}
    for at, word in enumerate(("q_proj", "v_proj")):
        name = f"{PEFT}model.layers.0.self_attn.{word}"
        given |= pair(f"{name}.lora_A.weight", f"{name}.lora_B.weight", word, start=at)
    read, base = opened(tmp_path / "in", given, PHI3)
    assert "lora-split" in ids(check(read, base))
    made, proof = copied(tmp_path, read, base)
    assert proof.findings == ()
    assert (made.config["r"], made.config["lora_alpha"]) == (2 * RANK, 16)
    out = read_back(tmp_path / "out" / "adapter_model.safetensors")
    whole = product(out, "model.layers.0.self_attn.qkv_proj", 32, 64)
    flat = {key: (shape, values) for key, (shape, values) in given.items()}
    assert whole[:32] == product(flat, "model.layers.0.self_attn.q_proj", 32, 32)
    assert whole[32:48] == [[0.0] * 32] * 16
    assert whole[48:] == product(flat, "model.layers.0.self_attn.v_proj", 32, 16)


def test_parts_of_two_ranks_are_left_out(tmp_path):
    name = f"{PEFT}model.layers.0.self_attn"
    given = pair(f"{name}.q_proj.lora_A.weight", f"{name}.q_proj.lora_B.weight", "q_proj")
    given |= pair(f"{name}.k_proj.lora_A.weight", f"{name}.k_proj.lora_B.weight", "k_proj", rank=2)
    given |= pair(f"{name}.o_proj.lora_A.weight", f"{name}.o_proj.lora_B.weight", "o_proj")
    read, base = opened(tmp_path / "in", given, PHI3)
    made = fixed(read, base)
    assert len(made.left_out) == 4
    assert len(made.placed) == 2


def test_mlx_matrices_are_turned(tmp_path):
    given = {
        "model.layers.0.mlp.down_proj.lora_a": tensor([64, RANK]),
        "model.layers.0.mlp.down_proj.lora_b": tensor([RANK, 32]),
    }
    read, base = opened(tmp_path / "in", given, adapter_config={"target_modules": ["down_proj"]})
    assert check(read, base).matches[0].transposed
    _, proof = copied(tmp_path, read, base)
    assert proof.findings == ()
    out = read_back(tmp_path / "out" / "adapter_model.safetensors")
    shape, values = out[f"{PEFT}model.layers.0.mlp.down_proj.lora_A.weight"]
    assert (shape, values[:3]) == ([RANK, 64], [1.0, 5.0, 9.0])


def test_dora_magnitudes_get_their_key_and_vllms_refusal_is_told(tmp_path):
    name = f"{PEFT}model.layers.0.mlp.down_proj"
    given = pair(f"{name}.lora_A.weight", f"{name}.lora_B.weight", "down_proj")
    given[f"{name}.lora_magnitude_vector.default.weight"] = tensor([32])
    read, base = opened(tmp_path / "in", given, adapter_config={"use_dora": True})
    _, proof = copied(tmp_path, read, base)
    assert {line.tensor.name for line in proof.matches} == {
        f"{name}.lora_A.weight", f"{name}.lora_B.weight", f"{name}.lora_magnitude_vector"
    }  # fmt: skip
    assert ids(proof) == {"lora-feature"}
    assert "use_dora" in proof.findings[0].message


def test_embeddings_and_whole_modules_are_matched(tmp_path):
    given = {
        f"{PEFT}model.embed_tokens.lora_embedding_A": tensor([RANK, 96]),
        f"{PEFT}model.embed_tokens.lora_embedding_B": tensor([32, RANK]),
        f"{PEFT}lm_head.modules_to_save.default.weight": tensor([96, 32]),
        f"{PEFT}model.embed_tokens.base_layer.weight": tensor([96, 32]),
    }
    told = {"modules_to_save": ["lm_head"], "target_modules": ["embed_tokens"]}
    read, base = opened(tmp_path / "in", given, adapter_config=told)
    assert "lora-feature" in ids(check(read, base))
    made, proof = copied(tmp_path, read, base)
    assert {one.tensor.name for one in made.placed} == {
        f"{PEFT}model.embed_tokens.lora_embedding_A",
        f"{PEFT}model.embed_tokens.lora_embedding_B",
        f"{PEFT}lm_head.weight",
    }
    assert ids(proof) == {"lora-feature"}


def test_alpha_tensors_become_lora_alpha_and_the_scale_stays(tmp_path):
    given = every(kohya("lora_te_"))
    for layer in range(2):
        for word, block in WORDS.items():
            alpha = 2.0 if word == "q_proj" else 6.0
            given[f"lora_te_model_layers_{layer}_{block}_{word}.alpha"] = tensor([], values=[alpha])
    read, base = opened(tmp_path / "in", given, adapter_config={})
    made, _ = copied(tmp_path, read, base)
    assert made.config["lora_alpha"] == 6
    assert made.config["alpha_pattern"] == {
        "model.layers.0.self_attn.q_proj": 2, "model.layers.1.self_attn.q_proj": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("F64", struct.pack("<d", 8)),
        ("F32", struct.pack("<f", 8)),
        ("F16", struct.pack("<e", 8)),
        ("BF16", struct.pack("<f", 8)[2:]),
        ("I64", struct.pack("<q", 8)),
        ("U8", b"\x08"),
    ],
)
def test_an_alpha_is_the_same_number_in_every_type(dtype, data):
    assert alpha_of(Tensor("q.alpha", dtype, (), lambda: data)) == 8.0


@pytest.mark.parametrize(
    ("dtype", "shape", "data"),
    [("F32", (2,), b"\0" * 8), ("BF16", (0,), b""), ("F8_E4M3", (), b"\0")],
)
def test_an_alpha_that_is_not_one_number_is_refused_and_not_taken_for_none(dtype, shape, data):
    with pytest.raises(LoraFileError, match=r"'q\.alpha' is .*: allowed is one number"):
        alpha_of(Tensor("q.alpha", dtype, shape, lambda: data))


def test_without_a_config_one_is_written_from_the_tensors(tmp_path):
    given = every(STYLES["peft"])
    name = f"{PEFT}model.layers.0.mlp.up_proj"
    given |= pair(f"{name}.lora_A.weight", f"{name}.lora_B.weight", "up_proj", rank=2)
    read = read_adapter(adapter(tmp_path / "in", given, False))
    base = base_of(LLAMA)
    assert "lora-config" in ids(check(read, base))
    made, proof = copied(tmp_path, read, base)
    assert proof.findings == ()
    assert (made.config["r"], made.config["lora_alpha"]) == (RANK, RANK)
    assert made.config["rank_pattern"] == {"model.layers.0.mlp.up_proj": 2}
    assert made.config["alpha_pattern"] == {"model.layers.0.mlp.up_proj": 2}
    assert sorted(made.config["target_modules"]) == sorted(WORDS)


def test_rslora_keeps_its_scale_when_ranks_are_joined(tmp_path):
    given = {}
    for word in ("q_proj", "k_proj", "v_proj"):
        name = f"{PEFT}model.layers.0.self_attn.{word}"
        given |= pair(f"{name}.lora_A.weight", f"{name}.lora_B.weight", word)
    read, base = opened(tmp_path / "in", given, PHI3, {"use_rslora": True, "lora_alpha": 8})
    config = fixed(read, base).config
    assert config["lora_alpha"] / config["r"] ** 0.5 == pytest.approx(8 / RANK**0.5)


def test_what_means_nothing_is_left_out_and_told(tmp_path):
    given = every(STYLES["peft"])
    given |= pair(f"{PEFT}model.layers.7.mlp.up_proj.lora_A.weight",
                  f"{PEFT}model.layers.7.mlp.up_proj.lora_B.weight", "up_proj")  # fmt: skip
    given["optimizer"] = tensor([1])
    read, base = opened(tmp_path / "in", given)
    made, proof = copied(tmp_path, read, base)
    assert [name for name, _ in made.left_out][-1] == "optimizer"
    assert "layers 0 to 1" in made.left_out[0][1]
    assert len(made.left_out) == 3
    assert proof.findings == ()


def test_nothing_that_binds_is_no_copy(tmp_path):
    read, base = opened(tmp_path / "in", {"x.lora_A.weight": tensor([4, 4])})
    with pytest.raises(LoraFileError, match="no tensor of it binds"):
        fixed(read, base)


def test_two_tensors_for_one_place_are_no_copy(tmp_path):
    given = every(STYLES["peft"]) | every(STYLES["no prefix"])
    read, base = opened(tmp_path / "in", given)
    assert "lora-double" in ids(check(read, base))
    with pytest.raises(LoraFileError, match="two tensors"):
        fixed(read, base)


def test_a_folder_that_holds_something_is_never_written_to(tmp_path):
    read, base = opened(tmp_path / "in", every(STYLES["no prefix"]))
    before = sorted(one.name for one in (tmp_path / "in").iterdir())
    with pytest.raises(LoraFileError, match="new or empty"):
        write(fixed(read, base), tmp_path / "in")
    assert sorted(one.name for one in (tmp_path / "in").iterdir()) == before
    assert json.loads((tmp_path / "in" / "adapter_config.json").read_text())["r"] == RANK


def test_features_of_the_test_model_are_those_of_its_config():
    base = base_of(LLAMA)
    for word, (inputs, outputs) in list(FEATURES.items())[:7]:
        module = base.modules[f"model.layers.0.{WORDS[word]}.{word}"]
        assert (module.inputs, module.outputs) == (inputs, outputs)


@pytest.mark.parametrize(
    "config", [{"lora_alpha": float("nan")}, {"lora_alpha": "8"}, {"r": "4"}, {"use_rslora": "no"}]
)
def test_a_scale_that_cannot_be_read_is_not_guessed(tmp_path, config):
    given = pair("model.layers.0.self_attn.q_proj.lora_A", "model.layers.0.self_attn.q_proj.lora_B",
                 "q_proj")  # fmt: skip
    read, base = opened(tmp_path / "in", given, adapter_config=config)
    with pytest.raises(LoraFileError, match=f"{next(iter(config))} is .*allowed"):
        fixed(read, base)


def test_an_alpha_of_the_file_that_is_no_number_is_refused_before_anything_is_written(tmp_path):
    path = "lora_te_model_layers_0_self_attn_q_proj"
    given = pair(f"{path}.lora_down.weight", f"{path}.lora_up.weight", "q_proj")
    given[f"{path}.alpha"] = tensor([], values=[float("nan")])
    read, base = opened(tmp_path / "in", given)
    with pytest.raises(LoraFileError, match="NaN or infinite"):
        write(fixed(read, base), tmp_path / "out")
    assert not (tmp_path / "out").exists()
