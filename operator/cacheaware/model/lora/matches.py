"""Each tensor of an adapter with what its key means and where it belongs in the base model."""

from dataclasses import dataclass

from cacheaware.model.lora.base_model import Base, Found
from cacheaware.model.lora.keys import Key, Part, key_of, peft_name
from cacheaware.model.lora.tensors import Tensor

OTHER_HALF = {
    Part.A: Part.B, Part.B: Part.A,
    Part.EMBEDDING_A: Part.EMBEDDING_B, Part.EMBEDDING_B: Part.EMBEDDING_A,
}  # fmt: skip
FIRST_HALVES = frozenset({Part.A, Part.EMBEDDING_A})
"""Of shape [rank, in features] in PEFT's files; the others are [out features, rank]."""


@dataclass(frozen=True, slots=True)
class Match:
    """One tensor: what its key means and where it belongs."""

    tensor: Tensor
    key: Key | None
    found: Found | str
    """The modules, or why there are none."""
    transposed: bool = False
    """Rows and columns are exchanged against PEFT's."""

    @property
    def binds(self) -> bool:
        """Whether it is where PEFT would look for it."""
        return (
            self.key is not None
            and isinstance(self.found, Found)
            and len(self.found.modules) == 1
            and self.found.part is None
            and not self.transposed
            and self.tensor.name == peft_name(self.found.modules[0].name, self.key.part)
        )

    @property
    def helper(self) -> bool:
        """Whether it changes no module: a scale, or a weight of the base that was saved along."""
        return self.key is not None and self.key.part in {Part.ALPHA, Part.BASE}

    @property
    def shown(self) -> str:
        """The modules that it means."""
        if isinstance(self.found, str):
            return self.found
        names = ", ".join(one.name for one in self.found.modules)
        return names if self.found.part is None else f"part {self.found.part + 1} of {names}"


def match_of(tensor: Tensor, base: Base) -> Match:
    """A tensor with its place."""
    key = key_of(tensor.name)
    if key is None:
        return Match(tensor, None, "its ending is no LoRA's")
    found = base.find(key.path)
    return Match(tensor, key, found, is_transposed(tensor, key, found))


def is_transposed(tensor: Tensor, key: Key, found: Found | str) -> bool:
    """Whether a matrix lies the other way round: MLX keeps A as [in, rank] and B as [rank, out]."""
    wanted = features(key, found)
    if wanted is None or len(tensor.shape) != 2:
        return False
    side = feature_side(key)
    return tensor.shape[side] != wanted and tensor.shape[1 - side] == wanted


def feature_side(key: Key) -> int:
    """Which side of PEFT's matrix is the module's features; the other is the rank."""
    return 1 if key.part in FIRST_HALVES else 0


def features(key: Key, found: Found | str) -> int | None:
    """The side of a LoRA matrix that the module gives; None where it isn't known."""
    if isinstance(found, str) or found.part is not None:
        return None
    module = found.modules[0]
    if key.part in FIRST_HALVES:
        return module.inputs
    if key.part in {Part.B, Part.EMBEDDING_B}:
        return sum(one.outputs for one in found.modules)
    return None


def rank_of(match: Match) -> int | None:
    """The rank that a matrix has; None where it has none."""
    if match.key is None or len(match.tensor.shape) != 2 or match.key.part not in OTHER_HALF:
        return None
    side = 1 - feature_side(match.key)
    return match.tensor.shape[1 - side if match.transposed else side]
