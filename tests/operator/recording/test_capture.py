"""A live scaler, seen from outside of the cluster."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.operator.fake_pods import DEPLOYMENTS, PODS, FakePod
from tests.operator.recording.proxied import (
    GPU_TEMPLATE,
    NOT_REACHED,
    TIMED_OUT,
    Pods,
    deployment,
    pod,
    workload,
)

from cacheaware.controller.registry import scaler_record
from cacheaware.kube import TOO_LARGE, KubeError
from cacheaware.observe.podcache import PodCache
from cacheaware.observe.selector import parse_selector
from cacheaware.observe.target import TargetError, leaders
from cacheaware.recording import capture as captures
from cacheaware.recording.capture import Capture, unknown_of
from cacheaware.recording.lines import written
from cacheaware.recording.replay import Replay, scaler_of
from cacheaware.workload.template import LWS, LWS_WORKER_INDEX

CHAT = parse_selector("app=chat")

PAGE = 'vllm:num_requests_running{model_name="m"} 2\nvllm:kv_cache_usage_perc{model_name="m"} 0.5\n'


@pytest.fixture
async def cache(kube):
    found = PodCache(kube)
    yield found
    await found.close()


@pytest.fixture
def captured(api, kube, cache):
    """A capture of a workload whose pods answer so."""

    async def make(answers, *, round_seconds=1.0, **spec):
        pods = Pods(answers)
        body = await workload(api, pods, **spec)
        scaler = scaler_record(body)
        found = Capture(
            kube=kube, scaler=scaler, ref=scaler.ref, pods=cache, round_seconds=round_seconds
        )
        header = await found.header(body)
        assert await found.listed() is None
        return found, header, pods

    return make


async def test_a_round_holds_what_each_pods_sidecar_tells_through_the_api_server(captured, api):
    capture, header, pods = await captured({"chat-1": FakePod(usage=0.25), "chat-2": FakePod()})
    seen = await capture.round()

    assert (header.target_kind, header.gpus_per_replica, header.round_seconds) == (
        "Deployment", 2, 1.0,
    )  # fmt: skip
    assert seen.replicas == 2
    assert [(one.name, one.node, one.ready) for one in seen.pods] == [
        ("p1", "n1", True),
        ("p2", "n1", True),
    ]
    assert seen.pods[0].look.state["kv"]["used_tokens"] == 2500
    assert pods.asked[0].endswith("/namespaces/demo/pods/chat-1:9440/proxy/v1/state")
    assert {call.method for call in api.calls} == {"GET"}, "nothing is written"


async def test_what_was_captured_replays(captured):
    capture, header, _ = await captured({"chat-1": FakePod(usage=0.95, waiting=30)})
    rounds = [await capture.round(), await capture.round()]
    replay = Replay(header, scaler_of(header.target_kind, header.spec))

    assert [step.decision.raw for step in replay.steps(rounds)] == [6, 6]


async def test_what_was_captured_of_engines_pages_replays_with_rates(captured):
    fake = FakePod(page=counted(0))
    capture, header, _ = await captured({"chat-1": fake})
    rounds = []
    for number in range(3):
        fake.page = counted(number)
        rounds.append(seen_at(await capture.round(), 40.0 * number))
    replay = Replay(header, scaler_of(header.target_kind, header.spec))
    prompts = [step.decision.inputs["promptTokensPerSecond"] for step in replay.steps(rounds)]

    assert prompts == [None, 100.0, 100.0]


def counted(number):
    """A page after so many steps of 4,000 tokens, with a histogram."""
    return PAGE + (
        f'vllm:prompt_tokens_total{{model_name="m"}} {4000 * number}\n'
        f'vllm:generation_tokens_total{{model_name="m"}} {400 * number}\n'
        f'vllm:time_to_first_token_seconds_bucket{{model_name="m",le="0.5"}} {number}\n'
        f'vllm:time_to_first_token_seconds_bucket{{model_name="m",le="+Inf"}} {number}\n'
        f'vllm:time_to_first_token_seconds_count{{model_name="m"}} {number}\n'
        f'vllm:time_to_first_token_seconds_sum{{model_name="m"}} {number}\n'
    )


def seen_at(seen, at):
    """A round as if it had been seen at another time."""
    pods = tuple(
        one.model_copy(update={"look": one.look.model_copy(update={"at_s": at})})
        for one in seen.pods
    )
    return seen.model_copy(update={"at_s": at, "pods": pods})


async def test_nothing_of_the_cluster_can_be_read_from_it(captured):
    capture, header, _ = await captured({"chat-1": FakePod(), "chat-2": FakePod(page=PAGE)})
    text = written(header) + written(await capture.round())

    for private in ("chat", "demo", "gpu-node", "10.9.8.7", '"m"', "nvidia"):
        assert private not in text


async def test_an_engine_without_a_sidecar_is_asked_for_its_page(captured):
    capture, _, pods = await captured(
        {"chat-1": FakePod(page=PAGE)}, engine={"ports": [8001, 8002]}
    )
    seen = await capture.round()

    assert [one.running for one in seen.pods[0].look.samples] == [2.0, 2.0]
    assert {path.split("/pods/")[1] for path in pods.asked} == {
        "chat-1:8001/proxy/metrics",
        "chat-1:8002/proxy/metrics",
    }


async def test_a_page_behind_tls_is_asked_for_so(captured):
    capture, _, pods = await captured({"chat-1": FakePod(page=PAGE)}, engine={"scheme": "HTTPS"})
    await capture.round()

    assert pods.asked[0].endswith("/pods/https:chat-1:8000/proxy/metrics")


@pytest.mark.parametrize(
    ("answer", "unknown"),
    [
        (NOT_REACHED, "MetricsRefused"),
        (TIMED_OUT, "MetricsTimedOut"),
        ("hang", "MetricsTimedOut"),
        ("no json", "MetricsInvalid"),
        ('{"schema": 99, "phase": "serving"}', "UnknownSchema"),
        ("x" * 300_000, "MetricsInvalid"),
        (FakePod(behaviour="401"), "MetricsUnauthorized"),
        (FakePod(behaviour="403"), "MetricsUnauthorized"),
        (FakePod(behaviour="500"), "MetricsError"),
    ],
    ids=["refused", "timeout", "hung", "garbage", "schema", "huge", "401", "403", "500"],
)
async def test_a_pod_that_fails_spoils_only_itself(captured, answer, unknown):
    capture, _, _ = await captured({"chat-1": answer, "chat-2": FakePod()}, round_seconds=0.5)
    bad, good = (await capture.round()).pods

    assert (bad.look.unknown, bad.look.state) == (unknown, None)
    assert good.look.unknown is None


async def test_a_page_of_no_engine_is_told_as_such(captured):
    capture, _, _ = await captured({"chat-1": FakePod(page="up 1\n")})

    assert (await capture.round()).pods[0].look.unknown == "UnsupportedEngine"


async def test_a_pod_without_an_address_is_not_asked(captured, api):
    capture, _, pods = await captured({})
    await api.put(PODS, pod("chat-9", ip=None))
    while not (found := (await capture.round()).pods):
        pass

    assert found[0].look is None
    assert pods.asked == []


async def test_without_the_right_to_reach_pods_it_ends(captured):
    capture, _, _ = await captured({"chat-1": "forbidden"})

    with pytest.raises(KubeError, match="pods/proxy"):
        await capture.round()


async def test_a_target_that_is_not_there_is_told(captured, api):
    capture, _, _ = await captured({"chat-1": FakePod()})
    await api.delete(DEPLOYMENTS, "demo", "chat")

    with pytest.raises(TargetError, match="does not exist"):
        await capture.round()


async def test_pods_that_may_not_be_listed_are_told(captured, api, kube):
    capture, _, _ = await captured({"chat-1": FakePod()})
    api.tokens = set()
    other = PodCache(kube)
    capture.pods = other

    assert "401" in await capture.listed()
    await other.close()


async def test_pods_that_are_not_told_in_time_are_told(captured, monkeypatch):
    capture, _, _ = await captured({"chat-1": FakePod()})
    monkeypatch.setattr(captures, "LISTED_WITHIN_S", 0.0)
    monkeypatch.setattr(PodCache, "listed", lambda *_: False)

    assert await capture.listed() == "no answer within 0 s"


@pytest.mark.parametrize(
    ("template", "gpus"),
    [
        (GPU_TEMPLATE, 2),
        ({"spec": {"containers": [{"name": "engine"}]}}, None),
        (None, None),
    ],
    ids=["gpus", "none", "no template"],
)
async def test_the_gpus_of_a_replica_are_those_of_its_template(captured, api, template, gpus):
    capture, _, _ = await captured({"chat-1": FakePod()})
    await api.put(DEPLOYMENTS, deployment(1, template))
    header = await capture.header({"spec": {"maxReplicas": 2}})

    assert header.gpus_per_replica == gpus


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (KubeError(0, TOO_LARGE), "MetricsInvalid"),
        (KubeError(504, "Timeout"), "MetricsTimedOut"),
        (KubeError(500, "InternalError", "context deadline exceeded"), "MetricsTimedOut"),
        (KubeError(0, "Unreachable", "reset"), "MetricsError"),
        (KubeError(404, "NotFound", 'pods "x" not found'), "MetricsError"),
    ],
    ids=str,
)
def test_what_the_api_server_says_of_a_pod_is_told_in_the_operators_words(error, unknown):
    assert unknown_of(error) == unknown


class Group:
    """Reads a Deployment's target as if a LeaderWorkerSet were there."""

    def __init__(self, targets, ref):
        self._targets, self._ref = targets, ref

    async def read(self, _):
        return await self._targets.read(self._ref)


async def test_of_a_group_only_the_leader_is_a_pod_of_the_target(captured, api):
    capture, _, pods = await captured({"chat-0": FakePod(), "chat-0-1": FakePod()})
    worker = {"metadata": {"labels": {"app": "chat", LWS_WORKER_INDEX: "1"}}}
    await api.edit(PODS, "demo", "chat-0-1", worker)
    group = replace(capture.ref, kind=LWS)
    for _ in range(500):
        if len(leaders(group, capture.pods.select("demo", CHAT))) == 1:
            break
        await asyncio.sleep(0.01)
    capture.targets, capture.ref = Group(capture.targets, capture.ref), group
    seen = await capture.round()

    assert [one.name for one in seen.pods] == ["p1"]
    assert len(pods.asked) == 1, "a worker has no load of its own"
