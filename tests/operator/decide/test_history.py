"""What is kept of the demand, step by step."""

from array import array

import pytest
from msgspec.structs import replace

from cacheaware.decide.history import KEPT, MINUTE, History, Moment, noted


def seen(kv=0.0, work=0.0, waiting=0.0, pod=None, coming=False):
    return Moment(kv=kv, work=work, waiting=waiting, pod=pod, coming=coming)


def after(moments, step=5.0, history=None, began=100.0):
    history = history or noted(History(), seen(), began)
    for number, moment in enumerate(moments, 1):
        history = noted(history, moment, began + number * step)
    return history


def test_the_first_round_only_begins_it():
    history = noted(History(), seen(kv=9.0, work=50.0, waiting=4.0, pod=7), 100.0)

    assert (list(history.needs), history.waiting, history.pod) == ([], 4.0, 7)


def test_a_step_takes_the_larger_of_cache_and_prefill():
    history = after([seen(kv=2.0, work=5.0), seen(kv=1.0, work=20.0)])

    assert list(history.needs) == [2.0, 4.0]
    assert history.prefills == (1.0, 4.0)
    assert history.prefill == 2.5


def test_short_rounds_share_a_step():
    history = after([seen(kv=1.0, work=2.0), seen(kv=3.0, work=4.0)], step=2.5)

    assert list(history.needs) == [3.0]
    assert history.prefills == (6.0 / 5.0,)


def test_a_long_round_counts_as_several_steps():
    assert after([seen(kv=2.0)], step=20.0).needs == array("d", [2.0] * 4)


def test_prefill_that_is_not_known_goes_on_for_a_minute_and_is_then_unknown():
    known = after([seen(work=10.0)])
    later = after([seen(work=None)], history=known, began=105.0)
    last = after([seen(work=None)], history=later, began=110.0)

    assert known.prefill == 2.0
    assert after([seen(work=None)]).prefill is None
    assert (later.needs[-1], later.prefill) == (2.0, None)
    assert last.needs[-1] == 0.0


def test_a_queue_is_no_news_while_pods_are_on_their_way_and_for_a_minute_after():
    history = after([seen(waiting=9.0)] * MINUTE + [seen(waiting=9.0, coming=True)])
    later = after([seen(waiting=9.0)] * (MINUTE - 1), history=history, began=165.0)
    last = after([seen(waiting=9.0)], history=later, began=220.0)

    assert (history.lasting_queue, later.lasting_queue, last.lasting_queue) == (0.0, 0.0, 9.0)


def test_a_queue_lasts_as_long_as_the_fewest_of_a_minute():
    history = after([seen(waiting=9.0)] * MINUTE + [seen(waiting=3.0)] + [seen(waiting=9.0)] * 5)

    assert history.lasting_queue == 3.0
    assert History().lasting_queue is None
    assert after([seen(waiting=None)]).lasting_queue == 0.0


def test_it_keeps_an_hour():
    history = after([seen(kv=1.0)], history=History(needs=array("d", [5.0] * KEPT), began=100.0))

    assert len(history.needs) == KEPT
    assert history.needs[-1] == 1.0


def test_a_pods_size_is_that_of_the_beginning():
    history = after([seen(pod=100), seen(pod=70)])

    assert history.pod == 100


@pytest.mark.parametrize("seconds", [4.5, 5.0, 6.9])
def test_a_step_may_be_a_little_short_or_long(seconds):
    assert len(after([seen()], step=seconds).needs) == 1


def test_the_history_is_a_value():
    history = after([seen(kv=1.0)])
    noted(history, seen(kv=7.0), 200.0)

    assert history == replace(history)
    assert list(history.needs) == [1.0]
