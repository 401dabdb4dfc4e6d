"""Names of the scaler."""

import pytest

from cacheaware.model.plan_scaler import name_of


@pytest.mark.parametrize(
    ("path", "model_type", "name"),
    [
        ("meta-llama__Llama-3.1-8B.json", "llama", "llama-3-1-8b"),
        ("/models/Qwen3-8B/config.json", "qwen3", "qwen3-8b"),
        ("config.json", "deepseek_v3", "deepseek-v3"),
        ("-", "gpt2", "gpt2"),
        ("-", None, "model"),
        ("x" * 80 + ".json", None, "x" * 53),
        ("___.json", "__", "model"),
    ],
)
def test_a_name_is_one_that_kubernetes_takes(path, model_type, name):
    assert name_of(path, model_type) == name
