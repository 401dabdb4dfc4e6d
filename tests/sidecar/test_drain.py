from dataclasses import replace

import pytest

from cacheaware_sidecar.drain import Outcome, Quiet, is_empty, is_quiet, observe, outcome
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.lifecycle import Drain, Lifecycle
from cacheaware_sidecar.phase import Phase

IDLE = EngineSample(engine="vllm", engines=1, running=0.0, waiting=0.0)
BUSY = replace(IDLE, running=1.0)


def looks(*samples, began=0.0):
    quiet = Quiet()
    for second, sample in enumerate(samples):
        quiet = observe(quiet, sample, began + second)
    return quiet


def draining(began=0.0):
    drain = Drain(began=began, deadline=began + 25, outlived=began + 60, before=Phase.SERVING)
    return Lifecycle(phase=Phase.DRAINING, since=began, drain=drain)


@pytest.mark.parametrize(
    ("samples", "quiet"),
    [
        ([IDLE] * 6, True),
        ([IDLE] * 5, False),
        ([IDLE] * 5 + [BUSY], False),
        ([BUSY] + [IDLE] * 6, True),
        ([IDLE] * 3 + [None] + [IDLE] * 3, False),
        ([IDLE] * 3 + [replace(IDLE, waiting=1.0)] + [IDLE] * 3, False),
        ([replace(IDLE, running=None)] * 9, False),
        ([replace(IDLE, waiting=None)] * 9, False),
        ([replace(IDLE, running=float("nan"))] * 9, False),
        ([replace(IDLE, engines=2)] * 2 + [IDLE] * 9, False),
        ([IDLE] * 3 + [replace(IDLE, engines=2)] * 6, True),
        ([replace(IDLE, engines=None)] * 6, True),
        ([], False),
    ],
    ids=[
        "five seconds",
        "four seconds",
        "busy at last",
        "busy at first",
        "a missing page",
        "one waited",
        "running unknown",
        "waiting unknown",
        "not a number",
        "a missing rank",
        "a rank that came later",
        "ranks untold",
        "no page",
    ],
)
def test_quiet_is_five_seconds_of_zero_on_complete_pages(samples, quiet):
    assert is_quiet(looks(*samples), float(len(samples) - 1)) is quiet


def test_a_quiet_page_of_long_ago_says_nothing_about_now():
    quiet = looks(*[IDLE] * 6)

    assert is_quiet(quiet, 8.0)
    assert not is_quiet(quiet, 8.1)


def test_the_floor_has_to_pass_even_where_the_engine_was_idle_before():
    quiet = looks(*[IDLE] * 20, began=90.0)

    assert not is_empty(draining(105.0), quiet, floor_s=5.0, now=109.9)
    assert is_empty(draining(105.0), quiet, floor_s=5.0, now=110.0)


def test_without_a_drain_nothing_is_called_empty():
    state = Lifecycle(phase=Phase.SERVING, since=0.0)

    assert not is_empty(state, looks(*[IDLE] * 9), floor_s=0.0, now=8.0)


@pytest.mark.parametrize(
    ("state", "now", "expected"),
    [
        (draining(), 10.0, Outcome.WAITING),
        (draining(), 25.0, Outcome.DEADLINE),
        (replace(draining(), phase=Phase.DRAINED), 30.0, Outcome.DONE),
        (Lifecycle(phase=Phase.LOADING, since=0.0), 1.0, Outcome.DONE),
    ],
    ids=["waiting", "deadline", "drained", "a new engine came"],
)
def test_how_a_wait_stands(state, now, expected):
    assert outcome(state, deadline=25.0, now=now) is expected
