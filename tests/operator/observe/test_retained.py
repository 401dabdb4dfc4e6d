"""Whether a full gauge is explained by requests."""

import pytest
from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.observe.look import SIDECAR, Look
from cacheaware.observe.memory import PodMemory, pod_view, remember
from cacheaware.observe.retained import Fullness, fuller
from cacheaware.pods import PodRecord

FULL = PodLoad(usage=0.99, running=4.0, waiting=0.0, generation_tokens_per_s=100.0)
RECORD = PodRecord(
    namespace="demo", name="p", uid="u", labels={}, ready=True, ready_since=100.0, created=50.0
)


def after(*loads):
    found = Fullness()
    for second, load in enumerate(loads):
        found = fuller(found, load, float(second))
    return found.since


def test_a_cache_that_is_full_and_nobody_suffers_is_full_since_its_first_look():
    assert after(FULL, FULL, FULL) == 0.0


def test_the_fullest_engine_of_a_pod_counts():
    assert after(replace(FULL, usage=0.5, usage_max=0.96)) == 0.0


@pytest.mark.parametrize(
    "speaks_against",
    [
        replace(FULL, usage=0.94),
        replace(FULL, usage=None),
        replace(FULL, running=None),
        replace(FULL, waiting=None),
        replace(FULL, preemptions_per_s=0.1),
        replace(FULL, generation_tokens_per_s=None),
    ],
    ids=["not full", "usage?", "running?", "waiting?", "preempts", "speed?"],
)
def test_what_speaks_against_it_or_is_not_known_begins_anew(speaks_against):
    assert after(FULL, speaks_against) is None
    assert after(FULL, speaks_against, FULL) == 2.0


def test_an_engine_that_counts_no_preemption_and_had_none_goes_on():
    assert after(FULL, replace(FULL, preemptions_per_s=0.0)) == 0.0


def test_requests_that_wait_for_their_turn_are_no_queue_that_lasts():
    waits = replace(FULL, waiting=1.0)

    assert after(FULL, waits, FULL, waits, FULL) == 0.0
    assert after(FULL, waits, waits) is None
    assert after(FULL, waits, waits, waits, FULL) == 4.0


def test_answers_that_get_slower_begin_it_anew_from_there():
    slow = replace(FULL, generation_tokens_per_s=49.0)

    assert after(FULL, replace(FULL, generation_tokens_per_s=51.0)) == 0.0
    assert after(FULL, slow) == 1.0
    assert after(FULL, slow, slow, slow) == 1.0


def test_more_requests_at_the_pace_of_before_are_not_slower():
    assert after(FULL, replace(FULL, running=8.0, generation_tokens_per_s=180.0)) == 0.0


@pytest.mark.parametrize(("usage", "since"), [(0.4, 0.0), (0.0, None)])
def test_without_any_request_whatever_is_in_use_is_kept(usage, since):
    assert after(PodLoad(usage=usage, running=0.0, waiting=0.0)) == since


def look(at, load=FULL, **known):
    return Look(at=at, way=SIDECAR, load=load, **known)


def seen(*looks):
    memory = PodMemory()
    for one in looks:
        memory = remember(memory, RECORD, one)
    return memory


def retained_s(memory, now):
    return pod_view(RECORD, memory, now=now, wall=now, stale_s=15.0).retained_s


def test_a_pod_tells_for_how_long():
    assert retained_s(seen(look(0.0, seq=1), look(300.0, seq=2)), 301.0) == 301.0


def test_the_same_sample_again_is_no_second_look_at_a_queue():
    waits = replace(FULL, waiting=1.0)
    looks = look(0.0, seq=1), look(5.0, waits, seq=2), look(6.0, waits, seq=2)

    assert retained_s(seen(*looks), 6.0) == 6.0


@pytest.mark.parametrize(
    "silence",
    [None, Look(at=5.0, way=SIDECAR, unknown=Unknown.TIMED_OUT)],
    ids=["not asked", "timed out"],
)
def test_a_look_that_is_missing_begins_it_anew(silence):
    assert retained_s(seen(look(0.0), silence), 5.0) == 0.0
    assert retained_s(seen(look(0.0), silence, look(10.0)), 12.0) == 2.0


def test_a_sample_that_is_stale_tells_nothing():
    assert retained_s(seen(look(0.0), look(5.0)), 100.0) == 0.0
