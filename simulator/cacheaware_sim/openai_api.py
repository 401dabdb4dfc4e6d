"""OpenAI's completions and chat completions: from JSON to what the engine is asked, and back."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cacheaware_sim import tokens
from cacheaware_sim.api_errors import bad_request, unknown_model
from cacheaware_sim.first_shapes import Shape

STRUCTURED = ("json_object", "json_schema")
MOST_LOGPROBS = 20
"""vLLM's `--max-logprobs`."""
COMPLETION_MAX_TOKENS = 16
"""OpenAI's own default for completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What this engine serves."""

    model: str
    max_model_len: int
    answer_tokens: int
    """Tokens after which an answer ends by itself where a request sets no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request, checked. Several prompts only in completions."""

    chat: bool
    model: str
    prompts: tuple[tuple[str, ...], ...]
    """The tokens of each prompt."""
    output_tokens: tuple[int, ...]
    stops: tuple[bool, ...]
    """Whether each answer ends by itself, before its limit."""
    stream: bool
    include_usage: bool
    features: tuple[Shape, ...] = ()
    """What the answers are asked to be besides."""
    logprobs: int | None = None
    """So many of the likeliest tokens are told with each; None tells no log probabilities."""
    echo: bool = False
    """Whether the prompt comes back before the answer. Completions only."""


def parse(body: Any, served: Served, *, chat: bool) -> Ask:
    """Check a request.

    Raises:
        ApiError: 400 or 404, with vLLM's message.
    """
    if not isinstance(body, dict):
        raise bad_request("the body must be a JSON object")
    model = body.get("model") or served.model
    if model != served.model:
        raise unknown_model(str(model))
    if body.get("n", 1) not in (1, None):
        raise bad_request(f"n {body['n']}: this engine answers once, n must be 1", "n")
    prompts = (_chat_prompt(body),) if chat else _prompts(body.get("prompt"))
    limit = _max_tokens(body, None if chat else COMPLETION_MAX_TOKENS)
    lengths = [_output(len(prompt), limit, served) for prompt in prompts]
    return Ask(
        chat=chat,
        model=served.model,
        prompts=prompts,
        output_tokens=tuple(length for length, _ in lengths),
        stops=tuple(stops for _, stops in lengths),
        stream=bool(body.get("stream")),
        include_usage=_include_usage(body),
        features=_features(body),
        logprobs=_logprobs(body, chat=chat),
        echo=bool(body.get("echo")) and not chat,
    )


def _logprobs(body: Mapping[str, Any], *, chat: bool) -> int | None:
    wanted, name = body.get("logprobs"), "logprobs"
    if wanted is None or wanted is False:
        return None
    if chat or wanted is True:
        wanted, name = body.get("top_logprobs", 0) or 0, "top_logprobs"
    if type(wanted) is not int or not 0 <= wanted <= MOST_LOGPROBS:
        raise bad_request(f"{name} must be 0 to {MOST_LOGPROBS}, got {wanted}.", name)
    return wanted


def _features(body: Mapping[str, Any]) -> tuple[Shape, ...]:
    """Fields that cost an engine something at their first use; the answer stays as it is."""
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None if wanted is None else wanted
    if kind not in (None, "text", *STRUCTURED):
        allowed = ", ".join(("text", *STRUCTURED))
        raise bad_request(f"response_format.type must be one of {allowed}", "response_format")
    found = [Shape.STRUCTURED_OUTPUT] if kind in STRUCTURED else []
    logprobs = body.get("logprobs")
    if logprobs is not None and logprobs is not False:  # 0 is a wish: that of the chosen token
        found.append(Shape.LOGPROBS)
    return tuple(found)


