"""The real vLLM, overloaded: the doctor says why it is slow, and relief aborts what it holds.

`make e2e-vllm`.
"""

import re

import pytest
import yaml
from tests.e2e.drain.real_engines import LOADS_WITHIN_S, objects
from tests.e2e.instruments import (
    causes,
    doctor,
    end_sending,
    errors,
    may_relieve_itself,
    measured,
    phase,
    unhealthy,
)
from tests.e2e.workload import Fleet, eventually, named
from tests.real_engine.install import Engine, install

pytestmark = [pytest.mark.e2e, pytest.mark.vllm, pytest.mark.timeout("1800")]

LONG = ("--prompt-tokens", "40", "--output-tokens", "400", "--no-stream", "--model", "tiny")
"""Not streamed: on two cores the server of streams is slower than the engine behind it, which then
has nothing to do now and then."""
SUM = re.compile(r"^vllm:(\w+)_seconds_sum\{.*\} (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return install()


def start(fleet: Fleet, engine: Engine) -> str:
    """One engine with vLLM's development mode, which may relieve itself; its pod's name."""
    fleet.name = "vllm"
    found = objects(engine)
    spec = named(found, "Deployment")["spec"]["template"]["spec"]
    spec["containers"][0]["env"].append({"name": "VLLM_SERVER_DEV_MODE", "value": "1"})
    may_relieve_itself(spec, RELIEF_USAGE_PERCENT="50")
    named(found, "CacheAwareScaler")["spec"]["maxReplicas"] = 1
    fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(found))
    fleet.wait_ready(1, within=LOADS_WITHIN_S)
    (pod,) = fleet.pods()
    return str(pod["metadata"]["name"])


def test_the_doctor_tells_an_overloaded_vllm_and_relief_aborts_and_lets_it_serve(
    fleet: Fleet, engine: Engine
):
    name = start(fleet, engine)
    subject = f"pod/{name}"
    code, told = doctor(fleet, subject, "--seconds", "2")
    assert (code, errors(told), causes(told)) == (0, set(), set())

    load = fleet.load("--concurrency", "24", "--requests", "9000", "--duration", "300", *LONG,
                      pod=name)  # fmt: skip
    eventually(lambda: fleet.state(name)["waiting"], within=60, what="requests wait")
    code, told = doctor(fleet, subject, "--seconds", "20")
    print(code, told["looks"], told["findings"], causes(told))
    assert (subject, "queueing") in causes(told)

    page = lambda: fleet.raw(name, 9440, "metrics")  # noqa: E731
    aborted = 'cacheaware_relief_aborts_total{how="aborted"} 1.0'
    eventually(lambda: aborted in page(), within=180, what="an abort")
    assert "relief" in measured(fleet, name)
    assert name in eventually(lambda: unhealthy(fleet), within=40, what="the scaler tells")
    end_sending(fleet, load)
    eventually(lambda: phase(fleet, load) in {"Failed", "Succeeded"}, within=90, what="its end")
    said = fleet.kubectl("logs", load)
    print(said, fleet.kubectl("logs", name, "-c", "cacheaware", "--tail=20"))
    assert "aborted" in said, "clients that read the answer know"

    fleet.wait_ready(1, within=90)
    after = fleet.load("--concurrency", "4", "--requests", "12", *LONG)
    eventually(lambda: phase(fleet, after) == "Succeeded", within=120, what="it serves again")
    took = {what: float(seconds) for what, seconds in SUM.findall(fleet.raw(name, 8000, "metrics"))}
    print(took)
    assert took["request_prefill_time"] <= took["e2e_request_latency"]
