"""The mock engine's routes, in this process."""

import asyncio
import json
import time

import pytest
from aiohttp.test_utils import TestClient, TestServer

from cacheaware_sim.engine import Engine
from cacheaware_sim.faults import Faults
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.metrics_page import MetricsPage
from cacheaware_sim.openai_api import Served
from cacheaware_sim.real_time import RealTimeEngine
from cacheaware_sim.server import Server
from cacheaware_sim.termination import Habit, Termination

FAST = IterationCost(
    c0_ms=1, c1_ms_per_seq=0, c2_ms_per_ktok=0, a1_ms_per_ktok=1, a2_ms_per_mtok2=0
)


@pytest.fixture
async def make(config):
    """Makes (client, engine) of a mock engine; both end with the test."""
    made = []

    async def serve(*, api_key=None, faults=False, answer_tokens=8, interval=1, **changes):
        settings = config(**{"cost": FAST, **changes})
        engine = RealTimeEngine(Engine(settings, time.monotonic()), stream_interval=interval)
        served = Served(
            model="mock", max_model_len=settings.max_model_len, answer_tokens=answer_tokens
        )
        page = MetricsPage(model_name="mock", config=settings, created=1.7e9)
        controls = Faults(time.monotonic) if faults else None
        server = Server(engine, served, page, api_key=api_key, faults=controls)
        client = TestClient(TestServer(server.app()))
        await client.start_server()
        task = asyncio.create_task(engine.run())
        made.append((client, task))
        return client, engine

    yield serve
    for client, task in made:
        await client.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def post(client, path, **body):
    async with client.post(path, json=body) as answer:
        return answer.status, await answer.json()


async def stream(client, path, **body):
    """(status, events) of a stream."""
    async with client.post(path, json={"stream": True, **body}) as answer:
        text = await answer.text()
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    return answer.status, [json.loads(event) for event in events]


async def until(true):
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it does not come true within five seconds")


async def test_a_completion_has_text_finish_reason_and_usage(make):
    client, _ = await make()

    status, body = await post(client, "/v1/completions", prompt="Hello world", max_tokens=5)

    (choice,) = body["choices"]
    assert status == 200
    assert (body["object"], body["model"]) == ("text_completion", "mock")
    assert (choice["finish_reason"], len(choice["text"])) == ("length", 25)
    assert body["usage"]["prompt_tokens"] == 4
    assert body["usage"]["completion_tokens"] == 5
    assert body["usage"]["total_tokens"] == 9


async def test_a_chat_ends_by_itself_where_no_limit_is_given(make):
    client, _ = await make(answer_tokens=7)

    status, body = await post(
        client, "/v1/chat/completions", messages=[{"role": "user", "content": "hi"}]
    )

    (choice,) = body["choices"]
    assert (status, body["object"]) == (200, "chat.completion")
    assert choice["message"]["role"] == "assistant"
    assert (choice["finish_reason"], body["usage"]["completion_tokens"]) == ("stop", 7)


async def test_an_answer_is_the_same_as_a_stream_and_at_once(make):
    client, _ = await make()
    ask = {"prompt": "Tell me", "max_tokens": 20}

    _, whole = await post(client, "/v1/completions", **ask)
    status, events = await stream(
        client, "/v1/completions", **ask, stream_options={"include_usage": True}
    )

    text = "".join(choice["text"] for event in events for choice in event["choices"])
    reasons = [choice["finish_reason"] for event in events for choice in event["choices"]]
    assert status == 200
    assert text == whole["choices"][0]["text"]
    assert reasons[-1] == "length"
    assert set(reasons[:-1]) == {None}
    assert (events[-1]["choices"], events[-1]["usage"]["completion_tokens"]) == ([], 20)


async def test_a_chat_stream_says_who_speaks_and_has_no_usage_unless_asked(make):
    client, _ = await make()

    _, events = await stream(
        client,
        "/v1/chat/completions",
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        max_completion_tokens=3,
    )

    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert all(event["object"] == "chat.completion.chunk" for event in events)
    assert not any("usage" in event for event in events)


