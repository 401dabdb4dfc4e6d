"""Norms: the epsilon against the dtype, and which of its names the type reads.

vLLM (`ir/ops/layernorm.py`) and transformers compute RMSNorm in FP32, so an epsilon of 1e-6 is fine
in FP16 and BF16, although FP16 itself holds nothing below 6e-8. LayerNorm has no running mean.
"""

from collections.abc import Iterator
from typing import Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.families import RMS_EPSILONS
from cacheaware.model.audit.view import Serving, View, error, warning
from cacheaware_sidecar.kv.errors import shown

NAMES: Final = (
    "rms_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "layer_norm_eps", "norm_epsilon",
    "norm_eps",
)  # fmt: skip
SMALLEST_FLOAT16: Final = 2.0**-24
"""5.96e-8; half of it rounds to 0."""
SMALLEST: Final = 1e-12
LARGEST: Final = 1e-3
"""Releases: 1e-12 (BERT) to 1e-5."""


def size(view: View, _serving: Serving) -> Iterator[Finding]:
    """An epsilon that guards against nothing, or that changes the result."""
    for name in NAMES:
        value = view.text.get(name)
        if value is None:
            continue
        number = view.number(name)
        if number is None or number <= 0:
            yield error(
                view, "norm-epsilon",
                f"{view.named(name)} is {shown(value)}: a row of zeros would be divided by 0",
                "Releases have 1e-6 or 1e-5.",
            )  # fmt: skip
        elif number > LARGEST or number < SMALLEST:
            yield warning(
                view, "norm-epsilon-size",
                f"{view.named(name)} is {number:g}; releases have {SMALLEST:g} to 1e-5: "
                + (
                    "it is of the size of the variance itself, and damps every layer"
                    if number > LARGEST
                    else "below FP32's precision beside any real variance"
                ),
                "Take it from the model's own release.",
            )  # fmt: skip
        elif number <= SMALLEST_FLOAT16 / 2 and view.dtype in {"float16", "half"}:
            yield warning(
                view, "norm-epsilon-float16",
                f"{view.named(name)} {number:g} is 0 in FP16, whose smallest number is "
                f"{SMALLEST_FLOAT16:.2g}; vLLM's and transformers' norms compute in FP32 and keep "
                f"it, other kernels and exports may not",
                "Serve in BF16, or make sure that the norm runs in FP32.",
            )  # fmt: skip


def names(view: View, _serving: Serving) -> Iterator[Finding]:
    """The type reads one name; another one in the file counts for nothing."""
    default = RMS_EPSILONS.get(view.layout)
    others = [name for name in NAMES[1:] if view.text.get(name) is not None]
    if default is not None and others and view.text.get("rms_norm_eps") is None:
        value = view.number(others[0])
        yield warning(
            view, "norm-epsilon-name",
            f"{view.named(others[0])} is not what {view.layout} reads: rms_norm_eps is missing and "
            f"counts as {default:g}" + ("" if value is None else f" instead of {value:g}"),
            "Rename it to rms_norm_eps.",
        )  # fmt: skip
    told = {name: view.number(name) for name in NAMES if view.number(name) is not None}
    if len(set(told.values())) > 1:
        yield warning(
            view, "norm-epsilon-twice",
            "the file has " + ", ".join(f"{name} {value:g}" for name, value in told.items())
            + ": only one of them counts",
            "Keep the one that the type reads.",
        )  # fmt: skip


RULES: Final = (size, names)
