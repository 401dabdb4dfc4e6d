"""A model's modules, layer by layer."""

import json
from typing import Any

import pytest

from cacheaware.model.architecture import Architecture, UnknownArchitectureError, architecture
from cacheaware.model.layers import Attention, Experts, FeedForward, Latent, StateMixer
from cacheaware.model.modules import Split
from cacheaware_sidecar.kv import ConfigError, Kind

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "tie_word_embeddings": False,
    "vocab_size": 100,
}


def names(model: Architecture) -> list[str]:
    return [module.name for module in model.modules()]


def test_a_llama_has_the_modules_of_hugging_face_in_the_order_of_its_forward_pass() -> None:
    model = architecture(LLAMA | {"num_hidden_layers": 1})
    assert names(model) == [
        "model.embed_tokens",
        "model.layers.0.input_layernorm",
        "model.layers.0.post_attention_layernorm",
        "model.layers.0.self_attn.q_proj",
        "model.layers.0.self_attn.k_proj",
        "model.layers.0.self_attn.v_proj",
        "model.layers.0.self_attn.o_proj",
        "model.layers.0.mlp.gate_proj",
        "model.layers.0.mlp.up_proj",
        "model.layers.0.mlp.down_proj",
        "model.norm",
        "lm_head",
    ]
    shapes = {module.name: (module.inputs, module.outputs) for module in model.linears()}
    assert shapes["model.layers.0.self_attn.k_proj"] == (64, 16)
    assert shapes["model.layers.0.mlp.down_proj"] == (96, 64)
    assert "model.norm" not in shapes


def test_products_are_cut_so_that_only_the_second_of_each_pair_needs_a_sum() -> None:
    model = architecture(LLAMA)
    rows = {one.name.rpartition(".")[2] for one in model.linears() if one.split is Split.ROWS}
    assert rows == {"o_proj", "down_proj"}


@pytest.mark.parametrize(("kv_heads", "word"), [(8, "MHA"), (2, "GQA"), (1, "MQA")])
def test_attention_is_called_by_its_kv_heads(kv_heads: int, word: str) -> None:
    mixer = architecture(LLAMA | {"num_key_value_heads": kv_heads}).layers[0].mixer
    assert isinstance(mixer, Attention)
    assert (mixer.word, mixer.kv_heads, mixer.key_size) == (word, kv_heads, 8)


@pytest.mark.parametrize(
    ("change", "biased"),
    [
        ({"model_type": "qwen2"}, {"q_proj", "k_proj", "v_proj"}),
        ({"model_type": "llama", "attention_bias": True}, {"q_proj", "k_proj", "v_proj", "o_proj"}),
        ({"model_type": "llama", "mlp_bias": True}, {"gate_proj", "up_proj", "down_proj"}),
        ({"model_type": "mistral"}, set()),
    ],
)
def test_biases_are_those_of_the_class_or_of_the_file(change: Any, biased: set[str]) -> None:
    linears = architecture(LLAMA | change).linears()
    assert {one.name.rpartition(".")[2] for one in linears if one.bias} == biased


def test_windows_are_on_the_layers_that_slide() -> None:
    gemma = LLAMA | {"model_type": "gemma2", "head_dim": 8, "sliding_window": 16}
    mixers = [layer.mixer for layer in architecture(gemma).layers]
    assert [(m.kind, m.window) for m in mixers if isinstance(m, Attention)] == [
        (Kind.SLIDING, 16),
        (Kind.FULL, None),
        (Kind.SLIDING, 16),
        (Kind.FULL, None),
    ]


def test_the_first_layers_of_deepseek_are_dense_and_its_attention_is_latent(shared: Any) -> None:
    path = shared / "data/model-configs/deepseek-ai__DeepSeek-R1.json"
    model = architecture(json.loads(path.read_text()))
    assert [type(layer.feed) for layer in model.layers[:4]] == [FeedForward] * 3 + [Experts]
    assert model.layers[3].feed == Experts(256, 8, 2048, gated=True, shared_size=2048)
    assert model.layers[0].mixer == Latent(128, 1536, 512, 128, 64, 128)


def test_three_of_four_layers_of_a_hybrid_keep_a_state(shared: Any) -> None:
    path = shared / "data/model-configs/Qwen__Qwen3-Next-80B-A3B-Instruct.json"
    mixers = [layer.mixer for layer in architecture(json.loads(path.read_text())).layers]
    assert [type(one) for one in mixers[:4]] == [StateMixer] * 3 + [Attention]
    assert sum(isinstance(one, StateMixer) for one in mixers) == 36


