"""What an engine answered to a request of the warm-up, and how it is read."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine answered: a status and its JSON, or no status and why."""

    status: int | None
    body: Any = None
    error: str | None = None
    cut: bool = False
    """The connection failed: whoever answers next may be another engine, and cold."""


def is_completion(answer: Answer) -> bool:
    """Whether it is HTTP 200 with a completion in it."""
    if answer.status != 200 or not isinstance(answer.body, dict):
        return False
    choices = answer.body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return False
    return isinstance(choices[0].get("text"), str) or isinstance(choices[0].get("message"), dict)


def is_missing(status: int | None) -> bool:
    """Whether the route is not there."""
    return status in {404, 405, 501} or (status is not None and 300 <= status < 400)


def refused(status: int | None) -> bool:
    """Whether the engine won't take this prompt."""
    return status in {400, 413, 422}


def prompt_tokens(answer: Answer) -> int | None:
    """Tokens of the prompt as the engine counted them; at least one."""
    return _usage(answer, "prompt_tokens") or None


def answer_tokens(answer: Answer) -> int | None:
    """Tokens of the answer as the engine counted them."""
    return _usage(answer, "completion_tokens")


def cached_tokens(answer: Answer) -> int | None:
    """Tokens of the prompt that were found in the prefix cache, where the engine tells."""
    usage = answer.body.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    return _count(details.get("cached_tokens")) if isinstance(details, dict) else None


def _usage(answer: Answer, name: str) -> int | None:
    usage = answer.body.get("usage")
    return _count(usage.get(name)) if isinstance(usage, dict) else None


def _count(tokens: Any) -> int | None:
    counted = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < 1 << 40
    return tokens if counted else None


def said(answer: Answer) -> str:
    """The engine's answer in a few words."""
    if answer.status is None:
        return answer.error or "no answer"
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    words = error.get("message") if isinstance(error, dict) else error
    if not isinstance(words, str) and isinstance(answer.body, dict):
        words = answer.body.get("message")
    if not isinstance(words, str):
        return f"HTTP {answer.status}" + (" without a completion" if answer.status == 200 else "")
    line = " ".join("".join(c if c.isprintable() else " " for c in words[:200]).split())
    return f"HTTP {answer.status}: {line}"
