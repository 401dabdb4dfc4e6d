"""How soon a failed call is made again."""

import pytest

from cacheaware.backoff import (
    EVERYTHING,
    READ_CAP_SECONDS,
    SHORT_CAP_SECONDS,
    WRITE_CAP_SECONDS,
    Gate,
    cap_of,
    delay,
)

READ, WRITE = "GET /pods", "PATCH /scale"


def gate():
    return Gate(jitter=lambda: 0.0)


def test_a_call_that_never_failed_is_open():
    assert gate().closed(READ, 0.0) is None


@pytest.mark.parametrize("status", [404, 409, 410])
def test_an_answer_is_no_failure(status):
    one = gate()
    one.failed(WRITE, status, None, 0.0)
    assert one.closed(WRITE, 0.0) is None


def test_delays_double_and_a_success_forgets_them():
    one, now, waits = gate(), 0.0, []
    for _ in range(4):
        one.failed(READ, 503, None, now)
        waits.append(one.closed(READ, now).seconds)
        now += waits[-1]
    assert waits == [1, 2, 4, 8]
    one.passed(READ)
    assert one.closed(READ, now) is None


def test_retry_after_is_a_minimum_and_jitter_comes_on_top(case):
    least = case("090", "expect.json")["min_retry_seconds"]
    for jitter in (0.0, 0.5, 1.0):
        one = Gate(jitter=lambda jitter=jitter: jitter)
        one.failed(WRITE, 429, 5.0, 0.0)
        assert one.closed(WRITE, 0.0).seconds == 5 * (1 + jitter / 4) >= least


def test_one_refused_object_does_not_slow_the_others():
    one = gate()
    one.failed("PATCH /a/status", 422, None, 0.0)
    assert one.closed("PATCH /a/status", 0.5).status == 422
    assert one.closed("PATCH /b/status", 0.5) is None


def test_a_server_that_was_not_reached_is_left_alone_altogether():
    one = gate()
    one.failed(READ, 0, None, 0.0)
    assert one.closed(WRITE, 0.5) is not None
    one.passed(WRITE)
    assert one.closed(READ, 0.5) is None


def test_many_calls_that_fail_together_count_once():
    one = gate()
    for _ in range(30):
        one.failed(READ, 0, None, 0.0)
    assert one.closed(READ, 0.0).seconds == 1


def test_old_failures_are_forgotten():
    one = gate()
    one.failed(READ, 503, None, 0.0)
    one.failed(WRITE, 503, None, 2000.0)
    assert list(one._failures) == [WRITE]


@pytest.mark.parametrize(
    ("key", "cap"),
    [
        (READ, READ_CAP_SECONDS),
        (WRITE, WRITE_CAP_SECONDS),
        ("PATCH /apis/x/leases/y", SHORT_CAP_SECONDS),
        (EVERYTHING, SHORT_CAP_SECONDS),
    ],
)
def test_what_all_else_waits_for_is_asked_again_soon(key, cap):
    assert cap_of(key) == cap


def test_delays_have_a_cap():
    assert delay(50, READ_CAP_SECONDS, None) == READ_CAP_SECONDS
    assert delay(50, WRITE_CAP_SECONDS, None) == WRITE_CAP_SECONDS
    assert delay(1, READ_CAP_SECONDS, 90.0) == 90.0
