import asyncio
import contextlib
import socket

import pytest

from cacheaware_sidecar.http_server import HttpServer, Limits, Response, listen

QUICK = Limits(connections=4, busy=2, request_s=0.3, idle_s=0.6, send_s=0.3, body_bytes=100)


class Peer:
    """A client that says exactly what a test wants."""

    def __init__(self, port):
        self.port = port

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *error):
        self.writer.transport.abort()

    def send(self, data):
        self.writer.write(data)

    async def status(self):
        """The status of the next answer; its body is read too. None when the peer hung up."""
        async with asyncio.timeout(5):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return None
            lines = head.lower().split(b"\r\n")
            (length,) = [int(line[16:]) for line in lines if line.startswith(b"content-length: ")]
            self.body = await self.reader.readexactly(length)
        return int(head.split()[1])

    async def ask(self, path="/", more=b""):
        self.send(f"GET {path} HTTP/1.1\r\nhost: x\r\n".encode() + more + b"\r\n")
        return await self.status()

    async def is_closed(self):
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionResetError):
                return await self.reader.read() == b""
            return True


@pytest.fixture
async def serve():
    """Starts a server whose handler waits at /slow and breaks at /broken."""
    servers = []
    release = asyncio.Event()

    async def handler(request):
        if request.path == "/slow":
            await release.wait()
        if request.path == "/broken":
            raise RuntimeError
        if request.path == "/large":
            return Response(200, b"x" * 50_000_000)
        if request.path == "/told":
            return Response.text(200, repr((request.authorization, request.body)))
        return Response.text(200, f"{request.method} {request.path}")

    async def start(limits=QUICK):
        server = HttpServer(handler, first=frozenset({"/readyz"}), limits=limits)
        servers.append(server)
        sock = listen(0)
        await server.start(sock)
        port = sock.getsockname()[1]
        start.release = release
        return port

    yield start
    release.set()
    for server in servers:
        await server.stop()


