"""Deletion costs: ours are marked and taken back, others' are kept."""

import json

import pytest
from msgspec.structs import replace
from tests.operator.fake_api import Fault

from cacheaware import names
from cacheaware.act.deletion_cost import (
    LOWEST,
    kept_cost,
    mark_victims,
    marked,
    marked_by,
    restored,
    sweep,
)
from cacheaware.kube import KubeError
from cacheaware.pods import PodRecord, pod_record

PODS = ("", "v1", "pods")
RECORD = PodRecord(namespace="demo", name="a", uid="u", labels={})


async def pod(api, name, **annotations):
    body = {"metadata": {"namespace": "demo", "name": name, "annotations": annotations}}
    return pod_record(await api.put(PODS, body))


def annotations(api, name):
    return api.get(PODS, "demo", name)["metadata"].get("annotations") or {}


async def test_victims_go_first_in_their_order(api, kube):
    records = [await pod(api, name) for name in ("a", "b")]
    await mark_victims(kube, records, "owner-uid")
    costs = [int(annotations(api, name)[names.DELETION_COST]) for name in ("a", "b")]
    assert costs == [LOWEST, LOWEST + 1]
    assert all(-(2**31) < cost < 0 for cost in costs)
    mark = json.loads(annotations(api, "a")[names.DELETION_COST_OWNER])
    assert mark == {"by": "owner-uid", "was": None}


async def test_a_foreign_cost_is_kept_and_put_back(api, kube, caplog):
    caplog.set_level("INFO")
    await mark_victims(kube, [await pod(api, "a", **{names.DELETION_COST: "100"})], "x")
    assert "deletion cost 100 is set aside" in caplog.text
    again = pod_record(api.get(PODS, "demo", "a"))
    await mark_victims(kube, [again], "x")
    assert kept_cost(pod_record(api.get(PODS, "demo", "a"))) == 100
    await sweep(kube, [pod_record(api.get(PODS, "demo", "a"))])
    assert annotations(api, "a") == {names.DELETION_COST: "100"}


async def test_a_sweep_leaves_no_trace(api, kube):
    await mark_victims(kube, [await pod(api, "a")], "x")
    await sweep(kube, [pod_record(api.get(PODS, "demo", "a"))])
    assert annotations(api, "a") == {}


@pytest.mark.parametrize(
    ("fields", "by"),
    [
        ({"deletion_cost_by": '{"by":"x"}'}, "x"),
        ({"deletion_cost": 5}, None),
        ({"deletion_cost_by": '{"by":"x"}', "terminating": True}, None),
        ({"deletion_cost_by": "?"}, ""),
    ],
    ids=["ours", "somebody else's", "going", "unreadable"],
)
def test_a_mark_tells_who_chose_the_pod(fields, by):
    assert marked_by(replace(RECORD, **fields)) == by


async def test_a_sweep_goes_on_after_a_failure(api, kube, caplog):
    ours = {names.DELETION_COST: "-1", names.DELETION_COST_OWNER: "{}"}
    records = [await pod(api, name, **ours) for name in ("a", "b", "c")]
    await api.delete(PODS, "demo", "b")
    api.faults.append(Fault(lambda m, path: m == "PATCH" and path.endswith("/a"), status=403))
    await sweep(kube, records)
    assert annotations(api, "c") == {}
    assert caplog.text.count("keeps a deletion cost") == 1


async def test_a_victim_that_cannot_be_marked_stops_the_shrink(api, kube):
    with pytest.raises(KubeError):
        await mark_victims(kube, [RECORD], "x")


@pytest.mark.parametrize("mark", ["not json", "[]", '{"was":"many"}', "3"])
def test_a_mark_that_cannot_be_read_restores_nothing(mark):
    patch = restored(replace(RECORD, deletion_cost_by=mark))
    assert patch["metadata"]["annotations"] == {
        names.DELETION_COST: None,
        names.DELETION_COST_OWNER: None,
    }


def test_marking_twice_keeps_the_first_cost():
    first = marked(replace(RECORD, deletion_cost=7), 0, "x")["metadata"]["annotations"]
    second = marked(
        replace(RECORD, deletion_cost=LOWEST, deletion_cost_by=first[names.DELETION_COST_OWNER]),
        0,
        "x",
    )["metadata"]["annotations"]
    assert json.loads(second[names.DELETION_COST_OWNER])["was"] == 7
