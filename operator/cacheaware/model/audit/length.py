"""The longest request against the memory that is left for its KV cache.

Every figure is a lower bound: weights as small as their format allows, no activations, no graphs.
What does not fit here does not start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.architecture import UnknownArchitectureError, architecture
from cacheaware.model.audit.heads import splits
from cacheaware.model.audit.quantization import BITS, FP8, arithmetic_of, method_of
from cacheaware.model.audit.view import Serving, View, error, info, number_in
from cacheaware.model.modules import Role
from cacheaware.model.parameters import count_parameters
from cacheaware_sidecar.kv import ConfigError, Geometry

GIB: Final = 1024**3
UNSCALED: Final = frozenset({Role.EMBEDDING, Role.POSITIONS, Role.HEAD})
"""What quantisation mostly leaves in 16 bit."""
DIES: Final = {"MI250X": 2}
"""Cards that an engine sees as several GPUs, each with its share of the memory."""
FEW: Final = 2
LOSSY: Final = frozenset({"linear", "dynamic", "ntk"})


def told(view: View, serving: Serving) -> Iterator[Finding]:
    """A length in the file, and none beyond it asked for."""
    longest = view.positions
    if longest is None:
        yield info(
            view, "length-missing",
            "nothing tells the most positions: vLLM takes 2,048",
            "Add max_position_embeddings.",
        )  # fmt: skip
        return
    if view.told_positions is None:
        yield info(
            view, "length-missing",
            f"{view.named('max_position_embeddings')} is missing: the default of the class "
            f"{view.layout}, {longest:,}, counts, which need not be this model's",
            "Write it into the file.",
        )  # fmt: skip
    if serving.max_model_len and serving.max_model_len > longest * _stretch(view):
        yield error(
            view, "length-beyond",
            f"--max-model-len {serving.max_model_len:,} is beyond the {longest:,} positions of the "
            f"{'class' if view.told_positions is None else 'file'}: engines refuse it, and answers"
            " there would be noise",
            "Lower it, or take a release with the scaling for it.",
        )  # fmt: skip


def _stretch(view: View) -> float:
    """By what vLLM multiplies the length: the factor of the old scaling types alone."""
    section = view.text.get("rope_scaling") or view.text.get("rope_parameters")
    if not isinstance(section, dict) or "gemma3" in (view.model.model_type or ""):
        return 1.0
    kind = section.get("rope_type", section.get("type"))
    return max(1.0, number_in(section, "factor") or 1.0) if kind in LOSSY else 1.0


@dataclass(frozen=True, slots=True)
class Rank:
    """One GPU of the pod: in words, bytes that the engine may use of it, bytes of weights."""

    where: str
    usable: int
    weights: int
    share: float


def fits(view: View, serving: Serving) -> Iterator[Finding]:
    """Weights and one request of the greatest length, on each GPU."""
    sized, longest = view.at(serving.tensor), serving.max_model_len or view.positions
    if not serving.gpus or sized is None or longest is None:
        return
    weights = (least_weights(view) or 0) // max(serving.tensor, serving.experts)
    for gpu in serving.gpus:
        memory = gpu.memory_gib / DIES.get(gpu.name, 1) * GIB
        where = f"{serving.tensor} x {gpu.name}" if serving.tensor > 1 else gpu.name
        rank = Rank(where, max(1, int(memory * serving.utilization)), weights, serving.utilization)
        if rank.weights >= rank.usable:
            yield _too_heavy(view, serving, rank)
        else:
            yield from _too_long(view, sized, longest, rank)


def _too_heavy(view: View, serving: Serving, rank: Rank) -> Finding:
    needed = -(-rank.weights * max(serving.tensor, serving.experts) // rank.usable)
    return error(
        view, "weights-gpu",
        f"the weights take at least {_gib(rank.weights)}{_assumed(view)} on each of {rank.where}, "
        f"which has at most {_gib(rank.usable)} at {rank.share:.0%}",
        f"{_more(view, serving, needed)}, or smaller weights.",
    )  # fmt: skip


def _more(view: View, serving: Serving, needed: int) -> str:
    """The next number of ranks that the model can be split over."""
    if serving.experts > serving.tensor:
        return f"At least {needed} such GPUs are needed"
    for ranks in range(needed, (view.heads or 0) + 1):
        if splits(view, ranks):
            return f"At least {ranks} such GPUs are needed (--tp {ranks})"
    if view.heads is None:
        return f"At least {needed} such GPUs are needed"
    return (
        f"At least {needed} such GPUs are needed, more than tensor parallelism splits the model "
        f"over: pipeline stages on top"
    )


def _too_long(view: View, sized: Geometry, longest: int, rank: Rank) -> Iterator[Finding]:
    need, left = sized.bytes_per_request(longest), rank.usable - rank.weights
    if not need:
        return
    weights = "weights not counted"
    if rank.weights:
        weights = f"beside at least {_gib(rank.weights)} of weights{_assumed(view)}"
    if need > left:
        yield error(
            view, "length-kv",
            f"one request of {longest:,} tokens needs {_gib(need)} of KV cache on each of "
            f"{rank.where}, and at most {_gib(left)} are left ({weights}): the engine does not "
            f"start",
            f"Set --max-model-len to less than {_longest(sized, left, longest):,}, halve the cache "
            f"with an 8-bit KV dtype, or use more ranks.",
        )  # fmt: skip
    elif need * FEW > left:
        yield info(
            view, "length-few",
            f"{rank.where} holds at most {left / need:.1f} requests of {longest:,} tokens "
            f"({_gib(need)} each, {weights})",
            "Lower --max-model-len if no request is that long; the cache is shared by length used.",
        )  # fmt: skip


def least_weights(view: View) -> int | None:
    """Bytes of the weights at least; None where the modules aren't known.

    16 bit (FP32 is served so), 8 for FP8 and int8, 4 for what packs denser.
    """
    try:
        counted = count_parameters(architecture(view.whole))
    except (UnknownArchitectureError, ConfigError):
        return None
    kept = sum(count for role, count in counted.by_role.items() if role in UNSCALED)
    return kept * 2 + (counted.total - kept) * _least_bits(view) // 8


def _assumed(view: View) -> str:
    return "" if view.quantization else " (in 16 bit: no quantization_config)"


def _least_bits(view: View) -> int:
    section = view.quantization
    if section is None:
        return 16
    form = arithmetic_of(section)
    if form is FP8 and "mixed" not in str(section.get("quant_algo")).lower():
        return 8
    bits = number_in(section, "bits")
    known = BITS.get(method_of(section) or "", ())
    return int(bits) if bits in known else 4


def _longest(sized: Geometry, left: int, above: int) -> int:
    """The first length whose cache no longer fits; one request grows with its length."""
    low, high = 0, above
    while high - low > 1:
        middle = (low + high) // 2
        if (sized.bytes_per_request(middle) or 0) > left:
            high = middle
        else:
            low = middle
    return high


def _gib(number: int) -> str:
    return f"{number / GIB:.2f} GiB"


RULES: Final = (told, fits)
