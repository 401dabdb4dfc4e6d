"""Users' wishes, by the whole operator: to zero and back, schedules, GPU cap, other writers."""

import time

import pytest
from tests.operator.fake_api import Fault
from tests.operator.fake_pods import FakePod

from cacheaware import names

DEPLOYMENTS = ("apps", "v1", "deployments")
SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
QUICK_DOWN = {
    "scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 10, "periodSeconds": 1}],
    }
}
IDLE_S = 30


class Sleeper:
    """A workload that may go to zero, and the gateway that wakes it."""

    def __init__(self, world):
        self.world = world
        self.gateway = FakePod(page="queue 0\n")
        ip = world.fleet.add(self.gateway)
        self.signal = {
            "url": f"http://{ip}:{world.fleet.port}/metrics",
            "metric": "queue",
            "idleSeconds": IDLE_S,
        }
        self.offset = 0.0

    async def begin(self, replicas=1, **spec):
        await self.world.workloads.deployment("demo", "chat", replicas)
        for pod in self.world.workloads.fakes_of("demo", "chat"):
            pod.usage, pod.waiting, pod.running = 0.0, 0, 0
        await self.world.scaler(minReplicas=0, activation=self.signal, behavior=QUICK_DOWN, **spec)
        await self.start()

    async def start(self):
        operator = await self.world.start(pod_namespace="ops", service_account="op")
        operator.round.clock = lambda: time.monotonic() + self.offset
        await self.world.until(lambda: operator.rounds.completed_at)
        await self.world.rounds(2)

    def later(self, seconds):
        """Let the operator's rounds believe that time has passed."""
        self.offset += seconds

    async def asleep(self, **spec):
        """Bring it to zero."""
        await self.begin(**spec)
        self.later(IDLE_S + 1)
        await self.world.until(lambda: self.world.replicas() == 0)
        await self.world.until(
            lambda: self.world.condition("Ready").get("reason") == "ScaledToZero"
        )


@pytest.fixture
def sleeper(world):
    return Sleeper(world)


async def test_the_last_replica_is_drained_and_goes_after_the_quiet_and_a_call_brings_one(
    world, sleeper
):
    await sleeper.begin()
    assert world.replicas() == 1
    assert "quiet for 30 s" in world.condition("Ready")["message"]
    (pod,) = world.workloads.fakes_of("demo", "chat")

    sleeper.later(IDLE_S + 1)
    await world.until(lambda: world.replicas() == 0)
    assert "cordon" in [name for name, _, _ in pod.calls]
    await world.until(lambda: world.condition("ScalingActive").get("reason") == "Scaling")
    assert world.status()["scaledToZeroAt"]
    await world.rounds(3)
    assert world.replicas() == 0

    sleeper.gateway.page = "queue 1\n"
    await world.until(lambda: world.replicas() == 1)
    await world.until(lambda: "scaledToZeroAt" not in world.status())
    assert await world.event("ScaledUp")


async def test_a_new_operator_knows_that_the_target_sleeps(world, sleeper):
    await sleeper.asleep()
    await world.end()
    sleeper.gateway.page = "queue 2\n"
    await sleeper.start()
    await world.until(lambda: world.replicas() == 1)


async def test_replicas_that_somebody_set_to_0_stay_paused_whatever_the_gateway_says(
    world, sleeper
):
    await sleeper.begin()
    await world.api.edit(DEPLOYMENTS, "demo", "chat", {"spec": {"replicas": 0}})
    sleeper.gateway.page = "queue 5\n"
    await world.until(lambda: world.condition("ScalingActive").get("reason") == "Paused")
    await world.end()
    await sleeper.start()
    await world.rounds(3)
    assert world.replicas() == 0
    assert world.condition("ScalingActive")["reason"] == "Paused"


async def test_a_pause_after_a_wake_is_a_pause(world, sleeper):
    await sleeper.asleep()
    await world.api.edit(DEPLOYMENTS, "demo", "chat", {"spec": {"replicas": 1}})
    await world.until(lambda: "scaledToZeroAt" not in world.status())
    await world.api.edit(DEPLOYMENTS, "demo", "chat", {"spec": {"replicas": 0}})
    sleeper.gateway.page = "queue 5\n"
    await world.until(lambda: world.condition("ScalingActive").get("reason") == "Paused")
    await world.rounds(3)
    assert world.replicas() == 0


async def test_an_unread_signal_keeps_the_last_replica_and_is_told(world, sleeper):
    sleeper.gateway.behaviour = "503"
    await sleeper.begin()
    sleeper.later(IDLE_S + 1)
    await world.rounds(4)
    assert world.replicas() == 1
    told = await world.until(
        lambda: (
            (one := world.condition("MetricsAvailable"))["reason"] == "ActivationUnknown" and one
        )
    )
    assert "queue: answered 503" in told["message"]


