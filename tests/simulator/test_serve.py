"""The life of the mock engine's process, inside this one."""

import asyncio
import os
import re
import signal
import time

import aiohttp
import pytest

from cacheaware_sim import __main__ as program
from cacheaware_sim import serve as process
from cacheaware_sim.serve import serve
from cacheaware_sim.settings import parse


@pytest.fixture
async def start(capsys):
    """Starts to serve; (the URL, the task that ends when the process would)."""
    tasks = []

    async def begin(*flags):
        settings = parse(["--host", "127.0.0.1", "--port", "0", "--cold-start", "0", *flags], {})
        task = asyncio.create_task(serve(settings, time.monotonic()))
        tasks.append(task)
        said = ""
        for _ in range(1000):
            await asyncio.sleep(0.005)
            said += capsys.readouterr().err
            if found := re.search(r"ready on (\S+)\n", said):
                return f"http://{found[1]}", task
        pytest.fail(f"not ready: {said}")

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def sigterm():
    os.kill(os.getpid(), signal.SIGTERM)


async def ask(url, tokens, *, session):
    body = {"prompt": "a", "max_tokens": tokens}
    async with session.post(f"{url}/v1/completions", json=body) as answer:
        return answer.status


async def running(url, session):
    for _ in range(1000):
        async with session.get(f"{url}/metrics") as answer:
            if 'num_requests_running{engine="0",model_name="mock"} 1.0' in await answer.text():
                return
        await asyncio.sleep(0.01)
    pytest.fail("the request does not run")


@pytest.mark.parametrize(
    ("flags", "status", "tokens"),
    [
        pytest.param((), 500, 4000, id="abort"),
        pytest.param(("--shutdown-timeout", "30"), 200, 100, id="abort with a timeout"),
        pytest.param(("--sigterm", "close"), 200, 100, id="close"),
        pytest.param(("--sigterm", "never"), 200, 100, id="never"),
    ],
)
async def test_sigterm_ends_the_process_by_its_habit(start, flags, status, tokens):
    url, task = await start(*flags)
    async with aiohttp.ClientSession() as session:
        request = asyncio.create_task(ask(url, tokens, session=session))
        await running(url, session)

        sigterm()

        assert await request == status
    await asyncio.wait_for(task, 10)


async def test_sigterm_while_loading_ends_the_process(capsys):
    settings = parse(["--cold-start", "60"], {})
    task = asyncio.create_task(serve(settings, time.monotonic()))
    await asyncio.sleep(0.05)

    sigterm()

    await asyncio.wait_for(task, 5)
    assert "ready" not in capsys.readouterr().err


async def test_the_process_dies_of_what_its_engine_dies_of(start, monkeypatch):
    url, task = await start()

    def broken(*_):
        raise ArithmeticError("broken")

    monkeypatch.setattr("cacheaware_sim.engine.Engine.step", broken)
    async with aiohttp.ClientSession() as session:
        request = asyncio.create_task(ask(url, 5, session=session))
        with pytest.raises(ArithmeticError, match="broken"):
            await asyncio.wait_for(task, 10)
        await asyncio.gather(request, return_exceptions=True)


async def test_the_fault_controls_are_there_if_wanted(start):
    url, _ = await start("--faults")

    async with aiohttp.ClientSession() as session, session.get(f"{url}/faults") as answer:
        assert await answer.json() == {}


def test_the_program_serves_what_its_flags_say(monkeypatch):
    seen = []
    monkeypatch.setattr(process, "run", seen.append)

    assert program.main(["serve", "--port", "8123"]) == 0
    assert seen[0].port == 8123


def test_running_ends_with_the_signal(monkeypatch):
    async def at_once(settings, created_at):
        assert created_at <= time.monotonic()

    monkeypatch.setattr(process, "serve", at_once)

    process.run(parse([], {}))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "usage: python -m cacheaware_sim serve [--help]"),
        (["fly"], "usage: python -m cacheaware_sim serve [--help]"),
        (["serve", "--blocks", "1"], "num_blocks 1: must be at least 2"),
    ],
)
def test_the_program_refuses_its_input_in_one_line(arguments, line, capsys):
    assert program.main(arguments) == 2
    assert capsys.readouterr().err == f"cacheaware: {line}\n"
