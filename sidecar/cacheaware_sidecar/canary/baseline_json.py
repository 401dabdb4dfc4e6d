"""A canary's baseline as JSON: what a ConfigMap and the pod's emptyDir hold. Pure.

`{"schema": 1, "probe": "canary", "model", "engine", "version", "way", "step", "prompt",
"prompt_tokens": [...], "runs": [{"prompt_logprobs", "answer", "answer_logprobs", "margins"}]}`;
logarithms are natural, rounded to 1e-6, unknown is null.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from cacheaware_sidecar.canary.baseline import FEWEST, MOST, Baseline, Identity
from cacheaware_sidecar.canary.completion import Run, Token, Way
from cacheaware_sidecar.clip import clipped

SCHEMA: Final = 1
PROBE: Final = "canary"
LARGEST: Final = 1 << 19
"""Bytes; a ConfigMap holds twice as many."""
LONGEST_PROMPT: Final = 2048
"""Characters."""
MOST_TOKENS: Final = 4096
LARGEST_NUMBER: Final = 1e300
DIGITS: Final = 6


class BaselineError(ValueError):
    """It is no baseline: one line with the field, its value and what is allowed."""


def as_text(baseline: Baseline) -> str:
    """The baseline to store."""
    prompt = baseline.runs[0].prompt if baseline.runs else ()
    told = {
        "schema": SCHEMA,
        "probe": PROBE,
        "model": baseline.identity.model,
        "engine": baseline.identity.engine,
        "version": baseline.identity.version,
        "way": baseline.way.value,
        "step": baseline.step,
        "prompt": baseline.prompt,
        "prompt_tokens": [each.text for each in prompt],
        "runs": [
            {
                "prompt_logprobs": [_rounded(each.logprob) for each in run.prompt],
                "answer": [each.text for each in run.answer],
                "answer_logprobs": [_rounded(each.logprob) for each in run.answer],
                "margins": [_rounded(each.margin) for each in run.answer],
            }
            for run in baseline.runs
        ],
    }
    return json.dumps(told, allow_nan=False) + "\n"


def from_text(text: str, fewest: int = FEWEST) -> Baseline:
    """A baseline that was stored.

    Args:
        text: The JSON.
        fewest: Runs that it must have.

    Raises:
        BaselineError: It is none.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise BaselineError("it is no JSON; allowed: a file of `cacheaware probe canary`") from None
    if not isinstance(told, dict) or told.get("probe") != PROBE:
        raise BaselineError("it is no canary; allowed: a file of `cacheaware probe canary`")
    if told.get("schema") != SCHEMA:
        raise _wrong("schema", told.get("schema"), str(SCHEMA))
    way, prompt = told.get("way"), told.get("prompt")
    if way not in tuple(Way):
        raise _wrong("way", way, ", ".join(Way))
    if not isinstance(prompt, str) or not 0 < len(prompt) <= LONGEST_PROMPT:
        raise _wrong("prompt", prompt, f"1 to {LONGEST_PROMPT} characters")
    step = told.get("step")
    if step is not None and not (_is_number(step) and 0 < step <= 1):
        raise _wrong("step", step, "a number above 0 up to 1, or null")
    names = _texts("prompt_tokens", told.get("prompt_tokens"))
    runs = told.get("runs")
    if not isinstance(runs, list) or not fewest <= len(runs) <= MOST:
        count = len(runs) if isinstance(runs, list) else runs
        raise _wrong("runs", count, f"a list of {fewest} to {MOST} runs")
    return Baseline(
        identity=Identity(**{name: _name(told, name) for name in ("model", "engine", "version")}),
        prompt=prompt,
        way=Way(way),
        step=step,
        runs=tuple(_run(f"runs[{at}]", each, names) for at, each in enumerate(runs)),
    )


def _run(where: str, told: Any, names: Sequence[str]) -> Run:
    if not isinstance(told, dict):
        raise _wrong(where, told, "an object")
    answer = _texts(f"{where}.answer", told.get("answer"))
    if not answer:
        raise _wrong(f"{where}.answer", [], "at least one token")
    ahead = _numbers(f"{where}.prompt_logprobs", told.get("prompt_logprobs"), len(names))
    own = _numbers(f"{where}.answer_logprobs", told.get("answer_logprobs"), len(answer))
    margins = _numbers(f"{where}.margins", told.get("margins"), len(answer))
    return Run(
        prompt=tuple(map(Token, names, ahead)),
        answer=tuple(map(Token, answer, own, margins)),
    )


def _texts(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_TOKENS:
        raise _wrong(where, value, f"a list of at most {MOST_TOKENS} tokens")
    if not all(isinstance(each, str) for each in value):
        raise _wrong(where, value, "a list of tokens as text")
    return tuple(value)


def _numbers(where: str, value: Any, count: int) -> tuple[float | None, ...]:
    if not isinstance(value, list) or len(value) != count:
        raise _wrong(where, value, f"a list of {count} numbers, one for each token")
    if not all(each is None or _is_number(each) for each in value):
        raise _wrong(where, value, "numbers and null")
    return tuple(None if each is None else float(each) for each in value)


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and -LARGEST_NUMBER <= value <= LARGEST_NUMBER


def _name(told: dict[str, Any], name: str) -> str | None:
    value = told.get(name)
    if value is None or (isinstance(value, str) and 0 < len(value) <= 256):
        return value
    raise _wrong(name, value, "up to 256 characters, or null")


def _wrong(where: str, value: Any, allowed: str) -> BaselineError:
    return BaselineError(f"{where} is {clipped(repr(value))}; allowed: {allowed}")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
