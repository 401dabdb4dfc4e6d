"""Counts, names and shapes against transformers' own classes, where they are installed."""

import json
from typing import Any

import pytest
from tests.operator.model.test_parameters import COUNTED

from cacheaware.model.architecture import architecture
from cacheaware.model.parameters import count_parameters

pytestmark = pytest.mark.probe

REASON = "torch and transformers aren't installed here: `make test-probe` runs these"
DROPPED = ("auto_map", "quantization_config")


RENAMED = ("exaone", "gpt_neox", "nemotron_h")
"""Types whose published checkpoints have other names than transformers' classes."""


def made(config: dict[str, Any]) -> Any:
    """The causal language model of the text part, without memory for its parameters."""
    torch = pytest.importorskip("torch", reason=REASON)
    transformers = pytest.importorskip("transformers", reason=REASON)
    text = dict(config.get("text_config") or config)
    for name in DROPPED:
        text.pop(name, None)
    text.setdefault("model_type", config["model_type"])
    if "tie_word_embeddings" in config:
        text.setdefault("tie_word_embeddings", config["tie_word_embeddings"])
    mapping = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            mapping[text["model_type"]].from_dict(text)
        )
    model.tie_weights()
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COUNTED)
def test_counts_names_and_shapes_are_those_of_the_installed_class(name: str, shared: Any) -> None:
    config = json.loads((shared / f"data/model-configs/{name}.json").read_text())
    parameters = dict(made(config).named_parameters())
    known = architecture(config)
    assert sum(one.numel() for one in parameters.values()) == COUNTED[name]
    assert count_parameters(known).total == COUNTED[name]
    if known.layout in RENAMED:
        return
    shapes = {name.removesuffix(".weight"): tuple(one.shape) for name, one in parameters.items()}
    for module in known.linears():
        if module.tied or "block_sparse_moe" in module.name or module.copies > 1:
            continue  # classes keep experts in one tensor
        shape = shapes[module.name.replace("language_model.", "")]
        turned = known.layout in {"gpt2", "gpt_bigcode"}
        assert sorted(shape) == sorted((module.outputs, module.inputs)), module.name
        assert turned or shape == (module.outputs, module.inputs) or len(shape) == 3, module.name
