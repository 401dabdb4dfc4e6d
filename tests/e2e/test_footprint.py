"""What the operator and a sidecar take, measured in their pods."""

import time

import pytest
import yaml
from tests.e2e.release import Release
from tests.e2e.workload import Fleet, documents, eventually

pytestmark = pytest.mark.e2e

READ = """
status, stat = (open(f"/proc/1/{name}").read() for name in ("status", "stat"))
print(status.split("VmRSS:")[1].split()[0], *stat.rpartition(")")[2].split()[11:13])
"""
TICKS_PER_S = 100
SCALERS = 10


def used(fleet: Fleet, *where: str) -> tuple[float, float]:
    """(resident MB, CPU seconds so far) of the first process of a container."""
    resident, user, system = fleet.cluster.kubectl(
        "exec", *where, "--", "python3", "-c", READ
    ).split()
    return int(resident) / 1000, (int(user) + int(system)) / TICKS_PER_S


def test_sidecar_and_operator_stay_small(fleet: Fleet, release: Release):
    fleet.start(1, engine=("--cold-start", "1"))
    fleet.wait_ready(1)
    (scaler,) = documents("kind/scaler.yaml")
    names = [f"scaler-{number}" for number in range(SCALERS)]
    scalers = [
        scaler | {"metadata": {"name": name}, "spec": scaler["spec"] | {"mode": "Advise"}}
        for name in names
    ]
    fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(scalers))
    eventually(
        lambda: all(
            (one.get("status") or {}).get("conditions")
            for one in fleet.get("cacheawarescalers")["items"]
        ),
        within=30,
        what="ten scalers with a status",
    )
    (pod,) = fleet.pods()
    sidecar = ("-n", fleet.namespace, pod["metadata"]["name"], "-c", "cacheaware")
    operator = ("-n", release.namespace, release.pod())
    before = [used(fleet, *where)[1] for where in (sidecar, operator)]
    began = time.monotonic()
    time.sleep(20)
    after = [used(fleet, *where) for where in (sidecar, operator)]
    seconds = time.monotonic() - began

    shares = [(cpu - first) / seconds for (_, cpu), first in zip(after, before, strict=True)]
    print(f"sidecar {after[0][0]:.1f} MB, {shares[0]:.2%} of a core;"
          f" operator with {SCALERS} scalers {after[1][0]:.1f} MB, {shares[1]:.2%}")  # fmt: skip
    assert after[0][0] <= 45
    assert after[1][0] <= 120
    assert shares[0] <= 0.02, "1 % in peace; the machine may be busy"
