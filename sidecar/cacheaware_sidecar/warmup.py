"""Warms an engine up: asks the steps of a plan until their latencies are at rest.

The length of a prompt is what the engine itself counts (`usage.prompt_tokens`): one that missed
its length is asked again with more words or fewer, and its latency does not count. A plan is over
when every step is at rest, was loaded (a hot prefix) or skipped; the budget ends it before.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cacheaware_sidecar import prompts
from cacheaware_sidecar.convergence import TURN, has_converged
from cacheaware_sidecar.engine_answers import (
    Answer,
    answer_tokens,
    cached_tokens,
    is_completion,
    is_missing,
    prompt_tokens,
    refused,
    said,
)
from cacheaware_sidecar.lifecycle import Verdict
from cacheaware_sidecar.state import ShapeState
from cacheaware_sidecar.warmup_plan import CHAT, COMPLETIONS, IMAGE, Step, body_of

RETRY_S = 1.0
TRIES = 4
"""So often a prompt's length is corrected before it is given up or taken as it is."""
CUTS = 3
"""So often a connection may be cut at a step that the user named before it is skipped."""
PATIENCE = 5
"""So often a step that the user named may be answered with an error before it is skipped."""


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
    shapes: tuple[ShapeState, ...] = ()
    requests: int = 0
    """All that this engine has answered, with their tokens: what the counters hold of us."""
    prompt_tokens: int = 0
    generation_tokens: int = 0


class _Cut(Exception):  # noqa: N818 - not an error: the engine may have been replaced
    pass


class _Ended(Exception):  # noqa: N818 - not an error: the end of the warm-up
    def __init__(self, verdict: Verdict, problem: str) -> None:
        super().__init__(problem)
        self.verdict = verdict


@dataclass(slots=True)
class _Shape:
    """What has become of a step so far."""

    step: Step
    latencies: list[float] = field(default_factory=list)
    """Of prompts of the right length, in seconds; of several at once the slowest."""
    first_s: float | None = None
    """Of the very first prompt, whatever its length: it has met what is cold."""
    requests: int = 0
    tokens: int | None = None
    """Of the last prompt."""
    misses: int = 0
    """Prompts of another length than wanted."""
    words: str = ""
    """The last prompt."""
    is_over: bool = False
    skipped: str | None = None
    note: str | None = None

    def skip(self, why: str) -> None:
        self.is_over, self.skipped = True, why

    def state(self) -> ShapeState:
        skipped = f"skipped: {self.skipped}" if self.skipped else None
        notes = [each for each in (skipped, self.step.note, self.note) if each]
        first = None if self.first_s is None else round(self.first_s, 4)
        return ShapeState(
            name=self.step.name,
            requests=self.requests,
            tokens=self.tokens,
            first_s=first,
            last_s=round(self.latencies[-1], 4) if self.latencies else None,
            note="; ".join(notes) or None,
        )


