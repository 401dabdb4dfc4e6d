"""The feed-forward part: its width, its activation, and how it is cut over ranks.

A gated one (SwiGLU, GeGLU) has three matrices, a plain one two: at the same parameters the gated
width is 8/3 of the hidden size where the plain one is 4. Neither is a law (Llama 3: 3.5, Qwen2.5:
5.3, Gemma: 8), so only what no release comes near is told.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.families import SILU_ONLY
from cacheaware.model.audit.quantization import method_of
from cacheaware.model.audit.view import (
    EXPERT_SIZES,
    WIDTHS,
    Serving,
    View,
    error,
    number_in,
    warning,
)
from cacheaware_sidecar.kv.errors import shown

ACTIVATIONS: Final = ("hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act")
KNOWN_ACTIVATIONS: Final = frozenset(
    ["fatrelu", "geglu", "gegelu", "gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new",
     "gelu_python", "gelu_python_tanh", "gelu_pytorch_tanh", "hardswish", "laplace", "leaky_relu",
     "linear", "mish", "prelu", "quick_gelu", "relu", "relu2", "relu6", "sigmoid", "silu", "situ",
     "sqrtsoftplus", "swiglu", "swigluoai", "swish", "tanh", "xielu"]
)  # fmt: skip
"""transformers' `ACT2FN`, vLLM's registries, and names that types read themselves."""
PLAIN: Final = frozenset(
    ["bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "mpt", "nemotron",
     "nemotron_h", "opt", "phi", "phi-msft", "starcoder2"]
)  # fmt: skip
"""Types with two matrices instead of three."""
GATED_RANGE: Final = (1.0, 9.0)
PLAIN_RANGE: Final = (2.0, 9.0)
"""Width over hidden size; releases: gated 2.25 (MiniCPM) to 8 (Gemma), plain 4."""


def ratio(view: View, _serving: Serving) -> Iterator[Finding]:
    """The width against the hidden size, by gate type; experts are narrow by design."""
    width, hidden = view.integer(*WIDTHS), view.hidden
    if not width or not hidden or view.experts or view.text.get("block_configs"):
        return
    gated = view.layout not in PLAIN
    low, high = GATED_RANGE if gated else PLAIN_RANGE
    if not low <= width / hidden <= high:
        kind = "gated (three matrices)" if gated else "plain (two matrices)"
        yield warning(
            view, "ffn-ratio",
            f"width {width:,} is {width / hidden:.2f} x hidden size {hidden:,}; releases with a "
            f"{kind} feed-forward part have {low:g} to {high:g}",
            "Compare with the weights' shapes.",
        )  # fmt: skip


def activation(view: View, serving: Serving) -> Iterator[Finding]:
    """An activation that exists, and that the type's class accepts."""
    name = view.first(*ACTIVATIONS)
    value = view.text.get(name) if name else None
    if name is None or not isinstance(value, str):
        return
    if value not in KNOWN_ACTIVATIONS:
        yield warning(
            view, "activation-unknown",
            f"{view.named(name)} is {shown(value)}, which neither transformers nor vLLM lists",
            "Gated models mostly have silu, older ones gelu or relu.",
        )  # fmt: skip
    elif serving.vllm and view.layout in SILU_ONLY and value not in {"silu", "swish"}:
        yield error(
            view, "activation-refused",
            f"{view.named(name)} is {shown(value)}: vLLM's class for {view.layout} takes "
            f"silu alone",
            "Take it from the release; if it is right, serve with transformers.",
        )  # fmt: skip


def tensor_parallel(view: View, serving: Serving) -> Iterator[Finding]:
    """Gate and up lie on one rank, cut alike: the width must be a multiple of the ranks."""
    for name, width, _ in _split(view, serving):
        if width % serving.tensor:
            yield error(
                view, "tp-ffn",
                f"{view.named(name)} {width:,} is no multiple of {serving.tensor} tensor ranks: "
                f"gate and up are cut alike, so that each rank holds the same columns of both",
                "Choose --tp from its divisors, or expert parallelism for experts.",
            )  # fmt: skip


def blocks(view: View, serving: Serving) -> Iterator[Finding]:
    """A rank's part must hold whole quantisation blocks or groups."""
    step = _step(view.quantization)
    if step is None or serving.tensor == 1 or not serving.vllm:
        return
    for name, width, is_expert in _split(view, serving):
        part = width // serving.tensor
        if width % serving.tensor == 0 and part % step:
            tell = warning if is_expert else error
            unless = ", unless the version cuts the scales of experts finer" if is_expert else ""
            fits = [n for n in (1, 2, 4, 8, 16) if width % n == 0 and width // n % step == 0]
            yield tell(
                view, "tp-quantization-block",
                f"{view.named(name)} {width:,} on {serving.tensor} ranks is {part:,} each, no "
                f"multiple of the weights' blocks of {step}: vLLM refuses it{unless}",
                f"Choose --tp from {', '.join(map(str, fits)) or '1'}, or expert parallelism.",
            )  # fmt: skip


def _split(view: View, serving: Serving) -> list[tuple[str, int, bool]]:
    """Widths that are cut over the tensor ranks: field, width, whether of routed experts."""
    own = view.first(*EXPERT_SIZES) if view.experts else None
    plain = view.first(*WIDTHS)
    of_experts = own or (plain if view.experts else None)
    dense = plain if of_experts != plain and _has_dense_layers(view) else None
    shared = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
    names = [name for name in (dense, view.first("intermediate_size_mlp", *shared)) if name]
    found = [(name, view.integer(name), False) for name in names]
    if of_experts and serving.experts == 1:
        found.append((of_experts, view.integer(of_experts), True))
    return [(name, width, routed) for name, width, routed in found if width]


def _has_dense_layers(view: View) -> bool:
    return view.experts is None or bool(
        view.integer("first_k_dense_replace")
        or view.text.get("mlp_only_layers")
        or (view.integer("decoder_sparse_step") or 1) > 1
    )


def _step(section: Mapping[str, Any] | None) -> int | None:
    """Columns of the weights that share a scale; None where one does not matter here."""
    if section is None:
        return None
    block = section.get("weight_block_size")
    if isinstance(block, list) and len(block) == 2 and all(isinstance(n, int) for n in block):
        return max(block) or None
    if method_of(section) in {"gptq", "awq"}:
        size = number_in(section, "group_size")
        return int(size) if size and size > 0 else None
    return None


RULES: Final = (ratio, activation, tensor_parallel, blocks)
