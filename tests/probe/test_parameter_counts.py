"""The typed counts, recomputed from transformers' own classes where they are installed."""

import json
from typing import Any

import pytest
from tests.operator.model.test_parameters import COUNTED

from cacheaware.model.architecture import architecture
from cacheaware.model.parameters import count_parameters

pytestmark = pytest.mark.probe

REASON = "torch and transformers aren't installed here: `make test-probe` runs these"
DROPPED = ("auto_map", "quantization_config")


def class_count(config: dict[str, Any]) -> int:
    """Parameters of the causal language model of the text part, without memory for them."""
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
        made = transformers.AutoModelForCausalLM.from_config(
            mapping[text["model_type"]].from_dict(text)
        )
    made.tie_weights()
    return sum(one.numel() for _, one in made.named_parameters())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COUNTED)
def test_the_typed_count_is_that_of_the_installed_class(name: str, shared: Any) -> None:
    config = json.loads((shared / f"data/model-configs/{name}.json").read_text())
    assert class_count(config) == COUNTED[name]
    assert count_parameters(architecture(config)).total == COUNTED[name]
