import asyncio
import random
from dataclasses import dataclass, field

import pytest

from cacheaware_sidecar.engine_answers import Answer
from cacheaware_sidecar.lifecycle import Verdict
from cacheaware_sidecar.warmup import Budget, Runner
from cacheaware_sidecar.warmup_plan import (
    CHAT,
    COMPLETIONS,
    HotPrefix,
    Limits,
    Wishes,
    plan,
)


def text(body):
    content = body.get("prompt") or body["messages"][0]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


@dataclass
class Engine:
    """Counts tokens: so many a word, and some more for a template."""

    per_word: float = 1.0
    added: int = 0
    counts: bool = True
    cached: int | None = None
    replies: list[Answer] = field(default_factory=list)
    """Given first, in this order."""
    by_path: dict[str, Answer] = field(default_factory=dict)
    by_field: dict[str, Answer] = field(default_factory=dict)
    longest: int | None = None
    seconds: list[float] = field(default_factory=list)
    """Of the first requests; then it is 1 s each."""
    now: float = 0.0
    asked: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds

    async def ask(self, path, body, timeout_s):
        self.asked.append((path, body))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        if self.at_once == 1 or self.most_at_once == 1:
            self.now += min(self.seconds.pop(0) if self.seconds else 1.0, timeout_s)
        self.at_once -= 1
        return self._answer(path, body)

    def _answer(self, path, body):
        if self.replies:
            return self.replies.pop(0)
        if path in self.by_path:
            return self.by_path[path]
        for name, answer in self.by_field.items():
            if name in body or name == body.get("model"):
                return answer
        tokens = int(len(text(body).split()) * self.per_word) + self.added
        if self.longest and tokens > self.longest:
            return Answer(400, {"error": {"message": f"at most {self.longest} tokens"}})
        usage = {"prompt_tokens": tokens, "completion_tokens": body["max_tokens"]}
        if self.cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
        return Answer(200, {"choices": [{"text": ""}], **({"usage": usage} if self.counts else {})})

    @property
    def lengths(self):
        return [int(len(text(body).split()) * self.per_word) + self.added for _, body in self.asked]


def runner_for(engine, *, verdict=Verdict.READY, model="m", seconds=120, **more):
    return Runner(
        engine=engine,
        model=model,
        budget=Budget(seconds=seconds, verdict=verdict),
        clock=engine.clock,
        sleep=engine.sleep,
        dice=random.Random(1),
        **more,
    )


NOTHING_KNOWN, NOTHING_MORE = Limits(), Wishes()


async def run(engine, limits=NOTHING_KNOWN, wishes=NOTHING_MORE, **settings):
    return await runner_for(engine, **settings).run(plan(limits, wishes))


def shape(result, name):
    return {each.name: each for each in result.shapes}[name]


