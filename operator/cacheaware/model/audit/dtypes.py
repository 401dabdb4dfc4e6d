"""The dtype of weights and activations, and whether the GPU has it (vLLM 0.32)."""

from collections.abc import Iterator
from typing import Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.families import WITHOUT_FLOAT16
from cacheaware.model.audit.view import Serving, View, error, info, warning
from cacheaware_sidecar.kv.errors import shown

SERVED: Final = frozenset({"bfloat16", "float16", "half", "float32", "float"})
BFLOAT16: Final = (8, 0)
"""The compute capability from which on vLLM serves BF16."""


def known(view: View, _serving: Serving) -> Iterator[Finding]:
    """A name that loaders know."""
    if view.dtype is None:
        yield info(
            view, "dtype-missing",
            "neither dtype nor torch_dtype is given: loaders look into the weights, or take FP32",
            'Add "dtype": "bfloat16" (or what the weights are in).',
        )  # fmt: skip
    elif view.dtype not in SERVED:
        yield error(
            view, "dtype-unknown",
            f"dtype is {shown(view.dtype)}: allowed are {', '.join(sorted(SERVED))}; quantised "
            f"weights are told by quantization_config, the dtype is that of activations",
            'Write "bfloat16" or "float16".',
        )  # fmt: skip


def full_precision(view: View, _serving: Serving) -> Iterator[Finding]:
    """FP32 left in from training."""
    if view.dtype in {"float32", "float"}:
        yield warning(
            view, "dtype-float32",
            "dtype is float32: 4 B a parameter on disk and in whatever loads it as written, twice "
            "of what serving needs; vLLM turns it into 16 bit at each start",
            'Save the weights in BF16 and write "bfloat16".',
        )  # fmt: skip


def told_twice(view: View, _serving: Serving) -> Iterator[Finding]:
    """Old and new name, outer and inner part: one value."""
    told = {
        f"{path}{name}": value.lower().removeprefix("torch.")
        for path, values in (("", view.whole), (view.model.fields.path, view.text))
        for name in ("dtype", "torch_dtype")
        if isinstance(value := values.get(name), str)
    }
    if len(set(told.values())) > 1:
        yield warning(
            view, "dtype-twice",
            "the file has " + ", ".join(f"{name} {shown(value)}" for name, value in told.items())
            + ": which one counts depends on the loader",
            "Keep one dtype, at one place.",
        )  # fmt: skip


def overflow(view: View, serving: Serving) -> Iterator[Finding]:
    """Families whose activations leave FP16's range of 65,504."""
    if serving.vllm and view.layout in WITHOUT_FLOAT16 and view.dtype in {"float16", "half"}:
        yield error(
            view, "dtype-float16-refused",
            f"{view.layout} in float16: activations leave its range of 65,504 (numerical "
            f"instability); vLLM falls back to another dtype, and refuses --dtype float16",
            'Write "bfloat16".',
        )  # fmt: skip


def old_cards(view: View, serving: Serving) -> Iterator[Finding]:
    """BF16 needs an Ampere card or newer."""
    if view.dtype not in {"bfloat16", "float32", "float"}:
        return
    for gpu in serving.gpus:
        capability = gpu.compute_capability
        if capability is None or capability >= BFLOAT16:
            continue
        if view.layout in WITHOUT_FLOAT16:
            yield error(
                view, "dtype-gpu-refused",
                f"{gpu.name} (capability {gpu.capability}) has no BF16, and {view.layout} does not "
                f"stand FP16: FP32 is left, with twice the memory and no matrix units",
                "Take a GPU of capability 8.0 or higher.",
            )  # fmt: skip
        elif view.dtype == "bfloat16":
            yield warning(
                view, "dtype-gpu",
                f"{gpu.name} (capability {gpu.capability}) has no BF16: vLLM serves FP16 instead, "
                f"whose range ends at 65,504, and refuses --dtype bfloat16",
                "Compare answers with those of a card that has it, or take one of capability 8.0.",
            )  # fmt: skip


RULES: Final = (known, full_precision, told_twice, overflow, old_cards)
