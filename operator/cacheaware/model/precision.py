"""In how many bytes each weight is stored, and in which dtype its product is computed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from itertools import combinations
from typing import Any, Final

from cacheaware.model.gpus import Gpu
from cacheaware.model.modules import Module, Role
from cacheaware_sidecar.kv import ConfigError
from cacheaware_sidecar.kv.errors import refusal, shown
from cacheaware_sidecar.kv.fields import Fields
from cacheaware_sidecar.kv.model import read_model

AUTO: Final = "auto"
HALF_BYTES: Final = 2
BYTES: Final[Mapping[str, float]] = {
    "bf16": 2,
    "fp16": 2,
    "fp32": 4,
    "fp8": 1,
    "int8": 1,
    "int4": 0.5 + 2 / 128,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
}
"""Bytes per weight with the scales of its group (int4: a half for each 128)."""
_COMPUTED_IN: Final = {"fp8": "fp8", "int8": "int8", "nvfp4": "fp4", "mxfp4": "fp4"}
_HALVES: Final = {"float16": "fp16", "bfloat16": "bf16"}
_METHODS: Final = frozenset([
    "auto-round", "awq", "awq_marlin", "bitsandbytes", "compressed-tensors", "fbgemm_fp8", "fp8",
    "gptq", "gptq_marlin", "modelopt", "modelopt_fp4", "moe_wna16", "mxfp4", "nvfp4", "quark",
])  # fmt: skip
_WHOLE: Final = frozenset({Role.HEAD, Role.ROUTER, Role.EMBEDDING, Role.POSITIONS})
"""What engines keep in 16 bit unless a file says otherwise."""


@dataclass(frozen=True, slots=True)
class Group:
    """Modules that are quantised alike.

    Attributes:
        weights: A key of `BYTES`.
        targets: Names or patterns; empty for every linear module.
    """

    weights: str
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Precision:
    """How a model's weights are stored and multiplied.

    Attributes:
        half: `bf16` or `fp16`: activations, and all that isn't quantised.
        groups: Quantised modules; the first group that names one decides.
        ignored: Names or patterns of linear modules that stay in 16 bit.
        notes: What a person should know, one line each.
    """

    half: str
    groups: tuple[Group, ...] = ()
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def weights(self, module: Module) -> str:
        """The storage of a module's weight: a key of `BYTES`."""
        if module.is_linear and module.role not in _WHOLE and not self._is_ignored(module):
            for group in self.groups:
                if not group.targets or named(module.name, group.targets):
                    return group.weights
        return self.half

    def _is_ignored(self, module: Module) -> bool:
        return named(module.name, self.ignored)

    def bytes(self, module: Module) -> float:
        """Bytes of one weight of a module."""
        return BYTES[self.weights(module)]

    def computed(self, module: Module, gpu: Gpu) -> str:
        """The dtype of the product: that of the weights where the GPU has it, else 16 bit."""
        dtype = _COMPUTED_IN.get(self.weights(module), self.half)
        return dtype if dtype in gpu.tflops else self.half


def precision_of(config: Mapping[str, Any], gpu: Gpu, weights: str = AUTO) -> Precision:
    """What the file says of its weights, on this GPU.

    Args:
        config: The parsed file.
        gpu: Where it runs: one without BF16 computes in FP16.
        weights: A key of `BYTES` for all linear layers; `auto` for what the file says.

    Raises:
        ConfigError: A dtype or quantisation that is not understood.
    """
    check_weights(weights)
    half, notes = _half(config, gpu)
    if weights in ("bf16", "fp16"):
        if weights not in gpu.tflops:
            raise refusal("weights", weights, f"{gpu.name} computes in {', '.join(gpu.tflops)}")
        return Precision(weights)
    if weights != AUTO:
        return Precision(half, (Group(weights),), notes=notes)
    section = _section(config)
    if section is None:
        return Precision(half, notes=notes)
    notes = (*notes, *_doubts(section))
    return Precision(half, _groups(section), tuple(_ignored(section)), notes)


def _doubts(section: Fields) -> Iterator[str]:
    """A method that no rule knows."""
    method = section.text("quant_method")
    if method is not None and method.lower() not in _METHODS:
        yield (
            f"{section.path}quant_method is {shown(method)}, which is not known here: counted by"
            " its bits alone"
        )


def check_weights(weights: str) -> None:
    """Refuse what is neither `auto` nor a key of `BYTES`.

    Raises:
        ConfigError: It is neither.
    """
    if weights != AUTO and weights not in BYTES:
        raise refusal("weights", weights, f"allowed are {AUTO}, {', '.join(BYTES)}")