@pytest.mark.parametrize("per_word", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("added", [0, 1, 40])
async def test_the_engine_itself_counts_the_lengths_of_the_matrix(per_word, added):
    engine = Engine(per_word=per_word, added=added)
    result = await run(engine, Limits(max_batched_tokens=2048, max_model_length=4096))

    assert (result.verdict, result.problems) == ("Warm", ())
    assert shape(result, "short").tokens > 8
    assert shape(result, "ragged").tokens % 16
    assert 512 < shape(result, "long").tokens < 512 * 1.1 + added
    assert 2048 < shape(result, "chunked").tokens < 2048 * 1.1 + added
    assert shape(result, "repeat").tokens == shape(result, "long").tokens
    aligned = shape(result, "multiple-of-16")
    exact = (per_word, added) != (2.0, 1)
    assert (aligned.tokens % 16 == 0) is exact
    assert (aligned.note is None) is exact, "no even number of tokens and one is a multiple"


@pytest.mark.parametrize("per_word", [1.31, 4.9])
async def test_a_length_that_words_do_not_meet_is_taken_as_it_is_after_four_tries(per_word):
    result = await run(Engine(per_word=per_word))

    assert (result.verdict, result.problems) == ("Warm", ())
    assert shape(result, "multiple-of-16").tokens > 63


async def test_a_prompt_stays_within_the_models_length_even_where_that_is_tight():
    engine = Engine(longest=521 - 8)
    result = await run(engine, Limits(max_model_length=521))

    assert result.verdict == "Warm"
    assert shape(result, "long").tokens == max(engine.lengths) == 513


async def test_an_engine_that_does_not_count_gets_a_word_for_each_token():
    engine = Engine(counts=False)
    result = await run(engine)

    assert result.verdict == "Warm"
    assert set(engine.lengths) == {10, 64, 65, 529}
    assert (result.requests, result.prompt_tokens) == (len(engine.asked), 0)
    assert shape(result, "long").tokens is None


async def test_no_two_prompts_share_a_beginning_but_the_repeat_and_two_runs_differ():
    engine = Engine()
    await run(engine)
    beginnings = [" ".join(text(body).split()[:8]) for _, body in engine.asked]
    repeats = [body for _, body in engine.asked if text(body) == text(engine.asked[11][1])]

    assert len(repeats) == 4, "the last long prompt and its three repeats"
    assert len(set(beginnings)) == len(beginnings) - 3


async def test_what_is_asked():
    engine = Engine()
    await run(engine)
    path, body = engine.asked[0]

    assert path == COMPLETIONS
    assert {**body, "prompt": ""} == {
        "model": "m",
        "prompt": "",
        "max_tokens": 8,
        "temperature": 0.0,
    }


async def test_without_a_model_name_none_is_sent():
    engine = Engine()
    await run(engine, model=None)

    assert "model" not in engine.asked[0][1]


async def test_a_shape_is_asked_until_its_latencies_are_at_rest():
    engine = Engine(seconds=[9.0, 5.0, 2.0])
    result = await run(engine)

    assert shape(result, "short").requests == 6
    assert (shape(result, "short").first_s, shape(result, "short").last_s) == (9.0, 1.0)
    assert shape(result, "long").requests == 3


async def test_a_shape_that_does_not_come_to_rest_lets_the_others_pass_and_comes_again():
    engine = Engine(seconds=[3.0 - 0.2 * n for n in range(8)])
    result = await run(engine)

    assert result.verdict == "Warm"
    assert shape(result, "short").requests == 8 + 3
    assert engine.lengths[8] > 50
    assert engine.lengths[-1] < 20


async def test_what_the_warmup_adds_to_the_engines_counters_is_known():
    engine = Engine()
    result = await run(engine)

    assert result.requests == sum(each.requests for each in result.shapes) == len(engine.asked)
    assert result.prompt_tokens == sum(engine.lengths)
    assert result.generation_tokens == sum(body["max_tokens"] for _, body in engine.asked)


@pytest.mark.parametrize(("kv_tokens", "at_once"), [(None, 2), (300, 2), (10_000, 4)])
async def test_several_are_asked_at_once_but_no_more_than_the_cache_holds(kv_tokens, at_once):
    engine = Engine()
    result = await run(engine, Limits(kv_tokens=kv_tokens))

    assert engine.most_at_once == at_once
    assert shape(result, "together").requests % at_once == 0


async def test_requests_in_flight_are_known_while_they_run():
    engine, seen = Engine(), []
    runner = runner_for(engine)
    ask = engine.ask

    async def spy(*arguments):
        seen.append(runner.in_flight)
        return await ask(*arguments)

    engine.ask = spy
    await runner.run(plan(Limits(kv_tokens=10_000)))

    assert max(seen) == 4
    assert runner.in_flight == 0


@pytest.mark.parametrize("status", [404, 405, 501, 307, 400, 422])
async def test_where_completions_are_missing_chat_is_asked(status):
    engine = Engine(by_path={COMPLETIONS: Answer(status)})
    result = await run(engine)

    assert result.verdict == "Warm"
    assert [path for path, _ in engine.asked].count(COMPLETIONS) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(404), "HTTP 404"),
        (
            Answer(400, {"error": {"message": "an embedding\nmodel"}}),
            "HTTP 400: an embedding model",
        ),
        (Answer(501, {"message": "not here"}), "HTTP 501: not here"),
    ],
    ids=["no route", "another task", "not implemented"],
)
async def test_without_any_completion_api_a_warmup_does_not_apply(answer, words):
    result = await run(Engine(by_path={COMPLETIONS: answer, CHAT: answer}))

    assert result.verdict == "NotApplicable"
    assert result.problems == (f"warm-up does not apply: {CHAT} answers {words}",)


@pytest.mark.parametrize("status", [401, 403])
async def test_without_a_key_a_warmup_does_not_apply(status):
    answer = Answer(status, {"error": "your key sk-secret is wrong"})
    result = await run(Engine(by_path={COMPLETIONS: answer}))

    assert result.verdict == "NotApplicable"
    assert "CACHEAWARE_API_KEY_FILE" in result.problems[0]
    assert "sk-secret" not in result.problems[0]


