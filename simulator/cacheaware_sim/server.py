"""The mock engine's HTTP routes: OpenAI's API, health, metrics, as vLLM has them."""

import asyncio
import dataclasses
import itertools
import json
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from cacheaware_sim import logprobs, openai_api, tokens
from cacheaware_sim.api_errors import ApiError, bad_request, engine_gone
from cacheaware_sim.engine import NotAdmittedError
from cacheaware_sim.faults import FaultError, Faults
from cacheaware_sim.metrics_page import CONTENT_TYPE, MetricsPage
from cacheaware_sim.openai_api import Answer, Ask, Served
from cacheaware_sim.real_time import RealTimeEngine, Ticket
from cacheaware_sim.request import Request
from cacheaware_sim.stats import EngineSnapshot

VERSION = "0.33.0"
MAX_BODY_BYTES = 16 * 2**20

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Write = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]


class Server:
    """The routes of one engine.

    Args:
        engine: What answers.
        served: The model and its limits.
        page: The metrics page.
        api_key: What `/v1/...` asks for, if anything.
        faults: The fault controls, if they are to be reachable (`POST /faults`).
        close_while: While this file exists, answers end their connections.
    """

    def __init__(
        self,
        engine: RealTimeEngine,
        served: Served,
        page: MetricsPage,
        *,
        api_key: str | None = None,
        faults: Faults | None = None,
        close_while: Path | None = None,
    ) -> None:
        self._engine = engine
        self._served = served
        self._page = page
        self._api_key = api_key
        self._faults = faults
        self._close_while = close_while
        self._identities = itertools.count(1)
        self._frozen: EngineSnapshot | None = None

    def app(self) -> web.Application:
        """The application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/version", self._version)
        app.router.add_get("/metrics", self._metrics)
        for path in ("/health", "/ping"):
            app.router.add_get(path, self._health)
        if self._faults is not None:
            app.router.add_get("/faults", self._show_faults)
            app.router.add_post("/faults", self._set_faults)
        if self._close_while is not None:
            app.on_response_prepare.append(self._end_connection)
        return app

    async def _end_connection(self, _: web.Request, response: web.StreamResponse) -> None:
        """Tell clients that keep their connections to leave, as the sidecar's middleware does."""
        if self._close_while is not None and self._close_while.exists():
            response.force_close()
            response.headers["Connection"] = "close"

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key as vLLM does (only below /v1), and turn refusals into error objects."""
        if request.path.startswith("/v1") and not self._knows_key(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.body(), status=error.status)

    def _knows_key(self, request: web.Request) -> bool:
        wanted = f"Bearer {self._api_key}"
        return not self._api_key or request.headers.get("Authorization") == wanted

    # Completions

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=True)

    async def _answer(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        await self._request_fault()
        ask = openai_api.parse(await _json(request), self._served, chat=chat)
        answer = Answer(ask, next(self._identities))
        tickets: list[Ticket] = []
        try:
            tickets.extend(self._submit(ask, index) for index in range(len(ask.prompts)))
            if ask.stream:
                return await self._stream(request, ask, answer, tickets)
            return web.json_response(await self._whole(ask, answer, tickets))
        finally:
            # A client that has gone away takes its request along, as with vLLM.
            for ticket in tickets:
                self._engine.drop(ticket)

    def _submit(self, ask: Ask, index: int) -> Ticket:
        prompt, output = ask.prompts[index], ask.output_tokens[index]
        size = self._page.config.block_size
        request = Request(
            next(self._identities),
            len(prompt),
            output,
            block_names=tokens.block_names(
                (*prompt, *tokens.answer(tokens.seed_of(prompt), 0, output)), size
            ),
            stops=ask.stops[index],
            features=ask.features,
        )
        try:
            return self._engine.submit(request, streams=ask.stream)
        except NotAdmittedError as error:
            raise engine_gone() from error

    async def _whole(self, ask: Ask, answer: Answer, tickets: list[Ticket]) -> dict[str, Any]:
        choices = []
        for prompt, ticket in zip(ask.prompts, tickets, strict=True):
            while not ticket.ended:
                await ticket.change()
            text = tokens.answer(tokens.seed_of(prompt), 0, ticket.request.generated)
            told = self._logprobs(ask, prompt, text)
            shown = [*prompt, *text] if ask.echo else text
            choices.append(("".join(shown), _outcome(ticket), told))
        return answer.whole(choices, _usage(tickets))

    def _logprobs(
        self, ask: Ask, prompt: Sequence[str], text: Sequence[str]
    ) -> dict[str, Any] | None:
        """Log probabilities, where they are asked for."""
        if ask.logprobs is None:
            return None
        drifted = self._fault("model") == "drift"
        ahead, values = logprobs.of_tokens(prompt, text, drifted=drifted)
        if ask.chat:
            return logprobs.chat(text, values, ask.logprobs)
        if not ask.echo:
            return logprobs.completion(text, values, ask.logprobs)
        return logprobs.completion([*prompt, *text], [*ahead, *values], ask.logprobs)

    async def _stream(
        self, request: web.Request, ask: Ask, answer: Answer, tickets: list[Ticket]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)

        async def write(chunk: dict[str, Any]) -> None:
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

        try:
            if (first := answer.first()) is not None:
                await write(first)
            async with asyncio.TaskGroup() as group:
                for index, prompt in enumerate(ask.prompts):
                    seed = tokens.seed_of(prompt)
                    group.create_task(self._pump(tickets[index], index, seed, answer, write))
            if ask.include_usage:
                await write(answer.used(_usage(tickets)))
        except* ApiError as errors:
            # The status is sent: vLLM says what went wrong inside the stream, and ends it properly.
            await write(next(_leaves(errors)).body())
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _pump(
        self, ticket: Ticket, index: int, seed: int, answer: Answer, write: Write
    ) -> None:
        """Write the tokens of one answer as they come, several in a chunk if they are faster."""
        seen = 0
        ended = False
        while not ended:
            await ticket.change()
            ended = ticket.ended
            reason = _outcome(ticket) if ended else None
            generated = self._engine.engine.generated(ticket.request)
            if ended or generated > seen:
                text = "".join(tokens.answer(seed, seen, generated))
                seen = generated
                await write(answer.piece(index, text, reason))

    # What is known about the engine

    async def _models(self, _: web.Request) -> web.Response:
        model = {
            "id": self._served.model,
            "object": "model",
            "created": int(self._page.created),
            "owned_by": "vllm",
            "root": self._served.model,
            "parent": None,
            "max_model_len": self._served.max_model_len,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        prompt = openai_api.prompt_for_tokenize(await _json(request))
        ids = [tokens.token_id(piece) for piece in prompt]
        limit = self._served.max_model_len
        return web.json_response({"count": len(ids), "max_model_len": limit, "tokens": ids})

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": VERSION})

    async def _health(self, _: web.Request) -> web.Response:
        fault = self._fault("health")
        if fault == "hang" and self._faults is not None:
            await self._faults.over()
        return web.Response(status=503 if fault == "fail" else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        fault = self._fault("metrics")
        if fault == "hang" and self._faults is not None:
            await self._faults.over()
        if fault in {"401", "404", "500"}:
            return web.Response(status=int(fault))
        if fault == "redirect":
            return web.Response(status=307, headers={"Location": "/elsewhere"})
        return web.Response(body=self._metrics_body(fault), headers={"Content-Type": CONTENT_TYPE})

    def _metrics_body(self, fault: str | None) -> bytes:
        if fault == "empty":
            return b""
        if fault == "garbage":
            return b"\x00\xff<html>{{{ vllm:num_requests_running"
        snapshot = self._engine.engine.snapshot()
        if fault == "nan":
            snapshot = dataclasses.replace(
                snapshot, running=math.nan, waiting=math.nan, usage=math.nan
            )
        if fault == "frozen":
            snapshot = self._frozen = self._frozen or snapshot
        else:
            self._frozen = None
        return self._page.render(snapshot)

    # Faults

    def _fault(self, part: str) -> str | None:
        return None if self._faults is None else self._faults.of(part)

    async def _request_fault(self) -> None:
        fault = self._fault("requests")
        if fault == "500":
            raise engine_gone()
        if fault == "hang" and self._faults is not None:
            await self._faults.over()

    async def _show_faults(self, _: web.Request) -> web.Response:
        return web.json_response({} if self._faults is None else self._faults.shown())

    async def _set_faults(self, request: web.Request) -> web.Response:
        order = await _json(request)
        if self._faults is None or not isinstance(order, dict):
            raise bad_request("the body must be a JSON object")
        try:
            return web.json_response(self._faults.set(order))
        except FaultError as error:
            raise bad_request(str(error)) from error


async def _json(request: web.Request) -> Any:
    try:
        return await request.json()
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}") from error


def _outcome(ticket: Ticket) -> str:
    outcome = ticket.request.outcome
    if outcome not in {"stop", "length"}:
        raise engine_gone()
    return outcome


def _usage(tickets: list[Ticket]) -> dict[str, Any]:
    requests = [ticket.request for ticket in tickets]
    return openai_api.usage(
        sum(request.prompt_tokens for request in requests),
        sum(request.generated for request in requests),
        sum(request.cached_tokens for request in requests),
    )


def _leaves(group: BaseExceptionGroup[ApiError]) -> Any:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def started_at(clock: float) -> float:
    """Unix time of a moment of the monotonic clock."""
    return time.time() - (time.monotonic() - clock)
