"""What looks at pods that serve teach about their requests."""

import math

import pytest
from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.decide.learned import Learned
from cacheaware.decide.learned_work import Decode, Sizes
from cacheaware.observe.learned_work import with_work
from cacheaware.observe.look import SIDECAR, Look
from cacheaware.observe.memory import PodMemory, remember
from cacheaware.pods import PodRecord

RECORD = PodRecord(
    namespace="demo", name="p", uid="u", labels={}, ready=True, ready_since=100.0, created=50.0
)
LOAD = PodLoad(
    usage=0.5,
    running=8.0,
    waiting=0.0,
    prompt_tokens_per_request=900.0,
    generation_tokens_per_request=100.0,
    generation_tokens_per_s=240.0,
    prompt_tokens_per_s=1800.0,
)
KNOWN = PodMemory(load=LOAD, unknown=None, mean_running=8.0)


def taught(memory=KNOWN, learned=None, now=0.0, record=RECORD):
    return with_work(learned or Learned(), [record], {"u": memory}, now)


def test_a_pod_that_serves_teaches_sizes_and_speed():
    work = taught().work

    assert work.sizes == Sizes(900.0, 100.0, 1)
    assert work.decode == (Decode(8.0, 240.0, 1),)


def test_each_minute_counts_once():
    first = taught(now=1000.0)

    assert taught(learned=first, now=1059.0) is first
    assert taught(learned=first, now=1060.0).work.sizes.looks == 2


@pytest.mark.parametrize(
    ("memory", "record"),
    [
        (KNOWN, replace(RECORD, ready=False)),
        (KNOWN, replace(RECORD, uid="another")),
        (PodMemory(load=None, unknown=None), RECORD),
        (replace(KNOWN, unknown=Unknown.TIMED_OUT), RECORD),
        (replace(KNOWN, load=PodLoad(running=0.0, waiting=0.0)), RECORD),
    ],
    ids=["not ready", "not seen", "no load", "timed out", "idle"],
)
def test_what_does_not_serve_or_is_not_known_teaches_nothing(memory, record):
    assert taught(memory, record=record) == Learned()


@pytest.mark.parametrize(
    "load",
    [
        replace(LOAD, prompt_tokens_per_request=None),
        replace(LOAD, generation_tokens_per_request=None),
        replace(LOAD, prompt_tokens_per_s=None),
    ],
)
def test_half_a_size_is_none_but_the_speed_counts(load):
    work = taught(replace(KNOWN, load=load)).work

    assert (work.sizes, len(work.decode)) == (None, 1)


@pytest.mark.parametrize(
    "numbers",
    [
        {"prompt_tokens_per_request": 5e-324},
        {"prompt_tokens_per_request": 1e300},
        {"generation_tokens_per_request": 1e300},
        {"prompt_tokens_per_s": 1e300},
        {"prompt_tokens_per_s": math.nan},
    ],
    ids=str,
)
def test_impossible_sizes_teach_nothing_that_would_be_kept(numbers):
    assert taught(replace(KNOWN, load=replace(LOAD, **numbers))).work.sizes is None


@pytest.mark.parametrize("speed", [1e300, math.inf, math.nan, -1.0])
def test_impossible_speeds_teach_nothing(speed):
    load = replace(LOAD, generation_tokens_per_s=speed)

    assert taught(replace(KNOWN, load=load)).work.decode == ()


@pytest.mark.parametrize("mean", [None, 3.9, 16.1])
def test_rates_of_another_load_than_now_tell_no_speed(mean):
    work = taught(replace(KNOWN, mean_running=mean)).work

    assert (work.sizes.looks, work.decode) == (1, ())


def test_less_than_one_request_on_the_average_tells_no_speed():
    load = replace(LOAD, running=1.0)

    assert taught(replace(KNOWN, load=load, mean_running=0.9)).work.decode == ()


def test_the_mean_of_what_ran_follows_the_looks_and_ends_in_silence():
    memory = PodMemory()
    for second, running in ((0.0, 4.0), (30.0, 10.0)):
        load = replace(LOAD, running=running)
        memory = remember(memory, RECORD, Look(at=second, way=SIDECAR, load=load))
    assert memory.mean_running == 7.0

    silent = Look(at=35.0, way=SIDECAR, unknown=Unknown.TIMED_OUT)

    assert remember(memory, RECORD, silent).mean_running is None
    assert remember(memory, RECORD, None).mean_running is None
