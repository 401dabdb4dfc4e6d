"""The speed of prefill, from a warm-up."""

import pytest

from cacheaware.observe.warmup_speed import prefill_tokens_per_s
from cacheaware_sidecar.state import ShapeState


def shapes(*points, names=("short", "multiple-of-16", "ragged", "long", "chunked")):
    return [
        ShapeState(name=name, tokens=tokens, last_s=seconds)
        for name, (tokens, seconds) in zip(names, points, strict=False)
    ]


def test_it_is_the_slope_of_latency_over_tokens():
    found = prefill_tokens_per_s(
        shapes((16, 0.1016), (64, 0.1064), (65, 0.1065), (528, 0.1528), (2064, 0.3064))
    )

    assert found == pytest.approx(10_000)


@pytest.mark.parametrize(
    "points",
    [
        (),
        ((16, 0.1),),
        ((16, 0.1), (64, 0.2), (65, 0.2)),
        ((16, 0.4), (2064, 0.1)),
        ((16, 0.1), (2064, 0.1)),
        ((16, None), (2064, 0.4)),
        ((None, 0.1), (2064, 0.4)),
    ],
    ids=["none", "one", "alike", "faster when longer", "flat", "no latency", "no tokens"],
)
def test_it_is_unknown_where_the_shapes_do_not_tell(points):
    assert prefill_tokens_per_s(shapes(*points)) is None


def test_shapes_of_other_kinds_do_not_count():
    odd = shapes((2064, 9.0), (2064, 0.001), names=("together", "repeat"))

    assert prefill_tokens_per_s([*shapes((16, 0.1)), *odd]) is None