async def test_a_stream_can_come_in_larger_pieces_but_for_its_first_token(make):
    client, _ = await make(interval=10)

    _, events = await stream(client, "/v1/completions", prompt="a", max_tokens=41)

    sizes = [len(choice["text"]) // 5 for event in events for choice in event["choices"]]
    assert sizes[0] < 10
    assert sum(sizes) == 41
    assert len(sizes) <= 6


async def test_several_prompts_have_several_answers(make):
    client, _ = await make()

    _, body = await post(client, "/v1/completions", prompt=["one", [1, 2, 3]], max_tokens=4)
    _, events = await stream(client, "/v1/completions", prompt=["one", "two"], max_tokens=4)

    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert body["usage"]["prompt_tokens"] == 1 + 3
    ends = {c["index"] for e in events for c in e["choices"] if c["finish_reason"] == "length"}
    assert ends == {0, 1}


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("completions", {"model": "x", "prompt": "a"}, 404, "The model `x` does not exist."),
        ("completions", {"prompt": "a b " * 600, "max_tokens": 1}, 400, "maximum context length"),
        ("completions", {"prompt": "a", "max_tokens": 1024}, 400, "you requested 1024 output"),
        ("completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens must be at least 1"),
        ("completions", {"prompt": "a", "max_tokens": True}, 400, "max_tokens must be at least"),
        ("completions", {"prompt": ""}, 400, "The prompt is empty"),
        ("completions", {"prompt": None}, 400, "prompt must be a string"),
        ("completions", {"prompt": [{}]}, 400, "prompt must be a string"),
        ("completions", {"prompt": "a", "n": 2}, 400, "n must be 1"),
        ("completions", [], 400, "the body must be a JSON object"),
        ("chat/completions", {"messages": []}, 400, "messages must be a list with at least one"),
        ("chat/completions", {"messages": ["hi"]}, 400, "each message must have a role"),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": 5}]},
            400,
            "the content of a message must be text",
        ),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(make, path, body, status, message):
    client, _ = await make()

    async with client.post(f"/v1/{path}", json=body) as answer:
        error = (await answer.json())["error"]

    assert (answer.status, error["code"]) == (status, status)
    assert message in error["message"]


async def test_a_body_that_is_no_json_is_refused(make):
    client, _ = await make()

    async with client.post("/v1/completions", data=b"{") as answer:
        assert answer.status == 400
        assert "not JSON" in (await answer.json())["error"]["message"]


async def test_what_the_engine_is_can_be_asked(make):
    client, _ = await make()

    models = await (await client.get("/v1/models")).json()
    version = await (await client.get("/version")).json()
    _, tokenized = await post(client, "/tokenize", prompt="Hello world")
    _, chat = await post(client, "/tokenize", messages=[{"role": "user", "content": "hi"}])
    refused, _ = await post(client, "/tokenize", prompt=5)

    assert (models["data"][0]["id"], models["data"][0]["max_model_len"]) == ("mock", 1024)
    assert version == {"version": "0.33.0"}
    assert (tokenized["count"], len(tokenized["tokens"])) == (4, 4)
    assert chat["count"] == 5
    assert refused == 400
    for path in ("/health", "/ping"):
        async with client.get(path) as answer:
            assert (answer.status, await answer.read()) == (200, b"")


async def test_a_key_is_asked_for_below_v1_only(make):
    client, _ = await make(api_key="secret")
    key = {"Authorization": "Bearer secret"}

    statuses = [
        (await client.get(path, headers=headers)).status
        for path, headers in (
            ("/v1/models", {}),
            ("/v1/models", {"Authorization": "Bearer wrong"}),
            ("/v1/models", key),
            ("/metrics", {}),
            ("/health", {}),
        )
    ]

    assert statuses == [401, 401, 200, 200, 200]


async def test_the_metrics_tell_of_what_was_served(make):
    client, _ = await make()
    await post(client, "/v1/completions", prompt="Hello world", max_tokens=5)

    async with client.get("/metrics") as answer:
        text = await answer.text()

    assert answer.headers["Content-Type"] == "text/plain; version=1.0.0; charset=utf-8"
    assert 'vllm:generation_tokens_total{engine="0",model_name="mock"} 5.0' in text
    assert "process_start_time_seconds" in text


async def test_the_next_turn_of_a_chat_finds_the_one_before_in_the_cache(make):
    client, _ = await make(block_size=4, num_blocks=400)
    messages = [{"role": "user", "content": "Tell me of the sea and of ships"}]
    _, first = await post(client, "/v1/chat/completions", messages=messages, max_tokens=30)

    messages += [first["choices"][0]["message"], {"role": "user", "content": "and more"}]
    _, second = await post(client, "/v1/chat/completions", messages=messages, max_tokens=2)

    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= first["usage"]["total_tokens"] - 2 * 4


async def test_a_client_that_goes_away_takes_its_request_along(make):
    client, engine = await make(
        cost=IterationCost(
            c0_ms=20, c1_ms_per_seq=0, c2_ms_per_ktok=0, a1_ms_per_ktok=0, a2_ms_per_mtok2=0
        )
    )
    answer = await client.post(
        "/v1/completions", json={"prompt": "a", "max_tokens": 900, "stream": True}
    )
    await answer.content.readline()
    assert len(engine.engine.running) == 1

    answer.close()
    await until(lambda: not engine.engine.running)

    assert engine.engine.snapshot().outcomes["abort"] == 1
    assert engine.engine.pool.in_use == 0