def _half(config: Mapping[str, Any], gpu: Gpu) -> tuple[str, tuple[str, ...]]:
    model = read_model(config)
    told = None
    for fields in (model.fields, model.whole):
        told = told or fields.text("dtype") or fields.text("torch_dtype")
    half = _HALVES.get((told or "").removeprefix("torch."), "bf16")
    notes: tuple[str, ...] = ()
    if told == "float32":
        notes = ("the file says float32: engines serve it in 16 bit, and so is it reckoned here",)
    if half not in gpu.tflops:
        return "fp16", (*notes, f"{gpu.name} has no BF16: FP16 assumed, check for overflow")
    return half, notes


def _section(config: Mapping[str, Any]) -> Fields | None:
    model = read_model(config)
    for fields in (model.whole, model.fields):
        if section := fields.child("quantization_config"):
            return section
    return None


def _groups(section: Fields) -> tuple[Group, ...]:
    listed = section.child("config_groups")
    if listed is not None:
        children = {name: listed.child(name) for name in listed.values}
        return tuple(_listed_group(section, _told(listed, *each)) for each in children.items())
    method = (section.text("quant_method") or section.text("quant_algo") or "").lower()
    bits = section.integer("bits", "w_bit", "num_bits", high=16)
    return (Group(_by_method(section, method, bits)),)


def _told(listed: Fields, name: str, group: Fields | None) -> Fields:
    """The group; one without a word on its weights is not one of 16 bit."""
    if group is None:
        raise refusal(listed.path + name, listed.values[name], "allowed is an object with weights")
    return group


def _listed_group(section: Fields, group: Fields) -> Group:
    scheme = group.child("weights")
    bits = scheme.integer("num_bits", high=16) if scheme else None
    kind = (scheme.text("type") if scheme else None) or "float"
    targets = _names(group, "targets") if group.has("targets") else ()
    everything = "Linear" in targets
    return Group(_by_bits(section, bits, kind), () if everything else targets)


def _by_method(section: Fields, method: str, bits: int | None) -> str:
    algorithm = (section.text("quant_algo") or "").lower()
    for name in ("mxfp4", "nvfp4", "fp8"):
        if name in (method, algorithm):
            return name
    if method == "modelopt" and "fp8" in algorithm:
        return "fp8"
    return _by_bits(section, bits, "int")


def _by_bits(section: Fields, bits: int | None, kind: str) -> str:
    names = {(8, "float"): "fp8", (4, "float"): "nvfp4", (8, "int"): "int8", (4, "int"): "int4"}
    name = names.get((bits or 0, kind))
    if name is None:
        raise ConfigError(
            f"{section.path}quant_method is {shown(section.values.get('quant_method'))}: its bits "
            f"are not understood, name the weights' dtype: --weights {', '.join(BYTES)}"
        )
    return name


def _ignored(section: Fields) -> Iterable[str]:
    name = section.first("ignore", "modules_to_not_convert")
    return _names(section, name) if name else ()


def _names(section: Fields, field: str) -> tuple[str, ...]:
    """Names and patterns of modules.

    Raises:
        ConfigError: No list, or a regular expression that is none.
    """
    found = tuple(str(one) for one in section.array(field))
    for one in found:
        try:
            re.compile(f"(?:{one.removeprefix('re:')})" if one.startswith("re:") else "")
        except re.error as error:
            allowed = f"allowed are names and regular expressions, this is none ({error.msg})"
            raise refusal(section.path + field, one, allowed) from error
    return found


def named(module: str, patterns: tuple[str, ...]) -> bool:
    """Whether a list of a quantisation section names this module.

    Patterns are regular expressions after `re:`, globs, whole names, or parts of names; roots of
    multimodal models differ between tools, so names are compared from `layers` on.
    """
    own = _tail(module)
    plain, pattern = _compiled(patterns)
    if pattern is not None and pattern.match(own):
        return True
    if not plain:
        return False
    steps = own.split(".")
    spans = combinations(range(len(steps) + 1), 2)
    return any(".".join(steps[begin:end]) in plain for begin, end in spans)


@lru_cache(maxsize=64)
def _compiled(patterns: tuple[str, ...]) -> tuple[frozenset[str], re.Pattern[str] | None]:
    """Plain names, and one expression for all others: files list thousands."""
    plain, expressions = set(), []
    for pattern in patterns:
        wanted = _tail(pattern)
        if pattern.startswith("re:"):
            expressions.append(f"(?:{pattern[3:]})")
        elif "*" in wanted:
            expressions.append(translate(wanted))
            expressions.append(translate(f"{wanted}.*"))
        else:
            plain.add(wanted)
    return frozenset(plain), re.compile("|".join(expressions)) if expressions else None


def _tail(name: str) -> str:
    at = name.find("layers.")
    return name[at:] if at >= 0 else name
