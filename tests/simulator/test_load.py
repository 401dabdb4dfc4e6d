"""What the load generator counts as lost: servers that fail in every way."""

import asyncio
import itertools
import json
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cacheaware.cli import main
from cacheaware_sim.load import FIRST_ANSWER, LostError, generate, generate_until_told
from cacheaware_sim.load_plan import LoadPlan
from cacheaware_sim.load_result import MOST_LOSSES, LoadResult, Loss, summary
from cacheaware_sim.load_trace import LoadError, LoadTrace
from cacheaware_sim.run_spec import RunSpec
from cacheaware_sim.simulate import requests_of
from cacheaware_sim.tokens import pieces

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


def event(**body):
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def piece(text, reason=None):
    return event(choices=[{"index": 0, "text": text, "finish_reason": reason}])


DONE = b"data: [DONE]\n\n"
GOOD = (piece(" a"), piece(" b", "length"), event(choices=[], usage=USAGE), DONE)
ERROR = event(error={"message": "EngineCore encountered an issue.", "code": 500})


@pytest.fixture
async def serve():
    """Serves one handler as /v1/completions; the URL."""
    servers = []

    async def start(handler, models=None):
        app = web.Application()
        app.router.add_post("/v1/completions", handler)
        if models is not None:
            app.router.add_get("/v1/models", models)
        server = TestServer(app)
        servers.append(server)
        await server.start_server()
        return str(server.make_url("")).rstrip("/")

    yield start
    for server in servers:
        await server.close()


def answers(*chunks, cut=False):
    """A handler that streams these chunks, and then ends well or tears the connection."""

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if cut:
            request.transport.abort()
        return response

    return handler


def plan(url, **changes):
    values = {"url": url, "concurrency": 2, "requests": 4, "model": "m"}
    return LoadPlan(**{**values, **changes})


async def test_a_whole_stream_is_ok_and_its_times_are_taken(serve, capsys):
    result = await generate(plan(await serve(answers(*GOOD))))

    assert capsys.readouterr().err == FIRST_ANSWER
    assert (result.sent, result.ok, result.failed.total()) == (4, 4, 0)
    assert (result.prompt_tokens, result.completion_tokens) == (12, 8)
    assert len(result.ttft_s) == len(result.tpot_s) == len(result.e2e_s) == 4


@pytest.mark.parametrize(("keep_alive", "connections"), [(False, 4), (True, 1)])
async def test_each_request_has_a_connection_of_its_own_unless_a_pool_is_wished_for(
    serve, keep_alive, connections
):
    peers = set()

    async def answer(request):
        peers.add(request.transport.get_extra_info("peername"))
        return await answers(*GOOD)(request)

    await generate(plan(await serve(answer), concurrency=1, keep_alive=keep_alive))

    assert len(peers) == connections


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        pytest.param(
            answers(piece(" a"), ERROR, DONE), "error-in-answer", id="status 200, error inside"
        ),
        pytest.param(answers(piece(" a"), DONE), "no-finish-reason", id="done without a reason"),
        pytest.param(answers(piece(" a", "abort"), DONE), "aborted", id="aborted in the engine"),
        pytest.param(answers(piece(" a")), "cut", id="ends without done"),
        pytest.param(answers(piece(" a"), cut=True), "cut", id="connection torn"),
        pytest.param(answers(b"data: {\n\n"), "not-json", id="no JSON"),
        pytest.param(answers(b"data: []\n\n"), "error-in-answer", id="no object"),
    ],
)
async def test_a_stream_without_a_good_end_is_lost_whatever_its_status(serve, handler, kind):
    result = await generate(plan(await serve(handler)))

    assert (result.sent, result.ok) == (4, 0)
    assert result.failed == {kind: 4}


async def answer_whole(_):
    choices = [{"index": 0, "text": " a b", "finish_reason": "length"}]
    return web.json_response({"choices": choices, "usage": USAGE})


async def fail(_):
    return web.json_response({"error": {}}, status=503)


async def answer_garbage(_):
    return web.Response(text="<html>")