def _include_usage(body: Mapping[str, Any]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def _max_tokens(body: Mapping[str, Any], default: int | None) -> int | None:
    name = "max_completion_tokens" if body.get("max_completion_tokens") else "max_tokens"
    limit = body.get(name)
    if limit is None:
        return default
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise bad_request(f"{name} must be at least 1, got {limit}.", name)
    return limit


def _output(prompt: int, limit: int | None, served: Served) -> tuple[int, bool]:
    """(tokens of the answer, whether it ends by itself)."""
    room = served.max_model_len - prompt
    if prompt < 1:
        raise bad_request("The prompt is empty.", "prompt")
    if room < (limit or 1):
        raise bad_request(
            f"This model's maximum context length is {served.max_model_len} tokens. However, you "
            f"requested {limit or 1} output tokens and your prompt contains {prompt} input tokens. "
            "Please reduce the length of the input prompt or the number of requested output tokens."
        )
    if limit is not None:
        return limit, False
    return min(served.answer_tokens, room), served.answer_tokens <= room


def _prompts(prompt: Any) -> tuple[tuple[str, ...], ...]:
    if isinstance(prompt, str) or _is_ids(prompt):
        return (_prompt(prompt),)
    if isinstance(prompt, list) and prompt:
        return tuple(_prompt(one) for one in prompt)
    raise bad_request("prompt must be a string, token ids, or a list of them", "prompt")


def _prompt(prompt: Any) -> tuple[str, ...]:
    if isinstance(prompt, str):
        return tuple(tokens.pieces(prompt))
    if _is_ids(prompt):
        return tuple(tokens.pieces_of_ids(prompt))
    raise bad_request("prompt must be a string, token ids, or a list of them", "prompt")


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)


def _chat_prompt(body: Mapping[str, Any]) -> tuple[str, ...]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages must be a list with at least one message", "messages")
    text = "".join(_message(message) for message in messages)
    return tuple(tokens.pieces(text + "assistant:"))


def _message(message: Any) -> str:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise bad_request("each message must have a role", "messages")
    content = message.get("content") or ""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        raise bad_request("the content of a message must be text or a list of parts", "messages")
    return f"{message['role']}:{content}\n"


def prompt_for_tokenize(body: Any) -> tuple[str, ...]:
    """The tokens that `/tokenize` is asked about: a prompt, or messages as chat has them."""
    if isinstance(body, dict) and "messages" in body:
        return _chat_prompt(body)
    if isinstance(body, dict) and isinstance(body.get("prompt"), str):
        return tuple(tokens.pieces(body["prompt"]))
    raise bad_request("prompt must be a string", "prompt")


def usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    """What was used, in tokens."""
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


class Answer:
    """Builds the JSON of one answer, whole or in chunks."""

    def __init__(self, ask: Ask, identity: int) -> None:
        self._chat = ask.chat
        self._common = {
            "id": f"{'chatcmpl' if ask.chat else 'cmpl'}-{identity}",
            "created": int(time.time()),
            "model": ask.model,
        }

    def whole(
        self, choices: list[tuple[str, str, dict[str, Any] | None]], used: dict[str, Any]
    ) -> dict[str, Any]:
        """The answer at once; `choices` are (text, finish reason, log probabilities)."""
        kind = "chat.completion" if self._chat else "text_completion"
        shown = [self._choice(index, *choice) for index, choice in enumerate(choices)]
        return {**self._common, "object": kind, "choices": shown, "usage": used}

    def _choice(
        self, index: int, text: str, reason: str, logprobs: dict[str, Any] | None
    ) -> dict[str, Any]:
        content: dict[str, Any] = {"text": text}
        if self._chat:
            content = {"message": {"role": "assistant", "content": text}}
        return {"index": index, **content, "logprobs": logprobs, "finish_reason": reason}

    def first(self) -> dict[str, Any] | None:
        """The chunk before the first token: chat says who speaks."""
        if not self._chat:
            return None
        return self._chunk([self._delta(0, {"role": "assistant", "content": ""}, None)])

    def piece(self, index: int, text: str, reason: str | None) -> dict[str, Any]:
        """A chunk with one or more tokens."""
        if self._chat:
            return self._chunk([self._delta(index, {"content": text}, reason)])
        choice = {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
        return self._chunk([choice])

    def used(self, used: dict[str, Any]) -> dict[str, Any]:
        """The last chunk, where `stream_options.include_usage` asks for it."""
        return {**self._chunk([]), "usage": used}

    def _delta(self, index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return {**self._common, "object": kind, "choices": choices}
