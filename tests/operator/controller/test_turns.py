"""When rounds begin: evenly over the interval, and none twice at once."""

import asyncio
import contextlib
from collections import defaultdict
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from cacheaware.controller.rounds import SPREAD, Rounds

INTERVAL_S = 0.4


@pytest.fixture
def began():
    """By uid, when rounds began, in intervals since the first."""
    return defaultdict(list)


@pytest.fixture
def lasts():
    """How long the rounds of some last, in intervals."""
    return {}


@pytest.fixture
async def rounds(began, lasts):
    loop = asyncio.get_running_loop()
    zero = loop.time()

    async def do(scaler, _):
        began[scaler.uid].append((loop.time() - zero) / INTERVAL_S)
        await asyncio.sleep(lasts.get(scaler.uid, 0) * INTERVAL_S)

    registry = MagicMock()
    registry.scalers = {
        f"u{n}": SimpleNamespace(uid=f"u{n}", ref=None, namespace="demo", name=f"s{n}")
        for n in range(5)
    }
    found = Rounds(MagicMock(do=do), registry, INTERVAL_S)
    yield found
    await found.close()


async def passes(rounds, count):
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout((count - 0.05) * INTERVAL_S):
            await rounds.run()


async def test_rounds_begin_evenly_over_the_interval(rounds, began):
    await passes(rounds, 1)
    firsts = [began[f"u{n}"][0] for n in range(5)]
    assert firsts == pytest.approx([n * SPREAD / 5 for n in range(5)], abs=0.1)


async def test_a_round_that_ends_after_the_interval_is_begun_at_its_turn_again(
    rounds, began, lasts
):
    lasts["u4"] = 0.9
    await passes(rounds, 3)
    assert [len(began[f"u{n}"]) for n in range(5)] == [3] * 5


async def test_a_round_that_lasts_beyond_its_next_turn_is_not_begun_twice(rounds, began, lasts):
    lasts["u0"] = 1.5
    await passes(rounds, 4)
    assert [len(began[f"u{n}"]) for n in range(5)] == [2, 4, 4, 4, 4]


async def test_a_scaler_that_is_deleted_before_its_turn_is_not_begun(rounds, began):
    one = asyncio.create_task(rounds.once())
    await asyncio.sleep(0.1 * INTERVAL_S)
    del rounds._registry.scalers["u4"]
    await one
    assert sorted(began) == ["u0", "u1", "u2", "u3"]
