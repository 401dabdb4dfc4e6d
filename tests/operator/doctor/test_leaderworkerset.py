"""Groups of which only the leader serves."""

import pytest
from tests.operator.doctor.workloads import ABSENT, body, engine, one, said, sidecar, subject

from cacheaware.doctor.examine import examine
from cacheaware.doctor.leaderworkerset import leaderworkerset

LIVE = {"livenessProbe": {"httpGet": {"path": "/livez", "port": 9440}}}


def group(side=ABSENT, **rest):
    return body(kind="LeaderWorkerSet", side=side, **rest)


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (group(), []),
        (body(startupPolicy="LeaderReady"), []),
        (group(startupPolicy="LeaderReady"), [("error", "leader-ready-deadlock")]),
        (group(startupPolicy="LeaderReady", group={"size": 1}), []),
        (group(startupPolicy="LeaderReady", side=None), []),
        (group(side=sidecar(**LIVE)), [("error", "sidecar-liveness-recreates-group")]),
        (group(side=sidecar(**LIVE), group={"restartPolicy": "None"}), []),
        (group(group={"workerTemplate": {"spec": {"initContainers": [sidecar()]}}}),
         [("error", "sidecar-in-worker")]),
        (group(group={"size": 1, "workerTemplate": {"spec": {"containers": [sidecar()]}}}), []),
    ],
)  # fmt: skip
def test_what_is_special_where_workers_serve_nothing(manifest, wanted):
    assert said(leaderworkerset, manifest) == wanted


def test_a_group_without_a_leader_template_needs_one():
    worker = {"spec": {"initContainers": [sidecar()], "containers": [engine()]}}
    manifest = group(group={"workerTemplate": worker, "leaderTemplate": None})
    assert one(leaderworkerset, manifest).fix.endswith("has to be a template of its own")


def test_a_group_as_inject_makes_it_is_content():
    assert {f.severity for f in examine(subject(group()))} == {"info"}
