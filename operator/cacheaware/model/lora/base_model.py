"""The base model as an adapter sees it: modules with their features, found by what a key says.

Writers name the same matrix differently (`self_attn.o_proj`, `attention.wo`,
`self_attention.linear_proj`). A module is found by its full name; else by its layer and the rest of
its name; else by its layer and what the rest of its name does.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from cacheaware.model.architecture import architecture
from cacheaware.model.modules import Form, Module

CORE = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block)\.(\d+)\.(.+)$")
FLAT_CORE = re.compile(r"(?:^|_)(?:layers|layer|h|blocks|block)_(\d+)_(.+)$")
OUTSIDE = re.compile(r"(?:^|\.)(?:visual|vision\w*|audio\w*|multi_modal_projector|mm_projector)\.")
"""Parts of multimodal models that a table of the language model doesn't hold."""


class Matrix(StrEnum):
    """What a matrix does in its layer."""

    Q = "q"
    K = "k"
    V = "v"
    QKV = "qkv"
    O = "o"  # noqa: E741 - the name of the matrix
    GATE = "gate"
    UP = "up"
    GATE_UP = "gate_up"
    DOWN = "down"


FUSED = {Matrix.QKV: (Matrix.Q, Matrix.K, Matrix.V), Matrix.GATE_UP: (Matrix.GATE, Matrix.UP)}
MATRICES: dict[Matrix, tuple[str, ...]] = {
    Matrix.Q: ("self_attn.q_proj", "attn.q_proj", "attention.wq", "self_attention.linear_q"),
    Matrix.K: ("self_attn.k_proj", "attn.k_proj", "attention.wk"),
    Matrix.V: ("self_attn.v_proj", "attn.v_proj", "attention.wv"),
    Matrix.QKV: (
        "self_attn.qkv_proj", "self_attention.linear_qkv", "self_attention.query_key_value",
        "self_attention", "attention.wqkv", "attn.c_attn", "self_attn.W_pack", "attn.Wqkv",
    ),
    Matrix.O: (
        "self_attn.o_proj", "attn.output_proj", "attn.o_proj", "attention.wo",
        "self_attention.linear_proj", "self_attention.dense", "attn.c_proj", "attn.out_proj",
    ),
    Matrix.GATE: ("mlp.gate_proj", "feed_forward.w1", "mlp.w1"),
    Matrix.UP: ("mlp.up_proj", "feed_forward.w3", "mlp.w3"),
    Matrix.GATE_UP: ("mlp.gate_up_proj", "mlp.linear_fc1", "mlp.dense_h_to_4h"),
    Matrix.DOWN: (
        "mlp.down_proj", "feed_forward.w2", "mlp.w2", "mlp.linear_fc2", "mlp.dense_4h_to_h",
    ),
}  # fmt: skip
"""Sources: transformers, torchtune, Meta's checkpoints, Megatron-LM, NeMo, GPT-2 and its heirs."""
MATRIX_OF = {tail: matrix for matrix, tails in MATRICES.items() for tail in tails}


@dataclass(frozen=True, slots=True)
class Found:
    """The modules that a path means."""

    modules: tuple[Module, ...]
    """One; all parts where the path names a fusion of them."""
    part: int | None = None
    """Where the base has a fusion and the path names a part: which one."""
    matrix: Matrix | None = None


