"""What a rule sees: one config.json, read without ever failing, and how it is to be served."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.model.audit.families import POSITIONS
from cacheaware.model.gpus import Gpu
from cacheaware_sidecar.kv import ConfigError, Geometry, Parallel, geometry
from cacheaware_sidecar.kv.errors import UnknownLayoutError
from cacheaware_sidecar.kv.heads import attention_heads, head_dim, kv_heads
from cacheaware_sidecar.kv.model import Model, read_model

T = TypeVar("T")

HEADS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads")
KV_HEADS: Final = (
    "n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num",
    "num_attention_groups", "n_kv_heads",
)  # fmt: skip
EXPERTS: Final = (
    "num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts",
)  # fmt: skip
EXPERT_SIZES: Final = (
    "moe_intermediate_size",
    "expert_intermediate_size",
    "expert_ffn_hidden_size",
)
WIDTHS: Final = (
    "intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "ff_intermediate_size",
)  # fmt: skip
MORE_POSITIONS: Final = ("model_max_length", "max_target_positions", "seq_len")
"""What vLLM reads beside the names that the KV rules know."""
STATES: Final = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv"})
LARGEST_NUMBER: Final = 1e100
"""No figure of a real file comes near it."""
WITHOUT_ROPE: Final = frozenset(
    ["bloom", "gpt2", "gpt_bigcode", "jamba", "mpt", "nemotron_h", "opt", *STATES]
)
"""Types whose attention has no rotary positions, whatever the file says of them."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How the model is to be served.

    Attributes:
        gpus: GPUs to check against; none: what depends on a GPU is not checked.
        tensor: Tensor parallel size.
        experts: Expert parallel size; 1: each expert is split over the tensor ranks.
        max_model_len: Tokens of the longest request; None for what the file says.
        utilization: The engine's share of a GPU's memory (`--gpu-memory-utilization`).
        vllm: Whether what only vLLM does is checked too.
    """

    gpus: tuple[Gpu, ...] = ()
    tensor: int = 1
    experts: int = 1
    max_model_len: int | None = None
    utilization: float = 0.92
    vllm: bool = True


@dataclass(frozen=True, slots=True)
class View:
    """A config.json, opened. What is missing or can't be right is None.

    Attributes:
        subject: The file's name.
        model: The file as the KV rules read it.
        heads: Query heads; None too where layers differ.
        kv_heads: KV heads, one number per layer.
        head_dim: Width of one head of K before any compression.
        sized: KV geometry on one rank; None where it is refused.
        refused: Why.
    """

    subject: str
    model: Model
    heads: int | None
    kv_heads: tuple[int, ...] | None
    head_dim: int | None
    sized: Geometry | None
    refused: str | None

    @property
    def text(self) -> Mapping[str, Any]:
        """The text configuration; the file itself where it is not nested."""
        return self.model.fields.values

    @property
    def whole(self) -> Mapping[str, Any]:
        """The file."""
        return self.model.whole.values

    @property
    def layout(self) -> str:
        """`model_type` of the text part, without `_text`."""
        return self.model.layout

    @property
    def layers(self) -> int | None:
        """Number of layers."""
        return quietly(lambda: self.model.told_layers)

    @property
    def hidden(self) -> int | None:
        """Hidden size."""
        return quietly(lambda: self.model.hidden)

    @property
    def positions(self) -> int | None:
        """The most positions of one request: the file's, else those of the type's class."""
        return self.told_positions or POSITIONS.get(self.layout)

    @property
    def told_positions(self) -> int | None:
        """The most positions of one request that the file tells."""
        return quietly(lambda: self.model.positions) or self.integer(*MORE_POSITIONS)

    @property
    def is_latent(self) -> bool:
        """Whether attention keeps a latent vector (MLA) or has its fields."""
        return self.text.get("kv_lora_rank") is not None

    @property
    def has_rope(self) -> bool:
        """Whether rotary positions are in use, as far as the type tells."""
        without = self.text.get("alibi") or self.text.get("position_embedding_type") == "nope"
        return self.layout not in WITHOUT_ROPE and not without

    @property
    def experts(self) -> int | None:
        """Routed experts; None where the model is dense."""
        count = self.integer(*EXPERTS)
        return count if count and count > 1 else None

    @property
    def dtype(self) -> str | None:
        """`dtype` or `torch_dtype` of the text part, else of the file; without `torch.`."""
        for values in (self.text, self.whole):
            for name in ("dtype", "torch_dtype"):
                if isinstance(found := values.get(name), str):
                    return found.lower().removeprefix("torch.")
        return None

    @property
    def vocabulary(self) -> int | None:
        """Rows of the embedding, before the engine pads them."""
        return self.integer("vocab_size", "padded_vocab_size")

    @property
    def quantization(self) -> Mapping[str, Any] | None:
        """The section that says how the weights are stored; None where there is none."""
        for values in (self.whole, self.text):
            for name in ("quantization_config", "compression_config"):
                if isinstance(found := values.get(name), Mapping) and found:
                    return found
        return None

    def named(self, field: str) -> str:
        """A field of the text part as it stands in the file (`text_config.rope_theta`)."""
        return self.model.fields.path + field

    def first(self, *names: str) -> str | None:
        """The first of these fields that is there and not null."""
        return next((name for name in names if self.text.get(name) is not None), None)

    def integer(self, *names: str) -> int | None:
        """The first of these fields, if it is a whole number."""
        value = self.number(*names)
        return int(value) if value is not None and value == math.floor(value) else None

    def number(self, *names: str) -> float | None:
        """The first of these fields, if it is a finite number."""
        name = self.first(*names)
        return number_in(self.text, name) if name else None

    def flag(self, name: str) -> bool | None:
        """A boolean field."""
        value = self.text.get(name)
        return value if isinstance(value, bool) else None

    def at(self, tensor: int) -> Geometry | None:
        """The geometry on so many tensor-parallel ranks; None where the sizes don't divide."""
        return quietly(lambda: geometry(self.model.whole.values, Parallel(tensor)))


