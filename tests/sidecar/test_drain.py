from dataclasses import replace

import pytest

from cacheaware_sidecar.drain import (
    Handover,
    Outcome,
    Quiet,
    Silence,
    arrival_age,
    holds_nothing,
    is_empty,
    is_hung,
    is_quiet,
    observe,
    outcome,
    silent,
)
from cacheaware_sidecar.engine_sockets import Rest
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.lifecycle import Cordon, Drain, Lifecycle
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


def counted(requests, running=0.0, waiting=0.0, tokens=0.0):
    return replace(
        IDLE, requests=requests, running=running, waiting=waiting, generation_tokens=tokens
    )


def test_a_counter_that_moves_between_two_pages_is_a_request_that_was_not_seen():
    pages = [counted(float(min(second, 3))) for second in range(9)]  # the last one ends at 3 s
    quiet = looks(*pages)
    assert quiet.since == 4.0
    assert not is_quiet(quiet, 8.0)
    assert is_quiet(observe(quiet, pages[-1], 9.0), 9.0)


@pytest.mark.parametrize(
    ("rest", "quiet"),
    [
        pytest.param(Rest(unsent=1), False, id="an answer not yet sent"),
        pytest.param(Rest(unread=1), False, id="a request not yet read"),
        pytest.param(Rest(abandoned=1), True, id="a request whose client has gone"),
        pytest.param(Rest(), True, id="nothing"),
        pytest.param(None, True, id="not known"),
    ],
)
def test_only_connections_that_carry_something_keep_a_pod_from_being_empty(rest, quiet):
    seen = Quiet()
    for second in range(6):
        seen = observe(seen, IDLE, float(second), rest)
    assert is_quiet(seen, 5.0) is quiet


class TestArrivals:
    def test_new_requests_are_told_from_those_that_end(self):
        pages = [
            counted(10, running=2),
            counted(11, running=1),  # one ended
            counted(11, running=2),  # one came
            counted(13),  # both ended
            counted(14),  # one came and went between two pages
        ]
        ages = []
        for second in range(len(pages)):
            quiet = looks(*pages[: second + 1])
            ages.append(arrival_age(quiet, 0.0, float(second)))
        assert ages == [None, None, 0.0, 1.0, 0.0]

    def test_those_before_the_cordon_do_not_count(self):
        quiet = looks(counted(1), counted(2), counted(2))
        assert arrival_age(quiet, 0.0, 5.0) == 4.0
        assert arrival_age(quiet, 2.0, 5.0) is None

    def test_an_engine_that_counts_no_ended_requests_shows_what_is_there(self):
        pages = [replace(IDLE, running=float(n)) for n in (1, 2, 2, 1)]
        assert arrival_age(looks(*pages), 0.0, 3.0) == 2.0

    def test_where_the_load_is_unknown_no_arrival_is_made_up(self):
        assert arrival_age(looks(BUSY, replace(IDLE, running=None)), 0.0, 1.0) is None


class TestHandover:
    DECODE = Handover(role="Decode", timeout_s=60.0)

    def quiet(self, *usages):
        return looks(*(replace(IDLE, usage=usage) for usage in usages))

    def test_pods_that_hand_kv_over_are_empty_when_none_is_pinned(self):
        assert is_quiet(self.quiet(*[0.0] * 6), 5.0, self.DECODE)
        assert not is_quiet(self.quiet(*[0.1] * 6), 5.0, self.DECODE)
        assert not is_quiet(self.quiet(0.1, *[0.0] * 5), 5.0, self.DECODE)

    def test_an_engine_that_does_not_tell_is_waited_for_until_the_connector_lets_go(self):
        assert not is_quiet(self.quiet(*[None] * 60), 59.0, self.DECODE)
        assert is_quiet(self.quiet(*[None] * 61), 60.0, self.DECODE)

    def test_other_pods_need_not_tell(self):
        assert is_quiet(self.quiet(*[0.9] * 6), 5.0)


def test_a_cordoned_pod_is_empty_by_the_same_rule_and_floor():
    cordon = Cordon(by="a", began=2.0, until=62.0)
    state = Lifecycle(phase=Phase.CORDONED, since=2.0, cordon=cordon)
    quiet = looks(*[IDLE] * 7)
    assert not is_empty(state, quiet, floor_s=5.0, now=6.0)
    assert is_empty(state, observe(quiet, IDLE, 7.0), floor_s=5.0, now=7.0)


@pytest.mark.parametrize(
    ("usage", "num_blocks", "engines", "nothing"),
    [
        pytest.param(0.0, None, 1, True, id="none"),
        pytest.param(0.004, None, 1, False, id="some, of a pool of unknown size"),
        pytest.param(1 / 200, 200, 1, True, id="the null block"),
        pytest.param(2 / 200, 200, 1, False, id="a block beside it"),
        pytest.param(2 / 400, 400, 2, True, id="the null block of each engine"),
        pytest.param(2 / 100_000, 100_000, None, False, id="two blocks of very many"),
        pytest.param(None, 200, 1, False, id="not known"),
    ],
)
def test_whether_kv_is_pinned_is_told_to_the_block(usage, num_blocks, engines, nothing):
    sample = replace(IDLE, usage=usage, num_blocks=num_blocks, engines=engines)
    assert holds_nothing(sample) is nothing


class TestHung:
    UNREAD = Rest(unread=200)

    def silence(self, *rests):
        found = None
        for number, rest in enumerate(rests):
            found = silent(found, rest, 5.0 * (number + 1))
        return found

    def test_an_engine_that_reads_nothing_for_half_a_minute_is_hung(self):
        found = self.silence(*[self.UNREAD] * 7)
        assert is_hung(found, 35.0)
        assert not is_hung(found, 34.9)

    def test_an_engine_that_reads_our_request_is_late_and_not_hung(self):
        assert self.silence(*[Rest()] * 9) is None
        assert self.silence(self.UNREAD, Rest(), self.UNREAD) == Silence(15.0, 0)

    def test_a_request_that_timed_out_and_lies_there_unread_is_a_sign_too(self):
        assert self.silence(Rest(abandoned=9)) == Silence(5.0, 0)

    def test_as_long_as_bytes_go_out_it_is_not_hung(self):
        going = [Rest(unsent=90 - n, unread=1) for n in range(9)]
        assert not is_hung(self.silence(*going), 45.0)
        staying = [Rest(unsent=90, unread=1)] * 9
        assert is_hung(self.silence(*staying), 45.0)

    def test_where_connections_can_not_be_seen_silence_alone_counts(self):
        assert self.silence(None, None) == Silence(5.0, None)
        assert self.silence(None, self.UNREAD) == Silence(5.0, 0)

    def test_one_that_answers_is_not_hung(self):
        assert not is_hung(None, 1e9)
