"""Fetching from pods that answer well, badly, late or not at all."""

import asyncio
import time

import pytest
from tests.operator.fake_pods import FakeFleet, FakePod

from cacheaware.decide import Memory, decide
from cacheaware.decide.fleet import FleetView, Unknown
from cacheaware.decide.policy import Policy, RatePolicy, Rules
from cacheaware.observe import direct
from cacheaware.observe.memory import PodMemory
from cacheaware.observe.observer import Access, Observer
from cacheaware.observe.poll import Poller
from cacheaware.observe.secrets import SecretRef, Secrets
from cacheaware.pods import PodRecord

CALM = Rules(
    stabilization_seconds=0, policies=(RatePolicy("Percent", 100, 15),), tolerance_percent=0
)


@pytest.fixture
async def fleet():
    async with FakeFleet() as found:
        yield found


@pytest.fixture
async def poller():
    found = Poller(concurrency=256, deadline_s=1.0)
    yield found
    await found.close()


def record(fleet, pod, number=0, *, sidecar=False):
    port = "sidecar_port" if sidecar else "engine_port"
    return PodRecord(
        namespace="demo",
        name=f"p{number}",
        uid=f"u{number}",
        labels={},
        ip=fleet.add(pod),
        ready=True,
        ready_since=1.0,
        **{port: fleet.port},
    )


def page_of(fleet, pod, path="/metrics"):
    return f"http://{fleet.add(pod)}:{fleet.port}{path}"


async def test_a_redirect_on_the_same_server_is_followed(fleet, poller, case):
    page = case("008", "input.http").partition("200 OK")[2].strip() + "\n"
    answer = await poller.fetch(
        page_of(fleet, FakePod(page=page, behaviour="redirect")), direct.MAX_BYTES
    )
    found = direct.look([answer], lambda _: None)
    expected = case("008", "expect.json")
    assert (found.load.running, found.load.waiting, found.load.usage) == (
        expected["running"],
        expected["waiting"],
        expected["kv"],
    )


async def test_a_redirect_elsewhere_is_refused_and_told(fleet, poller):
    answer = await poller.fetch(page_of(fleet, FakePod(behaviour="offhost")), direct.MAX_BYTES)
    assert answer.unknown is Unknown.ERROR
    assert "169.254.169.254" in answer.detail


async def test_redirects_without_end_are_given_up(fleet, poller):
    pod = FakePod(behaviour="redirect-loop")
    answer = await poller.fetch(page_of(fleet, pod), direct.MAX_BYTES)
    assert "redirects" in answer.detail


@pytest.mark.parametrize(
    ("behaviour", "unknown", "said"),
    [
        ("401", Unknown.UNAUTHORIZED, "a key is needed"),
        ("403", Unknown.UNAUTHORIZED, "a key is needed"),
        ("404", Unknown.ERROR, "answered 404"),
        ("500", Unknown.ERROR, "answered 500"),
        ("hang", Unknown.TIMED_OUT, "no answer in 1 s"),
        ("huge", Unknown.INVALID, "more than 8,388,608 bytes"),
        ("drip", Unknown.TIMED_OUT, "no answer in 1 s"),
        ("drop", Unknown.ERROR, ""),
    ],
)
async def test_each_failure_has_its_reason(fleet, poller, behaviour, unknown, said):
    answer = await poller.fetch(page_of(fleet, FakePod(behaviour=behaviour)), direct.MAX_BYTES)
    assert (answer.content, answer.unknown) == (None, unknown)
    assert said in answer.detail


async def test_a_port_that_nobody_listens_on_is_refused(poller, unused_tcp_port):
    url = f"http://127.0.0.1:{unused_tcp_port}/metrics"
    assert (await poller.fetch(url, 1000)).unknown is Unknown.REFUSED


