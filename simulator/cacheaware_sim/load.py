"""A load generator that knows when a request is lost: bounded, streaming, open or closed loop."""

import asyncio
import itertools
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import aiohttp

from cacheaware_sim.load_plan import LoadPlan
from cacheaware_sim.load_result import LoadResult, Loss
from cacheaware_sim.tokens import prompt_of
from cacheaware_sim.traces.trace import TraceRequest

DATA, DONE = b"data:", b"[DONE]"
LONGEST_DETAIL = 300
IDLE_S = 4.0
"""A pooled connection is let go sooner than vLLM's server does it, after 5 s: a request that is
sent at that moment would be lost, whoever scales.
"""
FIRST_ANSWER = "load: the first answer has come\n"
"""Told on stderr, so that whoever waits for load knows that it flows."""


class LostError(Exception):
    """A request that got no whole answer; its text is the kind of loss.

    Args:
        kind: The kind of loss.
        detail: What the server said about it.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.detail = detail


@dataclass(slots=True)
class Progress:
    """What of an answer has come so far."""

    started_at: float
    first_at: float | None = None
    last_at: float | None = None
    finish_reason: str | None = None
    pieces: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


async def generate_until_told(plan: LoadPlan) -> LoadResult:
    """As `generate`; SIGTERM ends the sending (not before `at_least`), never what is in flight."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return await generate(plan, stop)


async def generate(plan: LoadPlan, stop: asyncio.Event | None = None) -> LoadResult:
    """Send the load and wait for all answers.

    Args:
        plan: What to send.
        stop: Once it is set, nothing more is sent than what is still missing of `at_least`.

    Raises:
        LoadError: The plan's trace can't be read, or has nothing to send.
        LostError: The model's name is not given and the server does not tell it.
    """
    plan.check_trace()
    connector = (
        aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S)
        if plan.keep_alive
        else aiohttp.TCPConnector(limit=0, force_close=True)
    )
    timeout = aiohttp.ClientTimeout(total=plan.timeout_s)
    headers = {"Authorization": f"Bearer {plan.api_key}"} if plan.api_key else {}
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=headers, read_bufsize=2**20
    ) as session:
        model = plan.model or await _model(session, plan.url)
        arrivals = plan.arrivals()
        generator = _Generator(plan, session, model, stop or asyncio.Event())
        generator.result.began_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        started = time.monotonic()
        await (generator.closed_loop() if plan.concurrency else generator.open_loop(arrivals))
        generator.result.duration_s = time.monotonic() - started
        return generator.result


