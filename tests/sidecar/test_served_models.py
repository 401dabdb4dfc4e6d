import pytest

from cacheaware_sidecar.served_models import adapters, first_model, longest, names

MODELS = {
    "data": [
        {"id": "adapter", "parent": "base", "max_model_len": 1},
        {"id": "base", "max_model_len": 4096},
        {"id": None},
        "nonsense",
    ]
}


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (MODELS, "base"),
        ({"data": [{"id": "only", "parent": "x"}]}, "only"),
        ({"data": []}, None),
        ({"data": "x"}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_first_base_model_is_asked(models, expected):
    assert first_model(models) == expected


def test_all_names_can_be_asked_for():
    assert names(MODELS) == ("adapter", "base")
    assert names(None) == ()


def test_adapters_are_those_with_a_parent():
    assert adapters(MODELS) == ("adapter",)
    assert adapters(None) == ()


@pytest.mark.parametrize(
    ("models", "config", "model", "length"),
    [
        (MODELS, {"max_position_embeddings": 7}, "base", 4096),
        (MODELS, {"max_position_embeddings": 7}, "other", 7),
        (None, {"text_config": {"max_position_embeddings": 5}}, None, 5),
        (None, {"text_config": []}, None, None),
        (None, {"max_position_embeddings": True}, None, None),
        (None, None, None, None),
    ],
)
def test_where_the_models_length_comes_from(models, config, model, length):
    assert longest(models, config, model) == length
