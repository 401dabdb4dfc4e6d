"""What a recording may not hold is not in it, and what is needed of it is."""

import json
import re
from dataclasses import fields, replace

import pytest

from cacheaware.decide.cold_start import ColdStart
from cacheaware.decide.learned import Learned
from cacheaware.pods import PodRecord
from cacheaware.recording import lines
from cacheaware.recording.lines import written
from cacheaware.recording.privacy import (
    Aliases,
    direct_look,
    header_of,
    pod_line,
    sidecar_look,
    spec_line,
    word,
)
from cacheaware_sidecar.engines import EngineSample, Histogram
from cacheaware_sidecar.state import DrainState, KvState, Latency, PodState, ShapeState, WarmupState

PRIVATE = "acme"
UID = "0b5c0a1e-acme"
EPOCH = 1_700_000_000.0
TTFT = Histogram(3.0, 1.5, ((0.5, 2.0), (float("inf"), 3.0)))


def record(**changes):
    return PodRecord(
        **{
            "namespace": "acme-prod",
            "name": "acme-llama-7d9f-x2x",
            "uid": "acme-uid-1",
            "labels": {"acme.com/team": "acme"},
            "ip": "10.1.2.3",
            "node": "acme-gpu-node-1",
            "created": EPOCH - 60,
            "scheduled_at": EPOCH - 59,
            "started_at": EPOCH - 50,
            "ready": True,
            "ready_since": EPOCH - 20,
            "stuck": "acme-engine: ImagePullBackOff",
            "engine_path": "/acme/metrics",
            "deletion_cost_by": UID,
            **changes,
        }
    )


STATE = PodState(
    phase="cordoned",
    sample_age_s=0.5,
    sample_seq=7,
    engine="acme-engine",
    version="1.2-acme",
    models=("acme/llama",),
    running=2.0,
    waiting=1.0,
    kv=KvState(usage=0.5, used_tokens=50.0, capacity_tokens=100.0, page_bytes=4096),
    latency=Latency(ttft_s=TTFT),
    warmup=WarmupState(
        verdict="acme",
        shapes=(ShapeState(name="lora:acme"), ShapeState(name="short", tokens=9, last_s=0.1)),
    ),
    drain=DrainState(cordoned_by=UID, cordoned_s=3.0, empty=False),
    adapters=("acme-lora", "acme-lora-2"),
    problems=("MetricsTimedOut: http://10.1.2.3:8000/acme",),
)
SAMPLE = EngineSample(
    engine="vllm",
    version="acme",
    models=("acme/llama",),
    running=1.0,
    waiting=0.0,
    waiting_by_reason=(("acme", 1.0),),
    usage=0.25,
    kv_dtype="acme",
    ttft=TTFT,
    adapters=("acme-lora",),
    started_at=EPOCH,
    problems=("acme",),
)
SPEC = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "acme-llama"},
    "mode": "Scale",
    "minReplicas": 1,
    "maxReplicas": 8,
    "maxGpus": 16,
    "engine": {
        "type": "VLLM",
        "role": "Both",
        "path": "/acme",
        "ports": [8000],
        "authorizationSecretRef": {"name": "acme-key", "key": "token"},
    },
    "targets": {"kvUtilizationPercent": 70, "by": "acme"},
    "behavior": {"scaleDown": {"selectPolicy": "Min", "policies": [{"type": "Pods", "value": 1}]}},
    "activation": {"url": "http://acme.com"},
    "schedules": [{"cron": "0 8 * * *", "timeZone": "Europe/Acme"}],
}


def everything():
    """A recording of all of that."""
    aliases = Aliases(UID, "Deployment")
    learned = Learned(
        starts=(ColdStart(schedule=1, pull=2, load=3, warm=4),), nodes=("acme-gpu-node-9",)
    )
    header = header_of(
        kind="Deployment",
        spec=SPEC,
        round_seconds=5.0,
        gpus_per_replica=1,
        learned=learned,
        aliases=aliases,
    )
    looks = [sidecar_look(STATE, 1.0, aliases), direct_look([SAMPLE], 1.0, aliases), None]
    pods = [pod_line(record(uid=f"acme-{n}"), look, aliases, EPOCH) for n, look in enumerate(looks)]
    return header, lines.Round(at_s=1.0, replicas=3, pods=tuple(pods))


def test_no_name_address_model_or_time_of_day_is_in_it():
    text = "".join(map(written, everything()))

    assert PRIVATE not in text.lower()
    assert "10.1.2.3" not in text
    assert "VLLM" in text
    assert '"short"' in text
    assert not re.search(r"1[67]\d{8}", text), "seconds since the epoch"


def test_a_recorded_fleet_holds_no_name_of_the_simulator_either(recording):
    assert b"secret-model" not in recording
    assert b"pod-" not in recording