async def test_requests_on_one_connection_are_answered_one_after_the_other(serve):
    async with Peer(await serve()) as peer:
        assert await peer.ask("/a?b=c") == 200
        assert peer.body == b"GET /a\n"
        peer.send(b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert [await peer.status(), peer.body] == [200, b"GET /1\n"]
        assert [await peer.status(), peer.body] == [200, b"GET /2\n"]


async def test_a_peer_that_wants_no_more_is_left(serve):
    async with Peer(await serve()) as peer:
        assert await peer.ask("/", b"connection: close\r\n") == 200
        assert await peer.is_closed()


async def test_http_1_0_is_answered_too(serve):
    async with Peer(await serve()) as peer:
        peer.send(b"GET /readyz HTTP/1.0\r\n\r\n")
        assert await peer.status() == 200
        assert await peer.is_closed()


async def test_head_has_the_length_and_no_body(serve):
    async with Peer(await serve()) as peer:
        peer.send(b"HEAD /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = await peer.reader.read()

    assert b"content-length: 8\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x00\x01\x02\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"b" * 20_000, 431),
        (b"GET /" + b"b" * 20_000, 431),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200\r\n\r\n" + b"x" * 200, 413),
        (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n", 400),
        (b"G", 408),
        (b"GET / HTTP/1.1\r\nhost: x\r\n", 408),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx", 408),
    ],
    ids=[
        "noise",
        "no host",
        "a bad header",
        "http/2",
        "huge headers",
        "a huge path",
        "a large body",
        "a bad length",
        "one byte",
        "half a head",
        "half a body",
    ],
)
async def test_what_is_no_request_is_answered_and_ends_the_connection(serve, data, status):
    async with Peer(await serve()) as peer:
        peer.send(data)
        assert await peer.status() == status
        assert await peer.is_closed()


async def test_a_byte_now_and_then_does_not_hold_a_connection(serve):
    async with Peer(await serve()) as peer:
        for byte in b"GET / HT":
            peer.send(bytes([byte]))
            await asyncio.sleep(0.08)
        assert await peer.status() == 408


async def test_a_small_body_is_read_and_dropped(serve):
    async with Peer(await serve()) as peer:
        peer.send(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello")
        assert (await peer.status(), peer.body) == (200, b"POST /a\n")
        assert await peer.ask() == 200


POST = b"POST /told HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (POST + b"content-length: 3\r\n\r\nabc", "((), b'abc')"),
        (POST + b"content-length: 0\r\n\r\n", "((), b'')"),
        (POST + b"\r\n", "((), b'')"),
        (
            POST + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\nt: 1\r\n\r\n",
            "((), b'abc')",
        ),
        (POST + b"content-length: 2\r\n\r\n\xff\x00", "((), b'\\xff\\x00')"),
        (POST + b"AUTHORIZATION:  Bearer x \r\n\r\n", "(('Bearer x',), b'')"),
        (POST + b"authorization: a\r\nauthorization: b\r\n\r\n", "(('a', 'b'), b'')"),
        (POST + b"authorization: \xe4\r\n\r\n", "(('\u00e4',), b'')"),
        (POST.replace(b"POST", b"GET") + b"content-length: 3\r\n\r\nabc", "((), b'')"),
        (POST + b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc", "((), b'abc')"),
    ],
    ids=[
        "a body",
        "an empty one",
        "none",
        "chunks",
        "no text",
        "a token",
        "two tokens",
        "no ascii",
        "a body that nobody needs",
        "the same length twice",
    ],
)
async def test_a_route_gets_the_authorization_and_the_body_of_a_post(serve, data, told):
    async with Peer(await serve()) as peer:
        peer.send(data)
        assert await peer.status() == 200
        assert peer.body.decode() == told + "\n"
        assert await peer.ask() == 200  # what came after the body is the next request


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd", 400),
        (POST + b"content-length: -1\r\n\r\n", 400),
        (POST + b"content-length: 99999999999999999999999\r\n\r\n", 400),
        (POST + b"content-length: 3, 3\r\n\r\nabc", None),
        (POST + b"transfer-encoding: gzip, chunked\r\n\r\n", 501),
        (POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"transfer-encoding: chunked\r\n\r\n-1\r\n", 400),
        (POST + b"transfer-encoding: chunked\r\n\r\n" + b"a\r\n0123456789\r\n" * 11, 413),
        (POST + b"transfer-encoding: chunked\r\n\r\nffffffff\r\n" + b"x" * 200, 413),
        (POST + b"transfer-encoding: chunked\r\n\r\n1;" + b"x" * 20_000, 431),
        (POST + b"content-length: 101\r\n\r\n" + b"x" * 101, 413),
        (POST + b"authorization: " + b"x" * 60_000 + b"\r\n\r\n", 431),
        (POST + b"authorization: a\r\n b\r\n\r\n", None),
        (POST + b"authorization: a\x00b\r\n\r\n", 400),
    ],
    ids=[
        "two lengths",
        "a negative length",
        "an endless length",
        "a list of lengths",
        "another encoding",
        "a bad chunk",
        "a negative chunk",
        "many chunks",
        "a huge chunk",
        "an endless chunk head",
        "a byte too many",
        "a huge token",
        "a folded token",
        "a nul in a token",
    ],
)
async def test_a_body_that_is_none_is_answered_and_never_a_fault(serve, data, status, caplog):
    async with Peer(await serve()) as peer:
        peer.send(data)
        answer = await peer.status()
        assert answer == status if status else answer in {200, 400}
    assert "our own fault" not in caplog.text


@pytest.mark.parametrize("head", [b"content-length: 50", b"transfer-encoding: chunked"])
async def test_a_body_that_drips_does_not_hold_a_connection(serve, head):
    async with Peer(await serve()) as peer:
        peer.send(POST + head + b"\r\n\r\n")
        for _ in range(8):
            peer.send(b"1\r\nx\r\n")
            await asyncio.sleep(0.05)
        assert await peer.status() == 408
        assert await peer.is_closed()


