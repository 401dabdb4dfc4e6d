"""When the operator holds itself to be sick."""

from types import SimpleNamespace

import pytest

from cacheaware.controller.server import STUCK_SECONDS, Health


def health(*, completed=0.0, dead=False, stuck=0.0, now=10.0, listed=True):
    return Health(
        rounds=SimpleNamespace(completed_at=completed),
        relist=SimpleNamespace(watch_dead=dead, listed=listed),
        pods=SimpleNamespace(stuck_for=lambda _: stuck, all_asked=lambda: listed),
        seconds=5.0,
        clock=lambda: now,
    )


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, None),
        ({"completed": None}, None),
        ({"now": 31.0}, "the last round ended 31 s ago"),
        ({"dead": True}, "a watch delivers nothing"),
        ({"stuck": STUCK_SECONDS + 1}, "a watch of pods is stuck for 301 s"),
    ],
)
def test_what_only_a_restart_helps_is_sick(state, said):
    assert health(**state).sick() == said


def test_it_is_ready_once_the_first_lists_are_in():
    assert health().ready()
    assert not health(listed=False).ready()
