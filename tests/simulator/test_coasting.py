from math import nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sim.coasting import Coast
from cacheaware_sim.decode_batch import DecodeBatch
from cacheaware_sim.histogram import Observations
from cacheaware_sim.request import Request

SECONDS = st.floats(1e-3, 1.0)
GROWTHS = st.one_of(st.just(0.0), st.floats(1e-9, 1e-2))


@given(SECONDS, GROWTHS, st.integers(1, 2000), st.floats(-0.1, 1.1))
def test_as_many_iterations_have_ended_as_their_durations_add_up_to(first, growth, count, share):
    coast = Coast(100.0, first, growth, count)
    now = 100.0 + share * (coast.end(count) - 100.0)

    ended = coast.ended(now)

    assert 0 <= ended < count
    assert ended == 0 or coast.end(ended) <= now
    assert ended == count - 1 or now < coast.end(ended + 1)


@given(SECONDS, GROWTHS, st.integers(1, 2000), st.data())
def test_an_iteration_has_ended_at_its_end_and_not_before(first, growth, count, data):
    coast = Coast(0.3, first, growth, count)
    which = data.draw(st.integers(1, count))
    end = coast.end(which)

    assert coast.ended(end) == min(which, count - 1)
    assert coast.ended(nextafter(end, 0)) == which - 1


def test_the_ends_are_those_of_one_iteration_after_the_other():
    coast, now = Coast(5.0, 0.25, 0.125, 6), 5.0

    for number in range(6):
        assert coast.end(number) == now
        now += 0.25 + number * 0.125


def test_what_is_left_ends_when_it_would_have():
    coast = Coast(5.0, 0.25, 0.125, 6)
    end = coast.end(6)

    coast.drop(4)

    assert (coast.began, coast.first_s, coast.iterations) == (6.75, 0.75, 2)
    assert coast.end(2) == end


@given(
    st.floats(0.001, 50),
    st.one_of(st.just(0.0), st.floats(1e-7, 3)),
    st.integers(1, 300),
    st.integers(1, 9),
)
def test_a_series_counts_as_its_values_do_one_by_one(first, growth, values, times):
    bounds = (0.5, 1.0, 2.0, 2.1, 40.0)
    series, single = Observations(bounds), Observations(bounds)
    each = [first + growth * number for number in range(values)]
    near = any(abs(value - bound) < 1e-9 * bound for value in each for bound in bounds)

    series.observe_series(first, growth, values, times)
    for value in each:
        single.observe(value, times)

    mine, other = series.frozen(), single.frozen()
    assert mine.count == other.count
    assert mine.sum == pytest.approx(other.sum, rel=1e-9)
    assert near or mine.buckets == other.buckets


BATCHES = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 60), st.booleans(), st.integers(0, 12)),
    min_size=1,
    max_size=8,
)


@given(BATCHES, st.integers(1, 8), st.integers(0, 40))
def test_nothing_happens_for_as_long_as_it_is_said(requests, block_size, free):
    batch = DecodeBatch(block_size)
    for serial, (target, output, names, later) in enumerate(requests, 1):
        request = Request(serial, target, output)
        request.serial, request.target = serial, target
        batch.join(request, names=names)
        if serial < len(requests) and batch.size:
            for ended in batch.advance(min(later, batch.uneventful(10**6))):
                batch.leave(ended)
    left = free

    iterations = batch.uneventful(free)

    assert iterations >= 1
    assert batch.growth(iterations - 1) <= free
    for number in range(1, iterations):
        assert not batch.advance(), f"one ended with iteration {number} of {iterations}"
        assert not batch.naming_now(), f"one names a block after iteration {number}"
        left -= len(batch.growing())
    assert left >= 0
    assert batch.advance() or batch.naming_now() or len(batch.growing()) > left
