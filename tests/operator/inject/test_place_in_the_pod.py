"""Port, resources, probes, meshes, groups: how the sidecar fits into a pod."""

import pytest
from tests.operator.inject.workloads import Result, deployment, engine, group, refusal

from cacheaware.inject.injection import injected
from cacheaware.inject.mesh import included_again
from cacheaware.inject.options import Options
from cacheaware.inject.removal import removed
from cacheaware.inject.resources import BURSTABLE, GUARANTEED, amount
from cacheaware.workload.template import workload_of


@pytest.mark.parametrize(
    ("more", "options", "port"),
    [
        ({}, {}, 9440),
        ({"ports": [{"containerPort": 9440}]}, {}, 9441),
        ({}, {"port": 9999}, 9999),
    ],
)
def test_the_port_is_free_in_the_pod(more, options, port):
    made = Result(deployment(engine(**more)), **options)

    assert made.sidecar["ports"] == [{"name": "cacheaware", "containerPort": port}]
    assert made.env.get("PORT", "9440") == str(port)


def test_a_port_that_is_taken_is_refused():
    assert "that port is taken" in refusal(deployment(), port=8000)
    assert "that port is taken" in refusal(deployment(hostNetwork=True), port=10250)


GPU = {"limits": {"nvidia.com/gpu": 1}}


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        pytest.param(GPU, None, id="BestEffort asks for nothing"),
        pytest.param({"requests": {"cpu": 1}}, BURSTABLE, id="Burstable"),
        pytest.param({"limits": {"cpu": "2", "memory": "1Gi"}},
                     {"requests": GUARANTEED, "limits": GUARANTEED}, id="only limits"),
        pytest.param({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2000m"}},
                     {"requests": GUARANTEED, "limits": GUARANTEED}, id="other units"),
        pytest.param({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, BURSTABLE,
                     id="Burstable by less than its limit"),
    ],
)  # fmt: skip
def test_the_class_of_service_stays(resources, wanted):
    assert Result(deployment(engine(resources=resources))).sidecar.get("resources") == wanted


def test_resources_of_the_whole_pod_are_shared():
    made = Result(deployment(resources={"limits": {"cpu": 4}}))

    assert "resources" not in made.sidecar


def test_an_amount_that_is_none_equals_itself_alone():
    assert amount("1x") == "1x"
    assert amount("0.5Gi") == amount("512Mi")


def test_a_gated_engine_asks_the_sidecar_and_gets_its_probe_back():
    own = {"httpGet": {"path": "/health", "port": 8000}}
    body = deployment(engine(readinessProbe=own))
    made = Result(body, gate_engine=True)

    assert made.engine["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 9440}
    assert removed(made.body) == body
    assert Result(made.body, gate_engine=False).engine["readinessProbe"] == own


ISTIO = "traffic.sidecar.istio.io/excludeInboundPorts"
LINKERD = "config.linkerd.io/skip-inbound-ports"


@pytest.mark.parametrize(
    ("meta", "options", "wanted"),
    [
        ({}, {}, {}),
        ({"labels": {"sidecar.istio.io/inject": "true"}}, {}, {ISTIO: "9440"}),
        ({"labels": {"istio.io/rev": "stable"}}, {}, {ISTIO: "9440"}),
        ({"annotations": {ISTIO: "15090, 15020"}}, {}, {ISTIO: "15090, 15020,9440"}),
        ({"annotations": {ISTIO: "9440"}}, {}, {ISTIO: "9440"}),
        ({"annotations": {"linkerd.io/inject": "enabled"}}, {},
         {"linkerd.io/inject": "enabled", LINKERD: "9440"}),
        ({"labels": {"sidecar.istio.io/inject": "false"}}, {}, {}),
        ({"labels": {"sidecar.istio.io/inject": "true"}}, {"mesh": False}, {}),
        ({}, {"mesh": True}, {ISTIO: "9440"}),
    ],
)  # fmt: skip
def test_meshes_leave_the_port_alone(meta, options, wanted):
    body = deployment(meta=meta)
    made = Result(body, **options)

    assert made.workload.template["metadata"].get("annotations", {}) == wanted
    assert removed(made.body) == body


def test_ports_that_somebody_adds_to_a_mesh_later_stay():
    made = Result(deployment(), mesh=True)
    made.workload.template["metadata"]["annotations"][ISTIO] = "9440,7777"

    template = workload_of(removed(made.body)).template
    assert template["metadata"]["annotations"] == {ISTIO: "7777"}
    assert included_again(None, 9440) == ""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (group(leader=False), "copy workerTemplate to leaderTemplate first"),
        (group(startupPolicy="LeaderReady"), "set LeaderCreated first"),
        ({"kind": "Service"}, "it has no pod template"),
    ],
)
def test_groups_that_can_not_carry_it_are_left_alone(body, said):
    assert said in refusal(body)


def test_a_group_of_one_has_no_workers_to_spare():
    made = Result(group(size=None, leader=False))

    assert made.sidecar["name"] == "cacheaware"
    assert "livenessProbe" not in made.sidecar


def test_a_group_that_bears_restarts_gets_a_liveness_probe():
    body = group()
    body["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"

    assert "livenessProbe" in Result(body).sidecar


def test_among_several_containers_the_engine_must_be_told():
    body = deployment({"name": "a", "image": "x"}, {"name": "b", "image": "y"})

    assert "--container names one of a, b" in refusal(body)
    assert "allowed are a, b" in refusal(body, container="c")
    assert injected(body, Options(container="b")).body["spec"]["template"]["spec"]["containers"][1][
        "lifecycle"
    ]