async def test_a_signal_that_goes_silent_at_zero_changes_nothing_and_is_told(world, sleeper):
    await sleeper.asleep()
    sleeper.gateway.behaviour = "503"
    await world.until(lambda: world.condition("Ready").get("reason") == "ActivationUnknown")
    assert world.condition("Ready")["status"] == "False"
    await world.rounds(2)
    assert world.replicas() == 0
    assert await world.event("ActivationUnknown")


async def test_what_cannot_be_remembered_is_not_done(world, sleeper):
    """Without the mark in the status a new operator would take our zero for a pause."""
    await sleeper.begin()
    world.api.faults.append(
        Fault(lambda method, path: method == "PATCH" and path.endswith("/chat/status"), status=500)
    )
    sleeper.later(IDLE_S + 1)
    await world.rounds(6)
    assert world.replicas() == 1
    world.api.faults.clear()
    await world.until(lambda: world.replicas() == 0, seconds=20.0)


async def test_a_minimum_that_is_raised_while_it_sleeps_wakes_it(world, sleeper):
    await sleeper.asleep()
    await world.api.edit(SCALERS, "demo", "chat", {"spec": {"minReplicas": 2}})
    await world.until(lambda: world.replicas() == 2)


async def test_a_schedule_that_holds_is_a_floor(world):
    await world.workloads.deployment("demo", "chat", 1)
    always = {"cron": "* * * * *", "durationSeconds": 3600, "minReplicas": 3}
    await world.scaler(schedules=[always])
    await world.start()
    await world.until(lambda: world.replicas() == 3)
    told = await world.event("ScaledUp", "1 -> 3")
    assert "schedule '* * * * *' (UTC) wants 3" in told["message"]


async def test_a_schedule_that_cannot_be_read_is_told_in_one_line(world):
    await world.workloads.deployment("demo", "chat", 1)
    odd = {"cron": "61 8 * * *", "durationSeconds": 3600, "minReplicas": 3}
    await world.scaler(schedules=[odd])
    await world.start()
    await world.until(lambda: world.condition("Ready").get("reason") == "InvalidSpec")
    told = world.condition("Ready")["message"]
    assert told.startswith("spec.schedules[0].cron '61 8 * * *' can't be read (bad minute)")


async def test_gpus_are_counted_by_the_targets_template(world):
    await world.workloads.deployment("demo", "chat", 1)
    gpus = {"containers": [{"name": "e", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}
    await world.api.edit(DEPLOYMENTS, "demo", "chat", {"spec": {"template": {"spec": gpus}}})
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.99, 50
    await world.scaler(maxGpus=9)
    await world.start()
    await world.until(lambda: world.replicas() == 2)
    await world.until(lambda: "maxGpus" in world.condition("ScalingLimited").get("message", ""))
    told = await world.event("ScaledUp")
    assert len(world.events("ScaledUp")) == 1
    assert "(4 GPUs more)" in told["message"]


async def test_where_no_gpu_is_named_the_cap_is_told_to_be_none(world):
    await world.workloads.deployment("demo", "chat", 1)
    await world.scaler(maxGpus=9)
    await world.start()
    await world.until(lambda: world.condition("ScalingLimited").get("reason") == "GpusUnknown")


async def test_038_a_manager_that_sets_replicas_back_is_named_and_not_fought(world):
    world.workloads.make = lambda: FakePod(usage=0.99, waiting=50)
    await world.workloads.deployment("demo", "chat", 1)
    await world.scaler()
    await world.start()
    argo = {"manager": "argocd-controller", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    healed = {"metadata": {"managedFields": [argo]}, "spec": {"replicas": 1}}

    for _ in range(3):
        await world.until(lambda: world.replicas() > 1)
        await world.api.edit(DEPLOYMENTS, "demo", "chat", healed)
    told = await world.until(
        lambda: (one := world.condition("Conflicted"))["reason"] == "ReplicasContested" and one
    )
    written = len(world.scale_writes())
    await world.rounds(4)

    assert told["status"] == "True"
    assert "field manager argocd-controller" in told["message"]
    assert "ignore /spec/replicas" in told["message"]
    assert len(world.scale_writes()) == written
    assert world.replicas() == 1
    assert await world.event("ReplicasContested")


async def test_038_one_edit_of_a_person_is_a_new_base(world):
    await world.workloads.deployment("demo", "chat", 2)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.6, 0
    await world.scaler()
    await world.start()
    await world.until(lambda: world.condition("Ready").get("status") == "True")
    await world.api.edit(DEPLOYMENTS, "demo", "chat", {"spec": {"replicas": 4}})
    await world.until(lambda: world.status().get("currentReplicas") == 4)
    await world.rounds(3)
    assert world.replicas() == 4
    assert world.scale_writes() == []
