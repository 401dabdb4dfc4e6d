"""What of a canary's pass would not fit into FP16 or BF16: epsilons, variances, activations.

The model runs in float32; what its numbers would become in fewer bits is worked out, not guessed.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.model.baselines import Measured, drifts
from cacheaware.model.probes.loaded import Canary
from cacheaware.model.probes.norms import is_norm

NAMED = 5
FORMATS = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Activation:
    """What came out of a module.

    Attributes:
        name: The module.
        largest: The largest absolute value.
        over: Share of values that become Inf, by format.
        under: Share of values above zero that become zero, by format.
    """

    name: str
    largest: float
    over: dict[str, float]
    under: dict[str, float]


@dataclass(frozen=True, slots=True)
class Variance:
    """What a norm divides by.

    Attributes:
        name: The norm.
        epsilon: What it adds to the variance, None where it can't be read.
        smallest: The smallest mean square of a row on the canary.
        largest: The largest.
        squares_over: Share of squares that become Inf in FP16.
        epsilon_lost: The formats in which epsilon becomes zero.
    """

    name: str
    epsilon: float | None
    smallest: float
    largest: float
    squares_over: float
    epsilon_lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Precision:
    """All modules of a pass."""

    activations: tuple[Activation, ...]
    variances: tuple[Variance, ...]
    canary: str
    length: int

    def measured(self) -> Measured:
        """The numbers that a baseline keeps."""
        values = {f"{one.name} largest": one.largest for one in self.activations}
        for one in self.variances:
            values[f"{one.name} smallest variance"] = one.smallest
            values[f"{one.name} largest variance"] = one.largest
        return Measured("precision", {"canary": self.canary, "tokens": self.length}, values)


def probe(model: Any, canary: Canary) -> Precision:
    """Run the canary and look at every norm's input and every matrix product's output."""
    activations: list[Activation] = []
    variances: list[Variance] = []
    with ExitStack() as hooks, torch.no_grad():
        for hook in hooked(model, activations, variances):
            hooks.callback(hook.remove)
        model(input_ids=canary.ids, use_cache=False, logits_to_keep=1)
    return Precision(tuple(activations), tuple(variances), canary.digest, canary.length)


def hooked(model: Any, activations: list[Activation], variances: list[Variance]) -> Iterator[Any]:
    """Hooks on the modules that are looked at."""

    def outgoing(name: str) -> Any:
        return lambda _module, _given, out: activations.append(activation(name, out))

    def incoming(name: str) -> Any:
        return lambda module, given: variances.append(variance(name, module, given[0]))

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            yield module.register_forward_hook(outgoing(name))
        elif is_norm(name, module):
            yield module.register_forward_pre_hook(incoming(name))


def activation(name: str, out: Any) -> Activation:
    """What a module's output becomes in fewer bits."""
    values = out.detach().float()
    over, under = {}, {}
    for word, dtype in FORMATS.items():
        narrow = values.to(dtype)
        over[word] = share(~narrow.isfinite())
        under[word] = share((values != 0) & (narrow == 0))
    return Activation(name, float(values.abs().max()), over, under)


def variance(name: str, module: Any, given: Any) -> Variance:
    """What a norm's variance and epsilon become in fewer bits."""
    values = given.detach().float()
    squares = values.square()
    means = squares.mean(dim=-1)
    epsilon = next(
        (getattr(module, word) for word in ("variance_epsilon", "eps") if hasattr(module, word)),
        None,
    )
    smallest = float(means.min())
    return Variance(
        name,
        epsilon,
        smallest,
        float(means.max()),
        share(squares.to(torch.float16).isinf()),
        tuple(word for word in FORMATS if epsilon is not None and lost(epsilon, word)),
    )


def lost(epsilon: float, word: str) -> bool:
    """Whether epsilon is zero in a format, so that nothing guards the root of a small variance."""
    narrow = torch.tensor([epsilon], dtype=torch.float64).to(FORMATS[word])
    return bool(narrow[0] == 0)


def share(mask: Any) -> float:
    """Share of a mask that holds."""
    return float(mask.float().mean())


def said(found: Precision, healthy: Measured | None, tolerance: float) -> list[Finding]:
    """What doesn't fit, and what moved from a healthy run; drift is relative here.

    Raises:
        BaselineError: the healthy run was measured in another way.
    """
    told = []
    for word, dtype in FORMATS.items():
        over = [one for one in found.activations if one.over[word]]
        if over:
            worst = max(over, key=lambda one: one.largest)
            text = (
                f"{len(over)} modules overflow in {word}: {worst.name} reaches"
                f" {worst.largest:.4g}, the largest {word} is {torch.finfo(dtype).max:.4g}"
            )
            fix = "serve it in bfloat16" if word == "float16" else "look for damaged weights"
            told.append(Finding("probe-overflow", Severity.ERROR, worst.name, text, fix))
        lost_in = [one for one in found.variances if word in one.epsilon_lost]
        if lost_in:
            text = (
                f"epsilon {lost_in[0].epsilon:g} of {len(lost_in)} norms is zero in {word}; the"
                f" smallest variance on the canary is {min(one.smallest for one in lost_in):.3g}"
            )
            fix = f"harmless where the norm is computed in float32, as vLLM does; else not {word}"
            told.append(Finding("probe-epsilon", Severity.WARNING, lost_in[0].name, text, fix))
    squares = [one for one in found.variances if one.squares_over]
    if squares:
        worst_norm = max(squares, key=lambda one: one.largest)
        text = (
            f"squares overflow in float16 before {len(squares)} norms, such as {worst_norm.name}"
            f" with a mean square of {worst_norm.largest:.3g}: a norm there must run in float32"
        )
        told.append(Finding("probe-squares", Severity.INFO, worst_norm.name, text, ""))
    told += [
        Finding(
            "probe-drift", Severity.ERROR, one.name,
            f"{one.name} moved from {one.healthy:.4g} to {one.now:.4g}",
            "compare the checkpoint with its source",
        )
        for one in (drifts(healthy, found.measured()) if healthy else [])[:NAMED]
        if one.healthy is not None and one.now is not None
        and one.size > tolerance * max(abs(one.healthy), 1e-30)
    ]  # fmt: skip
    return told
