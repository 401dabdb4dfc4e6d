"""The short way to a pod's page: what is plain is read, all else is left to a whole client."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest

from cacheaware.decide.fleet import Unknown
from cacheaware.observe.plain_http import (
    HEAD_BYTES,
    IDLE_SECONDS,
    SWEEP_SECONDS,
    Odd,
    PlainHttp,
    TooLongError,
    head_of,
)
from cacheaware.observe.poll import Poller

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@dataclass
class Pod:
    """A server that writes what it is told: a list of chunks for each request; None closes."""

    answers: list[list[bytes | None]] = field(default_factory=list)
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    port: int = 0
    host: str = "127.0.0.1"

    async def serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                for chunk in self.answers.pop(0) if self.answers else [OK]:
                    if chunk is None:
                        writer.close()
                        return
                    writer.write(chunk)
                    await writer.drain()
                    await asyncio.sleep(0.01)

    def url(self, path="/v1/state"):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{path}"


@contextlib.asynccontextmanager
async def serving(*answers, host="127.0.0.1"):
    pod = Pod(list(answers), host=host)
    server = await asyncio.start_server(pod.serve, host, 0)
    pod.port = server.sockets[0].getsockname()[1]
    try:
        yield pod
    finally:
        server.close()
        for writer in pod.writers:
            writer.transport.abort()


@pytest.fixture
async def plain():
    found = PlainHttp()
    yield found
    found.close()


@pytest.fixture
async def poller():
    found = Poller(concurrency=8, deadline_s=0.5)
    yield found
    await found.close()


def answer(body=b"hi", *lines, status=b"200 OK"):
    head = b"\r\n".join((b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *lines))
    return head + b"\r\n\r\n" + body


async def get(plain, url, most, seconds=5.0):
    return await plain.get(url, most, asyncio.get_running_loop().time() + seconds)


async def test_one_connection_serves_all_requests_to_an_address(plain):
    async with serving() as pod:
        for _ in range(3):
            assert (await get(plain, pod.url(), 10)).body == b"hi"
    assert pod.connections == 1
    assert pod.heads[0].startswith(b"GET /v1/state HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize("kept", [False, True])
async def test_an_answer_that_is_late_ends_its_connection(plain, kept):
    async with serving(*[[answer()]] * kept, [b"HTTP/1.1 200 OK\r\n"], [answer(b"next")]) as pod:
        if kept:
            await get(plain, pod.url(), 10)
        with pytest.raises(TimeoutError):
            await get(plain, pod.url(), 10, seconds=0.05)
        assert (await get(plain, pod.url(), 10)).body == b"next"
    assert pod.connections == 2


async def test_requests_at_once_to_one_address_have_connections_of_their_own(plain):
    async with serving() as pod:
        both = await asyncio.gather(get(plain, pod.url(), 10), get(plain, pod.url(), 10))
        assert [one.body for one in both] == [b"hi", b"hi"]
        await get(plain, pod.url(), 10)
    assert pod.connections == 2


async def test_an_answer_may_come_in_any_pieces(plain):
    whole = answer(b"0123456789")
    async with serving([whole[at : at + 1] for at in range(len(whole))], [whole]) as pod:
        assert (await get(plain, pod.url(), 10)).body == b"0123456789"
        assert (await get(plain, pod.url(), 10)).body == b"0123456789"
    assert pod.connections == 1


async def test_an_address_of_version_6_is_asked(plain):
    try:
        async with serving(host="::1") as pod:
            assert (await get(plain, pod.url(), 10)).body == b"hi"
            assert b"Host: [::1]:" in pod.heads[0]
    except OSError:
        pytest.skip("this machine has no IPv6")


async def test_a_refusal_keeps_its_status_and_its_connection(plain):
    async with serving([answer(b"busy", status=b"503 Service Unavailable")]) as pod:
        assert (await get(plain, pod.url(), 10)).status == 503
        assert (await get(plain, pod.url(), 10)).status == 200
    assert pod.connections == 1


@pytest.mark.parametrize(
    "odd",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/2 200\r\nContent-Length: 2\r\n\r\nhi",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
        b"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 307 There\r\nLocation: /x/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_BYTES + b"\r\nContent-Length: 2\r\n\r\nhi",
        b"x" * (HEAD_BYTES + 1),
    ],
)
async def test_what_is_not_plain_is_left_to_a_whole_client(plain, odd):
    async with serving([odd]) as pod:
        with pytest.raises(Odd):
            await get(plain, pod.url(), 100)
        assert (await get(plain, pod.url(), 100)).body == b"hi"
    assert pod.connections == 2


async def test_a_body_that_is_too_large_is_not_read(plain):
    async with serving([b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n"]) as pod:
        with pytest.raises(TooLongError):
            await get(plain, pod.url(), 10)
        await get(plain, pod.url(), 10)
    assert pod.connections == 2


async def test_a_refusal_with_a_long_page_is_told_by_its_status(poller):
    refused = answer(b"x" * 99, status=b"404 Not Found")
    async with serving([refused], [refused]) as pod:
        found = await poller.fetch(pod.url(), 10)
    assert (found.unknown, found.detail) == (Unknown.ERROR, "answered 404")


async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(plain):
    async with serving([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", None]) as pod:
        with pytest.raises(Odd):
            await get(plain, pod.url(), 10)


async def test_a_kept_connection_that_the_pod_has_closed_is_made_anew(plain):
    async with serving([OK], [None], [OK]) as pod:
        await get(plain, pod.url(), 10)
        assert (await get(plain, pod.url(), 10)).body == b"hi"
        assert pod.connections == 2
        for writer in pod.writers:
            writer.close()
        await asyncio.sleep(0.05)
        assert (await get(plain, pod.url(), 10)).body == b"hi"
    assert pod.connections == 3


async def test_a_new_connection_that_is_closed_without_a_word_is_not_asked_twice(plain):
    async with serving([None]) as pod:
        with pytest.raises(Odd):
            await get(plain, pod.url(), 10)
    assert pod.connections == 1


@pytest.mark.parametrize("stray", [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"x"])
async def test_bytes_that_nobody_asked_for_are_never_an_answer(plain, stray):
    async with serving([OK + stray], [OK, stray]) as pod:
        for _ in range(3):
            assert (await get(plain, pod.url(), 10)).body == b"hi"
            await asyncio.sleep(0.05)
    assert pod.connections == 3


async def test_a_pod_that_says_close_is_asked_on_a_new_connection(plain):
    async with serving([answer(b"hi", b"Connection: close")], [answer(b"hi", b"X: y")]) as pod:
        for _ in range(3):
            assert (await get(plain, pod.url(), 10)).body == b"hi"
    assert pod.connections == 2


async def test_what_came_after_a_timeout_is_not_the_next_answer(poller):
    late = [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"]
    async with serving(late, [answer(b"next")]) as pod:
        first = await poller.fetch(pod.url(), 10)
        assert first.unknown is Unknown.TIMED_OUT
        assert (await poller.fetch(pod.url(), 10)).content == b"next"
    assert pod.connections == 2


async def test_connections_that_nobody_uses_any_more_are_closed():
    now = [0.0]
    plain = PlainHttp(clock=lambda: now[0])
    async with serving() as one, serving() as other:
        await get(plain, one.url(), 10)
        now[0] = SWEEP_SECONDS
        await get(plain, other.url(), 10)
        now[0] = IDLE_SECONDS + 1
        await get(plain, other.url(), 10)
        await get(plain, one.url(), 10)
        plain.close()
    assert (one.connections, other.connections) == (2, 1)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:1/x",
        "http://localhost:1/x",
        "http://127.0.0.1/x",
        "http://127.0.0.1:99999/x",
        "http://user@127.0.0.1:1/x",
        "http://127.0.0.1:1/x y",
        "http://127.0.0.1:1/x\r\nX: y",
        "http://127.0.0.1:1/x#y",
        "http://127.0.0.1:1/\u00e4",
    ],
)
async def test_other_urls_than_those_of_pods_are_left_to_a_whole_client(plain, url):
    with pytest.raises(Odd):
        await get(plain, url, 10)


@pytest.mark.parametrize(
    "chunked",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
async def test_the_poller_reads_with_a_whole_client_what_is_not_plain(poller, chunked):
    async with serving([chunked], [chunked]) as pod:
        assert (await poller.fetch(pod.url(), 10)).content == b"hi"


async def test_a_key_is_sent_by_the_whole_client(poller):
    async with serving() as pod:
        await poller.fetch(pod.url(), 10, bearer="secret")
    assert b"Authorization: Bearer secret" in pod.heads[0]


async def test_a_huge_answer_is_told_as_such_whoever_reads_it(poller):
    async with serving([answer(b"x" * 11)]) as pod:
        found = await poller.fetch(pod.url(), 10)
    assert (found.unknown, found.detail) == (Unknown.INVALID, "more than 10 bytes")


def test_names_of_headers_know_no_case():
    assert head_of(b"HTTP/1.1 200\r\ncontent-LENGTH:\t7 \r\nCONNECTION: Keep-Alive").stays