async def never(_):
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("handler", "ok", "failed"),
    [
        pytest.param(answer_whole, 4, {}, id="well"),
        pytest.param(fail, 0, {"http-503": 4}, id="an error status"),
        pytest.param(answer_garbage, 0, {"not-json": 4}, id="no JSON"),
        pytest.param(never, 0, {"timeout": 4}, id="no answer in time"),
    ],
)
async def test_an_answer_at_once_is_judged_too(serve, handler, ok, failed):
    result = await generate(plan(await serve(handler), stream=False, timeout_s=0.3))

    assert result.ok == ok
    assert result.failed == failed
    assert result.ttft_s == result.tpot_s == []


async def test_nobody_there_is_refused(unused_tcp_port):
    result = await generate(plan(f"http://127.0.0.1:{unused_tcp_port}"))

    assert result.failed == {"refused": 4}


async def test_an_open_loop_does_not_wait_for_answers(serve):
    url = await serve(never)

    result = await generate(
        plan(url, concurrency=None, rate=200, requests=20, timeout_s=0.5, max_in_flight=15)
    )

    assert (result.sent, result.not_sent) == (15, 5)
    assert result.failed == {"timeout": 15}


AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:00.0000000,5,2
2023-11-16 18:15:10.0000000,7,3
2023-11-16 18:15:10.3000000,9,4
2023-11-16 18:15:10.6000000,11,5
2023-11-16 18:15:20.0000000,13,6
"""


@pytest.fixture
def azure(tmp_path):
    file = tmp_path / "part.csv"
    file.write_text(AZURE)
    return file


def of_trace(url, path, **changes):
    part = {"from_s": 10.0, "to_s": 20.0, **changes}
    return plan(
        url, concurrency=None, requests=None, stream=False, trace=LoadTrace(path=path, **part)
    )


async def test_a_part_of_a_trace_is_sent_at_its_times_with_its_own_lengths(serve, azure):
    seen = []

    async def handler(request):
        body = await request.json()
        seen.append((time.monotonic(), len(pieces(body["prompt"])), body["max_tokens"]))
        return await answer_whole(request)

    result = await generate(of_trace(await serve(handler), azure))

    assert [one[1:] for one in seen] == [(7, 3), (9, 4), (11, 5)]
    gaps = [after[0] - before[0] for before, after in itertools.pairwise(seen)]
    assert gaps == pytest.approx([0.3, 0.3], abs=0.2)
    assert (result.sent, result.ok) == (3, 3)


async def test_a_trace_does_not_wait_for_answers(serve, azure):
    url = await serve(never)
    part = of_trace(url, azure)

    result = await generate(replace(part, timeout_s=0.8, max_in_flight=2))

    assert (result.sent, result.not_sent) == (2, 1)


@pytest.mark.parametrize(
    ("bound", "sent"), [({"requests": 2}, 2), ({"duration_s": 0.45}, 2), ({"requests": 9}, 3)]
)
async def test_a_trace_ends_at_the_first_of_its_bounds(serve, azure, bound, sent):
    result = await generate(replace(of_trace(await serve(answer_whole), azure), **bound))

    assert result.sent == sent


def test_a_trace_as_load_is_what_the_simulator_plays(azure):
    options = {"from_s": 9.0, "to_s": 21.0, "scale": 2.5, "seed": 3}

    sent = list(LoadTrace(path=azure, **options).requests())

    assert sent == list(requests_of(RunSpec(trace=azure, policy="constant-1", **options)))
    assert len(sent) >= 8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (AZURE.replace("9,4", "x,4"), "part.csv:4: ContextTokens 'x': must be a whole number"),
        ("nothing of this kind", "part.csv:1: content 'nothing of this kind': must be a CSV"),
        (AZURE.partition("2023-11-16 18:15:10")[0], "from 10, to 20: must be a part of the trace"),
    ],
)
async def test_a_trace_that_can_not_be_sent_is_refused_before_anything_is(
    azure, content, message, unused_tcp_port
):
    azure.write_text(content)

    with pytest.raises(LoadError, match=re.escape(message)):
        await generate(of_trace(f"http://127.0.0.1:{unused_tcp_port}", azure))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"format": "x"}, "format x: must be one of auto, azure"),
        ({"from_s": -1}, "from -1: must be at least 0"),
        ({"to_s": 10}, "to 10: must be above from, 10"),
        ({"scale": 0}, "scale 0: must be above 0 and at most 1000"),
        ({"scale": float("nan")}, "scale nan: must be above 0"),
        ({"to_s": float("inf")}, "to, requests, duration: at least one of them"),
    ],
)
def test_a_part_of_a_trace_that_makes_no_sense_is_refused(part, message, azure):
    with pytest.raises(LoadError, match=re.escape(message)):
        of_trace("http://x", azure, **part)


async def test_streams_are_judged_by_the_targets_and_what_was_not_sent_is_a_miss(serve):
    url = await serve(answers(*GOOD))

    async def attained(**targets):
        result = await generate(plan(url, **targets))
        return result.as_json()["attainment_percent"]

    assert await attained() is None
    assert await attained(slo_ttft_ms=60_000, slo_tpot_ms=60_000) == 100
    assert await attained(slo_ttft_ms=60_000) == 100
    assert await attained(slo_ttft_ms=0.001, slo_tpot_ms=60_000) == 0
    assert LoadResult(slo_ttft_ms=1, sent=3, not_sent=1, within_targets=2).as_json()[
        "attainment_percent"
    ] == 50  # fmt: skip


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "within"),
    [(1.0, 0.1, 1), (1.1, 0.1, 0), (1.0, 0.11, 0), (1.0, None, 1)],
)
def test_both_times_of_a_stream_have_to_be_within_the_targets(ttft_s, tpot_s, within):
    result = LoadResult(slo_ttft_ms=1000, slo_tpot_ms=100)

    result.timed(ttft_s, tpot_s)

    assert result.within_targets == within


async def test_load_ends_with_its_time(serve):
    url = await serve(answers(*GOOD))

    closed = await generate(plan(url, requests=None, duration_s=0.2))
    opened = await generate(
        plan(url, concurrency=None, rate=100, requests=None, duration_s=0.3, seed=1)
    )

    assert 0.15 < closed.duration_s < 5
    assert closed.ok == closed.sent > 0
    assert 5 < opened.sent < 80


@pytest.mark.parametrize("loop", [{"concurrency": 1}, {"concurrency": None, "rate": 200}])
async def test_load_that_is_told_to_stop_still_sends_what_was_promised(serve, loop):
    told = asyncio.Event()
    told.set()
    url = await serve(answers(*GOOD))

    result = await generate(plan(url, requests=None, duration_s=60, at_least=7, **loop), told)

    assert result.sent == result.ok == 7


async def test_sigterm_ends_the_sending_and_what_is_in_flight_is_answered(serve):
    arrived = asyncio.Event()

    async def slow(request):
        arrived.set()
        await asyncio.sleep(0.2)
        return await answers(*GOOD)(request)

    task = asyncio.create_task(
        generate_until_told(plan(await serve(slow), requests=None, duration_s=60, concurrency=1))
    )
    try:
        await arrived.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        result = await task
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)

    assert result.sent == result.ok == 1


async def test_a_loss_tells_when_how_far_and_what_was_said(serve):
    result = await generate(plan(await serve(answers(piece(" a"), ERROR, DONE)), requests=1))

    (loss,) = result.as_json()["losses"]
    assert (loss["request"], loss["kind"], loss["pieces"]) == (1, "error-in-answer", 1)
    assert "error" in loss["detail"]
    assert loss["at"].endswith("+00:00")
    assert loss["after_s"] >= 0


def test_of_very_many_losses_the_first_are_kept():
    result = LoadResult()
    for number in range(MOST_LOSSES + 5):
        result.lose(Loss("", number, "cut", 0.0, 0, ""))

    assert [loss.request for loss in result.losses] == list(range(MOST_LOSSES))


async def test_the_model_is_asked_for_where_it_is_not_named(serve):
    seen = []

    async def handler(request):
        seen.append((await request.json())["model"])
        return await answer_whole(request)

    async def models(_):
        return web.json_response({"data": [{"id": "named"}]})

    url = await serve(handler, models)

    await generate(plan(url, model=None, requests=1, stream=False))

    assert seen == ["named"]


async def test_a_server_that_names_no_model_is_refused(serve):
    with pytest.raises(LostError, match="/v1/models names no model"):
        await generate(plan(await serve(fail), model=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": "localhost:8000"}, "url localhost:8000: must begin with http"),
        ({"rate": 5}, "rate, concurrency, trace: exactly one"),
        ({"concurrency": None}, "rate, concurrency, trace: exactly one"),
        ({"requests": None}, "requests, duration: at least one"),
        ({"trace": LoadTrace(path=Path("x"), to_s=1)}, "rate, concurrency, trace: exactly one"),
        ({"slo_ttft_ms": 1, "stream": False}, "slo-ttft-ms, slo-tpot-ms: known of streams only"),
        ({"slo_tpot_ms": 0}, "slo-tpot-ms 0: must be"),
        ({"requests": 0}, "requests 0: must be 1 to 1,000,000"),
        ({"concurrency": 0}, "concurrency 0: must be 1 to 10,000"),
        ({"concurrency": None, "rate": float("nan")}, "rate nan: must be 0.001 to 10,000"),
        ({"duration_s": 1e9}, r"duration 1000000000\.0: must be 0.001 to 86,400"),
        ({"shared_tokens": 129}, "shared-tokens 129: must be 0 to 128"),
        ({"timeout_s": 0}, "timeout 0: must be"),
    ],
)
def test_load_without_bounds_is_refused(changes, message):
    with pytest.raises(LoadError, match=message):
        plan(**{"url": "http://x", **changes})


def test_a_summary_has_values_that_were_measured():
    assert summary([]) is None
    assert summary([3.0]) == {"mean": 3.0, "p50": 3.0, "p90": 3.0, "p99": 3.0, "max": 3.0}
    assert summary([float(n) for n in range(1, 101)]) == {
        "mean": 50.5,
        "p50": 50.0,
        "p90": 90.0,
        "p99": 99.0,
        "max": 100.0,
    }


def test_nothing_sent_is_no_rate():
    assert LoadResult().as_json()["requests_per_s"] is None


def test_the_table_tells_what_was_lost(unused_tcp_port, capsys):
    arguments = ["--concurrency", "1", "--requests", "2", "--model", "m"]

    with pytest.raises(SystemExit) as end:
        main(["simulate", "load", f"http://127.0.0.1:{unused_tcp_port}", *arguments])

    out = capsys.readouterr().out
    assert end.value.code == 1
    assert "refused 2" in out
    assert "ttft" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["load", "http://127.0.0.1:1", "--rate", "1"], "requests, duration: at least one"),
        (["load", "http://127.0.0.1:1", "--rate", "1", "--requests", "1"], "names no model"),
        (
            ["load", "http://127.0.0.1:1", "--rate", "1", "--requests", "1", "--scale", "2"],
            "format, from, to, scale: tell what of a trace is sent, and need trace",
        ),
        (
            ["load", "http://x", "--trace", "x.csv", "--to", "9", "--prompt-tokens", "4"],
            "prompt-tokens, output-tokens: a trace tells them",
        ),
        (
            ["load", "http://x", "--trace", "no-such.csv", "--to", "9", "--model", "m"],
            "no-such.csv: not readable: No such file",
        ),
        (
            ["load", "http://x", "--trace", "x.csv", "--rate", "1", "--to", "9"],
            "rate, concurrency, trace: exactly one",
        ),
        (["serve", "--sigterm", "x"], "sigterm x: must be one of"),
    ],
)
def test_a_command_refuses_its_input_in_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(["simulate", *arguments])

    error = capsys.readouterr().err
    assert end.value.code == 2
    assert message in error
    assert error.count("\n") == 1
