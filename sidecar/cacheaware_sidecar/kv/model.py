"""What every rule needs to know first: the text configuration, its type, its layer count."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cacheaware_sidecar.kv.errors import refusal
from cacheaware_sidecar.kv.families import layout_type
from cacheaware_sidecar.kv.fields import Fields, whole

MOST_LAYERS: Final = 10_000
MOST_HEADS: Final = 100_000
LAYER_NAMES: Final = (
    "num_hidden_layers",
    "n_layer",
    "num_layers",
    "n_layers",
    "num_transformer_layers",
    "decoder_layers",
)
_HIDDEN: Final = ("hidden_size", "n_embd", "d_model", "model_dim", "dim")
_POSITIONS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
)
_LISTS: Final = ("layers_block_type", "layer_types", "hybrid_override_pattern")
_NESTED: Final = ("text_config", "llm_config", "language_config", "decoder")
_NESTED_DEFAULTS: Final = {"llama": (32, 4096, 32), "mistral": (32, 4096, 32)}
"""Layers, hidden size and heads of the text classes that multimodal files leave out (LLaVA)."""


@dataclass(frozen=True, slots=True)
class Model:
    """A config.json, opened.

    Attributes:
        whole: The file.
        fields: The text configuration (the file itself where it is not nested).
        model_type: `model_type` of the file, as written.
        layout: The type whose rules apply: of the text configuration, without `_text`.
        defaults: Layers, hidden size and heads where the fields are missing.
    """

    whole: Fields
    fields: Fields
    model_type: str | None
    layout: str
    defaults: tuple[int, int, int] | None

    @property
    def layers(self) -> int:
        """Number of layers.

        Raises:
            ConfigError: Nothing tells it, or what does can't be right.
        """
        return self.told_layers or self.fields.required(*self._layer_names(), high=MOST_LAYERS)

    @property
    def told_layers(self) -> int | None:
        """Number of layers: a field, a default of the class, or a list with one entry per layer."""
        if count := self.fields.integer(*self._layer_names(), high=MOST_LAYERS):
            return count
        return self.defaults[0] if self.defaults else self._listed_layers()

    def _layer_names(self) -> tuple[str, ...]:
        return ("decoder_layers",) if self.layout == "whisper" else LAYER_NAMES

    def _listed_layers(self) -> int | None:
        name = self.fields.first(*_LISTS)
        value = self.fields.values[name] if name else None
        if not isinstance(value, str | list | tuple):
            return None
        return whole(f"entries of {self.fields.path}{name}", len(value), 1, MOST_LAYERS)

    @property
    def hidden(self) -> int:
        """Hidden size."""
        if self.defaults and not self.fields.first(*_HIDDEN):
            return self.defaults[1]
        return self.fields.required(*_HIDDEN)

    @property
    def positions(self) -> int | None:
        """The most positions of one request, where the file tells."""
        return self.fields.integer(*_POSITIONS, high=10**12)


def read_model(config: Mapping[str, Any]) -> Model:
    """Open a config.json: `thinker_config` first, then the text part (vLLM's convertor).

    Raises:
        ConfigError: Not an object, or a nested part or `model_type` of the wrong kind.
    """
    if not isinstance(config, Mapping):
        raise refusal("config", config, "allowed is an object")
    whole = Fields(config)
    outer = whole.child("thinker_config") or whole
    name = outer.first(*_NESTED)
    text = (outer.child(name) if name else None) or outer
    model_type = whole.text("model_type")
    layout = layout_type(text.text("model_type") or outer.text("model_type") or model_type or "")
    defaults = None if text is outer else _NESTED_DEFAULTS.get(layout)
    return Model(whole, text, model_type, layout, defaults)
