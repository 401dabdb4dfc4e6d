"""How fast a pod leaves the endpoints and comes back, beside what a new one takes."""

import pytest
from tests.e2e.drain.endpoints import watched
from tests.e2e.drain.habits import Setup
from tests.e2e.drain.inside import control
from tests.e2e.drain.scenarios import cold_start_s
from tests.e2e.workload import Fleet

pytestmark = pytest.mark.e2e

OWNER = "5a1b9a3e-0000-4000-8000-000000000001"
LEAVES_S, RETURNS_S = 5.0, 3.0


def test_a_cordoned_pod_leaves_within_5_s_and_is_back_within_3_s(fleet: Fleet):
    Setup(system=True).start(fleet, 2)
    pod = fleet.pods()[0]
    name = pod["metadata"]["name"]
    with watched(fleet) as endpoints:
        assert name in endpoints.ready()
        out = back = 0.0
        for _ in range(3):
            cordoned = control(fleet, pod, "/cordon", by=OWNER, seconds=60)
            assert cordoned["answer"]["phase"] == "cordoned"
            out = max(out, endpoints.left(name, after=cordoned["at"]) - cordoned["at"])
            returned = control(fleet, pod, "/uncordon", by=OWNER)
            back = max(back, endpoints.came(name, after=returned["at"]) - returned["at"])
    cold = cold_start_s(pod)
    print(
        f"out of the endpoints {out:.1f} s, back {back:.1f} s, a new pod {cold:.0f} s:"
        f" {cold / back:.0f} times as long"
    )
    assert out <= LEAVES_S
    assert back <= RETURNS_S
    assert cold > back


def test_a_cordon_that_nobody_renews_ends_by_itself(fleet: Fleet):
    Setup(system=True).start(fleet, 1)
    (pod,) = fleet.pods()
    name = pod["metadata"]["name"]
    with watched(fleet) as endpoints:
        cordoned = control(fleet, pod, "/cordon", by=OWNER, seconds=8)
        endpoints.left(name, after=cordoned["at"])
        back = endpoints.came(name, after=cordoned["at"] + 6, within=15)
    print(f"back {back - cordoned['at']:.1f} s after a cordon of 8 s")
    assert back - cordoned["at"] <= 8 + RETURNS_S + 1
