"""What `/v1/models` and config.json say of the models that an engine serves."""

from typing import Any


def first_model(models: Any) -> str | None:
    """The first base model that /v1/models names; LoRA adapters have a parent."""
    named = _named(models)
    base = [each for each in named if not each.get("parent")]
    return next((str(each["id"]) for each in base or named), None)


def names(models: Any) -> tuple[str, ...]:
    """All that can be asked for."""
    return tuple(str(each["id"]) for each in _named(models))


def adapters(models: Any) -> tuple[str, ...]:
    """The LoRA adapters: models that have a parent among the others."""
    return tuple(str(each["id"]) for each in _named(models) if each.get("parent"))


def longest(models: Any, config: Any, model: str | None) -> int | None:
    """The longest prompt plus answer of a model in tokens, if either tells."""
    entry = next((each for each in _entries(models) if model in {None, each.get("id")}), {})
    length = _length(entry.get("max_model_len"))
    if length is None and isinstance(config, dict):
        inner = config.get("text_config")
        nested = inner.get("max_position_embeddings") if isinstance(inner, dict) else None
        length = _length(config.get("max_position_embeddings")) or _length(nested)
    return length


def _named(models: Any) -> list[dict[str, Any]]:
    return [each for each in _entries(models) if isinstance(each.get("id"), str)]


def _entries(models: Any) -> list[dict[str, Any]]:
    """The models of an answer of /v1/models, whatever is in it."""
    data = models.get("data") if isinstance(models, dict) else None
    return [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []


def _length(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if whole else None
