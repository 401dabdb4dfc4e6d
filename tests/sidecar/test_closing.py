"""The file that tells servers to let their clients go, and the middleware that looks for it."""

import pytest

from cacheaware_sidecar import closing
from cacheaware_sidecar.connection_close import ConnectionClose
from cacheaware_sidecar.phase import Phase


@pytest.mark.parametrize(
    ("phase", "there"),
    [
        (Phase.LOADING, False),
        (Phase.WARMING, False),
        (Phase.SERVING, False),
        (Phase.CORDONED, True),
        (Phase.DRAINING, True),
        (Phase.DRAINED, True),
    ],
)
def test_the_file_is_there_while_the_pod_should_get_no_more_requests(tmp_path, phase, there):
    for before in Phase:
        closing.show(tmp_path, before)
        closing.show(tmp_path, phase)
        assert (tmp_path / "closing").exists() is there


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path):
    closing.show(tmp_path / "nowhere", Phase.CORDONED)


async def respond(folder, *, kind="http", headers=()):
    """What a client gets of an application behind the middleware."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": f"{kind}.response.start", "status": 200, "headers": list(headers)})
        await send({"type": f"{kind}.response.body", "body": b"x", "more_body": True})
        await send({"type": f"{kind}.response.body", "body": b"y"})

    async def send(message):
        sent.append(message)

    await ConnectionClose(app, str(folder))({"type": kind}, None, send)
    return sent


async def test_a_serving_pod_answers_as_ever(tmp_path):
    sent = await respond(tmp_path, headers=[(b"content-type", b"a/b")])
    assert sent[0]["headers"] == [(b"content-type", b"a/b")]


async def test_a_pod_on_its_way_out_asks_its_clients_to_leave(tmp_path):
    closing.show(tmp_path, Phase.CORDONED)
    sent = await respond(tmp_path, headers=[(b"a", b"b"), (b"Connection", b"keep-alive")])
    assert sent[0]["headers"] == [(b"a", b"b"), (b"connection", b"close")]
    assert [message.get("body") for message in sent[1:]] == [b"x", b"y"]


async def test_the_next_answer_after_a_drain_is_called_off_keeps_its_connection(tmp_path):
    closing.show(tmp_path, Phase.CORDONED)
    closing.show(tmp_path, Phase.SERVING)
    assert (await respond(tmp_path))[0]["headers"] == []


async def test_what_is_no_http_is_left_alone(tmp_path):
    closing.show(tmp_path, Phase.CORDONED)
    assert (await respond(tmp_path, kind="websocket"))[0]["headers"] == []


def test_it_looks_in_the_folder_that_it_lies_in(tmp_path):
    assert ConnectionClose(None).file.endswith("/cacheaware_sidecar/closing")
