"""Gains of the norms and the logits of the canary, against a healthy model's.

LayerNorm and RMSNorm keep no running mean or variance: what may drift is their gains, and what
comes out of the model.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.model.baselines import Measured, drifts
from cacheaware.model.probes.loaded import Canary

OUTLIER = 8.0
"""Times the root mean square of a norm's gains; massive gains of some channels lie far above."""
NAMED = 5
LIKELIEST = "token"
LOGPROBS = 8
"""Positions of the canary whose likeliest token is kept."""


@dataclass(frozen=True, slots=True)
class Norm:
    """Gains of one norm."""

    name: str
    mean: float
    rms: float
    largest: float
    outliers: int
    finite: bool


@dataclass(frozen=True, slots=True)
class Norms:
    """All norms, and numbers of the logits."""

    norms: tuple[Norm, ...]
    logits: dict[str, float]
    canary: str
    length: int

    def measured(self) -> Measured:
        """The numbers that a baseline keeps."""
        values = dict(self.logits)
        for one in self.norms:
            values |= {f"{one.name} {field}": getattr(one, field) for field in ("mean", "rms")}
            values[f"{one.name} largest"] = one.largest
        return Measured("norms", {"canary": self.canary, "tokens": self.length}, values)


def is_norm(name: str, module: Any) -> bool:
    """Whether a module is one of the norms: it has gains in one dimension and says so."""
    weight = getattr(module, "weight", None)
    word = f"{type(module).__name__} {name.rsplit('.', 1)[-1]}".lower()
    return weight is not None and weight.dim() == 1 and ("norm" in word or "ln_" in word)


def probe(model: Any, canary: Canary) -> Norms:
    """Read the gains, run the canary."""
    found = tuple(
        norm_of(name, module.weight.detach().float())
        for name, module in model.named_modules()
        if is_norm(name, module)
    )
    with torch.no_grad():
        logits = model(input_ids=canary.ids, use_cache=False, logits_to_keep=LOGPROBS).logits[0]
    return Norms(found, logits_of(logits.float()), canary.digest, canary.length)


def norm_of(name: str, gains: Any) -> Norm:
    """The numbers of one norm's gains."""
    rms = float(gains.square().mean().sqrt())
    outliers = int((gains.abs() > OUTLIER * rms).sum()) if rms else 0
    largest = float(gains.abs().max())
    return Norm(name, float(gains.mean()), rms, largest, outliers, math.isfinite(rms))


def logits_of(logits: Any) -> dict[str, float]:
    """Numbers of the logits of the last positions: [positions, vocabulary]."""
    logprobs = logits.log_softmax(dim=-1)
    told = {"logits mean": float(logits.mean()), "logits deviation": float(logits.std())}
    best, tokens = logprobs.max(dim=-1)
    for at, (value, token) in enumerate(zip(best.tolist(), tokens.tolist(), strict=True)):
        told[f"logprob of position -{len(best) - at}"] = value
        told[f"{LIKELIEST} of position -{len(best) - at}"] = float(token)
    return told


def said(found: Norms, healthy: Measured | None, tolerance: float) -> list[Finding]:
    """What a run shows, against a healthy one where there is one.

    Raises:
        BaselineError: the healthy run was measured in another way.
    """
    broken = [one.name for one in found.norms if not one.finite]
    wrong = [name for name, one in found.logits.items() if not math.isfinite(one)]
    if broken or wrong:
        first = broken[0] if broken else wrong[0]
        text = f"{len(broken)} norms and {len(wrong)} numbers of the logits are no numbers"
        return [Finding("probe-nan", Severity.ERROR, first, text, f"look at {first}")]
    told = []
    loud = [one for one in found.norms if one.outliers]
    if loud:
        text = (
            f"{len(loud)} norms have gains above {OUTLIER:g} times their root mean square, such as"
            f" {loud[0].name} with {loud[0].largest:.3g}: usual in large models, and what 8-bit"
            " activations must spare"
        )
        told.append(Finding("probe-outliers", Severity.INFO, loud[0].name, text, ""))
    drifted = drifts(healthy, found.measured()) if healthy else []
    tokens = [one for one in drifted if one.name.startswith(LIKELIEST)]
    moved = [one for one in drifted if one.size > tolerance and one not in tokens]
    if tokens:
        text = f"the likeliest token is another one at {len(tokens)} of {LOGPROBS} positions"
        fix = "a change of one may be a tie; of several it is another model"
        level = Severity.WARNING if len(tokens) == 1 else Severity.ERROR
        told.append(Finding("probe-token", level, "logits", text, fix))
    if moved:
        names = ", ".join(f"{one.name} by {one.size:.3g}" for one in moved[:NAMED])
        text = f"{len(moved)} numbers moved by more than {tolerance:g}: {names}"
        fix = "compare the checkpoint with its source; gains first, logits follow"
        told.append(Finding("probe-drift", Severity.ERROR, moved[0].name, text, fix))
    return told
