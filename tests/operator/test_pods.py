"""A Pod object reduced to a record."""

import pytest

from cacheaware import names
from cacheaware.pods import pod_record


def pod(**parts):
    body = {
        "metadata": {"name": "p", "namespace": "demo", "uid": "u"},
        "spec": {"containers": [{"name": "engine"}]},
        "status": {},
    }
    for path, value in parts.items():
        section, _, key = path.partition("_")
        body[section][key] = value
    return body


def test_a_pod_that_is_not_scheduled_yet_is_a_record_of_unknowns():
    record = pod_record({"metadata": {"name": "p", "uid": "u"}})
    assert (record.ip, record.node, record.ready, record.sidecar_port) == (None, None, False, None)


def test_ready_since_and_created_are_read():
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}
    record = pod_record(
        pod(status_conditions=[condition], metadata_creationTimestamp="2026-01-01T00:00:00Z")
    )
    assert record.ready
    assert record.ready_since - record.created == 10


def test_a_pod_that_is_not_ready_has_no_ready_since():
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:10Z"}
    record = pod_record(pod(status_conditions=[condition]))
    assert (record.ready, record.ready_since) == (False, None)


@pytest.mark.parametrize(
    ("status", "changed", "started", "was"),
    [
        ("False", "00:05:00", "00:00:30", True),
        ("False", "00:00:10", "00:00:30", False),
        ("False", "00:05:00", "00:06:00", False),
        ("False", "00:05:00", None, False),
        ("True", "00:05:00", "00:00:30", False),
    ],
    ids=["it served", "it never did", "restarted since", "does not run", "it is Ready"],
)
def test_a_pod_that_was_ready_is_told_from_one_that_still_starts(status, changed, started, was):
    condition = {"type": "Ready", "status": status, "lastTransitionTime": f"2026-01-01T{changed}Z"}
    state = {"running": {"startedAt": f"2026-01-01T{started}Z"}} if started else {"waiting": {}}
    record = pod_record(
        pod(status_conditions=[condition], status_containerStatuses=[{"state": state}])
    )
    assert record.was_ready is was


@pytest.mark.parametrize(
    ("where", "ports", "found"),
    [
        ("containers", [{"name": names.SIDECAR_PORT_NAME, "containerPort": 9999}], 9999),
        ("initContainers", [{"name": names.SIDECAR_PORT_NAME, "containerPort": 9999}], 9999),
        ("containers", [{"containerPort": 9440}], 9440),
        ("containers", [{"name": "http", "containerPort": 8000}], None),
    ],
    ids=["by name", "native sidecar", "by number", "none"],
)
def test_the_sidecar_is_found_by_its_port(where, ports, found):
    record = pod_record(pod(**{f"spec_{where}": [{"name": "c", "ports": ports}]}))
    assert record.sidecar_port == found


@pytest.mark.parametrize(
    ("annotations", "ports", "port", "path"),
    [
        ({}, [], None, None),
        ({}, [{"name": "http", "containerPort": 8001}], 8001, None),
        (
            {},
            [{"name": "http", "containerPort": 1}, {"name": "metrics", "containerPort": 2}],
            2,
            None,
        ),
        ({}, [{"name": names.SIDECAR_PORT_NAME, "containerPort": 9440}], None, None),
        ({"prometheus.io/port": "7000", "prometheus.io/path": "/m"}, [], 7000, "/m"),
        ({"prometheus.io/port": "many"}, [], None, None),
    ],
    ids=[
        "nothing said",
        "usual name",
        "metrics first",
        "not the sidecar's",
        "annotated",
        "nonsense",
    ],
)
def test_the_engines_page_is_where_the_pod_says(annotations, ports, port, path):
    record = pod_record(
        pod(metadata_annotations=annotations, spec_containers=[{"name": "e", "ports": ports}])
    )
    assert (record.engine_port, record.engine_path) == (port, path)


