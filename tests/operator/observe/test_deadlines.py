"""One timer for many waits."""

import asyncio

import pytest

from cacheaware.observe.deadlines import Deadlines


@pytest.fixture
async def deadlines():
    found = Deadlines()
    yield found
    found.close()


def waits(deadlines, *seconds):
    """A wait for each of these times."""
    loop = asyncio.get_running_loop()
    made = [loop.create_future() for _ in seconds]
    for wait, later in zip(made, seconds, strict=True):
        deadlines.add(wait, loop.time() + later)
    return made


async def test_each_wait_ends_when_its_time_is_over(deadlines):
    loop = asyncio.get_running_loop()
    began, ended = loop.time(), []
    for wait in waits(deadlines, 0.02, 0.05, 0.05):
        with pytest.raises(TimeoutError):
            await wait
        ended.append(loop.time() - began)

    assert ended[0] >= 0.019
    assert min(ended[1:]) >= 0.049


async def test_what_is_done_in_time_is_left_alone(deadlines):
    first, second = waits(deadlines, 0.01, 0.03)
    first.set_result("here")
    with pytest.raises(TimeoutError):
        await second

    assert await first == "here"


async def test_after_a_pause_it_begins_anew(deadlines):
    for _ in range(2):
        (wait,) = waits(deadlines, 0.01)
        with pytest.raises(TimeoutError):
            await wait


async def test_after_its_end_nothing_is_ended(deadlines):
    (wait,) = waits(deadlines, 0.01)
    deadlines.close()
    await asyncio.sleep(0.03)

    assert not wait.done()