@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("llava-hf__llava-1.5-7b-hf", "model.language_model.layers.0."),
        ("Qwen__Qwen3-VL-8B-Instruct", "model.language_model.layers.0."),
        ("meta-llama__Llama-3.1-8B", "model.layers.0."),
    ],
)
def test_the_text_part_of_a_multimodal_model_has_its_own_root(
    name: str, root: str, shared: Any
) -> None:
    config = json.loads((shared / f"data/model-configs/{name}.json").read_text())
    first = architecture(config).layers[0].modules
    assert all(module.name.startswith(root) for module in first)


def test_a_pruned_layer_has_no_attention_or_no_ffn(shared: Any) -> None:
    path = shared / "data/model-configs/nvidia__Llama-3_3-Nemotron-Super-49B-v1.json"
    layers = architecture(json.loads(path.read_text())).layers
    assert any(layer.mixer is None for layer in layers)
    assert len({layer.feed for layer in layers}) > 2


@pytest.mark.parametrize(
    ("change", "positions"),
    [
        ({}, "rope"),
        ({"model_type": "bloom"}, "alibi"),
        ({"model_type": "falcon", "alibi": True}, "alibi"),
        ({"model_type": "gpt2", "n_positions": 10}, "learned"),
    ],
)
def test_positions_are_told(change: Any, positions: str) -> None:
    assert architecture(LLAMA | change).positions == positions


NAS = LLAMA | {"model_type": "nemotron-nas", "num_hidden_layers": 1, "num_key_value_heads": None}
ATTENTION = {"n_heads_in_group": 4}


@pytest.mark.parametrize(
    ("ffn", "size"),
    [
        ({"ffn_mult": 1.5}, 256),
        ({"intermediate_size": 80}, 80),
        ({"replace_with_linear": True}, 64),
    ],
)
def test_a_pruned_ffn_has_the_size_that_its_block_tells(ffn: Any, size: int) -> None:
    block = {"attention": ATTENTION, "ffn": ffn}
    feed = architecture(NAS | {"block_configs": [block]}).layers[0].feed
    assert isinstance(feed, FeedForward)
    assert feed.size == size


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ({"attention": ATTENTION}, "ffn is missing"),
        ({"attention": ATTENTION, "ffn": {"ffn_mult": "x"}}, "ffn_mult is 'x'"),
        ({"attention": ATTENTION, "ffn": {"ffn_mult": 0}}, "ffn_mult is 0"),
    ],
)
def test_a_pruned_ffn_that_cannot_be_is_refused(block: Any, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        architecture(NAS | {"block_configs": [block]})


@pytest.mark.parametrize("missing", ["vocab_size", "intermediate_size", "hidden_size"])
def test_a_missing_size_is_refused_by_its_name(missing: str) -> None:
    config = {key: value for key, value in LLAMA.items() if key != missing}
    with pytest.raises(ConfigError, match=f"{missing} is missing"):
        architecture(config)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "gemma4", "global_head_dim": 8, "hidden_size_per_layer_input": 256}
        | {"layer_types": ["full_attention"] * 4},
        {"model_type": "mamba"},
        {"model_type": "bamba", "attn_layer_indices": [1]},
        {"model_type": "bert"},
        {"model_type": "llama", "num_experts": 8, "num_experts_per_tok": 2},
    ],
)
def test_weights_that_no_rule_covers_are_not_guessed(change: Any) -> None:
    with pytest.raises(UnknownArchitectureError, match="not supported"):
        architecture(LLAMA | change)


@pytest.mark.parametrize(
    ("kinds", "sparse"), [(["dense", "sparse"], [False, True]), (["dense"], None)]
)
def test_the_kind_of_each_ffn_may_be_listed(kinds: list[str], sparse: list[bool] | None) -> None:
    config = LLAMA | {
        "model_type": "glm4_moe",
        "num_hidden_layers": 2,
        "head_dim": 8,
        "mlp_layer_types": kinds,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    }
    if sparse is None:
        with pytest.raises(ConfigError, match="mlp_layer_types has 1 entries"):
            architecture(config)
    else:
        found = architecture(config).layers
        assert [isinstance(layer.feed, Experts) for layer in found] == sparse