def number_in(values: Mapping[str, Any], name: str) -> float | None:
    """A field as a finite number; None for booleans, strings and what no float holds."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < LARGEST_NUMBER else None


def view_of(subject: str, config: Any) -> View:
    """Open a config.json for the rules.

    Raises:
        ConfigError: It is no object, or its text part or type is of another kind.
    """
    model = read_model(config)
    sized, refused = _sized(config)
    heads = quietly(lambda: attention_heads(model))
    return View(
        subject=subject,
        model=model,
        heads=heads if isinstance(heads, int) else None,
        kv_heads=quietly(lambda: kv_heads(model)),
        head_dim=quietly(lambda: head_dim(model)),
        sized=sized,
        refused=refused,
    )


def _sized(config: Mapping[str, Any]) -> tuple[Geometry | None, str | None]:
    try:
        return geometry(config), None
    except ConfigError as error:
        return None, str(error)


def quietly(read: Callable[[], T]) -> T | None:
    """What it gives; None where the KV rules refuse a field: another rule says so."""
    try:
        return read()
    except (ConfigError, UnknownLayoutError):
        return None


def error(view: View, rule: str, message: str, fix: str = "") -> Finding:
    """The engine refuses it, or its answers are wrong."""
    return Finding(rule, Severity.ERROR, view.subject, message, fix)


def warning(view: View, rule: str, message: str, fix: str = "") -> Finding:
    """It works, at a price, or by luck."""
    return Finding(rule, Severity.WARNING, view.subject, message, fix)


def info(view: View, rule: str, message: str, fix: str = "") -> Finding:
    """Good to know, or not known."""
    return Finding(rule, Severity.INFO, view.subject, message, fix)