@dataclass(frozen=True, slots=True)
class _Reply:
    path: str
    answer: Answer
    seconds: float


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
    in_flight: int = 0
    """Requests that the engine is busy with because of us."""

    def __post_init__(self) -> None:
        self._begin(())

    def _begin(self, steps: Sequence[Step]) -> None:
        """Forgets all: another engine may be there."""
        self._shapes = {step.name: _Shape(step) for step in steps}
        self._paths = [COMPLETIONS, CHAT]
        self._counted: dict[str, list[tuple[int, int]]] = {COMPLETIONS: [], CHAT: []}
        """(words, tokens) of prompts that were answered, by API: a chat template adds its own."""
        self._requests = self._prompt_tokens = self._generation_tokens = 0

    @property
    def _answered(self) -> bool:
        return self._requests > 0

    async def run(self, steps: Sequence[Step]) -> Result:
        """Asks all steps; ends early where the engine can't be warmed or the budget is used up."""
        self._until = self.clock() + self.budget.seconds
        self._trouble = ""
        self._cuts: Counter[str] = Counter()
        """By step, over all engines: it may be the request that the engine can't take."""
        verdict, problems = Verdict.WARM, []
        try:
            while not await self._all(steps):
                await self.sleep(RETRY_S)
        except _Ended as end:
            verdict = end.verdict
            problems.append(str(end))
        return Result(
            verdict=verdict,
            problems=(*self._problems(), *problems),
            shapes=tuple(shape.state() for shape in self._shapes.values()),
            requests=self._requests,
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._generation_tokens,
        )

    def _problems(self) -> list[str]:
        """What was to be warm and is not, and not because of its length alone."""
        return [
            f"warm-up: step {shape.step.name} was skipped: {shape.skipped}"
            for shape in self._shapes.values()
            if shape.skipped and (shape.step.is_named or shape.step.skipped is None)
        ]

    async def _all(self, steps: Sequence[Step]) -> bool:
        """Whether one and the same engine was asked all steps."""
        self._begin(steps)
        shapes = list(self._shapes.values())
        try:
            while left := [shape for shape in shapes if not shape.is_over]:
                for shape in left:
                    self.progress(sum(each.is_over for each in shapes))
                    await self._turn(shape)
        except _Cut:
            return False
        self.progress(len(shapes))
        return True

    async def _turn(self, shape: _Shape) -> None:
        """Asks one shape until it is over, or the others have their turn."""
        if shape.step.skipped:
            shape.skip(shape.step.skipped)
        self._current, turn = shape, 0
        while not shape.is_over and turn < TURN:
            before = len(shape.latencies)
            await self._round(shape)
            turn += len(shape.latencies) - before

    async def _round(self, shape: _Shape) -> None:
        """Asks one shape once, be it with several requests."""
        step = shape.step
        texts = self._texts(step)
        tasks = [self._insist(shape, text) for text in texts]
        replies: list[_Reply] = []
        for each in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(each, BaseException):
                raise each
            replies.append(each)
        for text, reply in zip(texts, replies, strict=True):
            if not is_completion(reply.answer):
                what = "" if step.prefix else f" a prompt of {len(text.split())} words"
                shape.skip(f"the engine refuses{what}: {said(reply.answer)}")
                return
        shape.words = texts[-1]
        self._judge(shape, texts, replies)

    def _texts(self, step: Step) -> list[str]:
        if step.repeats:
            return [self._shapes[step.repeats].words or self._shapes["short"].words]
        path = (*step.paths, self._paths[0])[0]
        words = 0 if step.prefix else prompts.words_for(step.length, self._counted[path])
        return [prompts.text(self.dice, words) for _ in range(step.at_once)]

    def _judge(self, shape: _Shape, texts: list[str], replies: list[_Reply]) -> None:
        """Takes the answers of a round: their lengths, their latency, whether that is enough."""
        step = shape.step
        counts = [prompt_tokens(reply.answer) for reply in replies]
        shape.tokens = counts[-1]
        slowest = max(reply.seconds for reply in replies)
        shape.first_s = slowest if shape.first_s is None else shape.first_s
        if step.has_length:
            self._learn_length(replies[0].path, texts, counts)
            if not _is_right(shape, counts):
                return
        if step.repeats:
            missed = cached_tokens(replies[0].answer) == 0
            shape.note = "the engine found nothing of it in its prefix cache" if missed else None
        shape.latencies.append(slowest)
        shape.is_over = bool(step.prefix) or has_converged(shape.latencies)

    def _learn_length(self, path: str, texts: list[str], counts: list[int | None]) -> None:
        """Takes how many tokens the engine has counted for how many words."""
        self._counted[path] += [
            (len(text.split()), tokens)
            for text, tokens in zip(texts, counts, strict=True)
            if tokens is not None
        ]

    async def _insist(self, shape: _Shape, text: str) -> _Reply:
        """Asks until there is a completion or a refusal of this prompt, or the budget ends."""
        step, paths, errors = shape.step, list(shape.step.paths), 0
        while (left := self._until - self.clock()) > 0:
            path = paths[0] if paths else self._paths[0]
            reply = await self._ask(shape, path, text, left)
            answer = reply.answer
            if is_completion(answer):
                return reply
            if not self._answered:
                self._check_access(path, answer)
            if answer.status in {401, 403} or refused(answer.status) or is_missing(answer.status):
                if self._has_other_path(paths, answer):
                    continue
                return reply
            if answer.cut:
                self._trouble = said(answer)
                self._cuts[step.name] += 1
                if step.is_named and self._cuts[step.name] >= CUTS:
                    return reply
                raise _Cut
            errors += 1
            if step.is_named and errors >= PATIENCE:
                return reply
            self._trouble = said(answer)
            await self.sleep(RETRY_S)
        raise self._used_up()

    async def _ask(self, shape: _Shape, path: str, text: str, left: float) -> _Reply:
        step = shape.step
        picture = prompts.picture(self.dice) if step.feature == IMAGE else None
        body = body_of(step, path, text, model=self.model, picture=picture)
        self.in_flight += 1
        began = self.clock()
        try:
            answer = await self.engine.ask(path, body, left)
        finally:
            self.in_flight -= 1
        if is_completion(answer):
            self._count(shape, answer)
        return _Reply(path, answer, self.clock() - began)

    def _count(self, shape: _Shape, answer: Answer) -> None:
        shape.requests += 1
        self._requests += 1
        self._prompt_tokens += prompt_tokens(answer) or 0
        self._generation_tokens += answer_tokens(answer) or 0

    def _check_access(self, path: str, answer: Answer) -> None:
        if answer.status in {401, 403}:
            raise _Ended(
                Verdict.NOT_APPLICABLE,
                f"warm-up does not apply: {path} answers {answer.status}, set"
                " CACHEAWARE_API_KEY_FILE",
            )

    def _has_other_path(self, own: list[str], answer: Answer) -> bool:
        """Falls back to the other API, if there is one.

        A step that needs a certain one has a list of its own; for the others it is settled by the
        first answer. An engine that has neither is there for another task.
        """
        if own:
            del own[0]
            return bool(own)
        if self._answered:
            return False
        path = self._paths.pop(0)
        if not self._paths:
            raise _Ended(
                Verdict.NOT_APPLICABLE, f"warm-up does not apply: {path} answers {said(answer)}"
            )
        return True

    def _used_up(self) -> _Ended:
        """The end of the budget: which step it was, why, and what has not come to rest."""
        shape = self._current
        why = self._trouble or "no time was left"
        if len(shape.latencies) > 1:
            last = ", ".join(f"{each:.3g}" for each in shape.latencies[-3:])
            why = f"its latencies have not come to rest ({last} s)"
        left = [each for each in self._shapes.values() if not each.is_over and each is not shape]
        others = [each.step.name for each in left if not each.step.skipped]
        more = f"; not warm either: {', '.join(others)}" if others else ""
        return _Ended(
            self.budget.verdict,
            f"warm-up: {self.budget.seconds:g} s were not enough, step {shape.step.name}:"
            f" {why}{more}",
        )


def _is_right(shape: _Shape, counts: list[int | None]) -> bool:
    """Whether prompts of so many tokens have the length, or were tried often enough to do."""
    if all(tokens is None or shape.step.length.is_met(tokens) for tokens in counts):
        return True
    shape.misses += 1
    return shape.misses >= TRIES and _take_as_it_is(shape)


def _take_as_it_is(shape: _Shape) -> bool:
    """Whether a prompt that misses its length will do: too short is none, unaligned is a note."""
    more_than, tokens = shape.step.length.more_than, shape.tokens
    if tokens is not None and tokens <= more_than:
        shape.skip(f"{TRIES} prompts were shorter than {more_than + 1} tokens")
        return False
    shape.note = f"{tokens} tokens, the nearest to it in {TRIES} tries"
    return True
