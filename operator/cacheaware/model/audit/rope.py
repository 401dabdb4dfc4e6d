"""Rotary positions: the base, the scaling, and whether both fit the length.

Sources: transformers 5.24 `modeling_rope_utils.py` (keys, validation), vLLM 0.32 `get_rope` and
`_get_and_verify_max_len`. For llama3 scaling factor x original length is *not* the length
(Llama 3.1: 8 x 8,192 serves 131,072): there is no rule for that.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.families import THETAS
from cacheaware.model.audit.view import Serving, View, error, info, number_in, warning
from cacheaware_sidecar.kv.errors import shown

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": (),
    "axial": (),
    "linear": ("factor",),
    "dynamic": (),
    "ntk": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
    "su": ("short_factor", "long_factor"),
    "mrope": ("mrope_section",),
    "bailing_mrope": ("mrope_section",),
    "proportional": (),
    "deepseek_yarn": ("factor",),
    "deepseek_llama_scaling": ("factor",),
    "mllama4": (),
    "openpangu": (),
}
"""Types that transformers or vLLM compute, with the keys without which they fail."""
WITH_ORIGINAL: Final = frozenset({"yarn", "llama3", "longrope", "su", "deepseek_yarn"})
LARGEST_FLOAT32: Final = 3.4028235e38


@dataclass(frozen=True, slots=True)
class RopeParameters:
    """One set of rotary parameters.

    Attributes:
        field: Where they stand in the file.
        kind: The scaling type.
        values: The section; empty where the file has none.
        theta: The base.
        rotary: Rotated values of one head.
    """

    field: str
    kind: str
    values: Mapping[str, Any]
    theta: float | None
    rotary: int | None

    def number(self, name: str) -> float | None:
        """A field of the section, as a number."""
        return number_in(self.values, name)


def ropes(view: View) -> list[RopeParameters]:
    """The file's rotary parameters: one set, or one for each kind of layer."""
    if not view.has_rope:
        return []
    sections = [
        (view.named(name), values)
        for name in ("rope_parameters", "rope_scaling")
        if isinstance(values := view.text.get(name), Mapping) and values
    ][:1]
    nested = [
        (f"{field}.{ascii(kind)[1:-1][:40]}", inner)
        for field, values in sections
        for kind, inner in values.items()
        if isinstance(inner, Mapping)
    ]
    return [_rope(view, field, values) for field, values in nested or sections] or [
        _rope(view, view.named("rope_theta"), {})
    ]


def _rope(view: View, field: str, values: Mapping[str, Any]) -> RopeParameters:
    kind = values.get("rope_type", values.get("type", "default"))
    theta = number_in(values, "rope_theta")
    if theta is None:
        theta = view.number("rope_theta", "rotary_emb_base", "rope_embedding_base")
    return RopeParameters(field, str(kind), values, theta, rotary_dim(view, values))


def rotary_dim(view: View, values: Mapping[str, Any]) -> int | None:
    """Rotated values of one head: rotary_dim, qk_rope_head_dim, or a share of head_dim."""
    if told := view.integer("rotary_dim", "qk_rope_head_dim"):
        return told
    share = number_in(values, "partial_rotary_factor")
    share = view.number("partial_rotary_factor", "rotary_pct") if share is None else share
    size = view.head_dim
    if share is not None and not 0 < share <= 1:
        return None  # another rule tells
    if size is None or view.layout in {"chatglm", "glm", "glm4", "gemma4", "phi-msft"}:
        return None  # the type's own share, or another head size for some layers
    return int(size * (1.0 if share is None else share))


def kinds(view: View, _serving: Serving) -> Iterator[Finding]:
    """The type is one that somebody computes, with its keys."""
    for rope in ropes(view):
        if rope.kind not in KEYS:
            yield error(
                view, "rope-type",
                f"{rope.field} has the type {shown(rope.kind)}: allowed are {', '.join(KEYS)}",
                "Take rope_type from the model's own release.",
            )  # fmt: skip
            continue
        missing = [key for key in KEYS[rope.kind] if rope.values.get(key) is None]
        if rope.kind == "dynamic" and not {"factor", "alpha"} & rope.values.keys():
            missing = ["factor"]
        if missing:
            yield error(
                view, "rope-keys",
                f"{rope.field} of type {rope.kind} lacks {', '.join(missing)}: the engine does not "
                f"start",
                "Add them from the model's own release.",
            )  # fmt: skip