@pytest.mark.parametrize(
    ("hook", "drains"),
    [
        ({"exec": {"command": ["python3", "/cacheaware/wait.py"]}}, True),
        ({"exec": {"command": ["sh", "-c", "python3 /x/wait.py || sleep 30"]}}, True),
        ({"httpGet": {"path": "/drain/wait", "port": 9440}}, True),
        ({"exec": {"command": ["sleep", "30"]}}, False),
        ({"httpGet": {"path": "/quit"}}, False),
        ({}, False),
    ],
)
def test_a_final_drain_is_told_by_the_hook(hook, drains):
    container = {"name": "engine", "lifecycle": {"preStop": hook}}
    assert pod_record(pod(spec_containers=[container])).final_drain is drains


def test_costs_and_their_owner_are_read():
    ours = {names.DELETION_COST: "-5", names.DELETION_COST_OWNER: "{}"}
    record = pod_record(pod(metadata_annotations=ours))
    assert (record.deletion_cost, record.deletion_cost_by) == (-5, "{}")


def test_the_end_of_a_pod_is_read():
    assert pod_record(pod(metadata_deletionTimestamp="2026-01-01T00:00:00Z")).terminating
    assert pod_record(pod(status_phase="Failed")).finished
    restarted = pod_record(pod(status_containerStatuses=[{"restartCount": 2}, {}]))
    assert restarted.restarts == 2


def waiting(name, reason):
    return {"name": name, "state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("status", "stuck"),
    [
        ({}, None),
        ({"containerStatuses": [waiting("engine", "PodInitializing")]}, None),
        ({"containerStatuses": [{"name": "engine", "state": {"running": {}}}]}, None),
        (
            {
                "initContainerStatuses": [waiting("cacheaware", "ImagePullBackOff")],
                "containerStatuses": [waiting("engine", "PodInitializing")],
            },
            "cacheaware: ImagePullBackOff",
        ),
        (
            {"containerStatuses": [waiting("engine", "CrashLoopBackOff")]},
            "engine: CrashLoopBackOff",
        ),
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                ]
            },
            "Unschedulable",
        ),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, None),
    ],
)
def test_what_keeps_a_pod_from_starting_is_read(status, stuck):
    body = {"metadata": {"name": "a", "uid": "u"}, "status": status}
    assert pod_record(body).stuck == stuck


def test_the_times_of_a_start_are_read():
    record = pod_record(
        {
            "metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "containers": [
                    {
                        "name": "engine",
                        "startupProbe": {"periodSeconds": 10, "failureThreshold": 60},
                    },
                    {"name": "proxy", "startupProbe": {"initialDelaySeconds": 5}},
                ]
            },
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "True",
                        "lastTransitionTime": "2026-01-01T00:00:02Z",
                    }
                ],
                "containerStatuses": [
                    {"name": "engine", "state": {"running": {"startedAt": "2026-01-01T00:00:09Z"}}},
                    {"name": "proxy", "state": {"running": {"startedAt": "2026-01-01T00:00:07Z"}}},
                ],
            },
        }
    )
    assert record.scheduled_at - record.created == 2.0
    assert record.started_at - record.created == 9.0
    assert record.startup_budget_s == 600.0


@pytest.mark.parametrize(
    "statuses",
    [
        [],
        [{"name": "engine", "state": {"waiting": {"reason": "ContainerCreating"}}}],
        [{"name": "engine", "state": {"running": {"startedAt": "2026-01-01T00:00:09Z"}}}] * 1,
    ],
    ids=["none", "waiting", "one of two"],
)
def test_a_pod_has_started_when_all_its_containers_have(statuses):
    containers = [{"name": "engine"}, {"name": "proxy"}]
    body = {
        "metadata": {"name": "a", "uid": "u"},
        "spec": {"containers": containers},
        "status": {"containerStatuses": statuses},
    }
    record = pod_record(body)
    assert (record.started_at, record.startup_budget_s) == (None, None)


def test_what_kubernetes_takes_away_and_when_it_will_be_gone_is_told():
    body = {
        "metadata": {"name": "a", "uid": "u", "deletionTimestamp": "1970-01-01T00:01:00Z"},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "DisruptionTarget", "status": "True"}],
        },
    }
    record = pod_record(body)
    assert (record.deleted_at, record.pending, record.disrupted) == (60.0, True, True)