async def test_idle_connections_are_closed_without_a_word(serve):
    port = await serve()
    async with Peer(port) as silent, Peer(port) as idle:
        assert await idle.ask() == 200
        assert await silent.is_closed()
        assert await idle.is_closed()


async def test_an_idle_connection_has_the_whole_time_for_its_next_request(serve):
    async with Peer(await serve()) as peer:
        assert await peer.ask() == 200
        await asyncio.sleep(0.4)
        peer.send(b"GET / HTTP/1.1\r\n")
        await asyncio.sleep(0.25)
        peer.send(b"host: x\r\n\r\n")
        assert await peer.status() == 200


async def test_probes_are_answered_while_the_rest_is_busy(serve):
    port = await serve()
    async with Peer(port) as one, Peer(port) as two, Peer(port) as three:
        one.send(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        two.send(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.sleep(0.05)
        assert await three.ask() == 503
        assert await three.ask("/readyz") == 200
        serve.release.set()
        assert await one.status() == 200
        assert await three.ask() == 200


async def test_requests_that_came_in_one_go_do_not_hold_a_probe_up():
    handled = []

    async def handler(request):
        handled.append(request.path)
        return Response.text(200, "x")

    server, sock = HttpServer(handler, first=frozenset({"/readyz"})), listen(0)
    await server.start(sock)
    port = sock.getsockname()[1]
    async with Peer(port) as flood, Peer(port) as probe:
        assert [await flood.ask(), await probe.ask()] == [200, 200]
        flood.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 300)
        probe.send(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert [await flood.status() for _ in range(300)] == [200] * 300
        assert await probe.status() == 200
    await server.stop()

    assert handled.index("/readyz") < 20


async def test_a_new_peer_gets_in_when_all_connections_are_held(serve):
    port = await serve(Limits(connections=4, request_s=5))
    async with contextlib.AsyncExitStack() as stack:
        held = [await stack.enter_async_context(Peer(port)) for _ in range(8)]
        await asyncio.sleep(0.05)
        async with Peer(port) as probe:
            assert await probe.ask("/readyz") == 200
        assert await held[0].is_closed()
        assert await held[7].ask() == 200


async def test_connections_that_are_being_answered_are_not_taken_away(serve):
    port = await serve(Limits(connections=2, busy=9))
    async with contextlib.AsyncExitStack() as stack:
        busy = []
        for _ in range(4):
            busy.append(await stack.enter_async_context(Peer(port)))
            busy[-1].send(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
            await asyncio.sleep(0.02)
        async with Peer(port) as last:
            assert await last.is_closed()
        serve.release.set()
        assert [await peer.status() for peer in busy] == [200] * 4


async def test_a_peer_that_does_not_read_is_left(serve):
    port, loop = await serve(), asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.sleep(0.8)
        size = 0
        with contextlib.suppress(ConnectionResetError):
            while data := await loop.sock_recv(sock, 1 << 20):
                size += len(data)
    assert 0 < size < 50_000_000


async def test_a_fault_of_ours_is_500_and_logged(serve, caplog):
    async with Peer(await serve()) as peer:
        assert await peer.ask("/broken") == 500
        assert await peer.ask("/") == 200
    assert "GET /broken: our own fault" in caplog.text


async def test_a_peer_that_hangs_up_in_the_middle_does_no_harm(serve):
    port = await serve()
    async with Peer(port) as peer:
        peer.send(b"GET / HT")
        await asyncio.sleep(0.05)
    async with Peer(port) as peer:
        peer.send(b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        peer.writer.write_eof()
        assert await peer.status() in {None, 400}
    async with Peer(port) as peer:
        assert await peer.ask() == 200


def test_without_ipv6_the_server_listens_on_ipv4(monkeypatch):
    real = socket.create_server

    def create_server(address, **options):
        if options.get("family") is socket.AF_INET6:
            raise OSError("Address family not supported by protocol")
        return real(address, **options)

    monkeypatch.setattr(socket, "create_server", create_server)
    with listen(0) as sock:
        assert sock.family is socket.AF_INET
