"""The modules of a model: what has weights, under the name that Hugging Face gives it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Role(StrEnum):
    """What a module does in a layer."""

    EMBEDDING = "embedding"
    POSITIONS = "positions"
    NORM = "norm"
    QKV = "qkv"
    QK_NORM = "qk norm"
    INDEXER = "indexer"
    OUTPUT = "output"
    STATE = "state"
    FFN = "ffn"
    ROUTER = "router"
    EXPERTS = "experts"
    SHARED_EXPERT = "shared expert"
    HEAD = "head"


class Form(StrEnum):
    """What kind of weights a module has."""

    LINEAR = "linear"
    EMBEDDING = "embedding"
    NORM = "norm"
    CONVOLUTION = "convolution"
    VALUES = "values"
    """Values of no matrix: decay rates, sinks, scales."""


class Split(StrEnum):
    """How engines cut a weight over tensor-parallel ranks."""

    NONE = "none"
    """Each rank has all of it."""
    COLUMNS = "columns"
    """Each rank has a part of the outputs."""
    ROWS = "rows"
    """Each rank has a part of the inputs; the sum over the ranks is the result."""


@dataclass(frozen=True, slots=True)
class Module:
    """A weight of `copies` x [outputs, inputs], and a bias of [outputs] where there is one.

    Attributes:
        name: From the root of the model, as in Hugging Face checkpoints; `*` stands for the
            number of an expert.
        role: What it does.
        form: What kind of weight it is.
        inputs: Features in; rows of a table for an embedding; taps for a convolution; else 1.
        outputs: Features out.
        bias: Whether outputs have a bias.
        copies: How many of its kind there are (experts).
        used: How many of them one token goes through; 0 for a table that the head holds too.
        tied: Whether it shares another module's weight (the head with the embedding).
        split: How it is cut over tensor-parallel ranks.
    """

    name: str
    role: Role
    form: Form
    inputs: int
    outputs: int
    bias: bool = False
    copies: int = 1
    used: int = 1
    tied: bool = False
    split: Split = Split.NONE

    @property
    def each(self) -> int:
        """Parameters of one copy, shared ones included."""
        return self.inputs * self.outputs + (self.outputs if self.bias else 0)

    @property
    def parameters(self) -> int:
        """Parameters of its own; a tied weight counts where it belongs."""
        own = 0 if self.tied else self.inputs * self.outputs
        return self.copies * (own + (self.outputs if self.bias else 0))

    @property
    def active_parameters(self) -> int:
        """Parameters that one token goes through; a table's are one row."""
        if self.form is Form.EMBEDDING:
            return self.used * self.outputs
        return self.used * self.each

    @property
    def is_linear(self) -> bool:
        """Whether it is a matrix product, which a LoRA can adapt."""
        return self.form is Form.LINEAR


@dataclass(frozen=True, slots=True)
class Under:
    """Makes modules below one name with one role."""

    path: str
    role: Role

    def linear(self, name: str, inputs: int, outputs: int, bias: bool = False) -> Module:
        """A matrix product that each rank has whole."""
        return Module(self._at(name), self.role, Form.LINEAR, inputs, outputs, bias)

    def columns(self, name: str, inputs: int, outputs: int, bias: bool = False) -> Module:
        """A matrix product whose outputs are split over the ranks."""
        return replace(self.linear(name, inputs, outputs, bias), split=Split.COLUMNS)

    def rows(self, name: str, inputs: int, outputs: int, bias: bool = False) -> Module:
        """A matrix product whose inputs are split over the ranks."""
        return replace(self.linear(name, inputs, outputs, bias), split=Split.ROWS)

    def norm(self, name: str, width: int, bias: bool = False) -> Module:
        """Gains, and a bias with LayerNorm."""
        return Module(self._at(name), self.role, Form.NORM, 1, width, bias)

    def values(self, name: str, count: int) -> Module:
        """A vector of values."""
        return Module(self._at(name), self.role, Form.VALUES, 1, count)

    def convolution(self, name: str, taps: int, channels: int, bias: bool = False) -> Module:
        """A depthwise convolution over time."""
        one = Module(self._at(name), self.role, Form.CONVOLUTION, taps, channels, bias)
        return replace(one, split=Split.COLUMNS)

    def _at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def parameters(modules: Iterable[Module]) -> int:
    """Sum of parameters."""
    return sum(module.parameters for module in modules)
