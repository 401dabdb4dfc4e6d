"""Rules about blocks: how many of their slots are empty, and whether their size is right.

A block that holds one token is taken. No released engine but one with page size 1 tells how much
of its blocks holds data, so there are bounds: each sequence leaves at most block - 1 slots of its
last block empty, half of that on average where lengths are spread over several blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cacheaware_sidecar.health.looks import Looks
from cacheaware_sidecar.health.symptom import INFO, WARNING, Symptom

WORTH_SAYING: Final = 0.05
"""Share of the taken slots that is expected to be empty, as `MUCH`."""
MUCH: Final = 0.2
VLLM_LEAST: Final = 16
"""Tokens of a block, as `VLLM_SIZES`."""
VLLM_SIZES: Final = frozenset({32, 64, 128, 256})
"""Above the least; others are the size of a hybrid model's state, which nobody sets."""
VLLM_LIKE: Final = frozenset({"vllm", "inference-sim"})


@dataclass(frozen=True, slots=True)
class Waste:
    """Share of the taken slots that is empty, 0..1."""

    least: float
    expected: float
    most: float
    measured: bool = False


def waste_of(looks: Looks) -> Waste | None:
    """Internal fragmentation: measured where the engine tells, else its bounds.

    Bounds are for one group of layers; None where usage, running or the block size is unknown.
    """
    sample, usage = looks.sample, looks.sample.usage_max
    held = looks.signs.token_usage
    if held is not None and usage:
        share = max(0.0, 1.0 - held / usage)
        return Waste(share, share, share, measured=True)
    if not sample.block_size or not sample.running or not sample.used_tokens:
        return None
    most = min(sample.running * (sample.block_size - 1) / sample.used_tokens, 1.0)
    return Waste(0.0, most / 2.0, most)


def fragmented(looks: Looks) -> Iterator[Symptom]:
    """Blocks that are taken and half empty."""
    waste = waste_of(looks)
    if waste is None or waste.expected < WORTH_SAYING:
        return
    size = looks.sample.block_size
    how = (
        f"measured: {waste.expected:.0%} of the taken token slots are empty"
        if waste.measured
        else f"estimated: {waste.expected:.0%} of the taken token slots are empty, between 0 and"
        f" {waste.most:.0%} (the engine does not tell; for each group of layers)"
    )
    yield Symptom(
        "fragmentation",
        WARNING if waste.expected >= MUCH else INFO,
        f"{how}; {looks.sample.running or 0:g} sequences, blocks of {size or '?'} tokens. Scaling"
        " rightly goes by blocks: they are what runs out",
        block_advice(looks.sample.engine, size)
        or "fewer and longer sequences: batch short prompts",
    )


def block_advice(engine: str | None, size: int | None) -> str | None:
    """Another block size, within what the attention kernels allow; None where there is none."""
    if engine in VLLM_LIKE and size in VLLM_SIZES:
        return (
            f"--block-size {VLLM_LEAST} where the attention backend takes it (FlashMLA and sparse"
            " attention need 64)"
        )
    if engine == "sglang" and size and size > 1:
        return "--page-size 1 where the attention backend takes it (FlashMLA needs 64)"
    return None


def oversized(looks: Looks) -> Iterator[Symptom]:
    """A block size that somebody set larger than the sequences warrant, or that none can set."""
    sample = looks.sample
    size, held, running = sample.block_size, sample.used_tokens, sample.running
    if not size or not held or not running:
        return
    each = held / running
    if size > VLLM_LEAST and each < 4 * size and (fix := block_advice(sample.engine, size)):
        yield Symptom(
            "block-size",
            WARNING,
            f"blocks of {size} tokens for sequences of {each:,.0f}: the last block of each, and"
            " prefixes up to a whole block, are lost to the cache",
            fix,
        )
    elif sample.engine in VLLM_LIKE and size > VLLM_LEAST and size not in VLLM_SIZES:
        yield Symptom(
            "block-size-of-state",
            INFO,
            f"blocks of {size} tokens: a hybrid model's state sets this size, --block-size does"
            " not; a prefix shorter than a block is never found again",
        )