def two_types(view: View, _serving: Serving) -> Iterator[Finding]:
    """`type` is the old name of `rope_type`; the base may stand in two places."""
    for rope in ropes(view):
        old, new = rope.values.get("type"), rope.values.get("rope_type")
        if old is not None and new is not None and old != new:
            yield warning(
                view, "rope-two-types",
                f"{rope.field} has type {shown(old)} and rope_type {shown(new)}: loaders "
                f"disagree on which counts",
                "Keep rope_type.",
            )  # fmt: skip
        inner, outer = rope.number("rope_theta"), view.number("rope_theta")
        flat = rope.field.endswith(("rope_parameters", "rope_scaling"))
        if flat and inner and outer and inner != outer:
            yield warning(
                view, "rope-two-thetas",
                f"rope_theta is {outer:,.0f} beside {rope.field}, and {inner:,.0f} in it",
                "Keep one: positions of the other are wrong from the first token on.",
            )  # fmt: skip


def factors(view: View, _serving: Serving) -> Iterator[Finding]:
    """A factor below 1 shortens the context; one that is no number computes nothing."""
    for rope in ropes(view):
        value = rope.values.get("factor")
        if value is None:
            continue
        factor = rope.number("factor")
        if factor is None or factor < 1:
            yield error(
                view, "rope-factor",
                f"{rope.field}.factor is {shown(value)}: allowed are numbers of at least 1",
                "It is the new length over the original one.",
            )  # fmt: skip


def bands(view: View, _serving: Serving) -> Iterator[Finding]:
    """llama3 and YaRN split the frequencies into bands; equal bounds are fine (Llama 4)."""
    pairs = (("low_freq_factor", "high_freq_factor"), ("beta_slow", "beta_fast"))
    for rope in ropes(view):
        for below, above in pairs:
            low, high = rope.number(below), rope.number(above)
            if low is not None and high is not None and low > high:
                yield error(
                    view, "rope-bands",
                    f"{rope.field}: {below} {low:g} is above {above} {high:g}, which turns the "
                    f"bands around: high frequencies are stretched, low ones are not",
                    "Swap them, or take the release's values.",
                )  # fmt: skip


def original_length(view: View, _serving: Serving) -> Iterator[Finding]:
    """Scaling that starts from a trained length needs to know it."""
    longest = view.positions
    for rope in ropes(view):
        if rope.kind not in WITH_ORIGINAL or longest is None:
            continue
        original = rope.number("original_max_position_embeddings")
        original = original or view.number("original_max_position_embeddings")
        if original is None:
            yield warning(
                view, "rope-original-missing",
                f"{rope.field} of type {rope.kind} does not tell the original length: "
                f"transformers and vLLM take max_position_embeddings ({longest:,}) for it",
                "Add original_max_position_embeddings, the length before scaling.",
            )  # fmt: skip
        elif original > longest or (original == longest and rope.kind == "llama3"):
            yield warning(
                view, "rope-original-length",
                f"{rope.field}: the original length {original:,.0f} is no shorter than the "
                f"{longest:,} positions: the scaling slows positions that need none",
                "Raise max_position_embeddings, or take the scaling out.",
            )  # fmt: skip
        elif rope.kind in {"yarn", "deepseek_yarn"}:
            yield from _yarn_length(view, rope, original, longest)


def _yarn_length(
    view: View, rope: RopeParameters, original: float, longest: int
) -> Iterator[Finding]:
    """For YaRN factor x original length is the new length (transformers checks it too)."""
    factor = rope.number("factor")
    if factor is None or factor < 1 or original <= 0 or abs(original * factor - longest) < 1:
        return
    reached = original * factor
    beyond = (
        "positions beyond it are extrapolated, which YaRN was not made for"
        if longest > reached
        else "short texts pay for a stretch that no admitted prompt uses"
    )
    yield warning(
        view, "rope-yarn-length",
        f"{rope.field}: {original:,.0f} x {factor:g} = {reached:,.0f} positions, but "
        f"max_position_embeddings is {longest:,}; {beyond}",
        f"Set factor to {longest / original:g}, or max_position_embeddings to {reached:,.0f}.",
    )  # fmt: skip