class _Generator:
    """One run of a plan."""

    def __init__(
        self, plan: LoadPlan, session: aiohttp.ClientSession, model: str, stop: asyncio.Event
    ) -> None:
        self.result = LoadResult(slo_ttft_ms=plan.slo_ttft_ms, slo_tpot_ms=plan.slo_tpot_ms)
        self._stop = stop
        self._plan = plan
        self._session = session
        self._model = model
        self._numbers = itertools.count(1)
        self._until = time.monotonic() + (plan.duration_s or float("inf"))

    async def open_loop(self, arrivals: Iterator[TraceRequest]) -> None:
        """Requests arrive whether or not earlier ones were answered."""
        tasks: set[asyncio.Task[None]] = set()
        began = time.monotonic()
        for number, request in enumerate(islice(arrivals, self._plan.most()), 1):
            arrives = began + request.at
            if arrives >= self._until:
                break
            await asyncio.sleep(max(0.0, arrives - time.monotonic()))
            if self._told_to_stop():
                break
            if len(tasks) >= self._plan.max_in_flight:
                self.result.not_sent += 1
                continue
            task = asyncio.create_task(self._one(number, request))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def closed_loop(self) -> None:
        """Each client asks again when it has its answer."""
        clients = min(self._plan.concurrency or 1, self._plan.most())
        await asyncio.gather(*(self._client() for _ in range(clients)))

    async def _client(self) -> None:
        while not self._over() and (number := next(self._numbers)) <= self._plan.most():
            await self._one(number, self._plan.request())

    def _over(self) -> bool:
        return time.monotonic() >= self._until or self._told_to_stop()

    def _told_to_stop(self) -> bool:
        return self._stop.is_set() and self.result.sent >= self._plan.at_least

    async def _one(self, number: int, request: TraceRequest) -> None:
        self.result.sent += 1
        progress = Progress(time.monotonic())
        try:
            await self._ask(self._body(number, request), progress)
        except (LostError, TimeoutError, aiohttp.ClientError) as error:
            self._lose(number, progress, error)
        else:
            self._count(progress)

    def _lose(self, number: int, progress: Progress, error: Exception) -> None:
        kind = _kind(error)
        self.result.failed[kind] += 1
        loss = Loss(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            request=number,
            kind=kind,
            after_s=round(time.monotonic() - progress.started_at, 3),
            pieces=progress.pieces,
            detail=(error.detail if isinstance(error, LostError) else repr(error))[:LONGEST_DETAIL],
        )
        self.result.lose(loss)

    async def _ask(self, body: dict[str, Any], progress: Progress) -> None:
        async with self._session.post(
            f"{self._plan.url.rstrip('/')}/v1/completions", json=body
        ) as response:
            if response.status != 200:
                raise LostError(f"http-{response.status}", await response.text())
            if self._plan.stream:
                await _follow(_events(response), progress)
            else:
                _take(await _json(response), progress)
        progress.last_at = time.monotonic()
        if progress.finish_reason is None:
            raise LostError("no-finish-reason")
        if progress.finish_reason == "abort":
            raise LostError("aborted")

    def _body(self, number: int, request: TraceRequest) -> dict[str, Any]:
        plan = self._plan
        seed = (plan.seed << 20) + number
        body = {
            "model": self._model,
            "prompt": prompt_of(request.prompt_tokens, seed, plan.shared_tokens),
            "max_tokens": request.output_tokens,
            "ignore_eos": True,
        }
        if plan.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def _count(self, progress: Progress) -> None:
        result, end = self.result, progress.last_at or progress.started_at
        result.ok += 1
        if result.ok == 1:
            sys.stderr.write(FIRST_ANSWER)
            sys.stderr.flush()
        result.prompt_tokens += progress.prompt_tokens
        result.completion_tokens += progress.completion_tokens
        result.e2e_s.append(end - progress.started_at)
        if self._plan.stream and progress.first_at is not None:
            further = progress.completion_tokens - 1
            decoding = end - progress.first_at
            result.timed(
                progress.first_at - progress.started_at, decoding / further if further > 0 else None
            )


def _kind(error: Exception) -> str:
    if isinstance(error, LostError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "timeout"
    return "refused" if isinstance(error, aiohttp.ClientConnectorError) else "cut"


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for line in response.content:
        if line.startswith(DATA):
            yield line.removeprefix(DATA).strip()


async def _follow(events: AsyncIterator[bytes], progress: Progress) -> None:
    """Read a stream to its end; its status says nothing about how it ends."""
    async for event in events:
        if event == DONE:
            return
        try:
            _take(json.loads(event), progress)
        except ValueError as error:
            raise LostError("not-json") from error
    raise LostError("cut")


def _take(answer: Any, progress: Progress) -> None:
    """Take in an answer or a piece of one."""
    if not isinstance(answer, dict) or "error" in answer:
        raise LostError("error-in-answer", json.dumps(answer))
    progress.pieces += 1
    for choice in answer.get("choices") or ():
        if progress.first_at is None and (choice.get("text") or choice.get("finish_reason")):
            progress.first_at = time.monotonic()
        progress.finish_reason = choice.get("finish_reason") or progress.finish_reason
    if usage := answer.get("usage"):
        progress.prompt_tokens = usage.get("prompt_tokens") or 0
        progress.completion_tokens = usage.get("completion_tokens") or 0


async def _json(response: aiohttp.ClientResponse) -> Any:
    try:
        return await response.json(content_type=None)
    except ValueError as error:
        raise LostError("not-json") from error


async def _model(session: aiohttp.ClientSession, url: str) -> str:
    """The first model that the server lists."""
    with suppress(aiohttp.ClientError, TimeoutError, ValueError, LookupError, TypeError):
        async with session.get(f"{url.rstrip('/')}/v1/models") as response:
            return str((await response.json(content_type=None))["data"][0]["id"])
    raise LostError(f"url {url}: /v1/models names no model; give one with --model")
