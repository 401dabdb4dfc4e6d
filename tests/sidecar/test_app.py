"""The sidecar inside this process: routes, start and stop."""

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from contextlib import asynccontextmanager, suppress
from importlib import metadata

import httpx
import pytest

from cacheaware_sidecar import __main__ as program
from cacheaware_sidecar import app as app_module
from cacheaware_sidecar import store, wait
from cacheaware_sidecar.app import STUCK_S, App
from cacheaware_sidecar.http_server import Request
from cacheaware_sidecar.lifecycle import Lifecycle, UsedToken
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.version import version


@pytest.fixture
def settings(engine, tmp_path, free_port):
    return Settings(
        engine_url=engine.url,
        port=free_port,
        shared_dir=str(tmp_path),
        scrape_interval_seconds=0.2,
        drain_floor_seconds=0,
        grace_seconds=7,
    )


@asynccontextmanager
async def running(settings):
    app = App(settings)
    task = asyncio.create_task(app.run())
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{settings.port}", trust_env=False
    ) as client:
        await until(lambda: client.get("/livez"))
        yield app, client
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(1):
        await task


async def until(ask, status=200):
    async with asyncio.timeout(10):
        while True:
            with suppress(httpx.TransportError):
                if (await ask()).status_code == status:
                    return
            await asyncio.sleep(0.02)


async def test_it_serves_its_routes_and_ends_at_sigterm(settings):
    async with running(settings) as (_, client):
        await until(lambda: client.get("/readyz"))
        state = (await client.get("/v1/state")).json()
        page = await client.get("/metrics")

        assert state["phase"] == "serving"
        assert state["kv"]["capacity_tokens"] == 1616
        assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "pending_requests 0.0" in page.text


async def test_a_hook_over_the_socket_and_one_over_http_wait_for_the_same_drain(
    engine, settings, tmp_path
):
    engine.running = 2
    async with running(settings) as (_, client):
        await until(lambda: client.get("/readyz"))
        reader, writer = await asyncio.open_unix_connection(tmp_path / "drain.sock")
        writer.write(b'{"drain": "wait"}\n')
        assert b'"state": "waiting", "text": "2 running, 0 waiting"' in await reader.readline()
        answer = await client.get("/drain/wait", timeout=9)
        lines = (await reader.read()).splitlines()
        writer.close()

        assert answer.text == "deadline: 2 running, 0 waiting\n"
        assert b'"state": "deadline"' in lines[-1]
        assert (await client.get("/readyz")).status_code == 503
        engine.restart()
        await until(lambda: client.get("/readyz"))


async def test_a_hook_over_http_waits_no_longer_than_the_operator_says(engine, settings):
    engine.running = 2
    async with running(settings) as (app, client):
        await until(lambda: client.get("/readyz"))
        app.pod.begin_drain(time.monotonic())

        assert app.pod.shorten_drain(5.5, time.monotonic()) <= 0.5
        assert (await client.get("/drain/wait", timeout=1.5)).text.startswith("deadline")


async def test_a_hook_is_let_go_when_a_new_engine_takes_the_place(engine, settings):
    engine.running = 2
    async with running(settings) as (_, client):
        await until(lambda: client.get("/readyz"))
        waiting = asyncio.create_task(client.get("/drain/wait", timeout=9))
        await until(lambda: client.get("/v1/state"))
        await asyncio.sleep(0.1)
        engine.restart()

        assert (await waiting).text.startswith("done")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("PUT", "/readyz", 405),
        ("POST", "/cordon", 403),
        ("POST", "/uncordon", 403),
        ("POST", "/deadline", 403),
        ("GET", "/cordon", 405),
        ("DELETE", "/uncordon", 405),
        ("GET", "/readyz", 503),
        ("GET", "/livez", 200),
        ("HEAD", "/livez", 200),
        ("HEAD", "/metrics", 200),
        ("HEAD", "/drain/wait", 200),
    ],
)
async def test_each_request_has_a_defined_answer(settings, method, path, status):
    app = App(settings)

    assert (await app.respond(Request(method, path))).status == status
    assert app.pod.phase == "loading"


async def test_spent_tokens_outlive_a_state_that_is_not_trusted(settings, tmp_path):
    spent = (UsedToken("a", 4e9),)
    store.save(tmp_path, Lifecycle(since=1.0, spent=spent), "another boot")
    app = App(settings)

    assert (app.pod.phase, app.pod.state.spent) == ("loading", spent)


async def test_a_loop_that_is_stuck_is_named(settings):
    app = App(settings)
    app._watch.beats["scrape"] -= STUCK_S + 2 * settings.scrape_timeout_seconds + 1

    answer = await app.respond(Request("GET", "/livez"))
    assert (answer.status, answer.body) == (503, b"stuck: scrape\n")


async def test_a_loop_that_breaks_off_is_logged(settings, monkeypatch, caplog):
    async def broken(self):
        raise RuntimeError("bug")

    monkeypatch.setattr(app_module.Watch, "tick_forever", broken)
    async with running(settings):
        await asyncio.sleep(0.05)

    assert "tick loop broke off" in caplog.text


async def test_a_sidecar_that_was_restarted_goes_on_where_it_was(settings, caplog):
    caplog.set_level(logging.INFO)
    async with running(settings) as (_, client):
        await until(lambda: client.get("/readyz"))

    assert App(settings).pod.phase == "serving"
    assert "goes on as serving after a restart of the sidecar" in caplog.text


@pytest.fixture
def environment(monkeypatch, settings):
    given = {
        "ENGINE_URL": settings.engine_url,
        "PORT": settings.port,
        "SHARED_DIR": settings.shared_dir,
    }
    for name, value in given.items():
        monkeypatch.setenv(f"CACHEAWARE_{name}", str(value))
    return monkeypatch


def sigterm_when_it_listens(port):
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            os.kill(os.getpid(), signal.SIGTERM)
            return
        time.sleep(0.02)


def test_the_program_runs_until_sigterm_and_warns_of_misspelt_settings(
    environment, own_logging, capsys, settings
):
    environment.setenv("CACHEAWARE_PROT", "1")
    threading.Thread(target=sigterm_when_it_listens, args=(settings.port,), daemon=True).start()

    assert program.main([]) == 0
    assert "CACHEAWARE_PROT is no setting" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [("PORT", "x"), ("SHARED_DIR", "/proc/nothing"), ("CA_FILE", "/nothing")],
)
def test_what_can_not_work_is_one_line_and_code_two(environment, own_logging, capsys, name, value):
    environment.setenv(f"CACHEAWARE_{name}", value)

    assert program.main(["run"]) == 2
    said = capsys.readouterr().err
    assert f"CACHEAWARE_{name}: '{value}'" in said
    assert said.count("\n") == 1


def test_a_port_that_is_taken_ends_it(environment, own_logging, capsys, settings):
    with app_module.listen(settings.port):
        assert program.main(["run"]) == 1

    assert "can't start: " in capsys.readouterr().err


def test_the_drain_command_is_the_hook(environment, capsys, engine):
    environment.setattr(wait, "POLL_S", 0.05)
    engine.stop()

    assert program.main(["drain"]) == 0
    assert "cacheaware: " in capsys.readouterr().out


def test_the_release_is_told_where_it_is_known(capsys, monkeypatch):
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("cacheaware-sidecar ")

    def unknown(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)
    assert version() == "unknown"
