"""Constant state of Mamba and linear-attention layers: bytes per request, layer and rank.

The formulas are vLLM's (`MambaStateShapeCalculator`): a convolution window in 16 bit and a
recurrent state. What is split over tensor-parallel ranks is divided here, before the sum.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cacheaware_sidecar.kv.errors import refusal
from cacheaware_sidecar.kv.fields import Fields
from cacheaware_sidecar.kv.heads import head_dim, one_head_count
from cacheaware_sidecar.kv.model import Model
from cacheaware_sidecar.kv.parallel import Parallel

_DTYPE_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
_WIDE: Final = frozenset({"qwen3_5", "qwen3_5_moe"})
"""Types whose recurrent state is fp32 unless the file says otherwise."""


@dataclass(frozen=True, slots=True)
class State:
    """Bytes of one layer's state for one request on one rank; None where sizes are missing."""

    size: int | None
    arithmetic: str


UNKNOWN: Final = State(None, "a constant state of unknown size")


def state_of(model: Model, parallel: Parallel) -> State:
    """The state of one state layer (all state layers of a model are alike).

    A type without a rule, or a file that lacks a size, gives an unknown state, not an error.

    Raises:
        ConfigError: A size that is there and can't be right, or can't be split over the ranks.
    """
    rule, names = _rule(model)
    source = model.fields.child("linear_attn_config") if rule is _kimi_delta else model.fields
    if rule is None or source is None or not all(source.has(name) for name in names):
        return UNKNOWN
    return rule(model, parallel)


def _rule(model: Model) -> "tuple[_Rule | None, tuple[str, ...]]":
    return _RULES.get(model.layout, (None, ()))


