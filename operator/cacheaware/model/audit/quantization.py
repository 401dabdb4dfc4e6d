"""How the weights are stored: a method that somebody reads, sizes that fit, a GPU that has it.

Methods and least capabilities: vLLM 0.32, `layers/quantization`; further methods: transformers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.view import (
    EXPERT_SIZES,
    WIDTHS,
    Serving,
    View,
    error,
    number_in,
    warning,
)
from cacheaware.model.gpus import Gpu
from cacheaware_sidecar.kv.errors import shown

VLLM: Final[Mapping[str, tuple[int, int]]] = {
    "awq": (7, 5), "auto_awq": (7, 5), "awq_marlin": (7, 5), "gptq": (6, 0), "auto_gptq": (6, 0),
    "gptq_marlin": (6, 0), "fp8": (7, 5), "fbgemm_fp8": (8, 0), "fp_quant": (10, 0),
    "modelopt": (7, 5), "modelopt_fp4": (7, 5), "modelopt_mxfp8": (8, 0),
    "modelopt_mixed": (7, 5), "compressed-tensors": (7, 0), "experts_int8": (8, 0),
    "quark": (7, 0), "moe_wna16": (7, 0), "torchao": (7, 5), "inc": (6, 0), "humming": (7, 5),
    "mxfp4": (8, 0), "gpt_oss_mxfp4": (8, 0), "mxfp8": (7, 5), "deepseek_v4_fp8": (7, 5),
    "auto-round": (6, 0),
}  # fmt: skip
"""Methods of vLLM 0.32, and the least compute capability."""
OTHERS: Final = frozenset(
    ["aqlm", "auto_round", "bitnet", "bitsandbytes", "bitsandbytes_4bit", "bitsandbytes_8bit",
     "eetq", "finegrained_fp8", "gguf", "higgs", "hqq", "quanto", "spqr", "vptq"]
)  # fmt: skip
BITS: Final = {"gptq": (2, 3, 4, 8), "awq": (4, 8)}
SCHEMES: Final = ("static", "dynamic")


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What a format needs of a GPU to compute in it, not only to store it."""

    name: str
    dtype: str
    since: str


FP8: Final = Arithmetic("FP8", "fp8", "Ada and Hopper, MI300")
FP4: Final = Arithmetic("4-bit floats", "fp4", "Blackwell")


def method(view: View, serving: Serving) -> Iterator[Finding]:
    """A method that is named and known."""
    section = view.quantization
    if section is None:
        return
    name = method_of(section)
    if name is None:
        yield error(
            view, "quantization-unnamed",
            "quantization_config has neither quant_method nor quant_algo: loaders take the weights "
            "for plain ones, and fail on their shapes",
            'Add "quant_method".',
        )  # fmt: skip
    elif name not in VLLM and name not in OTHERS:
        yield error(
            view, "quantization-unknown",
            f"quant_method is {shown(name)}: allowed are {', '.join(sorted({*VLLM, *OTHERS}))}",
            "Take it from the tool that wrote the weights.",
        )  # fmt: skip
    elif serving.vllm and name not in VLLM:
        yield warning(
            view, "quantization-engine",
            f"quant_method {name}: vLLM 0.32 does not have it, transformers does",
            "Serve with transformers, or quantise to a format that vLLM lists.",
        )  # fmt: skip


def method_of(section: Mapping[str, Any]) -> str | None:
    """The method; ModelOpt's own files name an algorithm instead."""
    name = section.get("quant_method")
    if isinstance(name, str) and name:
        return name.lower()
    return "modelopt" if isinstance(section.get("quant_algo"), str) else None


def sizes(view: View, _serving: Serving) -> Iterator[Finding]:
    """Bits, groups and blocks that kernels can unpack."""
    section = view.quantization
    if section is None:
        return
    name = method_of(section)
    bits = number_in(section, "bits")
    if name in BITS and bits is not None and bits not in BITS[name]:
        yield error(
            view, "quantization-bits",
            f"bits is {bits:g} with {name}: allowed are {', '.join(map(str, BITS[name]))}",
            "Take it from the tool that wrote the weights.",
        )  # fmt: skip
    group = number_in(section, "group_size")
    if name in BITS and group is not None and group > 0:
        for field, width in _inputs(view):
            if width % group:
                yield error(
                    view, "quantization-group",
                    f"group_size {group:g} does not divide {field} {width:,}: the last group would "
                    f"be cut",
                    "Quantise with a group size that divides it, such as 32, 64 or 128.",
                )  # fmt: skip


