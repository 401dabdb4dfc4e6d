import contextlib
import socket

import pytest

from cacheaware_sidecar.engine_sockets import Rest, read_rest, rest_of

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"


def row(port, state, *, out=0, unread=0):
    queues = f"{out:08X}:{unread:08X}"
    return f"   0: 0100007F:{port:04X} 0100007F:9C40 {state} {queues} 00:00000000 00000000 0\n"


@pytest.mark.parametrize(
    ("rows", "rest"),
    [
        pytest.param("", Rest(), id="no connection"),
        pytest.param(row(8000, "01"), Rest(), id="a client that waits for nothing"),
        pytest.param(row(8000, "01", out=700), Rest(unsent=700), id="bytes of an answer not sent"),
        pytest.param(row(8000, "01", unread=90), Rest(unread=90), id="a request not read"),
        pytest.param(row(8000, "04", out=5), Rest(unsent=5), id="closed with bytes left to send"),
        pytest.param(
            row(8000, "08", out=5, unread=1),
            Rest(unsent=5, abandoned=1),
            id="the client has closed its side",
        ),
        pytest.param(row(8000, "06", out=5, unread=5), Rest(), id="over"),
        pytest.param(row(8000, "0A", unread=2), Rest(unread=2), id="connections not accepted"),
        pytest.param(row(9000, "01", out=700), Rest(), id="of another server"),
        pytest.param(row(8001, "01", out=7) + row(8000, "01", out=2), Rest(9), id="several"),
        pytest.param("garbage\n", Rest(), id="a line that says nothing"),
    ],
)
def test_what_is_left_in_the_connections_of_an_engine(rows, rest):
    assert rest_of([HEAD + rows], {8000, 8001}) == rest


def test_both_tables_count():
    tables = [HEAD + row(8000, "01", out=1), HEAD + row(8000, "01", out=2)]
    assert rest_of(tables, {8000}) == Rest(3)


def test_a_client_waits_for_what_is_unsent_or_unread():
    assert [bool(each) for each in (Rest(), Rest(1), Rest(0, 1), Rest(0, 0, 1))] == [
        False,
        True,
        True,
        False,
    ]


def test_the_kernel_tells_of_requests_that_are_not_read_and_whose_clients_have_gone():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert read_rest({port}).unread == 1
            peer, _ = server.accept()
            client.sendall(b"GET / HTTP/1.1")
            assert read_rest({port}) == Rest(unread=14)
        assert read_rest({port}) == Rest(abandoned=15)  # and the end of the stream
        peer.close()


def test_the_kernel_tells_of_an_answer_that_its_client_does_not_read():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            peer, _ = server.accept()
            assert read_rest({port}) == Rest()
            peer.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    peer.send(b"x" * 65536)
            assert read_rest({port}).unsent > 0
            client.close()
            peer.close()


def test_without_tables_nothing_is_known(tmp_path):
    assert read_rest({8000}, [tmp_path / "tcp"]) is None


def test_a_host_without_ipv6_has_one_table(tmp_path):
    (tmp_path / "tcp").write_text(HEAD + row(8000, "01", out=4))
    assert read_rest({8000}, [tmp_path / "tcp", tmp_path / "tcp6"]) == Rest(4)


def test_a_table_that_is_no_text_says_nothing(tmp_path):
    (tmp_path / "tcp").write_bytes(b"\xff")
    assert read_rest({8000}, [tmp_path / "tcp"]) is None