async def test_sigterm_cuts_a_plain_request_with_500_and_a_stream_with_an_error_inside(make):
    client, engine = await make()
    ask = {"prompt": "a", "max_tokens": 1000}
    plain = asyncio.create_task(post(client, "/v1/completions", **ask))
    streamed = asyncio.create_task(stream(client, "/v1/completions", **ask))
    await until(lambda: len(engine.engine.running) == 2)

    engine.terminate()
    status, body = await plain
    stream_status, events = await streamed
    newcomer, _ = await post(client, "/v1/completions", **ask)

    assert (status, body["error"]["code"]) == (500, 500)
    assert stream_status == 200
    assert events[-1]["error"]["type"] == "InternalServerError"
    assert newcomer == 500
    assert engine.exited.is_set()


async def test_newcomers_fail_with_a_healthy_face_while_the_rest_is_finished(make):
    client, engine = await make(
        termination=Termination(habit=Habit.FINISH),
    )
    ask = {"prompt": "a", "max_tokens": 300}
    running = asyncio.create_task(stream(client, "/v1/completions", **ask))
    await until(lambda: engine.engine.running)

    engine.terminate()
    newcomer, _ = await post(client, "/v1/completions", **ask)
    health = (await client.get("/health")).status
    _, events = await running
    await asyncio.wait_for(engine.exited.wait(), 5)

    assert (newcomer, health) == (500, 200)
    assert events[-1]["choices"][0]["finish_reason"] == "length"


async def test_at_the_shutdown_timeout_what_is_left_is_cut(make):
    client, engine = await make(termination=Termination(timeout_s=0.1))
    running = asyncio.create_task(stream(client, "/v1/completions", prompt="a", max_tokens=1000))
    await until(lambda: engine.engine.running)

    engine.terminate()
    _, events = await running

    assert "error" in events[-1]
    assert engine.exited.is_set()


@pytest.mark.parametrize(
    ("order", "status", "body"),
    [
        ({"metrics": "401"}, 401, b""),
        ({"metrics": "404"}, 404, b""),
        ({"metrics": "500"}, 500, b""),
        ({"metrics": "redirect"}, 307, b""),
        ({"metrics": "empty"}, 200, b""),
    ],
)
async def test_metrics_fail_as_ordered(make, order, status, body):
    client, _ = await make(faults=True)
    assert await post(client, "/faults", **order) == (200, order)

    async with client.get("/metrics", allow_redirects=False) as answer:
        assert (answer.status, await answer.read()) == (status, body)
    assert await (await client.get("/faults")).json() == order

    await client.post("/faults", json={})
    assert (await client.get("/metrics")).status == 200


async def test_metrics_lie_as_ordered(make):
    client, _ = await make(faults=True)

    async def metrics(fault):
        await post(client, "/faults", metrics=fault)
        return await (await client.get("/metrics")).read()

    assert b'kv_cache_usage_perc{engine="0",model_name="mock"} NaN' in await metrics("nan")
    assert b"\xff" in await metrics("garbage")
    before = await metrics("frozen")
    await post(client, "/v1/completions", prompt="a", max_tokens=3)
    after = await metrics("frozen")
    vllm = [[line for line in page.splitlines() if b"vllm:" in line] for page in (before, after)]
    assert vllm[0] == vllm[1]


async def test_a_hanging_part_answers_when_its_fault_is_over(make):
    client, _ = await make(faults=True)
    await post(client, "/faults", metrics="hang", health="hang", requests="hang", for_seconds=0.15)
    started = time.monotonic()

    answers = await asyncio.gather(
        client.get("/metrics"),
        client.get("/health"),
        client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1}),
    )

    assert [answer.status for answer in answers] == [200, 200, 200]
    assert 0.1 < time.monotonic() - started < 5