async def test_one_hung_pod_of_seventy_neither_stops_nor_slows_the_round(fleet, case):
    given = case("015", "input.state.json")
    ok, hung = given["pods"]["ok"], given["pods"]["hung"]
    records = [
        record(fleet, FakePod(usage=ok["kv"], waiting=0, latency_s=ok["latencySeconds"]), n)
        for n in range(ok["count"])
    ]
    records += [record(fleet, FakePod(behaviour="hang"), 100 + n) for n in range(hung["count"])]
    poller = Poller(concurrency=256, deadline_s=1.0)
    observer = Observer(poller, Secrets(None), stale_s=45, budget_s=3.0)
    began = time.monotonic()
    seen = await observer.see(records, Access(observation="Direct"), {})
    took = time.monotonic() - began
    await poller.close()
    assert took < 2.5 < case("015", "expect.json")["round_seconds_max"]
    assert [pod.unknown for pod in seen.pods if pod.load is None] == [Unknown.TIMED_OUT]
    fleet_now = FleetView(
        namespace="demo", name="x", spec_replicas=given["specReplicas"], pods=seen.pods
    )
    policy = Policy(
        mode="Advise",
        min_replicas=given["min"],
        max_replicas=given["max"],
        scale_up=CALM,
        scale_down=CALM,
    )
    decision, _ = decide(fleet_now, policy, Memory.start(70, 0.0), 15.0)
    assert decision.raw == case("015", "expect.json")["replicas_after_window"]


async def test_more_hung_pods_than_slots_still_end_within_the_budget(fleet):
    records = [record(fleet, FakePod(behaviour="hang"), n) for n in range(100)]
    poller = Poller(concurrency=10, deadline_s=0.5)
    observer = Observer(poller, Secrets(None), stale_s=45, budget_s=0.8)
    began = time.monotonic()
    seen = await observer.see(records, Access(observation="Direct"), {})
    assert time.monotonic() - began < 1.5
    await poller.close()
    assert {pod.unknown for pod in seen.pods} == {Unknown.TIMED_OUT, Unknown.NOT_YET_SEEN}


async def test_hung_pods_do_not_keep_the_others_from_being_asked(fleet, monkeypatch):
    monkeypatch.setattr("cacheaware.observe.observer.PER_TARGET", 1)
    records = [record(fleet, FakePod(behaviour="hang"), n) for n in range(3)]
    records += [record(fleet, FakePod(), n) for n in range(3, 6)]
    late = {one.uid: PodMemory(unknown=Unknown.TIMED_OUT) for one in records[:3]}
    poller = Poller(concurrency=10, deadline_s=0.3)
    observer = Observer(poller, Secrets(None), stale_s=45, budget_s=0.2)
    seen = await observer.see(records, Access(observation="Direct"), late)
    await poller.close()
    assert [pod.unknown for pod in seen.pods] == [Unknown.TIMED_OUT] * 3 + [None] * 3


async def test_an_answer_that_breaks_our_own_code_spoils_only_its_pod(
    fleet, poller, monkeypatch, caplog
):
    def broken(answers, *_):
        if b"vllm:num_requests_running" not in answers[0].content:
            raise ZeroDivisionError
        return look(answers, *_)

    look = direct.look
    monkeypatch.setattr(direct, "look", broken)
    observer = Observer(poller, Secrets(None), stale_s=45, budget_s=5)
    both = [record(fleet, FakePod(), 1), record(fleet, FakePod(page="odd"), 2)]
    seen = await observer.see(both, Access(observation="Direct"), {})
    assert [pod.unknown for pod in seen.pods] == [None, Unknown.INVALID]
    assert "ZeroDivisionError" in seen.problems[0]
    assert "its answer" in caplog.text


async def test_a_round_that_is_given_up_leaves_no_look_running(fleet, poller):
    records = [record(fleet, FakePod(behaviour="hang"), n) for n in range(3)]
    observer = Observer(poller, Secrets(None), stale_s=45, budget_s=5)
    task = asyncio.create_task(observer.see(records, Access(observation="Direct"), {}))
    await asyncio.sleep(0.05)
    assert len(looks_under_way()) == 3
    task.cancel()
    await asyncio.gather(task, *looks_under_way(), return_exceptions=True)
    assert looks_under_way() == []


def looks_under_way():
    tasks = asyncio.all_tasks()
    return [one for one in tasks if "_all_looks" in one.get_coro().__qualname__]


class Keys:
    """A Secret that is read by GET, and counts how often."""

    def __init__(self, key):
        self.key, self.reads = key, 0

    async def get(self, path):
        import base64

        self.reads += 1
        assert path == "/api/v1/namespaces/demo/secrets/engine-key"
        return {"data": {"api-key": base64.b64encode(self.key.encode()).decode()}}


