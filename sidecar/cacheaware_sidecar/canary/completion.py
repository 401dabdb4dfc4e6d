"""The canary: a fixed prompt, and what an engine's answer says of each of its tokens. Pure.

Asked greedily (temperature 0, a fixed seed) with log probabilities, a model that is the same says
the same but for rounding. Engines give them in three ways, tried in this order:

- `echo`: `/v1/completions` with `echo`, so that the prompt's own tokens have log probabilities,
  too: some hundred numbers that don't depend on what was answered (vLLM, SGLang). llama.cpp takes
  `echo` and leaves the prompt out.
- `plain`: `/v1/completions` without it, for engines that refuse it.
- `chat`: `/v1/chat/completions`, for engines that have them there alone.

Two shapes come back: OpenAI's old one, `{"tokens", "token_logprobs", "top_logprobs"}`, and that of
chats, `{"content": [{"token", "logprob", "top_logprobs"}]}`, which llama.cpp has in both routes and
which never holds the prompt.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from cacheaware_sidecar.warmup_plan import CHAT, COMPLETIONS

PROMPT: Final = (
    "The lighthouse keeper wrote down what he saw each evening: the wind, the ships, the colour of"
    " the sea. In 1874 a storm broke the north window, and 12 + 30 = 42 panes had to be cut anew."
    " def area(width, height): return width * height. La mer est calme ce soir, et le phare tourne."
    " Water boils at 100 degrees Celsius because"
)
"""Prose, numbers, code and another language, so that no one part of a model stands for the whole.
It never changes: baselines hold it."""
MAX_TOKENS: Final = 16
SEED: Final = 0
TOP: Final = 2
"""The likeliest two: how near the second is tells whether rounding can have turned the choice."""
LARGEST_INTEGER: Final = 1 << 53
"""JSON may hold integers that no float does."""


class Way(StrEnum):
    """How an engine is asked."""

    ECHO = "echo"
    PLAIN = "plain"
    CHAT = "chat"

    @property
    def path(self) -> str:
        """The route."""
        return CHAT if self is Way.CHAT else COMPLETIONS


@dataclass(frozen=True, slots=True)
class Token:
    """One token as the model saw it."""

    text: str
    logprob: float | None
    """Natural logarithm; None where the engine gives none, NaN where it gives no number."""
    margin: float | None = None
    """The likeliest token's log probability less the second's; None where it isn't told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One answer to the canary."""

    prompt: tuple[Token, ...] = ()
    """Empty where the engine tells nothing of the prompt."""
    answer: tuple[Token, ...]


def texts(tokens: Iterable[Token]) -> tuple[str, ...]:
    """The tokens without what the model saw of them."""
    return tuple(each.text for each in tokens)


class NoLogprobsError(Exception):
    """The answer tells nothing to compare; one line says why."""


def request_body(prompt: str, way: Way, model: str | None) -> dict[str, Any]:
    """The JSON of the request."""
    asked: dict[str, Any] = {"model": model} if model else {}
    asked |= {"max_tokens": MAX_TOKENS, "temperature": 0.0, "seed": SEED}
    if way is Way.CHAT:
        messages = [{"role": "user", "content": prompt}]
        return {**asked, "messages": messages, "logprobs": True, "top_logprobs": TOP}
    asked |= {"prompt": prompt, "logprobs": TOP}
    return {**asked, "echo": True} if way is Way.ECHO else asked


def read_run(answer: Any, way: Way) -> Run:
    """What a completion says; whatever is in it, nothing else is raised.

    Raises:
        NoLogprobsError: It has no log probabilities, or they can't be told apart.
    """
    found = _logprobs(answer)
    of_chat = isinstance(found.get("content"), list)
    tokens = [_of_chat(each) for each in found["content"]] if of_chat else _of_completion(found)
    if not any(each.logprob is not None for each in tokens):
        raise NoLogprobsError("the answer has no log probabilities")
    if of_chat or way is not Way.ECHO:
        return Run(answer=tuple(tokens))
    own = _completion_tokens(answer)
    if own is None or not 0 < own <= len(tokens):
        raise NoLogprobsError("the answer doesn't tell where the prompt ends")
    return Run(prompt=tuple(tokens[:-own]), answer=tuple(tokens[-own:]))


def _logprobs(answer: Any) -> dict[str, Any]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    found = first.get("logprobs") if isinstance(first, dict) else None
    return found if isinstance(found, dict) else {}


def _completion_tokens(answer: Any) -> int | None:
    usage = answer.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if type(count) is int else None


def _of_chat(entry: Any) -> Token:
    """One entry of a chat's list."""
    if not isinstance(entry, dict):
        return Token("", None)
    top = entry.get("top_logprobs")
    likeliest = [each.get("logprob") for each in top or () if isinstance(each, dict)]
    return Token(str(entry.get("token", "")), _number(entry.get("logprob")), _margin(likeliest))


def _of_completion(found: dict[str, Any]) -> list[Token]:
    """OpenAI's old parallel lists; the first token of a prompt has no log probability."""
    texts, values = found.get("tokens"), found.get("token_logprobs")
    if not isinstance(texts, list) or not isinstance(values, list) or len(texts) != len(values):
        return []
    tops = found.get("top_logprobs")
    if not isinstance(tops, list) or len(tops) != len(texts):
        tops = [None] * len(texts)
    return [
        Token(str(text), _number(value), _margin(top.values() if isinstance(top, dict) else ()))
        for text, value, top in zip(texts, values, tops, strict=True)
    ]


def _margin(likeliest: Iterable[Any]) -> float | None:
    known = [each for each in map(_number, likeliest) if each is not None and math.isfinite(each)]
    best = sorted(known, reverse=True)[:2]
    return best[0] - best[1] if len(best) == 2 else None


def _number(value: Any) -> float | None:
    if type(value) is int and abs(value) > LARGEST_INTEGER:
        return None
    return float(value) if type(value) in {int, float} else None
