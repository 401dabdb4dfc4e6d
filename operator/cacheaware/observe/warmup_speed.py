"""How fast an engine prefills, from what the warm-up of its pod has measured."""

from collections.abc import Iterable

from cacheaware_sidecar.state import ShapeState

PROMPTS = frozenset({"short", "multiple-of-16", "ragged", "long", "chunked"})
"""Shapes of one new prompt each, with answers of one length."""
SPREAD = 8
"""The longest prompt is at least so many times the shortest: else the line means nothing."""


def prefill_tokens_per_s(shapes: Iterable[ShapeState]) -> float | None:
    """Prompt tokens per second of an idle engine: the slope of latency over prompt tokens.

    What a request costs besides, its answer included, is the same for all shapes and falls out.
    The line is that of least squares over the last latency of each shape.

    Returns:
        None where the shapes don't tell: too few, too alike, or not slower when longer.

    >>> short = ShapeState(name="short", tokens=16, last_s=0.25)
    >>> long = ShapeState(name="chunked", tokens=2064, last_s=0.45)
    >>> prefill_tokens_per_s([short, long])
    10240.0
    """
    points = [
        (float(one.tokens), one.last_s)
        for one in shapes
        if one.name in PROMPTS and one.tokens is not None and one.last_s is not None
    ]
    sizes = [tokens for tokens, _ in points]
    if len(points) < 2 or max(sizes) < SPREAD * max(1.0, min(sizes)):
        return None
    mean_x, mean_y = sum(sizes) / len(points), sum(y for _, y in points) / len(points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return round(spread / rise, 6) if rise > 0 else None