def _gated_delta(model: Model, parallel: Parallel) -> State:
    """Qwen3-Next, Qwen3.5: (k - 1)(2 nk dk + nv dv) x 2 + nv dv dk x ssm bytes."""
    fields = model.fields
    key_heads = _share(fields, parallel, "linear_num_key_heads")
    value_heads = _share(fields, parallel, "linear_num_value_heads")
    key, value = fields.required("linear_key_head_dim"), fields.required("linear_value_head_dim")
    default = 4 if model.layout in _WIDE else 2
    ssm = _dtype_bytes(fields, ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"), default)
    taps = fields.required("linear_conv_kernel_dim") - 1
    size = taps * (2 * key_heads * key + value_heads * value) * 2 + value_heads * value * key * ssm
    return State(
        size,
        f"{taps} x (2 x {key_heads} x {key} + {value_heads} x {value}) x 2 B "
        f"+ {value_heads} x {value} x {key} x {ssm} B",
    )


def _mamba2(
    model: Model, parallel: Parallel, names: tuple[str, str, str, str, str], inner: int
) -> State:
    """Mamba-2: (k - 1)(inner + 2 g ds) x 2 + heads hd ds x ssm bytes.

    Groups that can't be split are raised until each rank has one of its own.
    """
    fields = model.fields
    heads_name, size_name, state_name, groups_name, kernel_name = names
    heads = _share(fields, parallel, heads_name)
    size, state = fields.required(size_name), fields.required(state_name)
    groups = _groups_of_rank(fields.required(groups_name), parallel.tensor)
    taps, inner = fields.required(kernel_name) - 1, parallel.share("inner size", inner)
    ssm = _dtype_bytes(fields, ("mamba_ssm_cache_dtype", "mamba_ssm_dtype"), 2)
    return State(
        taps * (inner + 2 * groups * state) * 2 + heads * size * state * ssm,
        f"{taps} x ({inner} + 2 x {groups} x {state}) x 2 B + {heads} x {size} x {state} x {ssm} B",
    )


def _groups_of_rank(groups: int, tensor: int) -> int:
    return groups // tensor if groups % tensor == 0 else 1


_NEMOTRON: Final = (
    "mamba_num_heads",
    "mamba_head_dim",
    "ssm_state_size",
    "n_groups",
    "conv_kernel",
)
_BAMBA: Final = (
    "mamba_n_heads",
    "mamba_d_head",
    "mamba_d_state",
    "mamba_n_groups",
    "mamba_d_conv",
)
_MAMBA2: Final = ("num_heads", "head_dim", "state_size", "n_groups", "conv_kernel")
_JAMBA: Final = ("mamba_d_state", "mamba_d_conv", "mamba_expand")
_MAMBA1: Final = ("state_size", "conv_kernel")
_GATED_DELTA: Final = (
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
)


def _nemotron(model: Model, parallel: Parallel) -> State:
    heads = model.fields.required("mamba_num_heads")
    return _mamba2(model, parallel, _NEMOTRON, heads * model.fields.required("mamba_head_dim"))


def _bamba(model: Model, parallel: Parallel) -> State:
    inner = model.fields.required("mamba_expand") * model.hidden
    return _mamba2(model, parallel, _BAMBA, inner)


def _plain_mamba2(model: Model, parallel: Parallel) -> State:
    inner = model.fields.required("expand") * model.hidden
    return _mamba2(model, parallel, _MAMBA2, inner)


def _jamba(model: Model, parallel: Parallel) -> State:
    inner = model.fields.required("mamba_expand") * model.hidden
    return _mamba1(model.fields, parallel, inner, "mamba_d_state", "mamba_d_conv")


def _plain_mamba(model: Model, parallel: Parallel) -> State:
    inner = model.fields.integer("intermediate_size", "d_inner")
    inner = inner or (model.fields.integer("expand") or 2) * model.hidden
    return _mamba1(model.fields, parallel, inner, "state_size", "conv_kernel")


def _mamba1(fields: Fields, parallel: Parallel, inner: int, state: str, kernel: str) -> State:
    """Mamba-1: inner (k - 1) x 2 + inner ds x 2."""
    inner = parallel.share("inner size", inner)
    taps, size = fields.required(kernel) - 1, fields.required(state)
    return State(inner * (taps + size) * 2, f"{inner} x ({taps} + {size}) x 2 B")


def _minimax(model: Model, parallel: Parallel) -> State:
    """MiniMax's linear attention: heads hd^2 x 4."""
    heads, size = parallel.share("attention heads", one_head_count(model)), head_dim(model)
    return State(heads * size * size * 4, f"{heads} x {size} x {size} x 4 B")


def _kimi_delta(model: Model, parallel: Parallel) -> State:
    """Kimi delta attention: (k - 1) 3 nh hd x 2 + nh hd^2 x 4."""
    linear = model.fields.child("linear_attn_config") or model.fields
    heads = _share(linear, parallel, "num_heads")
    size, taps = linear.required("head_dim"), linear.required("short_conv_kernel_size") - 1
    return State(
        taps * 3 * heads * size * 2 + heads * size * size * 4,
        f"{taps} x 3 x {heads} x {size} x 2 B + {heads} x {size} x {size} x 4 B",
    )


_Rule = Callable[[Model, Parallel], State]
_RULES: Final[dict[str, tuple[_Rule, tuple[str, ...]]]] = {
    "bamba": (_bamba, (*_BAMBA, "mamba_expand")),
    "falcon_mamba": (_plain_mamba, _MAMBA1),
    "granitemoehybrid": (_bamba, (*_BAMBA, "mamba_expand")),
    "jamba": (_jamba, _JAMBA),
    "kimi_linear": (_kimi_delta, ("num_heads", "head_dim", "short_conv_kernel_size")),
    "mamba": (_plain_mamba, _MAMBA1),
    "mamba2": (_plain_mamba2, (*_MAMBA2, "expand")),
    "minimax_m1": (_minimax, ()),
    "minimax_text_01": (_minimax, ()),
    "nemotron_h": (_nemotron, _NEMOTRON),
    "qwen3_5": (_gated_delta, _GATED_DELTA),
    "qwen3_5_moe": (_gated_delta, _GATED_DELTA),
    "qwen3_next": (_gated_delta, _GATED_DELTA),
}


def _share(fields: Fields, parallel: Parallel, name: str) -> int:
    return parallel.share(fields.path + name, fields.required(name))


def _dtype_bytes(fields: Fields, names: tuple[str, ...], default: int) -> int:
    name = fields.first(*names)
    if name is None:
        return default
    dtype = (fields.text(name) or "").removeprefix("torch.")
    if dtype not in _DTYPE_BYTES:
        raise refusal(fields.path + name, dtype, f"allowed are {', '.join(_DTYPE_BYTES)}")
    return _DTYPE_BYTES[dtype]
