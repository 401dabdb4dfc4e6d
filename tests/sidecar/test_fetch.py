"""Fetching a page from real sockets: every way in which it can end."""

import asyncio
import gzip
import socket
import time
import zlib
from contextlib import asynccontextmanager

import httpx
import pytest

from cacheaware_sidecar.engines import scan
from cacheaware_sidecar.fetch import FetchError, FetchFailure, fetch_page, shown

PAGE = b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3.0\n"
MANY_TIMES = 300


def answer(body: bytes = PAGE, status: str = "200 OK", **headers: str) -> bytes:
    told = {"Content-Type": "text/plain", "Content-Length": str(len(body))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in told.items() if value)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Server:
    """Answers each request line with bytes, or with what a coroutine writes."""

    def __init__(self, answers: dict, host: str) -> None:
        self.answers = answers
        self.host = host
        self.asked: list[str] = []
        self.heads: list[bytes] = []
        self.port = 0

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split()[1].decode()
            self.asked.append(path)
            self.heads.append(head.lower())
            reply = self.answers[path]
            if isinstance(reply, bytes):
                writer.write(reply)
                await writer.drain()
            else:
                await reply(writer)
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(host: str = "127.0.0.1", **answers):
    server = Server({f"/{path}": reply for path, reply in answers.items()}, host)
    listener = await asyncio.start_server(server.handle, host, 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


async def fetch(url: str, **options):
    async with httpx.AsyncClient(trust_env=False) as client:
        return await fetch_page(client, url, **{"timeout_s": 5.0, **options})


async def failure(url: str, **options) -> FetchError:
    with pytest.raises(FetchError) as error:
        await fetch(url, **options)
    assert "\n" not in str(error.value)
    return error.value


async def test_a_page_is_fetched():
    async with serving(metrics=answer()) as server:
        assert await fetch(f"{server.url}/metrics") == PAGE
    assert b"accept-encoding: identity" in server.heads[0]
    assert b"version=0.0.4" in server.heads[0]


async def test_a_page_is_fetched_over_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    async with serving(host="::1", metrics=answer()) as server:
        assert await fetch(f"{server.url}/metrics") == PAGE


async def test_headers_are_sent():
    async with serving(metrics=answer()) as server:
        await fetch(f"{server.url}/metrics", headers={"Authorization": "Bearer sk-EXAMPLE"})
    assert b"authorization: bearer sk-example" in server.heads[0]


def redirect(location: str) -> bytes:
    return answer(b"", "307 Temporary Redirect", Location=location)


async def test_008_a_redirect_on_the_server_is_followed(case):
    page = case("008", "input.http").partition("200 OK\n\n")[2].encode()
    async with serving(**{"metrics": redirect("/metrics/"), "metrics/": answer(page)}) as server:
        sample = scan(await fetch(f"{server.url}/metrics"))
    assert (sample.running, sample.waiting, sample.usage) == (3, 1, 0.4)


async def test_008_a_redirect_elsewhere_is_refused(case):
    location = case("008", "input.offhost.http").partition("location: ")[2].split()[0]
    async with serving(metrics=redirect(location)) as server:
        error = await failure(f"{server.url}/metrics")
    assert error.kind is FetchFailure.REDIRECTED_AWAY
    assert "redirected away to http://169.254.169.254" in str(error)


async def test_a_redirect_to_another_port_is_refused_and_never_asked():
    async with (
        serving(metrics=answer()) as other,
        serving(metrics=redirect(f"{other.url}/metrics")) as server,
    ):
        error = await failure(f"{server.url}/metrics")
    assert error.kind is FetchFailure.REDIRECTED_AWAY
    assert other.asked == []


async def test_three_redirects_are_followed_and_no_more():
    hops = {f"m{n}": redirect(f"/m{n + 1}") for n in range(4)} | {"m4": answer()}
    async with serving(**hops) as server:
        assert await fetch(f"{server.url}/m1") == PAGE
        error = await failure(f"{server.url}/m0")
    assert error.kind is FetchFailure.STATUS
    assert "redirected more than 3 times" in str(error)


async def test_a_redirect_that_leads_nowhere_is_its_status():
    async with serving(metrics=answer(b"", "307 Temporary Redirect")) as server:
        error = await failure(f"{server.url}/metrics")
    assert error.kind is FetchFailure.STATUS
    assert "answered 307" in str(error)


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_009_a_key_that_is_asked_for_is_said_and_never_shown(case, status):
    body = case("009", "input.http").partition("\n\n")[2].encode()
    async with serving(metrics=answer(body, status, Content_Type="application/json")) as server:
        url = f"http://user:sk-EXAMPLE@127.0.0.1:{server.port}/metrics"
        error = await failure(url, headers={"X-Key": "sk-EXAMPLE"})
    assert error.kind is FetchFailure.UNAUTHORIZED
    assert f"http://127.0.0.1:{server.port}/metrics: answered {status[:3]}" in str(error)
    assert "sk-EXAMPLE" not in str(error)


@pytest.mark.parametrize("status", ["500 Internal Server Error", "404 Not Found", "204 No Content"])
async def test_any_other_status_is_no_page(status):
    async with serving(metrics=answer(b"", status)) as server:
        error = await failure(f"{server.url}/metrics")
    assert error.kind is FetchFailure.STATUS
    assert f"answered {status[:3]}" in str(error)


async def test_a_closed_port_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = await failure(f"http://127.0.0.1:{port}/metrics")
    assert error.kind is FetchFailure.REFUSED


async def test_an_answer_that_drips_for_ever_ends_with_the_deadline():
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        for _ in range(MANY_TIMES):
            writer.write(b"up 1\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(metrics=drip) as server:
        start = time.monotonic()
        error = await failure(f"{server.url}/metrics", timeout_s=0.3)
    assert error.kind is FetchFailure.TIMED_OUT
    assert time.monotonic() - start < 3
    assert "no whole answer in 0.3 s" in str(error)


async def test_a_server_that_says_nothing_times_out():
    async def silence(_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2)

    async with serving(metrics=silence) as server:
        error = await failure(f"{server.url}/metrics", timeout_s=0.2)
    assert error.kind is FetchFailure.TIMED_OUT


async def test_a_clients_own_timeout_is_a_timeout():
    def late(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("late", request=request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(late)) as client:
        with pytest.raises(FetchError) as error:
            await fetch_page(client, "http://pod/metrics")
    assert error.value.kind is FetchFailure.TIMED_OUT


async def test_a_body_without_end_is_cut_at_the_cap():
    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        for _ in range(MANY_TIMES):
            writer.write(b"up 1\n" * 2000)
            await writer.drain()

    async with serving(metrics=flood) as server:
        error = await failure(f"{server.url}/metrics", max_bytes=100_000)
    assert error.kind is FetchFailure.TOO_LARGE
    assert "more than 100,000 bytes" in str(error)


async def test_a_page_of_exactly_the_cap_is_fetched():
    async with serving(metrics=answer()) as server:
        assert await fetch(f"{server.url}/metrics", max_bytes=len(PAGE)) == PAGE


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_page_is_read(encoding):
    packed = gzip.compress(PAGE) if encoding == "gzip" else zlib.compress(PAGE)
    async with serving(metrics=answer(packed, Content_Encoding=encoding)) as server:
        assert await fetch(f"{server.url}/metrics") == PAGE


async def test_a_bomb_is_decoded_no_further_than_the_cap(monkeypatch):
    most = 0
    real = zlib.decompressobj

    class Watched:
        def __init__(self, *args) -> None:
            self.inner = real(*args)

        def decompress(self, data: bytes, length: int) -> bytes:
            nonlocal most
            piece = self.inner.decompress(data, length)
            most = max(most, len(piece))
            return piece

    monkeypatch.setattr(zlib, "decompressobj", Watched)
    bomb = gzip.compress(b"0" * 50_000_000)
    async with serving(metrics=answer(bomb, Content_Encoding="gzip")) as server:
        error = await failure(f"{server.url}/metrics", max_bytes=10_000)
    assert error.kind is FetchFailure.TOO_LARGE
    assert most == 10_001


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        pytest.param(
            answer(b"not gzip", Content_Encoding="gzip"), "broken compression", id="broken gzip"
        ),
        pytest.param(
            answer(gzip.compress(PAGE)[:-12], Content_Encoding="gzip"),
            "broken compression",
            id="cut off gzip",
        ),
        pytest.param(
            answer(Content_Encoding="br"), "content-encoding br was not asked for", id="brotli"
        ),
        pytest.param(answer(b""), "the page is empty", id="empty"),
        pytest.param(answer(b" \n"), "the page is empty", id="blank"),
        pytest.param(
            answer(b"{}", Content_Type="application/json"), "application/json instead", id="JSON"
        ),
        pytest.param(
            answer(b"<html>", Content_Type="text/html; charset=utf-8"),
            "text/html instead",
            id="HTML",
        ),
        pytest.param(
            answer(b'{"a": 1}', Content_Type=""), "JSON or HTML instead", id="JSON unsaid"
        ),
        pytest.param(
            answer(b"<!doctype html>", Content_Type=""), "JSON or HTML instead", id="HTML unsaid"
        ),
        pytest.param(
            answer(b"vllm:num_requests_running 1", Content_Length=""),
            "the page is cut off",
            id="cut off",
        ),
    ],
)
async def test_what_is_no_metrics_page_is_said_to_be_none(reply, message):
    async with serving(metrics=reply) as server:
        error = await failure(f"{server.url}/metrics")
    assert error.kind is FetchFailure.INVALID
    assert message in str(error)


async def test_a_page_whose_end_is_not_framed_counts_if_it_is_whole():
    async with serving(metrics=answer(Content_Length="")) as server:
        assert await fetch(f"{server.url}/metrics") == PAGE


async def test_a_body_shorter_than_said_is_an_error():
    async with serving(metrics=answer(Content_Length="5000")) as server:
        error = await failure(f"{server.url}/metrics")
    assert error.kind is FetchFailure.ERROR


@pytest.mark.parametrize(
    "reply", [b"no http at all\r\n\r\n", b""], ids=["another protocol", "closed at once"]
)
async def test_what_is_no_http_is_an_error(reply):
    async with serving(metrics=reply) as server:
        error = await failure(f"{server.url}/metrics")
    assert error.kind is FetchFailure.ERROR


@pytest.mark.parametrize(
    "url",
    ["ftp://pod/metrics", "http://[::1/metrics", "metrics", "http://pod:x/", "http://[::1]:99999/"],
)
async def test_what_is_no_url_is_an_error(url):
    assert (await failure(url)).kind is FetchFailure.ERROR


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://u:p@pod:8000/metrics?token=t", "http://pod:8000/metrics"),
        ("http://[fd00::1]:8000/metrics", "http://[fd00::1]:8000/metrics"),
        ("http://[::1/metrics", "the URL"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url, text):
    assert shown(url) == text
