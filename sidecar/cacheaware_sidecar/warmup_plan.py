"""What a warm-up asks: its steps as data, each a shape of request that a new engine pays for once.

short · a length that is a multiple of 16 · one that is not · more than 512 tokens · the same prompt
again (prefix cache) · more than the engine's batched-token limit (chunked prefill) · several at
once (batched decode) · each feature that the user names · the user's own hot prefixes.

Nothing goes beyond what a pod in service does: a prompt and its answer fit into the model's length
and into the KV cache, and so do all that are asked at once, which are never more than four.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from cacheaware_sidecar.prompts import ALIGNMENT, Length

LONG = 512
SHORT = 8
FEW = 64
"""Tokens of a prompt whose length is a multiple of 16, or is none."""
ANSWER_TOKENS = 8
TOGETHER_TOKENS = 32
"""The answers are long enough to be made at the same time, though requests arrive one by one."""
MOST_AT_ONCE = 4
UNSET_AT_ONCE = 2
"""Where the size of the KV cache is not known."""
VLLM_MOST_BATCHED = 8192
"""The larger of the two defaults that vLLM's server has for --max-num-batched-tokens (2,048 and,
from 70 GiB of GPU memory on, 8,192): a prompt that is longer is cut whichever holds."""
STRUCTURED, LOGPROBS, LORA, IMAGE = "structured-output", "logprobs", "lora", "image"
FEATURES = (STRUCTURED, LOGPROBS, LORA, IMAGE)
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_FEW_MORE = ALIGNMENT - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One shape of request, asked until its latency is at rest."""

    name: str
    length: Length = Length(more_than=SHORT)  # noqa: RUF009 - frozen
    answer_tokens: int = ANSWER_TOKENS
    at_once: int = 1
    repeats: str | None = None
    """The step whose last prompt is asked again, word for word."""
    feature: str | None = None
    """What of the API it uses besides: one of `FEATURES`."""
    model: str | None = None
    """An adapter; None is the base model."""
    prefix: "HotPrefix | None" = None
    """Asked once, as it is."""
    skipped: str | None = None
    """Why the step is left out."""
    note: str | None = None
    """What a person should know of the step."""

    @property
    def is_named(self) -> bool:
        """Whether the user asked for this very step: then it is a problem if it can't be done."""
        return self.feature is not None or self.prefix is not None

    @property
    def has_length(self) -> bool:
        """Whether its prompts are made to a length: new ones, and of words alone."""
        return not self.prefix and not self.repeats and self.feature != IMAGE

    @property
    def paths(self) -> tuple[str, ...]:
        """The APIs for it, the best first; none: whatever the engine has."""
        if self.feature == STRUCTURED:
            return (CHAT, COMPLETIONS)
        if self.feature == IMAGE:
            return (CHAT,)
        if self.prefix:
            return (CHAT if "messages" in self.prefix.body else COMPLETIONS,)
        return ()


