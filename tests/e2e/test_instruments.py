"""One sick pod among healthy ones: it is named by all who look, and may take itself out.

The sick one gets all requests at its own address, as from a router that sticks to it: its small
cache is full, requests wait and are thrown back.
"""

import re
import subprocess
import time
from datetime import datetime
from typing import Any

import pytest
from tests.e2e.drain.endpoints import watched
from tests.e2e.drain.habits import Setup
from tests.e2e.drain.inside import control
from tests.e2e.instruments import (
    causes,
    doctor,
    end_sending,
    errors,
    events,
    may_relieve_itself,
    measured,
    phase,
    unhealthy,
)
from tests.e2e.workload import Fleet, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout("300")]

SMALL = ("--blocks", "48", "--block-size", "16", "--cold-start", "1")
"""752 tokens a pod: six of the requests below."""
TOO_MUCH = ("--concurrency", "60", "--prompt-tokens", "16", "--output-tokens", "100", "--stream")
LONGEST = ("--requests", "9000", "--duration", "150")
EVERY_S = 60
OPERATOR = "5a1b9a3e-0000-4000-8000-000000000001"


def test_a_full_pod_is_named_by_its_sidecar_the_scaler_and_the_doctor(fleet: Fleet):
    fleet.start(3, engine=SMALL)
    fleet.scale_by(mode="Advise")
    fleet.wait_ready(3)
    sick, *well = (pod["metadata"]["name"] for pod in fleet.pods())
    code, told = doctor(fleet, f"deployment/{fleet.name}", "--seconds", "2")
    assert (code, errors(told), causes(told)) == (0, set(), set())
    assert {one["subject"] for one in told["looks"]} == {f"pod/{one}" for one in (sick, *well)}

    fleet.load(*TOO_MUCH, *LONGEST, pod=sick)
    eventually(lambda: "error" in measured(fleet, sick).values(), within=60, what="an error")
    message = eventually(lambda: unhealthy(fleet), within=40, what="CacheUnhealthy")
    print(message, measured(fleet, sick))
    assert sick in message
    assert not any(one in message for one in well)
    (event,) = eventually(lambda: events(fleet, "CacheUnhealthy"), within=10, what="its event")
    assert event["type"] == "Warning"
    assert sick in event["message"]

    code, told = doctor(fleet, f"deployment/{fleet.name}")
    print(errors(told), causes(told))
    assert code == 1
    assert {subject for subject, _ in errors(told)} == {f"pod/{sick}"}
    odd = {one["subject"] for one in told["findings"] if one["id"] == "pod-sick"}
    assert odd == {f"pod/{sick}"}
    assert (f"pod/{sick}", "queueing") in causes(told)
    assert {subject for subject, _ in causes(told)} == {f"pod/{sick}"}
    assert doctor(fleet, f"pod/{sick}", "--seconds", "3")[0] == 1
    code, told = doctor(fleet, f"pod/{well[0]}", "--seconds", "3", "--fail-on", "warning")
    assert (code, causes(told)) == (0, set())


def refusal(fleet: Fleet, pod: dict[str, Any], path: str, **body: Any) -> str:
    """How a control call of the operator's account is refused."""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        control(fleet, pod, path, by=OPERATOR, **body)
    (said,) = re.findall(r"HTTP Error (\d+)", refused.value.stderr)
    return said


def lost_nothing(fleet: Fleet, load: str) -> bool:
    """Whether a load has ended; each of its requests must have ended well."""
    assert phase(fleet, load) != "Failed", fleet.kubectl("logs", load)
    return phase(fleet, load) == "Succeeded"


def test_a_full_pod_takes_itself_out_loses_nothing_and_comes_back_when_there_is_room(fleet: Fleet):
    Setup(system=True, engine=SMALL, change=may_relieve_itself).start(fleet, 2)
    fleet.scale_by(minReplicas=1, maxReplicas=2)
    pod = fleet.pods()[0]
    name = pod["metadata"]["name"]
    (sidecar,) = pod["status"]["initContainerStatuses"]
    began = datetime.fromisoformat(sidecar["state"]["running"]["startedAt"]).timestamp()
    with watched(fleet) as endpoints:
        sticky = fleet.load(*TOO_MUCH, *LONGEST, pod=name)
        others = fleet.load("--concurrency", "2", "--output-tokens", "50", "--stream", *LONGEST)
        left = endpoints.left(name, after=began + 10, within=EVERY_S + 30)
        print(f"out of the endpoints {left - began:.1f} s after the sidecar's start")
        assert left - began >= EVERY_S - 1, "not before: a restart forgets the last one"
        assert len(endpoints.ready()) == 1
        state = fleet.state(name)
        assert (state["phase"], state["drain"]["cordoned_by"]) == ("cordoned", "relief")
        assert "relief" in measured(fleet, name)
        eventually(lambda: "relief" in unhealthy(fleet), within=40, what="the scaler tells")
        assert name in unhealthy(fleet)
        for call in ({"path": "/cordon", "seconds": 60}, {"path": "/uncordon"}):
            assert refusal(fleet, pod, **call) == "409", "it is not the operator's"
        print(fleet.status()["decisions"][0]["message"])
        page = lambda: fleet.raw(name, 9440, "metrics")  # noqa: E731
        tried = 'cacheaware_relief_aborts_total{how="no_route"} 1.0'
        eventually(lambda: tried in page(), within=20, what="an abort, which the mock has not")

        calm = time.time()
        end_sending(fleet, sticky)
        back = endpoints.came(name, after=calm, within=60)
        print(f"back {back - calm:.1f} s after the load's end")
    assert "cacheaware_reliefs_total 1.0" in page()
    assert "there is room again" in fleet.kubectl("logs", name, "-c", "cacheaware")
    end_sending(fleet, others)
    for load in (sticky, others):
        eventually(lambda load=load: lost_nothing(fleet, load), within=30, what=f"{load} ended")
        print(fleet.kubectl("logs", load))
    eventually(lambda: "relief" not in unhealthy(fleet), within=40, what="the scaler tells")
    assert not events(fleet, "Cordoned"), "the operator has taken nothing out"
    assert fleet.replicas() == 2