async def test_a_fault_that_is_replaced_lets_go_of_those_who_hang(make):
    client, _ = await make(faults=True)
    await post(client, "/faults", health="hang")
    hanging = asyncio.create_task(client.get("/health"))
    await asyncio.sleep(0.05)
    assert not hanging.done()

    await post(client, "/faults", requests="500", health="fail")

    assert (await hanging).status == 200
    assert (await client.get("/health")).status == 503
    status, _ = await post(client, "/v1/completions", prompt="a")
    assert status == 500


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"metrics": "explode"}, "metrics explode: allowed are hang, 401"),
        ({"disk": "full"}, "disk full: allowed are metrics, health, requests"),
        ({"metrics": ["hang"]}, "metrics ['hang']: allowed are"),
        ({"metrics": "hang", "for_seconds": 0}, "for_seconds 0: must be above 0"),
        ({"metrics": "hang", "for_seconds": "1"}, "for_seconds 1: must be above 0"),
        ([], "the body must be a JSON object"),
    ],
)
async def test_a_fault_that_does_not_exist_is_refused(make, order, message):
    client, _ = await make(faults=True)

    async with client.post("/faults", json=order) as answer:
        assert answer.status == 400
        assert message in (await answer.json())["error"]["message"]


async def test_faults_are_out_of_reach_unless_they_are_wanted(make):
    client, _ = await make()

    assert (await client.post("/faults", json={"metrics": "500"})).status == 404


async def test_what_a_request_uses_stalls_once_and_is_otherwise_ignored(make):
    client, _ = await make(stalls_s={"structured-output": 0.3, "logprobs": 0.3})
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
    seen = []
    for extra in (
        {"response_format": {"type": "text"}, "logprobs": False},
        {"response_format": schema},
        {"response_format": {"type": "json_object"}},
        {"logprobs": 0},
        {"logprobs": True},
    ):
        began = time.monotonic()
        status, _ = await post(client, "/v1/completions", prompt="a", max_tokens=1, **extra)
        seen.append((status, time.monotonic() - began > 0.3))

    assert seen == [(200, False), (200, True), (200, False), (200, True), (200, False)]


@pytest.mark.parametrize("wanted", [{"type": "yaml"}, "json", {}])
async def test_a_form_of_answer_that_is_not_known_is_refused_or_ignored(make, wanted):
    client, _ = await make()
    body = {"prompt": "a", "response_format": wanted}
    status, answer = await post(client, "/v1/completions", **body)

    assert status == (200 if wanted == {} else 400)
    assert wanted == {} or "json_schema" in answer["error"]["message"]


async def test_whole_answers_tell_log_probabilities_where_they_are_asked_for(make):
    client, _ = await make()
    asked = {"prompt": "one two", "max_tokens": 3}
    _, plain = await post(client, "/v1/completions", **asked)
    _, told = await post(client, "/v1/completions", **asked, logprobs=2)
    _, echoed = await post(client, "/v1/completions", **asked, logprobs=2, echo=True)
    _, chat = await post(
        client,
        "/v1/chat/completions",
        messages=[{"role": "user", "content": "hi"}],
        max_tokens=3,
        logprobs=True,
    )

    assert plain["choices"][0]["logprobs"] is None
    assert len(told["choices"][0]["logprobs"]["tokens"]) == 3
    assert told["choices"][0]["text"] == plain["choices"][0]["text"]
    ahead = echoed["usage"]["prompt_tokens"]
    found = echoed["choices"][0]["logprobs"]
    assert found["token_logprobs"][0] is None
    assert found["token_logprobs"][ahead:] == told["choices"][0]["logprobs"]["token_logprobs"]
    assert echoed["choices"][0]["text"] == "one two" + plain["choices"][0]["text"]
    assert len(chat["choices"][0]["logprobs"]["content"]) == 3


@pytest.mark.parametrize(
    ("path", "extra", "name"),
    [
        ("/v1/completions", {"prompt": "a", "logprobs": 21}, "logprobs"),
        ("/v1/completions", {"prompt": "a", "logprobs": "2"}, "logprobs"),
        (
            "/v1/chat/completions",
            {
                "messages": [{"role": "user", "content": "a"}],
                "logprobs": True,
                "top_logprobs": -1,
            },
            "top_logprobs",
        ),
    ],
)
async def test_more_log_probabilities_than_there_are_is_refused(make, path, extra, name):
    client, _ = await make()
    status, answer = await post(client, path, max_tokens=1, **extra)

    assert status == 400
    assert f"{name} must be 0 to 20" in answer["error"]["message"]


async def test_a_model_may_drift_on_demand(make):
    client, _ = await make(faults=True)
    asked = {"prompt": "one two three", "max_tokens": 3, "logprobs": 1, "echo": True}
    _, healthy = await post(client, "/v1/completions", **asked)
    await client.post("/faults", json={"model": "drift"})
    _, adrift = await post(client, "/v1/completions", **asked)
    await client.post("/faults", json={})
    _, again = await post(client, "/v1/completions", **asked)

    assert healthy["choices"] == again["choices"]
    assert healthy["choices"][0]["text"] == adrift["choices"][0]["text"]
    assert healthy["choices"][0]["logprobs"] != adrift["choices"][0]["logprobs"]