@dataclass(frozen=True, slots=True)
class Base:
    """A base model; `kv_heads` and `head_dim` say how fused rows are cut, None where unknown."""

    modules: Mapping[str, Module]
    layers: int
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    cores: Mapping[tuple[int, str], list[Module]] = field(init=False)
    """Modules by layer and the rest of their names."""
    flat: Mapping[str, str] = field(init=False)
    """The rest of a name by what it is with underscores."""

    def __post_init__(self) -> None:
        found: dict[tuple[int, str], list[Module]] = defaultdict(list)
        for module in self.modules.values():
            if core := core_of(module.name):
                found[core].append(module)
        tails = {tail for _, tail in found} | set(MATRIX_OF)
        object.__setattr__(self, "cores", dict(found))
        object.__setattr__(self, "flat", {one.replace(".", "_"): one for one in sorted(tails)})

    def find(self, path: str) -> Found | str:
        """The modules that a path means, or why there is none."""
        if module := self.modules.get(path):
            return Found((module,))
        core = core_of(path) or flat_core_of(path, self)
        if core is None:
            return self._by_name(path)
        layer, tail = core
        if layer >= self.layers:
            return f"layer {layer}: the model has layers 0 to {self.layers - 1}"
        if same := self.cores.get((layer, tail)):
            return self._nearest(path, same)
        return self._by_matrix(layer, tail)

    def _nearest(self, path: str, same: list[Module]) -> Found | str:
        """The one of several stacks (text, vision) that a path means."""
        text = [one for one in same if not OUTSIDE.search(one.name)]
        wanted = [one for one in same if OUTSIDE.search(one.name)] if OUTSIDE.search(path) else text
        if len(wanted) == 1:
            return Found((wanted[0],))
        names = ", ".join(one.name for one in same)
        return f"it may be any of {names}"

    def _by_name(self, path: str) -> Found | str:
        """A module outside the layers (embeddings, head) by the last word of its name."""
        last = re.split(r"[.]", path)[-1]
        same = [
            one
            for one in self.modules.values()
            if core_of(one.name) is None
            and (one.name.endswith(f".{last}") or one.name.replace(".", "_").endswith(last))
        ]
        if len(same) == 1:
            return Found((same[0],))
        return "the model has no such module"

    def _by_matrix(self, layer: int, tail: str) -> Found | str:
        """A module by what it does; also parts of a fusion, and fusions of parts."""
        matrix = MATRIX_OF.get(tail)
        if matrix is None:
            return f"a layer of this model has no {tail}"
        matrices = self._matrices(layer)
        if matrix in matrices:
            return Found((matrices[matrix],), matrix=matrix)
        parts = FUSED.get(matrix, ())
        if parts and all(one in matrices for one in parts):
            return Found(tuple(matrices[one] for one in parts), matrix=matrix)
        for fused, members in FUSED.items():
            if matrix in members and fused in matrices:
                return Found((matrices[fused],), part=members.index(matrix), matrix=fused)
        return f"a layer of this model has nothing that does what {tail} does"

    def _matrices(self, layer: int) -> dict[Matrix, Module]:
        """The modules of a layer by what they do."""
        return {
            matrix: self.cores[layer, tail][0]
            for tail, matrix in MATRIX_OF.items()
            if (layer, tail) in self.cores
        }

    def part_sizes(self, found: Found) -> tuple[int, ...] | None:
        """Rows of each part of a fusion; None where the configuration doesn't tell."""
        if len(found.modules) > 1:
            return tuple(one.outputs for one in found.modules)
        rows = found.modules[0].outputs
        if found.matrix is Matrix.GATE_UP:
            return (rows // 2, rows // 2)
        if self.heads is None or self.kv_heads is None or self.head_dim is None:
            return None
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return (query, key, key) if query + 2 * key == rows else None


def base_of(config: Mapping[str, Any]) -> Base:
    """The base model that a config.json describes; its experts are numbered.

    Raises:
        UnknownArchitectureError: no rule covers its modules.
        ConfigError: a field is missing or can't be right.
    """
    built = architecture(config)
    modules = {
        one.name: one
        for module in built.modules()
        if module.form in {Form.LINEAR, Form.EMBEDDING, Form.NORM}
        for one in numbered(module)
    }
    kept = built.kept
    return Base(
        modules, len(built.layers), whole(kept.heads), whole(kept.kv_heads), whole(kept.head_dim)
    )


def numbered(module: Module) -> list[Module]:
    """A module for each number that the `*` in its name stands for."""
    if "*" not in module.name:
        return [module]
    return [replace(module, name=module.name.replace("*", str(at))) for at in range(module.copies)]


def whole(value: Any) -> int | None:
    """One number for all layers; None where layers differ or it isn't known."""
    return value if type(value) is int else None


def core_of(path: str) -> tuple[int, str] | None:
    """Layer and the rest of a name; None outside the layers.

    >>> core_of("model.layers.3.mlp.up_proj")
    (3, 'mlp.up_proj')
    """
    found = CORE.search(path)
    return (int(found[1]), found[2]) if found else None


def flat_core_of(path: str, base: Base) -> tuple[int, str] | None:
    """The same of a name whose dots became underscores, by the tails that the base has."""
    found = None if "." in path else FLAT_CORE.search(path)
    if found is None:
        return None
    return int(found[1]), base.flat.get(found[2], found[2])
