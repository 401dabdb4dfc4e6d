"""The mock engine sends its clients away as the sidecar's middleware does."""

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from cacheaware_sim.engine import Engine
from cacheaware_sim.metrics_page import MetricsPage
from cacheaware_sim.openai_api import Served
from cacheaware_sim.real_time import RealTimeEngine
from cacheaware_sim.server import Server
from cacheaware_sim.settings import parse


@pytest.fixture
async def client(config, tmp_path):
    """Of a mock engine that looks for `closing` in the test's folder; `opened` counts."""
    settings = config()
    engine = RealTimeEngine(Engine(settings, time.monotonic()))
    served = Served(model="mock", max_model_len=settings.max_model_len, answer_tokens=8)
    page = MetricsPage(model_name="mock", config=settings, created=1.7e9)
    server = Server(engine, served, page, close_while=tmp_path / "closing")
    task = asyncio.create_task(engine.run())
    connections = aiohttp.TraceConfig()
    opened = []

    async def count(*_):
        opened.append(1)

    connections.on_connection_create_end.append(count)
    async with TestClient(TestServer(server.app()), trace_configs=[connections]) as client:
        client.opened = opened
        yield client
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def ask(client):
    """What an answer says of its connection, and how many were opened so far."""
    async with client.get("/health") as answer:
        await answer.read()
    return answer.headers.get("Connection"), len(client.opened)


async def test_while_the_file_is_there_answers_end_their_connections(client, tmp_path):
    assert [await ask(client) for _ in range(2)] == [(None, 1), (None, 1)]
    (tmp_path / "closing").touch()
    assert [await ask(client) for _ in range(3)] == [("close", 1), ("close", 2), ("close", 3)]
    (tmp_path / "closing").unlink()
    assert [await ask(client) for _ in range(2)] == [(None, 4), (None, 4)]


def test_the_file_is_a_setting():
    assert parse(["--close-while", "/run/closing"], {}).close_while == Path("/run/closing")
    assert parse([], {}).close_while is None


async def test_a_stream_that_has_begun_ends_whole(client, tmp_path):
    body = {"prompt": "a b c", "stream": True, "max_tokens": 8}
    async with client.post("/v1/completions", json=body) as answer:
        (tmp_path / "closing").touch()
        assert (await answer.text()).rstrip().endswith("data: [DONE]")
    assert "Connection" not in answer.headers

    async with client.post("/v1/completions", json=body) as answer:
        assert answer.headers["Connection"] == "close"
        assert (await answer.text()).rstrip().endswith("data: [DONE]")
