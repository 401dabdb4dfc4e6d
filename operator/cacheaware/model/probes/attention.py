"""Entropy of attention, per layer and head, from a real forward pass.

The pass runs with SDPA as in service; a registered attention function sees queries and keys after
the rotary positions and works out entropies block by block, so that memory grows with the length,
not with its square (the scores of 32 heads at 16,384 tokens alone would take 32 GiB in float32).

An entropy is divided by the logarithm of the number of keys that the row may look at: 0 looks at
one key, 1 at all alike. What is healthy is the model's own matter: it is learned (`baselines`).
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.model.baselines import Drift, Measured, drifts
from cacheaware.model.probes.loaded import Canary, ProbeError

NAME = "cacheaware_probe"
BAND = 16
BLOCK = 128
SCORES = 1 << 19
"""Scores at once: long rows are taken in smaller blocks."""
QUANTILES = (0.05, 0.5, 0.95)
NAMED = 5
LEAST_KEYS = 2
"""Rows that see a single key have no entropy to speak of."""


@dataclass(frozen=True, slots=True)
class Head:
    """One head's entropies over the rows of the canary, normalised to 0..1."""

    layer: int
    head: int
    mean: float
    p05: float
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Attention:
    """All heads, and the 95th percentile over all rows of all heads."""

    heads: tuple[Head, ...]
    attn_entropy_p95: float
    band: int | None
    canary: str
    length: int

    def measured(self) -> Measured:
        """The numbers that a baseline keeps."""
        values = {"attn_entropy_p95": self.attn_entropy_p95}
        for one in self.heads:
            for name in ("mean", "p05", "p50", "p95"):
                values[f"layer {one.layer} head {one.head} {name}"] = getattr(one, name)
        setup = {"canary": self.canary, "tokens": self.length, "band": self.band or "whole"}
        return Measured("attention", setup, values)


def probe(model: Any, canary: Canary, band: int | None = BAND) -> Attention:
    """Run the canary and measure; `band` None looks at whole rows.

    Raises:
        ProbeError: the model's attention can't be watched this way.
    """
    watch = Watch(band)
    with torch.no_grad(), watching(model, watch):
        try:
            model(input_ids=canary.ids, use_cache=False, logits_to_keep=1)
        except (ValueError, TypeError) as error:
            raise ProbeError(f"the canary didn't run: {error}") from error
    if not watch.heads:
        raise ProbeError("no attention was seen: this model doesn't use transformers' interface")
    everything = torch.cat(watch.rows)
    p95 = quantile(everything, 0.95) if bool(everything.isfinite().all()) else math.nan
    heads = tuple(sorted(watch.heads, key=lambda one: (one.layer, one.head)))
    return Attention(heads, p95, band, canary.digest, canary.length)


def quantile(values: Any, share: float) -> float:
    """The value below which a share lies; torch's own is limited to 2^24 values."""
    place = min(values.numel(), max(1, math.ceil(share * values.numel())))
    return float(values.flatten().kthvalue(place).values)


