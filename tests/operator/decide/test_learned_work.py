"""What looks teach about requests and decoding, and what is made of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware.decide.fleet import PodLoad
from cacheaware.decide.learned import Learned
from cacheaware.decide.learned_work import (
    BANDS,
    Decode,
    Sizes,
    Work,
    band,
    decode_speed,
    with_sizes,
    with_speeds,
)
from cacheaware.decide.policy import RatePolicy, Rules

SEEN = Work(
    sizes=Sizes(prompt=900.0, answer=100.0, looks=40),
    decode=(Decode(4.0, 200.0, 9), Decode(8.0, 300.0, 9)),
)
LEARNED = Learned(work=SEEN)


def test_sizes_are_the_mean_of_the_looks():
    first = [(100.0, 10.0, 1.0), (300.0, 30.0, 1.0)]
    work = with_sizes(with_sizes(Work(), first), [(800.0, 50.0, 2.0)])

    assert work.sizes == Sizes(pytest.approx(400.0), pytest.approx(30.0), 3)
    assert work.request_tokens == pytest.approx(430.0)


def test_a_pod_counts_as_often_as_requests_began_on_it():
    work = with_sizes(Work(), [(10_000.0, 10.0, 0.1), (1000.0, 110.0, 0.9)])

    assert work.sizes == Sizes(pytest.approx(1900.0), pytest.approx(100.0), 2)


def test_what_was_long_ago_fades():
    work = with_sizes(Work(), [(100.0, 10.0, 1.0)] * 10_000)
    for _ in range(60):
        work = with_sizes(work, [(1000.0, 10.0, 1.0)])

    assert 850 < work.sizes.prompt < 900


def test_where_nothing_was_told_nothing_is_known():
    assert with_speeds(with_sizes(Work(), []), []) == Work()
    assert Work().request_tokens is None
    assert decode_speed(Work(), 4.0) is None


def test_speeds_are_kept_apart_by_how_many_requests_ran():
    work = with_speeds(Work(), [(1.0, 50.0), (8.0, 200.0), (12.0, 300.0)])
    work = with_speeds(work, [(9.0, 280.0), (2.0, 90.0)])

    assert work.decode == (
        Decode(1.0, 50.0, 1),
        Decode(2.0, 90.0, 1),
        Decode(pytest.approx(29 / 3), pytest.approx(260.0), 3),
    )


def test_the_order_of_pods_changes_nothing():
    told = [(3.3, 71.1), (2.2, 61.7), (3.1, 68.3)]

    assert with_speeds(Work(), told) == with_speeds(Work(), told[::-1])
    sizes = [(*pair, 0.7) for pair in told]
    assert with_sizes(Work(), sizes) == with_sizes(Work(), sizes[::-1])


@pytest.mark.parametrize(
    ("running", "speed"), [(1.0, 50.0), (4.0, 200.0), (5.0, 225.0), (8.0, 300.0), (50.0, 300.0)]
)
def test_between_what_was_measured_lies_a_line(running, speed):
    assert decode_speed(SEEN, running) == speed


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.1, 1e6)), max_size=40), st.floats(1, 1e6))
def test_any_speeds_give_one_within_them_and_a_short_list(told, running):
    work = with_speeds(Work(), told)
    speed = decode_speed(work, running)

    assert len(work.decode) <= BANDS
    assert all(band(one.running) >= 0 for one in work.decode)
    if told:
        assert 0 < speed <= max(one for _, one in told) * (1 + 1e-9)


def sized(make, name="a", **numbers):
    load = {"usage": 0.0, "capacity_tokens": 10_000.0, "running": 0.0, "waiting": 0.0, **numbers}
    return make.pod(name, load=PodLoad(**load))


def test_where_no_pod_tells_a_waiting_request_counts_as_learned(make, once):
    burst = [sized(make, waiting=16.0)]

    unknown, known = (once(make.fleet(burst, learned=one)) for one in (Learned(), LEARNED))

    assert (unknown.terms[0].demand, known.terms[0].demand) == (0.0, 10_000.0 * 1.6)
    assert "counts as 1,000 tokens as learned before" in known.terms[0].note
    assert (unknown.terms[0].replicas, known.terms[0].replicas) == (0, 2)


def test_what_a_pod_tells_counts_before_what_was_learned(make, once):
    burst = [sized(make, waiting=16.0, tokens_per_request=500.0)]

    term = once(make.fleet(burst, learned=LEARNED)).terms[0]

    assert term.demand == 8000.0
    assert "learned" not in term.note


DOWN = Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 1, 15),))


def busy(make, name, running, **numbers):
    load = {"usage": 0.01, "running": running, "waiting": 0.0, **numbers}
    return make.pod(name, load=PodLoad(**load), sidecar=True)


def test_the_time_to_empty_is_told_where_a_pod_does_not_know_it(make, once):
    pods = [busy(make, "a", 4.0), busy(make, "b", 30.0)]

    (chosen,) = once(make.fleet(pods, learned=LEARNED), scale_down=DOWN).cordons

    assert (chosen.pod, "expected empty in 2 s" in chosen.reason) == ("a", True)


def test_a_pods_own_answers_and_speed_count_before_what_was_learned(make, once):
    own = {"generation_tokens_per_request": 1000.0}
    pods = [busy(make, "a", 4.0, **own), busy(make, "b", 8.0)]

    (chosen,) = once(make.fleet(pods, learned=LEARNED), scale_down=DOWN).cordons

    assert chosen.pod == "b", "8 x 100 tokens at 300/s, and not 4 x 1,000 at 200/s"
    told = {**own, "generation_tokens_per_s": 4000.0}
    pods = [busy(make, "a", 4.0, **told), busy(make, "b", 8.0)]
    (chosen,) = once(make.fleet(pods, learned=LEARNED), scale_down=DOWN).cordons
    assert chosen.pod == "a"


def test_requests_that_wait_where_none_runs_take_their_time_too(make, once):
    pods = [
        make.pod("a", load=PodLoad(usage=0.0, running=0.0, waiting=1.0), sidecar=True),
        busy(make, "b", 8.0),
    ]

    (chosen,) = once(make.fleet(pods, learned=LEARNED), scale_down=DOWN).cordons

    assert (chosen.pod, "expected empty in 2 s" in chosen.reason) == ("a", True)


def test_without_a_speed_no_time_is_told(make, once):
    work = Work(sizes=SEEN.sizes)
    pods = [busy(make, "a", 4.0), make.idle("b", sidecar=True), make.unknown("c")]

    decision = once(make.fleet(pods, learned=Learned(work=work)), scale_down=DOWN)

    assert "expected" not in decision.message
