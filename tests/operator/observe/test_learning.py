"""What looks teach of the speed of prefill."""

import pytest
from msgspec.structs import replace

from cacheaware.decide.learned import Learned
from cacheaware.decide.prefill_speed import IN_SERVICE, Prefilled
from cacheaware.observe.learning import taught
from cacheaware.observe.memory import PodMemory
from cacheaware.pods import PodRecord

POD = PodRecord(namespace="demo", name="a", uid="a", labels={}, ready=True)


def speed(learned, *memories):
    records = [replace(POD, uid=f"p{at}") for at in range(len(memories))]
    there = {record.uid: one for record, one in zip(records, memories, strict=True)}
    return taught(learned, records, there, 0.0)[0]


def test_until_requests_have_ended_the_warm_ups_tell_how_fast_a_pod_prefills():
    idle = [PodMemory(prefill_tokens_per_s=each) for each in (9000.0, 10_000.0, 15_000.0)]

    assert speed(Learned(), *idle).prefill_tokens_per_s == 10_000 * IN_SERVICE


def test_the_requests_of_all_pods_tell_it_then():
    busy = PodMemory(
        prefill_tokens_per_s=12_000.0,
        prefilled=Prefilled(seconds=40.0, tokens=200_000.0, requests=20.0),
    )

    assert speed(Learned(), busy).prefill_tokens_per_s == 12_000 * IN_SERVICE
    assert speed(Learned(), busy, busy).prefill_tokens_per_s == pytest.approx(5000.0)


def test_what_was_known_stays_while_nothing_tells():
    known = Learned(prefill_tokens_per_s=7000.0)

    assert speed(known, PodMemory()).prefill_tokens_per_s == 7000.0
