"""The warm-up: prompts that make a new engine pay for its first shapes before a user does.

The plan is data: a list of steps. The runner asks them one after the other, within a budget. The
length of a prompt is what the engine itself counts (`usage.prompt_tokens`): the short step tells
how many tokens a word makes, and a long prompt that turned out too short is asked again, longer.
Prompts are random words, so that no two share a prefix that a cache could hold.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Protocol

from cacheaware_sidecar.lifecycle import Verdict

LONG = 512
"""The long prompt has more tokens than this."""
ANSWER_TOKENS = 8
RETRY_S = 1.0
TRIES = 4
"""So often a prompt is made longer before its step is given up."""
MARGIN = 1.03
"""A prompt is aimed a little longer than needed: words differ in tokens."""
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
_TEXT = (
    "time year people way day man thing woman life child world school state family student group"
    " country problem hand part place case week company system program question work number night"
    " point home water room mother area money story fact month lot right study book eye job word"
    " business issue side kind head house service friend father power hour game line end member"
    " law car city name team minute idea body back parent face level office door health person art"
)
WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request of the warm-up."""

    name: str
    more_than: int
    """The prompt has more tokens than this."""
    at_most: int | None = None
    """More tokens than this don't fit beside the answer."""
    answer_tokens: int = ANSWER_TOKENS
    skipped: str | None = None
    """Why the step is left out."""
    note: str | None = None
    """What the step does not exercise, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is known of the engine, in tokens."""

    max_batched_tokens: int | None = None
    max_model_length: int | None = None


def plan(limits: Limits) -> list[Step]:
    """The steps of a warm-up: a short prompt, and one longer than a step of the engine takes."""
    return [Step(name="short", more_than=8), _long_step(limits)]


def _long_step(limits: Limits) -> Step:
    wanted = max(LONG, limits.max_batched_tokens or 0)
    room = limits.max_model_length
    at_most = None if room is None else room - ANSWER_TOKENS
    if _fits(wanted, room):
        return Step(name="long", more_than=wanted, at_most=at_most)
    length = f"the model's length is {room} tokens"
    if _fits(LONG, room):
        note = f"not longer than the engine's batched-token limit of {wanted}: {length}"
        return Step(name="long", more_than=LONG, at_most=at_most, note=note)
    return Step(name="long", more_than=LONG, skipped=f"needs more than {LONG} tokens: {length}")