@pytest.mark.parametrize(
    "trouble",
    [
        Answer(None, error="refused"),
        Answer(503),
        Answer(500),
        Answer(429),
        Answer(200, {"choices": []}),
        Answer(200, None),
    ],
    ids=str,
)
async def test_what_may_pass_is_asked_again(trouble):
    engine = Engine(replies=[trouble, trouble])
    result = await run(engine)

    assert (result.verdict, result.problems) == ("Warm", ())
    assert len(engine.asked) == result.requests + 2


CUT = Answer(None, error="refused", cut=True)
FIRST = Answer(200, {"choices": [{"text": ""}], "usage": {"prompt_tokens": 9}})


async def test_an_engine_that_was_replaced_in_the_middle_is_asked_all_steps():
    engine = Engine(replies=[FIRST, FIRST, FIRST, FIRST, CUT])
    result = await run(engine)

    assert (result.verdict, result.problems) == ("Warm", ())
    assert len(engine.asked) == result.requests + 5, "what the old engine counted is gone with it"
    assert shape(result, "short").requests == 3


async def test_a_prefix_at_which_the_engine_hangs_up_each_time_is_skipped_and_the_rest_is_warm():
    engine = Engine(by_field={"bad": Answer(None, error="broken answer", cut=True)})
    bad, good = (
        HotPrefix("bad", {"prompt": "p", "model": "bad"}),
        HotPrefix("good", {"prompt": "g"}),
    )
    result = await run(engine, wishes=Wishes(prefixes=(bad, good)))

    assert result.verdict == "Warm"
    refusal = "warm-up: step prefix:bad was skipped: the engine refuses: broken answer"
    assert result.problems == (refusal,)
    assert shape(result, "prefix:good").requests == 1


async def test_a_cut_among_several_at_once_starts_the_plan_again():
    engine = Engine()
    replies = [engine._answer(COMPLETIONS, {"prompt": "w " * 600, "max_tokens": 8})] * 15
    steps = [each for each in plan(Limits()) if each.name in {"short", "together"}]
    engine.replies = [*replies[:3], FIRST, CUT]
    result = await runner_for(engine).run(steps)

    assert result.verdict == "Warm"
    assert len(engine.asked) > result.requests


async def test_an_engine_that_is_gone_for_good_ends_with_the_budget_and_is_told_once():
    engine = Engine(by_path={COMPLETIONS: CUT})
    result = await run(engine, seconds=10)

    (problem,) = result.problems
    assert problem.startswith("warm-up: 10 s were not enough, step short: refused; not warm either")


@pytest.mark.parametrize("verdict", [Verdict.READY, Verdict.FAILED])
async def test_the_budget_ends_it_with_the_verdict_that_was_set(verdict):
    engine = Engine(by_path={COMPLETIONS: Answer(503, {"error": "busy"})})
    result = await run(engine, verdict=verdict, seconds=10)

    assert result.verdict == verdict
    assert result.problems == (
        (
            "warm-up: 10 s were not enough, step short: HTTP 503: busy; not warm either:"
            " multiple-of-16, ragged, long, repeat, together"
        ),
    )
    assert engine.now == 10


async def test_an_answer_that_takes_too_long_ends_with_the_budget():
    engine = Engine(seconds=[500.0])
    result = await run(engine, seconds=30)

    assert result.verdict == "Ready"
    assert "30 s were not enough, step short: no time was left" in result.problems[0]


async def test_latencies_that_do_not_come_to_rest_in_time_are_told():
    engine = Engine(seconds=[20.0, 10.0, 5.0])
    result = await run(engine, seconds=31)

    assert result.verdict == "Ready"
    assert "step short: its latencies have not come to rest (20, 10, 1 s)" in result.problems[0]
    assert shape(result, "short").last_s == 1.0


async def test_a_long_prompt_that_the_engine_refuses_is_skipped_with_the_reason():
    result = await run(Engine(longest=400))

    assert result.verdict == "Warm"
    assert result.problems == (
        (
            "warm-up: step long was skipped: the engine refuses a prompt of 529 words: HTTP 400: at"
            " most 400 tokens"
        ),
    )
    assert shape(result, "long").note.startswith("skipped: the engine refuses")
    assert shape(result, "repeat").tokens == shape(result, "short").tokens


