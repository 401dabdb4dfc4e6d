"""The whole operator in this process, against a fake API server and fake pods."""


async def test_it_grows_under_load(world):
    await world.workloads.deployment("demo", "chat", 1)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.99, 20
    await world.scaler()
    await world.start()
    await world.until(lambda: world.replicas() > 1)
    await world.until(lambda: world.status().get("lastScaleTime"))
    assert world.events("ScaledUp")
