"""Which pods went after a shrink."""

import pytest
from msgspec.structs import replace

from cacheaware.act.verify import GIVE_UP_SECONDS, ShrinkOutcome, outcome_of, shrink_of
from cacheaware.pods import PodRecord


def pods(names):
    return [PodRecord(namespace="d", name=name, uid=f"u-{name}", labels={}) for name in names]


SHRINK = shrink_of(pods("abc"), ["u-a"], 0.0)


@pytest.mark.parametrize(
    ("left", "now", "expected"),
    [
        ("bc", 1.0, ShrinkOutcome((), ())),
        ("bcd", 1.0, ShrinkOutcome((), ())),
        ("abc", 1.0, None),
        ("ab", 1.0, ShrinkOutcome(("c",), ("a",))),
        ("b", 1.0, ShrinkOutcome(("c",), ())),
        ("abc", GIVE_UP_SECONDS, ShrinkOutcome((), ("a",))),
    ],
    ids=["as chosen", "and one came", "not yet", "another went", "two went", "nobody went"],
)
def test_the_pods_that_went_are_compared_with_the_victims(left, now, expected):
    assert outcome_of(SHRINK, pods(left), now) == expected


def test_a_pod_that_is_terminating_has_gone():
    first, *rest = pods("abc")
    assert outcome_of(SHRINK, [replace(first, terminating=True), *rest], 1.0) == ShrinkOutcome(
        (), ()
    )
    assert shrink_of([replace(first, terminating=True), *rest], [], 0.0).before == {"u-b", "u-c"}