def consistent(view: View, _serving: Serving) -> Iterator[Finding]:
    """The section agrees with itself and with its copies."""
    section = view.quantization
    if section is None:
        return
    block = section.get("weight_block_size")
    whole = isinstance(block, list) and len(block) == 2 and all(_is_size(one) for one in block)
    if block is not None and not whole:
        yield error(
            view, "quantization-block",
            f"weight_block_size is {shown(block)}: allowed are two whole numbers, rows and "
            f"columns",
            "Releases have [128, 128].",
        )  # fmt: skip
    scheme = section.get("activation_scheme")
    if method_of(section) == "fp8" and scheme is not None:
        if scheme not in SCHEMES:
            yield error(
                view, "quantization-activations",
                f"activation_scheme is {shown(scheme)}: allowed are {', '.join(SCHEMES)}",
                'Use "dynamic" unless the checkpoint has input scales.',
            )  # fmt: skip
        elif block is not None and scheme != "dynamic":
            yield error(
                view, "quantization-activations",
                f"activation_scheme is {shown(scheme)} beside weight_block_size: block-wise FP8 is "
                f"computed with dynamic scales alone",
                'Set it to "dynamic".',
            )  # fmt: skip
    inner = view.text.get("quantization_config")
    if view.text is not view.whole and isinstance(inner, Mapping):
        ours, theirs = method_of(section), method_of(inner)
        if ours != theirs:
            yield warning(
                view, "quantization-twice",
                f"quantization_config says {shown(ours)}, {view.named('quantization_config')} "
                f"{shown(theirs)}",
                "Keep one.",
            )  # fmt: skip


def cards(view: View, serving: Serving) -> Iterator[Finding]:
    """The least capability, and whether the GPU computes in the format or only stores it."""
    section = view.quantization
    name = method_of(section) if section else None
    if section is None or name is None or not serving.vllm:
        return
    least = VLLM.get(name, (0, 0))
    for gpu in serving.gpus:
        capability = gpu.compute_capability
        if capability is not None and capability < least:
            yield error(
                view, "quantization-gpu",
                f"{name} needs capability {least[0]}.{least[1]} in vLLM, {gpu.name} has "
                f"{gpu.capability}",
                "Take a newer GPU, or weights in FP16.",
            )  # fmt: skip
        elif (format_ := arithmetic_of(section)) and not _computes(gpu, format_):
            yield warning(
                view, "quantization-stored-only",
                f"{gpu.name} has no arithmetic for {format_.name} ({format_.since} do): the "
                f"weights are small there, and are unpacked to 16 bit for each product",
                "Memory is saved, and decoding gains; prefill does not. Or take a GPU that has it.",
            )  # fmt: skip


def arithmetic_of(section: Mapping[str, Any]) -> Arithmetic | None:
    """The floats that the weights are in; None for integers, and where the section doesn't say."""
    words = " ".join(
        str(section.get(name) or "").lower()
        for name in ("quant_method", "quant_algo", "moe_quant_algo", "format", "fmt")
    )
    if any(one in words for one in ("nvfp4", "mxfp4", "fp_quant")):
        return FP4
    return FP8 if any(one in words for one in ("fp8", "float-quantized", "e4m3")) else None


def _computes(gpu: Gpu, wanted: Arithmetic) -> bool:
    return wanted.dtype in gpu.tflops


def _inputs(view: View) -> list[tuple[str, int]]:
    """Widths along which weights are grouped."""
    found = [(name, view.integer(name)) for name in (*WIDTHS, *EXPERT_SIZES) if name in view.text]
    return [("hidden size", view.hidden or 0), *((name, width or 0) for name, width in found)]


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


RULES: Final = (method, sizes, consistent, cards)