@dataclass(frozen=True, slots=True)
class HotPrefix:
    """A beginning that many of a user's prompts share: loaded into the prefix cache on purpose."""

    name: str
    body: dict[str, Any] = field(hash=False)
    """`prompt`, or `messages` (and `tools`), and `model` where it is not the base model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is known of the engine, in tokens."""

    max_batched_tokens: int | None = None
    max_model_length: int | None = None
    kv_tokens: int | None = None
    """Tokens that fit into the KV cache."""
    engine: str | None = None

    @property
    def room(self) -> int | None:
        """The longest prompt with its answer."""
        known = [each for each in (self.max_model_length, self.kv_tokens) if each is not None]
        return min(known, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user asks for besides."""

    features: tuple[str, ...] = ()
    """Of `FEATURES`, and lora:NAME for one adapter."""
    adapters: tuple[str, ...] = ()
    """All that the engine serves: what "lora" stands for."""
    prefixes: tuple[HotPrefix, ...] = ()


def plan(limits: Limits, wishes: Wishes = Wishes()) -> tuple[Step, ...]:
    """The steps of a warm-up, in the order in which they are asked."""
    shapes = [_fitting(step, limits) for step in _shapes()]
    done = {step.name for step in shapes if not step.skipped}
    again = next((name for name in ("long", "ragged", "short") if name in done), "short")
    repeat = Step(name="repeat", repeats=again)
    features = (_fitting(step, limits) for step in _features(wishes))
    prefixes = (
        Step(name=f"prefix:{each.name}", prefix=each, answer_tokens=1) for each in wishes.prefixes
    )
    chunked = _fitting(_chunked(limits), limits)
    steps = (*shapes, repeat, chunked, _together(limits), *features, *prefixes)
    return tuple({step.name: step for step in steps}.values())


def _shapes() -> Iterator[Step]:
    yield Step(name="short")
    yield Step(name="multiple-of-16", length=Length(more_than=FEW - 1, aligned=True))
    yield Step(name="ragged", length=Length(more_than=FEW, aligned=False))
    yield Step(name="long", length=Length(more_than=LONG))


def _fitting(step: Step, limits: Limits) -> Step:
    """The step within the room, or left out."""
    room = limits.room
    if room is None or step.skipped:
        return step
    most, least = room - step.answer_tokens, step.length.more_than + 1
    if step.length.aligned is not None:
        least += _FEW_MORE
    if least > most:
        wanted = f"a prompt of {least} tokens and an answer of {step.answer_tokens}"
        return replace(step, skipped=f"{wanted} don't fit into {room}")
    return replace(step, length=replace(step.length, at_most=most))


def _chunked(limits: Limits) -> Step:
    """A prompt that an engine has to cut.

    Where the limit is not set and it is a vLLM, the prompt is longer than either default, or as
    long as the engine takes. Engines of other kinds are not sent what they may refuse.
    """
    name, limit, room = "chunked", limits.max_batched_tokens, limits.room
    if limit is not None:
        return Step(name=name, length=Length(more_than=limit))
    unset = "CACHEAWARE_MAX_BATCHED_TOKENS is not set"
    if limits.engine != "vllm" or limits.max_model_length is None or room is None:
        return Step(name=name, skipped=unset)
    longest = min(VLLM_MOST_BATCHED, room - ANSWER_TOKENS - 1)
    if longest <= LONG:
        return Step(name=name, skipped=f"{unset}, and prompts are short: {room} tokens")
    note = f"{unset}: a prompt of more than {longest} tokens is asked"
    return Step(name=name, length=Length(more_than=longest), note=note)


def _together(limits: Limits) -> Step:
    """Several at once, as many as surely fit into the KV cache together."""
    each = FEW + ALIGNMENT + TOGETHER_TOKENS
    known = limits.kv_tokens
    fitting = UNSET_AT_ONCE if known is None else min(MOST_AT_ONCE, known // each)
    step = Step(
        name="together",
        length=Length(more_than=FEW, aligned=False),
        answer_tokens=TOGETHER_TOKENS,
        at_once=fitting,
    )
    if fitting < UNSET_AT_ONCE:
        return replace(step, at_once=1, skipped=f"the KV cache holds only {known} tokens")
    return _fitting(step, limits)


def _features(wishes: Wishes) -> Iterator[Step]:
    length = Length(more_than=FEW, aligned=False)
    for name in wishes.features:
        if name == LORA and not wishes.adapters:
            skipped = "/v1/models names no LoRA adapter"
            yield Step(name=LORA, feature=LORA, skipped=skipped)
        elif name == LORA:
            yield from (_adapter(each) for each in wishes.adapters)
        elif name.startswith(f"{LORA}:"):
            yield _adapter(name.partition(":")[2])
        else:
            yield Step(name=name, feature=name, length=length)


def _adapter(name: str) -> Step:
    length = Length(more_than=FEW, aligned=False)
    return Step(name=f"{LORA}:{name}", feature=LORA, model=name, length=length)


def body_of(
    step: Step, path: str, words: str, *, model: str | None, picture: str | None
) -> dict[str, Any]:
    """The JSON of one request.

    Args:
        step: The shape.
        path: The API that is asked.
        words: The prompt.
        model: The base model's name, where it is known.
        picture: A data URL, for the step that shows one.
    """
    named = step.model or model
    body: dict[str, Any] = {"model": named} if named else {}
    body |= {"max_tokens": step.answer_tokens, "temperature": 0.0}
    if step.prefix:
        return {**body, **step.prefix.body}
    if path == COMPLETIONS:
        body["prompt"] = words
    else:
        body["messages"] = [{"role": "user", "content": _content(words, picture)}]
    return body | _extras(step.feature, path)


def _content(words: str, picture: str | None) -> Any:
    if picture is None:
        return words
    shown = {"type": "image_url", "image_url": {"url": picture}}
    return [shown, {"type": "text", "text": words}]


def _extras(feature: str | None, path: str) -> dict[str, Any]:
    if feature == STRUCTURED:
        schema = {"name": "warmup", "schema": SCHEMA}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if feature == LOGPROBS:
        return {"logprobs": 5} if path == COMPLETIONS else {"logprobs": True, "top_logprobs": 5}
    return {}