def lists(view: View, _serving: Serving) -> Iterator[Finding]:
    """One factor for each pair of a head; sections that add up to the pairs."""
    for rope in ropes(view):
        pairs = rope.rotary // 2 if rope.rotary else None
        if pairs is None:
            continue
        for name in ("short_factor", "long_factor"):
            values = rope.values.get(name)
            if isinstance(values, list) and len(values) != pairs:
                yield error(
                    view, "rope-longrope-factors",
                    f"{rope.field}.{name} has {len(values)} entries for {pairs} pairs of "
                    f"{rope.rotary} rotated values",
                    f"{pairs} are needed.",
                )  # fmt: skip
        section = rope.values.get("mrope_section")
        if not isinstance(section, list) or not all(isinstance(one, int) for one in section):
            continue
        if sum(section) != pairs:
            yield error(
                view, "rope-mrope-section",
                f"{rope.field}.mrope_section {section} adds up to {sum(section)}, the head has "
                f"{pairs} pairs",
                f"The sections for time, height and width must add up to {pairs}.",
            )  # fmt: skip


def even(view: View, _serving: Serving) -> Iterator[Finding]:
    """Values are rotated in pairs, and no more of them than a head has."""
    share = view.number("partial_rotary_factor", "rotary_pct")
    for rope in ropes(view):
        told = rope.number("partial_rotary_factor")
        part = share if told is None else told
        if part is not None and not 0 < part <= 1:
            yield error(
                view, "rope-share",
                f"partial_rotary_factor is {part:g}: allowed is above 0, up to 1",
                "It is the share of a head's values that is rotated.",
            )  # fmt: skip
        elif rope.rotary and rope.rotary % 2 and (rope.values or rope.theta):
            yield error(
                view, "rope-odd",
                f"{rope.rotary} values of a head of {view.head_dim} would be rotated in pairs: an "
                f"even number is needed",
                "Check head_dim and partial_rotary_factor.",
            )  # fmt: skip


def base(view: View, _serving: Serving) -> Iterator[Finding]:
    """A base that collapses or overflows, and one that no release of the family has."""
    for rope in ropes(view):
        raw = rope.values.get("rope_theta", view.text.get("rope_theta"))
        theta = rope.theta
        if theta is None and raw is None:
            continue
        if theta is None or not 1 < theta <= LARGEST_FLOAT32:
            yield error(
                view, "rope-theta",
                f"rope_theta is {shown(raw)}: at 1 or below all pairs turn alike or faster with "
                f"each, above 3.4e38 FP32 overflows; both make positions indistinguishable",
                "Take it from the model's own release.",
            )  # fmt: skip
            continue
        known = THETAS.get(view.layout)
        if known and not known[0] <= theta <= known[1] and not rope.field.endswith("_attention"):
            yield warning(
                view, "rope-theta-family",
                f"rope_theta is {theta:,.0f}; releases of {view.layout} have {known[0]:,.0f} to "
                f"{known[1]:,.0f}",
                "Compare with the release: a wrong base spoils every token, most of all far ones.",
            )  # fmt: skip


def reach(view: View, _serving: Serving) -> Iterator[Finding]:
    """Without scaling, the slowest pair should not come round within the length.

    Its wavelength is 2 pi theta^((d - 2) / d) positions.
    """
    longest = _farthest(view)
    for rope in ropes(view):
        theta, size = rope.theta, rope.rotary
        if rope.kind != "default" or not theta or theta <= 1 or not size or size < 4 or not longest:
            continue
        wavelength = 2 * math.pi * theta ** ((size - 2) / size)
        if wavelength < longest and not rope.field.endswith("sliding_attention"):
            yield warning(
                view, "rope-reach",
                f"rope_theta {theta:,.0f} with {size} rotated values comes round after "
                f"{wavelength:,.0f} positions, and max_position_embeddings is {longest:,} without "
                f"any scaling: far positions look like near ones",
                "Take base, scaling and length from one release, or lower the length.",
            )  # fmt: skip


def _farthest(view: View) -> int | None:
    """The greatest distance between two tokens that attend: a window bounds it."""
    layers = view.sized.layer_list if view.sized else ()
    windows = [one.window for one in layers if one.counts_tokens]
    if not windows:
        return None
    if all(windows) and view.positions:
        return min(view.positions, max(window or 0 for window in windows))
    return view.positions


def missing(view: View, _serving: Serving) -> Iterator[Finding]:
    """No base in the file: the class's own value counts."""
    if view.has_rope and view.layout in THETAS and all(one.theta is None for one in ropes(view)):
        yield info(
            view, "rope-theta-missing",
            f"rope_theta is missing: the default of the class {view.layout} counts, which need not "
            f"be this model's",
            "Write it into the file.",
        )  # fmt: skip


RULES: Final = (
    kinds, two_types, factors, bands, original_length, lists, even, base, reach, missing,
)  # fmt: skip
