"""The cache of pods: kept current, and never silently dead."""

import asyncio

import pytest
from tests.operator.fake_api import Fault

from cacheaware.observe.podcache import NamespacePods, PodCache
from cacheaware.observe.selector import parse_selector

PODS = ("", "v1", "pods")
ALL = parse_selector("app=llm")


async def pod(api, name, ns="demo", **labels):
    meta = {"namespace": ns, "name": name, "labels": {"app": "llm", **labels}}
    return await api.put(PODS, {"metadata": meta, "status": {"phase": "Running"}})


async def until(holds, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - the cache has no Event
            await asyncio.sleep(0.01)


@pytest.fixture
async def cache(kube):
    found = PodCache(kube, idle_seconds=0.5)
    yield found
    await found.close()


def names(cache, ns="demo"):
    return [record.name for record in cache.select(ns, ALL)]


def calls(api, *, watch):
    paths = [c for c in api.calls if c.path.endswith("/pods")]
    return [c for c in paths if ("watch" in c.query) is watch]


async def test_it_lists_then_follows(api, cache):
    await pod(api, "a")
    await pod(api, "canary", app="other")
    cache.watch_only({"demo"})
    assert not cache.all_asked()
    await until(lambda: names(cache) == ["a"])
    assert cache.listed("demo")
    await pod(api, "b")
    await until(lambda: names(cache) == ["a", "b"])
    await api.delete(PODS, "demo", "a")
    await until(lambda: names(cache) == ["b"])


async def test_only_namespaces_with_scalers_are_read(api, cache):
    await pod(api, "a")
    await pod(api, "x", ns="elsewhere")
    cache.watch_only({"demo"})
    await until(cache.all_asked)
    assert names(cache, "elsewhere") == []
    cache.watch_only(set())
    assert names(cache) == []
    assert all("/namespaces/demo/" in c.path for c in api.calls)


async def test_a_label_that_changes_moves_the_pod(api, cache):
    await pod(api, "a")
    cache.watch_only({"demo"})
    await until(lambda: names(cache) == ["a"])
    await api.edit(PODS, "demo", "a", {"metadata": {"labels": {"app": "other"}}})
    await until(lambda: names(cache) == [])
    other = parse_selector("app in (other)")
    assert [record.name for record in cache.select("demo", other)] == ["a"]
    assert [record.name for record in cache.select("demo", parse_selector("app"))] == ["a"]
    await api.delete(PODS, "demo", "a")
    await until(lambda: cache._watched["demo"][0]._labelled == {})


async def test_finished_pods_are_not_selected(api, cache):
    body = await pod(api, "done")
    await api.edit(PODS, "demo", "done", {"status": {"phase": "Succeeded"}})
    cache.watch_only({"demo"})
    await until(lambda: cache.listed("demo"))
    assert names(cache) == []
    assert body["metadata"]["name"] == "done"


async def test_a_stream_that_falls_silent_is_listed_anew(api, cache):
    cache.watch_only({"demo"})
    await until(lambda: calls(api, watch=True))
    api.silent_watches = True
    await pod(api, "late")
    await until(lambda: names(cache) == ["late"], 10)


async def test_an_expired_version_is_listed_anew_without_a_tight_loop(api, kube):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await asyncio.sleep(0)

    await pod(api, "a")
    pods = NamespacePods(kube, "demo", sleep=sleep)

    async def expire():
        version = await NamespacePods.list_all(pods)
        api.forget_history()
        api.oldest += 1
        return version

    pods.list_all = expire
    task = asyncio.create_task(pods.run())
    await until(lambda: len(slept) >= 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert all(seconds >= 1 for seconds in slept)
    assert len(calls(api, watch=False)) <= len(slept) + 1


async def test_an_outage_slows_the_lists_and_is_recovered_from(api, kube):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        api.faults.clear() if len(slept) == 3 else None
        pods._kube._gate._failures.clear()
        await asyncio.sleep(0)

    api.faults.append(Fault(lambda _, path: path.endswith("/pods"), status=503))
    await pod(api, "a")
    pods = NamespacePods(kube, "demo", sleep=sleep)
    task = asyncio.create_task(pods.run())
    await until(lambda: pods.pods)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [int(seconds) for seconds in slept[:2]] == [1, 2]
    assert slept[2] >= 4


async def test_streams_that_end_at_once_are_not_hammered(api, kube):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await asyncio.sleep(0.01)

    pods = NamespacePods(kube, "demo", sleep=sleep)

    async def nothing(*_, **__):
        return
        yield

    kube.watch = nothing
    task = asyncio.create_task(pods.run())
    await until(lambda: len(slept) >= 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert set(slept) == {1.0}


async def test_a_stream_that_died_of_an_error_of_ours_is_begun_again(api, cache, caplog):
    await pod(api, "a")
    cache.watch_only({"demo"})
    await until(lambda: names(cache))
    pods, task = cache._watched["demo"]
    pods.apply = lambda event: 1 / 0
    await pod(api, "b")
    await until(task.done)
    assert "pods of demo ended" in caplog.text
    del pods.apply
    cache.watch_only({"demo"})
    await until(lambda: names(cache) == ["a", "b"])


async def test_silence_is_measured(api, kube):
    now = [0.0]
    cache = PodCache(kube, clock=lambda: now[0])
    assert cache.silent_for(5.0) == 0.0
    cache.watch_only({"demo"})
    now[0] = 7.0
    assert cache.silent_for(7.0) == 7.0
    await cache.close()


async def test_to_be_refused_is_known_and_no_death(api, kube):
    now = [0.0]
    refusal = Fault(lambda _, path: "/demo/pods" in path, 403, "Forbidden")
    api.faults.append(refusal)
    cache = PodCache(kube, clock=lambda: now[0])
    assert cache.fault("demo") is None
    cache.watch_only({"demo", "other"})
    now[0] = 400.0
    await until(lambda: cache.fault("demo"))
    await until(cache.all_asked)
    assert "403 Forbidden" in (cache.fault("demo") or "")
    assert (cache.listed("demo"), cache.listed("other")) == (False, True)
    assert (cache.silent_for(400.0), cache.stuck_for(400.0)) == (400.0, 0.0)
    api.faults.remove(refusal)
    await until(lambda: cache.listed("demo"), 10.0)
    assert cache.fault("demo") is None
    await cache.close()