def test_the_words_in_it_are_those_of_a_short_list():
    allowed = {
        "cacheaware-recording", "Deployment", "Scale", "VLLM", "Both", "vllm", "Sidecar", "Direct",
        "cordoned", "scaler", "short", "Pods", "Min", "ImagePullBackOff", "MetricsTimedOut", "+Inf",
    }  # fmt: skip

    found = {word for line in everything() for word in words(json.loads(written(line)))}

    assert {one for one in found if not re.fullmatch(r"[pna]\d+", one)} <= allowed


def words(value):
    """All texts in JSON but the names of fields."""
    if isinstance(value, dict):
        return {word for each in value.values() for word in words(each)}
    if isinstance(value, list):
        return {word for each in value for word in words(each)}
    return {value} if isinstance(value, str) else set()


def test_times_are_told_since_the_beginning():
    pod = everything()[1].pods[0]

    assert (pod.created_s, pod.scheduled_s, pod.started_s, pod.ready_since_s) == (
        -60.0,
        -59.0,
        -50.0,
        -20.0,
    )


def test_a_name_has_the_same_number_each_time_and_another_has_another():
    aliases = Aliases(UID, "Deployment")
    first, second = record(uid="x"), record(uid="y", node="other")

    assert [aliases.pod(one) for one in (first, second, first)] == [
        ("p1", "p1"),
        ("p2", "p2"),
        ("p1", "p1"),
    ]
    assert [aliases.node(name) for name in ("a", "b", "a")] == ["n1", "n2", "n1"]


@pytest.mark.parametrize(
    ("kind", "name"), [("StatefulSet", "p-12"), ("LeaderWorkerSet", "p-12"), ("Deployment", "p1")]
)
def test_ordinals_stay_where_they_tell_which_pod_goes(kind, name):
    assert Aliases(UID, kind).pod(record(name="acme-12")) == (name, "p1")


def test_of_a_statefulset_a_name_without_ordinal_is_a_number():
    assert Aliases(UID, "StatefulSet").pod(record(name="acme-12x")) == ("p1", "p1")


def test_cordons_are_the_scalers_or_anothers():
    aliases = Aliases(UID, "Deployment")
    anothers = replace(STATE, drain=DrainState(cordoned_by="acme-other"))
    nobodys = replace(STATE, drain=DrainState())

    assert aliases.state(STATE)["drain"]["cordoned_by"] == "scaler"
    assert aliases.state(anothers)["drain"] == {"cordoned_by": "other"}
    assert "drain" not in aliases.state(nobodys)


def test_an_engine_that_began_anew_is_told_by_a_number():
    aliases = Aliases(UID, "Deployment")
    starts = [
        aliases.sample(replace(SAMPLE, started_at=at)).started_at for at in (EPOCH, EPOCH + 9, None)
    ]

    assert starts == [1.0, 2.0, None]


def test_what_is_known_of_a_sample_stays(recording):
    told = Aliases(UID, "Deployment").sample(SAMPLE)

    assert (told.running, told.waiting, told.usage) == (1.0, 0.0, 0.25)
    assert told.ttft == {"count": 3.0, "sum": 1.5, "buckets": [[0.5, 2.0], ["+Inf", 3.0]]}


def test_whether_an_engine_sleeps_stays():
    aliases = Aliases(UID, "Deployment")

    assert aliases.state(replace(STATE, sleeping=True))["sleeping"] is True
    assert aliases.sample(replace(SAMPLE, sleeping=True)).sleeping is True


def test_every_number_of_a_sample_has_its_place():
    left_out = {
        "version", "models", "waiting_by_reason", "kv_dtype", "used_bytes", "capacity_bytes",
        "queue", "adapters", "problems",
    }  # fmt: skip

    assert {one.name for one in fields(EngineSample)} - left_out == set(lines.Sample.model_fields)


def test_of_a_spec_the_wishes_and_numbers_stay():
    assert spec_line(SPEC) == {
        "mode": "Scale",
        "minReplicas": 1,
        "maxReplicas": 8,
        "maxGpus": 16,
        "engine": {"type": "VLLM", "role": "Both"},
        "targets": {"kvUtilizationPercent": 70},
        "behavior": {
            "scaleDown": {"selectPolicy": "Min", "policies": [{"type": "Pods", "value": 1}]}
        },
    }
    assert spec_line({"maxReplicas": 2}) == {"maxReplicas": 2}


def test_a_floor_of_zero_is_one_for_what_wakes_the_target_is_not_recorded():
    assert spec_line({"minReplicas": 0, "maxReplicas": 2}) == {"minReplicas": 1, "maxReplicas": 2}


@pytest.mark.parametrize(
    ("stuck", "told"),
    [
        ("engine: CrashLoopBackOff", "CrashLoopBackOff"),
        ("Unschedulable", "Unschedulable"),
        ("engine: see acme.com/why", "Stuck"),
    ],
)
def test_of_why_a_pod_is_stuck_the_reason_stays(stuck, told):
    assert word(stuck) == told
