import asyncio
import json
from contextlib import suppress

import pytest

from cacheaware_sidecar.drain_socket import MOST_WAITERS, DrainSocket, Progress, is_request

GO = b'{"drain": "wait"}\n'


def progress(state):
    return Progress(state=state, text="t", running=1.0, waiting=None, deadline_s=2.5)


@pytest.fixture
async def talk(tmp_path):
    """A socket whose drain waits for `talk.release`; `talk(data)` connects and sends."""
    release = asyncio.Event()
    links = []

    async def begin():
        yield progress("waiting")
        await release.wait()
        yield progress("done")

    it = DrainSocket(tmp_path, begin)
    (tmp_path / "drain.sock").write_text("left by a killed sidecar")
    await it.start()

    async def connect(data):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "drain.sock")
        links.append(writer)
        writer.write(data)
        return reader

    connect.release, connect.socket, connect.folder = release, it, tmp_path
    yield connect
    for link in links:
        link.close()
    await it.stop()


async def test_a_hook_hears_of_the_progress_and_the_end(talk):
    reader = await talk(GO)
    first = json.loads(await reader.readline())
    talk.release.set()
    second = json.loads(await reader.readline())

    assert first == {
        "state": "waiting",
        "text": "t",
        "running": 1.0,
        "waiting": None,
        "deadline_s": 2.5,
    }
    assert second["state"] == "done"
    assert await reader.read() == b""


async def test_other_requests_are_told_what_is_allowed(talk):
    answer = json.loads(await (await talk(b"hello\n")).readline())

    assert answer == {"state": "error", "text": 'allowed: {"drain": "wait"}'}


async def test_a_line_without_end_is_hung_up_on(talk):
    reader = await talk(b"x" * 5000)

    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)


async def test_more_waiters_than_any_pod_has_are_hung_up_on(talk):
    readers = [await talk(GO) for _ in range(MOST_WAITERS)]
    for reader in readers:
        await reader.readline()

    with suppress(ConnectionResetError):
        assert await (await talk(GO)).read() == b""


async def test_the_engine_may_run_as_another_user_and_nothing_is_left_behind(talk):
    path = talk.folder / "drain.sock"
    assert path.stat().st_mode & 0o777 == 0o666
    reader = await talk(GO)
    await reader.readline()
    await talk.socket.stop()

    assert await reader.read() == b""
    assert not path.exists()


@pytest.mark.parametrize("line", [b"", b"{}", b"[" * 100_000, b"\xff", b'{"drain": "now"}'])
def test_what_is_no_request(line):
    assert not is_request(line)
