"""A load generator that knows when a request is lost: bounded, streaming, open or closed loop."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

from cacheaware_sim.load_plan import LoadPlan
from cacheaware_sim.load_result import LoadResult
from cacheaware_sim.tokens import prompt_of

DATA, DONE = b"data:", b"[DONE]"


class LostError(Exception):
    """A request that got no whole answer; its text is the kind of loss."""


@dataclass(slots=True)
class Progress:
    """What of an answer has come so far."""

    started_at: float
    first_at: float | None = None
    last_at: float | None = None
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


async def generate(plan: LoadPlan) -> LoadResult:
    """Send the load and wait for all answers.

    Raises:
        LostError: The model's name is not given and the server does not tell it.
    """
    connector = aiohttp.TCPConnector(limit=0, force_close=not plan.keep_alive)
    timeout = aiohttp.ClientTimeout(total=plan.timeout_s)
    headers = {"Authorization": f"Bearer {plan.api_key}"} if plan.api_key else {}
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=headers, read_bufsize=2**20
    ) as session:
        generator = _Generator(plan, session, plan.model or await _model(session, plan.url))
        started = time.monotonic()
        await (generator.open_loop() if plan.rate is not None else generator.closed_loop())
        generator.result.duration_s = time.monotonic() - started
        return generator.result


class _Generator:
    """One run of a plan."""

    def __init__(self, plan: LoadPlan, session: aiohttp.ClientSession, model: str) -> None:
        self.result = LoadResult()
        self._plan = plan
        self._session = session
        self._model = model
        self._numbers = itertools.count(1)
        self._until = time.monotonic() + (plan.duration_s or float("inf"))

    async def open_loop(self) -> None:
        """Requests arrive whether or not earlier ones were answered."""
        tasks: set[asyncio.Task[None]] = set()
        arrives = time.monotonic()
        for number, gap in zip(range(1, self._plan.most() + 1), self._plan.gaps_s(), strict=False):
            arrives += gap
            if arrives >= self._until:
                break
            await asyncio.sleep(max(0.0, arrives - time.monotonic()))
            if len(tasks) >= self._plan.max_in_flight:
                self.result.not_sent += 1
                continue
            task = asyncio.create_task(self._one(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def closed_loop(self) -> None:
        """Each client asks again when it has its answer."""
        clients = min(self._plan.concurrency or 1, self._plan.most())
        await asyncio.gather(*(self._client() for _ in range(clients)))

    async def _client(self) -> None:
        while time.monotonic() < self._until and (number := next(self._numbers)) <= (
            self._plan.most()
        ):
            await self._one(number)

    async def _one(self, number: int) -> None:
        self.result.sent += 1
        progress = Progress(time.monotonic())
        try:
            await self._ask(number, progress)
        except LostError as error:
            self.result.failed[str(error)] += 1
        except TimeoutError:
            self.result.failed["timeout"] += 1
        except aiohttp.ClientConnectorError:
            self.result.failed["refused"] += 1
        except aiohttp.ClientError:
            self.result.failed["cut"] += 1
        else:
            self._count(progress)

    async def _ask(self, number: int, progress: Progress) -> None:
        async with self._session.post(
            f"{self._plan.url.rstrip('/')}/v1/completions", json=self._body(number)
        ) as response:
            if response.status != 200:
                raise LostError(f"http-{response.status}")
            if self._plan.stream:
                await _follow(_events(response), progress)
            else:
                _take(await _json(response), progress)
        progress.last_at = time.monotonic()
        if progress.finish_reason is None:
            raise LostError("no-finish-reason")

    def _body(self, number: int) -> dict[str, Any]:
        plan = self._plan
        seed = (plan.seed << 20) + number
        body = {
            "model": self._model,
            "prompt": prompt_of(plan.prompt_tokens, seed, plan.shared_tokens),
            "max_tokens": plan.output_tokens,
            "ignore_eos": True,
        }
        if plan.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def _count(self, progress: Progress) -> None:
        result, end = self.result, progress.last_at or progress.started_at
        result.ok += 1
        result.prompt_tokens += progress.prompt_tokens
        result.completion_tokens += progress.completion_tokens
        result.e2e_s.append(end - progress.started_at)
        if self._plan.stream and progress.first_at is not None:
            result.ttft_s.append(progress.first_at - progress.started_at)
            if progress.completion_tokens > 1:
                decoding = end - progress.first_at
                result.tpot_s.append(decoding / (progress.completion_tokens - 1))


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
        raise LostError("error-in-answer")
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
