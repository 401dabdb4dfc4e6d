"""What is gathered of a scaler's circumstances, from real objects."""

import pytest
from msgspec.structs import replace

from cacheaware.controller.circumstances import Surroundings
from cacheaware.controller.registry import scaler_record
from cacheaware.controller.round import with_starts
from cacheaware.decide.circumstances import Fit, Reading
from cacheaware.decide.fleet import FleetView
from cacheaware.decide.learned import Learned
from cacheaware.observe.memory import PodMemory, pod_view
from cacheaware.observe.target import Target, TargetRef
from cacheaware.pods import pod_record, seconds

CREATED = "2026-03-02T07:00:00Z"
WALL = seconds(CREATED)
TARGET = Target(
    ref=TargetRef("demo", "apps/v1", "Deployment", "chat"),
    path="/chat/scale",
    spec_replicas=2,
    selector=None,
    resource_version="1",
    gpus=8,
)


def scaler(**spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    meta = {"namespace": "demo", "name": "chat", "uid": "u"}
    return scaler_record(
        {"metadata": meta, "spec": {"scaleTargetRef": target, "maxReplicas": 9, **spec}}
    )


def pod(name, *conditions, node=None, phase="Pending"):
    meta = {"namespace": "demo", "name": name, "uid": name, "creationTimestamp": CREATED}
    found = [{"lastTransitionTime": CREATED, **one} for one in conditions]
    return pod_record(
        {
            "metadata": meta,
            "spec": {"nodeName": node, "containers": [{"name": "e"}]},
            "status": {"phase": phase, "conditions": found},
        }
    )


UNPLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
READY = {"type": "Ready", "status": "True"}


def view(records, wall):
    memories = {one.uid: PodMemory() for one in records}
    pods = [pod_view(r, memories[r.uid], now=0.0, wall=wall, stale_s=15.0) for r in records]
    fleet = FleetView(namespace="demo", name="chat", spec_replicas=2, pods=tuple(pods))
    return with_starts(fleet, records, memories, Learned(), now=0.0, wall=wall)


def around(surroundings, one, wall=WALL, now=0.0, *, asleep=False):
    return surroundings.around(one, TARGET, (), asleep=asleep, now=now, wall=wall)


@pytest.mark.parametrize(("age_s", "fit"), [(1799, None), (1800, Fit(1, 300.0))])
def test_a_pod_that_the_scheduler_could_not_place_lowers_the_ceiling(age_s, fit):
    records = [pod("a", READY, node="n", phase="Running"), pod("b", UNPLACED)]
    found = Surroundings()
    found.look(scaler(), TARGET, view(records, WALL + age_s), 0.0)

    assert around(found, scaler()).fit == fit


def test_floor_gpus_and_contest_are_there():
    eight = {"cron": "0 8 * * *", "durationSeconds": 3600, "minReplicas": 4}
    found = Surroundings()
    for now in (0.0, 10.0, 20.0):
        found.contest = found.contest.wrote(5, now)
        found.look(scaler(), replace(TARGET, replicas_by="flux"), view([], WALL), now + 3)
    seen = around(found, scaler(schedules=[eight]), WALL + 3600, 23.0)

    assert (seen.scheduled.replicas, seen.gpus_per_replica) == (4, 8)
    assert (seen.contested.manager, seen.contested.again_s) == ("flux", 60.0)
    assert (seen.wake, around(found, scaler(), WALL).scheduled) == (None, None)


def test_quiet_is_counted_only_with_a_signal():
    signal = {"url": "http://gateway/metrics", "metric": "queue"}
    waking, found = scaler(minReplicas=0, activation=signal), Surroundings()
    found.reading = Reading(0.0)
    found.look(waking, TARGET, view([], WALL), 0.0)
    found.look(waking, TARGET, view([], WALL), 50.0)
    assert around(found, waking, now=50.0).wake.quiet_s == 50.0

    found.reading = None
    found.look(scaler(), TARGET, view([], WALL), 60.0)
    assert around(found, scaler(), now=60.0).wake is None
    asleep = around(found, scaler(), now=60.0, asleep=True).wake
    assert (asleep.asleep, asleep.quiet_s, asleep.reading) == (True, None, Reading())


def test_a_key_for_the_page_is_looked_for_beside_the_scaler():
    signal = {
        "url": "http://gateway/metrics",
        "metric": "queue",
        "labels": [{"name": "model", "value": "chat"}],
        "authorizationSecretRef": {"name": "gateway"},
    }
    source = scaler(minReplicas=0, activation=signal).activation

    assert (source.secret.namespace, source.secret.name) == ("demo", "gateway")
    assert source.series == 'queue{model="chat"}'