async def test_a_refusal_after_an_uncounted_answer_is_no_other_api():
    engine = Engine(counts=False, longest=400)
    result = await run(engine)

    assert {path for path, _ in engine.asked} == {COMPLETIONS}
    assert "skipped" in result.problems[0]


async def test_a_step_that_can_not_be_longer_than_the_model_is_a_note_and_no_problem():
    engine = Engine()
    result = await run(engine, Limits(max_model_length=256))

    assert (result.verdict, result.problems) == ("Warm", ())
    assert "don't fit into 256" in shape(result, "long").note
    assert (shape(result, "long").first_s, shape(result, "long").requests) == (None, 0)


async def test_an_engine_that_counts_nonsense_does_not_keep_the_pod():
    engine = Engine(per_word=0.0, added=1)
    result = await run(engine)

    assert result.verdict == "Warm"
    assert any("prompts were shorter than 513 tokens" in each for each in result.problems)


@pytest.mark.parametrize(("cached", "told"), [(None, False), (512, False), (0, True)])
async def test_a_repeat_that_is_not_found_in_the_prefix_cache_is_noted(cached, told):
    result = await run(Engine(cached=cached))

    assert bool(shape(result, "repeat").note) is told


async def test_features_are_asked_by_the_api_that_has_them():
    engine = Engine()
    features = ("structured-output", "logprobs", "image", "lora")
    result = await run(engine, wishes=Wishes(features=features, adapters=("sql",)))

    assert (result.verdict, result.problems) == ("Warm", ())
    asked = [
        (path, set(body) & {"response_format", "logprobs"} or body["model"])
        for path, body in engine.asked
        if path == CHAT or "logprobs" in body or body["model"] == "sql"
    ]
    assert asked == [
        *[(CHAT, {"response_format"})] * 3,
        *[(COMPLETIONS, {"logprobs"})] * 3,
        *[(CHAT, "m")] * 3,
        *[(COMPLETIONS, "sql")] * 3,
    ]


async def test_without_a_chat_template_structured_output_is_asked_as_a_completion():
    engine = Engine(by_path={CHAT: Answer(400, {"message": "no chat template"})})
    result = await run(engine, wishes=Wishes(features=("structured-output", "image")))

    assert result.problems == (
        (
            "warm-up: step image was skipped: the engine refuses a prompt of 65 words: HTTP 400: no"
            " chat template"
        ),
    )
    assert shape(result, "structured-output").requests == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(404, {"error": {"message": "no such model"}}), "HTTP 404: no such model"),
        (Answer(403), "HTTP 403"),
        (Answer(500), "HTTP 500"),
    ],
    ids=["unknown", "forbidden", "broken"],
)
async def test_a_feature_that_the_engine_has_not_is_a_problem_and_the_rest_is_warm(answer, words):
    engine = Engine(by_field={"x": answer})
    result = await run(engine, wishes=Wishes(features=("lora:x", "logprobs")))

    assert result.verdict == "Warm"
    assert result.problems == (
        "warm-up: step lora:x was skipped: the engine refuses a prompt of 65 words: " + words,
    )
    assert shape(result, "logprobs").requests == 3


async def test_a_feature_that_was_named_for_nothing_is_a_problem():
    result = await run(Engine(), wishes=Wishes(features=("lora",)))

    assert result.problems == ("warm-up: step lora was skipped: /v1/models names no LoRA adapter",)


async def test_hot_prefixes_are_loaded_once_and_last():
    engine = Engine(by_field={"gone": Answer(404, {"error": "unknown"})})
    chat = {"messages": [{"role": "system", "content": "You are Ada."}]}
    prefixes = (
        HotPrefix("a", {"prompt": "You are Bob."}),
        HotPrefix("b", chat),
        HotPrefix("c", {**chat, "model": "gone"}),
    )
    result = await run(engine, wishes=Wishes(prefixes=prefixes))

    assert result.problems == (
        "warm-up: step prefix:c was skipped: the engine refuses: HTTP 404: unknown",
    )
    assert [path for path, _ in engine.asked[-3:]] == [COMPLETIONS, CHAT, CHAT]
    assert [body["max_tokens"] for _, body in engine.asked[-3:]] == [1, 1, 1]
    assert shape(result, "prefix:a").requests == 1


async def test_progress_is_told():
    seen = []
    await runner_for(Engine(), progress=seen.append).run(plan(Limits()))

    assert seen == [0, 1, 2, 3, 4, 5, 6, 7]