class Watch:
    """Collects entropies while a model runs; the attention itself is SDPA's."""

    def __init__(self, band: int | None) -> None:
        self.band = band
        self.heads: list[Head] = []
        self.rows: list[Any] = []

    def __call__(
        self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **kwargs: Any
    ) -> Any:
        """The attention function that transformers calls; queries and keys are turned already.

        Shapes: query [1, heads, tokens, head_dim], key and value [1, KV heads, tokens, head_dim].
        """
        if kwargs.get("s_aux") is not None or kwargs.get("softcap") is not None:
            raise ValueError("attention with sinks or a soft cap isn't covered")
        window = kwargs.get("sliding_window") or getattr(module, "sliding_window", None)
        scaling = kwargs.get("scaling") or query.shape[-1] ** -0.5
        self.measure(int(module.layer_idx), query[0], key[0], float(scaling), window)
        if window and window < query.shape[2]:
            return windowed(query, key, value, float(scaling), int(window)), None
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)

    def measure(self, layer: int, query: Any, key: Any, scaling: float, window: Any) -> None:
        """Entropies of one layer, head by head."""
        group = query.shape[0] // key.shape[0]
        reach = min(
            int(one) for one in (self.band and self.band + 1, window, query.shape[1]) if one
        )
        for head in range(query.shape[0]):
            rows = entropies(query[head], key[head // group], scaling, reach)
            self.rows.append(rows)
            if bool(rows.isfinite().all()):
                low, middle, high = (quantile(rows, one) for one in QUANTILES)
            else:
                low = middle = high = math.nan
            self.heads.append(Head(layer, head, float(rows.mean()), low, middle, high))


def entropies(query: Any, key: Any, scaling: float, reach: int) -> Any:
    """Normalised entropies of the rows of one head.

    Args:
        query: [tokens, head_dim]
        key: [tokens, head_dim]
        scaling: What scores are multiplied with.
        reach: How many keys up to and with its own a row may look at.

    Returns:
        [tokens - 1] in 0..1; the first row sees one key.
    """
    told = []
    block = max(1, min(BLOCK, SCORES // (reach + BLOCK)))
    for start in range(0, query.shape[0], block):
        end = min(start + block, query.shape[0])
        first = max(0, start - reach + 1)
        scores = (query[start:end].float() @ key[first:end].float().T).mul_(scaling)
        hidden = ~within(range(start, end), range(first, end), reach, scores.device)
        whole = scores.masked_fill_(hidden, -math.inf).logsumexp(dim=-1)
        shares = (scores - whole[:, None]).exp_()
        mean = torch.einsum("ij,ij->i", shares, scores.masked_fill_(hidden, 0.0))
        counts = torch.arange(start + 1, end + 1, device=scores.device).clamp(max=reach)
        entropy = (whole - mean) / counts.clamp(min=LEAST_KEYS).log()
        told.append(entropy[counts >= LEAST_KEYS])
    return torch.cat(told)


def within(rows: range, keys: range, reach: int, device: Any) -> Any:
    """[rows, keys]: whether a row may look at a key: its own, and `reach` - 1 before it."""
    gap = (
        torch.arange(rows.start, rows.stop, dtype=torch.int32, device=device)[:, None]
        - torch.arange(keys.start, keys.stop, dtype=torch.int32, device=device)[None, :]
    )
    return (gap >= 0) & (gap < reach)


def windowed(query: Any, key: Any, value: Any, scaling: float, window: int) -> Any:
    """SDPA for a sliding window, block by block: a mask of the whole would be quadratic.

    Returns:
        [1, tokens, heads, head_dim], as transformers expects.
    """
    told = []
    for start in range(0, query.shape[2], window):
        end = min(start + window, query.shape[2])
        first = max(0, start - window + 1)
        allowed = within(range(start, end), range(first, end), window, query.device)
        told.append(
            scaled_dot_product_attention(
                query[:, :, start:end], key[:, :, first:end], value[:, :, first:end],
                attn_mask=allowed, scale=scaling, enable_gqa=query.shape[1] != key.shape[1],
            )
        )  # fmt: skip
    return torch.cat(told, dim=2).transpose(1, 2).contiguous()


@contextmanager
def watching(model: Any, watch: Watch) -> Iterator[None]:
    """Let a model's attention go through `watch`; no mask is made for a name without one."""
    before = model.config._attn_implementation  # noqa: SLF001 - there is no public reader
    AttentionInterface.register(NAME, watch)
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@dataclass(frozen=True, slots=True)
class Moved:
    """A head whose entropy is not the healthy model's."""

    layer: int
    head: int
    size: float


def moved_heads(drifted: list[Drift], tolerance: float) -> list[Moved]:
    """Heads with a number beyond the tolerance, each with its largest drift, the largest first."""
    largest: dict[tuple[int, int], float] = {}
    for one in drifted:
        words = one.name.split()
        if len(words) == 5 and one.size > tolerance:
            place = (int(words[1]), int(words[3]))
            largest[place] = max(one.size, largest.get(place, 0.0))
    return sorted(
        (Moved(layer, head, size) for (layer, head), size in largest.items()),
        key=lambda one: (-one.size, one.layer, one.head),
    )


def said(
    found: Attention, healthy: Measured | None, tolerance: float, *, expect_drift: bool
) -> list[Finding]:
    """What a run shows, against a healthy one where there is one.

    Raises:
        BaselineError: the healthy run was measured in another way.
    """
    broken = sorted({one.layer for one in found.heads if not math.isfinite(one.mean)})
    if broken:
        text = f"entropy is no number from layer {broken[0]} on ({len(broken)} layers)"
        fix = f"look at the weights of layer {broken[0]} and at what comes before it"
        return [Finding("probe-nan", Severity.ERROR, f"layer {broken[0]}", text, fix)]
    if healthy is None:
        return []
    moved = moved_heads(drifts(healthy, found.measured()), tolerance)
    if expect_drift and not moved:
        text = f"no head moved by more than {tolerance:g} from the base model: nothing was added"
        fix = "cacheaware lora check says whether the adapter's keys bind"
        return [Finding("probe-unchanged", Severity.ERROR, "all heads", text, fix)]
    if expect_drift or not moved:
        return []
    first = min(one.layer for one in moved)
    names = ", ".join(f"{one.layer}.{one.head} by {one.size:.3f}" for one in moved[:NAMED])
    more = f" and {len(moved) - NAMED} more" if len(moved) > NAMED else ""
    text = (
        f"{len(moved)} of {len(found.heads)} heads moved by more than {tolerance:g}: layer.head"
        f" {names}{more}; the first layer that moved is {first}"
    )
    fix = (
        f"compare the weights of layers {max(first - 1, 0)} and {first} with the source: what is"
        " wrong in one layer shows in the attention of the next"
    )
    return [Finding("probe-drift", Severity.ERROR, f"layer {first}", text, fix)]