REF = SecretRef("demo", "engine-key", "api-key")


async def test_a_key_is_read_from_the_secret_and_again_when_it_is_refused(fleet, poller):
    now = [0.0]
    keys, pod = Keys("old"), FakePod(key="old")
    observer = Observer(poller, Secrets(keys, clock=lambda: now[0]), stale_s=45, budget_s=5)
    one, access = record(fleet, pod), Access(observation="Direct", secret=REF)
    assert (await observer.see([one], access, {})).pods[0].load is not None
    pod.key = keys.key = "new"
    now[0] = 60.0
    assert (await observer.see([one], access, {})).pods[0].load is not None
    assert keys.reads == 2


async def test_a_wrong_key_holds_and_names_the_pod_and_never_the_key(fleet, poller, caplog):
    caplog.set_level("DEBUG")
    keys = Keys("sk-EXAMPLE-not-real")
    now = [0.0]
    observer = Observer(poller, Secrets(keys, clock=lambda: now[0]), stale_s=45, budget_s=5)
    records = [record(fleet, FakePod(key="right"), number) for number in range(20)]
    access = Access(observation="Direct", secret=REF)
    await observer.see(records, access, {})
    now[0] = 60.0
    seen = await observer.see(records, access, {})
    assert {pod.unknown for pod in seen.pods} == {Unknown.UNAUTHORIZED}
    assert "pod p0 and 19 more" in seen.problems[0]
    assert keys.reads == 2
    told = repr(seen) + caplog.text
    assert "sk-EXAMPLE" not in told


async def test_a_missing_secret_is_unauthorized_and_named(fleet, poller, kube):
    observer = Observer(poller, Secrets(kube), stale_s=45, budget_s=5)
    access = Access(observation="Direct", secret=REF)
    seen = await observer.see([record(fleet, FakePod())], access, {})
    assert seen.pods[0].unknown is Unknown.UNAUTHORIZED
    assert "Secret engine-key: 404 NotFound" in seen.problems[0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "has no key 'api-key'"),
        ({"api-key": "%%%"}, "not text"),
        ({"api-key": "/w=="}, "not text"),
    ],
)
async def test_a_secret_that_holds_no_key_is_named(api, kube, data, said):
    from cacheaware.observe.secrets import SecretError

    body = {"metadata": {"namespace": "demo", "name": "engine-key"}, "data": data}
    await api.put(("", "v1", "secrets"), body)
    with pytest.raises(SecretError, match=said):
        await Secrets(kube).bearer(REF)


async def test_the_sidecar_is_asked_where_a_pod_has_one(fleet, poller):
    observer = Observer(poller, Secrets(None), stale_s=45, budget_s=5)
    both = [record(fleet, FakePod(), 1, sidecar=True), record(fleet, FakePod(), 2)]
    assert (await observer.see(both, Access(), {})).observation == "Mixed"
    assert (await observer.see(both[:1], Access(), {})).observation == "Sidecar"
    assert (await observer.see(both[1:], Access(), {})).observation == "Direct"
    assert (await observer.see([], Access(), {})).observation == "Sidecar"


async def test_several_engines_of_a_pod_are_asked_on_their_ports(fleet, poller):
    observer = Observer(poller, Secrets(None), stale_s=45, budget_s=5)
    one = record(fleet, FakePod(running=2))
    seen = await observer.see([one], Access(ports=(fleet.port, fleet.port)), {})
    assert seen.pods[0].load.running == 4


def test_addresses_of_version_6_are_bracketed():
    from cacheaware.observe.observer import engine_urls

    known = {"namespace": "d", "name": "p", "uid": "u", "labels": {}}
    one = PodRecord(**known, ip="fd00::1", engine_path="stats")
    assert engine_urls(one, Access(scheme="https")) == ["https://[fd00::1]:8000/stats"]


async def test_the_whole_round_of_many_pods_is_parallel(fleet, poller):
    records = [record(fleet, FakePod(latency_s=0.2), n) for n in range(60)]
    observer = Observer(poller, Secrets(None), stale_s=45, budget_s=5)
    began = asyncio.get_running_loop().time()
    await observer.see(records, Access(), {})
    assert asyncio.get_running_loop().time() - began < 1.5