def _fits(more_than: int, room: int | None) -> bool:
    return room is None or more_than + 1 + ANSWER_TOKENS <= room


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine answered: a status and its JSON, or no status and why."""

    status: int | None
    body: Any = None
    error: str | None = None
    cut: bool = False
    """The connection failed: whoever answers next may be another engine, and cold."""


class Engine(Protocol):
    """The engine as the runner sees it."""

    async def ask(self, path: str, body: dict[str, Any], timeout_s: float) -> Answer:
        """Posts a request."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Longest time, and what holds when it is used up."""

    seconds: float
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How the warm-up ended, and one line for each thing that a person should know."""

    verdict: Verdict
    problems: tuple[str, ...] = ()


class _Cut(Exception):  # noqa: N818 - not an error: the engine may have been replaced
    pass


class _Ended(Exception):  # noqa: N818 - not an error: the end of the warm-up
    def __init__(self, verdict: Verdict, problem: str) -> None:
        super().__init__(problem)
        self.verdict = verdict


@dataclass(kw_only=True)
class Runner:
    """Asks the steps of a plan."""

    engine: Engine
    model: str | None
    budget: Budget
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    dice: random.Random
    """The source of the prompts' words: seeded anew for each pod and run."""
    progress: Callable[[int], None] = lambda _done: None

    def __post_init__(self) -> None:
        self.paths = [COMPLETIONS, CHAT]
        self.counted: list[tuple[int, int]] = []
        """(words, tokens) of prompts that were answered."""
        self.answered = False
        self.problems: list[str] = []
        self.trouble = "no time was left"

    async def run(self, steps: Sequence[Step]) -> Result:
        """Asks all steps; ends early where the engine can't be warmed or the budget is used up."""
        self.until = self.clock() + self.budget.seconds
        verdict = Verdict.WARM
        try:
            while not await self._all(steps):
                await self.sleep(RETRY_S)
        except _Ended as end:
            verdict = end.verdict
            self.problems.append(str(end))
        return Result(verdict=verdict, problems=tuple(self.problems))

    async def _all(self, steps: Sequence[Step]) -> bool:
        """Whether one and the same engine was asked all steps."""
        self.problems.clear()
        try:
            for done, step in enumerate(steps):
                self.progress(done)
                await self._step(step)
        except _Cut:
            return False
        self.progress(len(steps))
        return True

    async def _step(self, step: Step) -> None:
        if step.note:
            self.problems.append(f"warm-up: step {step.name} is {step.note}")
        skipped = step.skipped or await self._ask_long_enough(step)
        if skipped:
            self.problems.append(f"warm-up: step {step.name} was skipped: {skipped}")

    async def _ask_long_enough(self, step: Step) -> str | None:
        """None when a prompt that is long enough was answered, else why there is none."""
        for _ in range(TRIES):
            words = words_for(step, self.counted)
            answer = await self._insist(step, words)
            if refused(answer.status):
                return f"the engine refuses a prompt of {words} words: {said(answer)}"
            tokens = prompt_tokens(answer)
            if tokens is None:
                return None  # it does not count; a word makes at least one token
            self.counted.append((words, tokens))
            if tokens > step.more_than:
                return None
        return f"{TRIES} prompts were shorter than {step.more_than + 1} tokens"

    async def _insist(self, step: Step, words: int) -> Answer:
        """Asks until there is a completion or a refusal of this prompt, or the budget ends."""
        while (left := self.until - self.clock()) > 0:
            body = self._body(step, words)
            answer = await self.engine.ask(self.paths[0], body, left)
            if is_completion(answer):
                self.answered = True
                return answer
            if answer.status in {401, 403}:
                raise _Ended(
                    Verdict.NOT_APPLICABLE,
                    f"warm-up does not apply: {self.paths[0]} answers {answer.status}, set"
                    " CACHEAWARE_API_KEY_FILE",
                )
            if is_missing(answer.status) or (refused(answer.status) and not self.answered):
                self._next_path(answer)
                continue
            if refused(answer.status):
                return answer
            self.trouble = said(answer)
            if answer.cut:
                raise _Cut
            await self.sleep(RETRY_S)
        raise _Ended(
            self.budget.verdict,
            f"warm-up: {self.budget.seconds:g} s were not enough, step {step.name}: {self.trouble}",
        )

    def _next_path(self, answer: Answer) -> None:
        """Falls back to the other API; where there is none, the engine's task is another one."""
        path = self.paths.pop(0)
        if not self.paths:
            raise _Ended(
                Verdict.NOT_APPLICABLE, f"warm-up does not apply: {path} answers {said(answer)}"
            )

    def _body(self, step: Step, words: int) -> dict[str, Any]:
        text = " ".join(self.dice.choices(WORDS, k=words))
        prompt: dict[str, Any] = {"prompt": text}
        if self.paths[0] == CHAT:
            prompt = {"messages": [{"role": "user", "content": text}]}
        named = {"model": self.model} if self.model else {}
        return {**named, **prompt, "max_tokens": step.answer_tokens, "temperature": 0.0}


def words_for(step: Step, counted: Sequence[tuple[int, int]]) -> int:
    """How many words make a prompt of the step's length, by the prompts counted so far.

    Nothing counted: one token a word. One prompt: its tokens a word. More: the line through the
    last two, which takes out what a chat template or a start token adds.
    """
    least = step.more_than + 1
    if not counted:
        return least
    words, tokens = counted[-1]
    rate, added = max(tokens / words, 0.01), 0.0
    if len(counted) > 1:
        before, less = counted[-2]
        slope = (tokens - less) / (words - before) if words != before else 0.0
        if slope > 0:
            rate, added = slope, tokens - slope * words
    aim = max(least, min(ceil(least * MARGIN), step.at_most or ceil(least * MARGIN)))
    return max(1, ceil((aim - added) / rate))


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
    """Tokens of the prompt as the engine counted them."""
    usage = answer.body.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    counted = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens < 1 << 40
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


def limits_from(models: Any, config: Any, limits: Limits, model: str | None) -> Limits:
    """The limits with the model's length from /v1/models or config.json where no setting has it."""
    if limits.max_model_length is not None:
        return limits
    entry = next((each for each in entries(models) if model in {None, each.get("id")}), {})
    length = _length(entry.get("max_model_len"))
    if length is None and isinstance(config, dict):
        inner = config.get("text_config")
        nested = inner.get("max_position_embeddings") if isinstance(inner, dict) else None
        length = _length(config.get("max_position_embeddings")) or _length(nested)
    return replace(limits, max_model_length=length)


def first_model(models: Any) -> str | None:
    """The first base model that /v1/models names; LoRA adapters have a parent."""
    named = [each for each in entries(models) if isinstance(each.get("id"), str)]
    base = [each for each in named if not each.get("parent")]
    return next((str(each["id"]) for each in base or named), None)


def entries(models: Any) -> list[dict[str, Any]]:
    """The models of an answer of /v1/models, whatever is in it."""
    data = models.get("data") if isinstance(models, dict) else None
    return [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []


def _length(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if whole else None
