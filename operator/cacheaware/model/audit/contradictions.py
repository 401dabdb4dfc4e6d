"""A file that contradicts itself, its architecture, or the release whose outline it has."""

from collections.abc import Iterator
from typing import Any, Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.families import ARCHITECTURES, RELEASES, Release
from cacheaware.model.audit.view import Serving, View, error, info, warning
from cacheaware_sidecar.kv.errors import shown
from cacheaware_sidecar.kv.families import is_covered

COUNTS: Final = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
    "max_position_embeddings", "head_dim", "moe_intermediate_size", "num_experts",
    "n_routed_experts", "num_local_experts",
)  # fmt: skip
"""Fields that are a count or null in every release."""
TWICE: Final = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
LLAMA3_VOCABULARY: Final = 128_256


def kinds(view: View, _serving: Serving) -> Iterator[Finding]:
    """Counts are whole numbers above 0."""
    for name in COUNTS:
        value = view.text.get(name)
        absent = name == "head_dim" and value == 0 and not isinstance(value, bool)
        if value is not None and not absent and not _is_count(value):
            yield error(
                view, "field-type",
                f"{view.named(name)} is {shown(value)}: allowed are whole numbers above 0",
                "Write a number, without quotes.",
            )  # fmt: skip


def _is_count(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value)  # one entry per layer
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def types(view: View, _serving: Serving) -> Iterator[Finding]:
    """`model_type` picks the configuration class, `architectures` the model class."""
    given = view.whole.get("architectures")
    names = [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
    kind = view.model.model_type
    if not kind:
        yield info(
            view, "model-type-missing",
            "model_type is missing: transformers can't tell which configuration class to use",
            "Add it.",
        )  # fmt: skip
    if not names:
        yield info(
            view, "architectures-missing",
            "architectures is missing: engines that pick the model class by it don't know which",
            'Add it, such as ["LlamaForCausalLM"].',
        )  # fmt: skip
    for name in names:
        expected = ARCHITECTURES.get(name)
        if kind and expected and kind not in expected:
            yield warning(
                view, "architecture-type",
                f"architectures names {name}, model_type is {shown(kind)}: transformers reads "
                f"the file as that, vLLM runs {name}",
                f"{name} belongs to {' or '.join(sorted(expected))}.",
            )  # fmt: skip


def nothing(view: View, _serving: Serving) -> Iterator[Finding]:
    """Without a known type and without a size there is nothing that could be judged."""
    known = is_covered(view.layout) or (view.sized and view.sized.unknown_reason)
    if not known and not (view.layers or view.hidden or view.heads):
        kind = f"model_type {shown(view.layout)} is not known" if view.layout else "no model_type"
        yield error(
            view, "no-model",
            f"{kind}, and neither layers, hidden size nor heads are there: nothing can be checked",
            "Give the config.json that lies beside the weights.",
        )  # fmt: skip


def nested(view: View, _serving: Serving) -> Iterator[Finding]:
    """A multimodal file may repeat what its text part says, and then must agree."""
    if view.text is view.whole:
        return
    for name in TWICE:
        inner, outer = view.text.get(name), view.whole.get(name)
        if inner is not None and outer is not None and inner != outer:
            yield warning(
                view, "nested-differs",
                f"{name} is {shown(outer)} at the top, {view.named(name)} is {shown(inner)}: "
                f"engines read the text part, other tools the top",
                "Keep the one in the text part.",
            )  # fmt: skip


def release(view: View, _serving: Serving) -> Iterator[Finding]:
    """Of a release's type, hidden size, layers and vocabulary, but of another shape."""
    outline = (view.layout, view.hidden, view.layers, view.vocabulary)
    for known in RELEASES:
        if outline == (known.layout, known.hidden, known.layers, known.vocabulary):
            yield from _against(view, known)


def _against(view: View, known: Release) -> Iterator[Finding]:
    told = {name: view.integer(name) for name in known.values if view.integer(name) is not None}
    wrong = [name for name, value in told.items() if value != known.values[name]]
    if wrong and len(wrong) < len(told):
        differences = ", ".join(f"{name} {told[name]} (not {known.values[name]})" for name in wrong)
        yield warning(
            view, "release-differs",
            f"hidden size, layers and vocabulary are those of {known.name}, but {differences}: its "
            f"weights would not load",
            f"If it is {known.name} or a fine-tune of it, take its values.",
        )  # fmt: skip


def llama3(view: View, _serving: Serving) -> Iterator[Finding]:
    """Llama 3's vocabulary with another base, or its long context without the scaling."""
    if view.layout != "llama" or view.vocabulary != LLAMA3_VOCABULARY:
        return
    theta, longest = view.number("rope_theta"), view.positions
    scaled = view.text.get("rope_scaling") or view.text.get("rope_parameters")
    if theta is not None and theta < 500_000:
        yield warning(
            view, "llama3-theta",
            f"the vocabulary is Llama 3's, rope_theta is {theta:,.0f} (not 500,000)",
            "Set rope_theta to 500000.",
        )  # fmt: skip
    if theta == 500_000 and longest and longest > 8_192 and not scaled:
        yield warning(
            view, "llama3-scaling",
            f"Llama 3 was trained to 8,192 positions; {longest:,} without rope_scaling is neither "
            f"Llama 3 nor 3.1",
            "Take rope_scaling (llama3, factor 8 or 32) from the release, or set 8192.",
        )  # fmt: skip


def layout(view: View, _serving: Serving) -> Iterator[Finding]:
    """What can't be sized: an architecture that nobody taught us, or a layout of its own."""
    reason = view.sized.unknown_reason if view.sized else None
    if view.layout and not is_covered(view.layout) and not reason:
        yield warning(
            view, "architecture-unknown",
            f"model_type {shown(view.layout)} is not known: it is judged by its fields, as plain "
            f"attention",
            "Compare with `cacheaware model pages`, and with the engine's own log.",
        )  # fmt: skip
    elif reason:
        yield info(
            view, "layout-unsized",
            f"the KV cache of model_type {shown(view.layout)} can't be sized: {reason}",
            "Take the capacity that the engine reports.",
        )  # fmt: skip


RULES: Final = (kinds, types, nothing, nested, release, llama3, layout)
