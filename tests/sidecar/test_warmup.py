import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.lifecycle import Verdict
from cacheaware_sidecar.warmup import (
    CHAT,
    COMPLETIONS,
    WORDS,
    Answer,
    Budget,
    Limits,
    Runner,
    Step,
    first_model,
    is_completion,
    limits_from,
    plan,
    prompt_tokens,
    said,
    words_for,
)


def text(body):
    return body.get("prompt") or body["messages"][0]["content"]


@dataclass
class Engine:
    """Counts tokens: so many a word, and some more for a template."""

    per_word: float = 1.0
    added: int = 0
    counts: bool = True
    replies: list[Answer] = field(default_factory=list)
    """Given first, in this order."""
    by_path: dict[str, Answer] = field(default_factory=dict)
    longest: int | None = None
    seconds: float = 1.0
    now: float = 0.0
    asked: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds

    async def ask(self, path, body, timeout_s):
        self.now += min(self.seconds, timeout_s)
        self.asked.append((path, body))
        if self.replies:
            return self.replies.pop(0)
        if path in self.by_path:
            return self.by_path[path]
        tokens = int(len(text(body).split()) * self.per_word) + self.added
        if self.longest and tokens > self.longest:
            return Answer(400, {"error": {"message": f"at most {self.longest} tokens"}})
        usage = {"usage": {"prompt_tokens": tokens}} if self.counts else {}
        return Answer(200, {"choices": [{"text": ""}], **usage})

    @property
    def lengths(self):
        return [int(len(text(body).split()) * self.per_word) + self.added for _, body in self.asked]


def answered(tokens):
    return Answer(200, {"choices": [{"text": ""}], "usage": {"prompt_tokens": tokens}})


async def run(engine, limits=None, *, verdict=Verdict.READY, model="m", seconds=120):
    runner = Runner(
        engine=engine,
        model=model,
        budget=Budget(seconds=seconds, verdict=verdict),
        clock=engine.clock,
        sleep=engine.sleep,
        dice=random.Random(1),
    )
    return await runner.run(plan(limits or Limits()))


@pytest.mark.parametrize(
    ("limits", "step"),
    [
        (Limits(), Step(name="long", more_than=512)),
        (Limits(max_batched_tokens=256), Step(name="long", more_than=512)),
        (Limits(max_batched_tokens=8192), Step(name="long", more_than=8192)),
        (
            Limits(max_batched_tokens=2048, max_model_length=2057),
            Step(name="long", more_than=2048, at_most=2049),
        ),
        (
            Limits(max_batched_tokens=2048, max_model_length=2056),
            Step(
                name="long",
                more_than=512,
                at_most=2048,
                note="not longer than the engine's batched-token limit of 2048:"
                " the model's length is 2056 tokens",
            ),
        ),
        (Limits(max_model_length=521), Step(name="long", more_than=512, at_most=513)),
        (
            Limits(max_model_length=520),
            Step(
                name="long",
                more_than=512,
                skipped="needs more than 512 tokens: the model's length is 520 tokens",
            ),
        ),
    ],
    ids=[
        "nothing known",
        "a small limit",
        "a large limit",
        "just fits",
        "does not fit",
        "512 just fit",
        "512 don't fit",
    ],
)
def test_the_long_prompt_is_longer_than_512_and_than_a_step_where_it_fits(limits, step):
    assert plan(limits) == [Step(name="short", more_than=8), step]


@pytest.mark.parametrize("per_word", [1.0, 1.31, 2.7, 4.9])
@pytest.mark.parametrize("added", [0, 1, 40])
@pytest.mark.parametrize("limit", [None, 2048])
async def test_the_engine_itself_counts_more_tokens_than_needed(per_word, added, limit):
    engine = Engine(per_word=per_word, added=added)
    result = await run(engine, Limits(max_batched_tokens=limit, max_model_length=4096))
    wanted = limit or 512

    assert (result.verdict, result.problems) == ("Warm", ())
    assert wanted < engine.lengths[-1] < wanted * 1.2 + added
    assert len(engine.lengths) <= 4


async def test_a_prompt_stays_within_the_models_length_even_where_that_is_tight():
    engine = Engine(longest=521 - 8)
    result = await run(engine, Limits(max_model_length=521))

    assert result.verdict == "Warm"
    assert engine.lengths == [9, 513]


async def test_an_engine_that_does_not_count_gets_a_word_for_each_token():
    engine = Engine(counts=False)
    result = await run(engine)

    assert result.verdict == "Warm"
    assert engine.lengths == [9, 513]


async def test_no_two_prompts_share_a_beginning_and_two_runs_differ():
    engine = Engine()
    await run(engine)
    first, second = (text(body).split() for _, body in engine.asked)

    assert first != second[: len(first)]
    assert len(WORDS) == len(set(WORDS)) >= 64


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


@pytest.mark.parametrize("status", [404, 405, 501, 307, 400, 422])
async def test_where_completions_are_missing_chat_is_asked(status):
    engine = Engine(by_path={COMPLETIONS: Answer(status)})
    result = await run(engine)

    assert result.verdict == "Warm"
    assert [path for path, _ in engine.asked] == [COMPLETIONS, CHAT, CHAT]


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
    assert len(engine.asked) == 4


CUT = Answer(None, error="refused", cut=True)


async def test_an_engine_that_was_replaced_in_the_middle_is_asked_all_steps():
    engine = Engine(replies=[answered(8 + 1), CUT])
    result = await run(engine)

    assert (result.verdict, result.problems) == ("Warm", ())
    short, cut, *whole = engine.lengths
    assert [length > 512 for length in (short, cut, *whole)] == [False, True, False, True]


async def test_an_engine_that_is_gone_for_good_ends_with_the_budget_and_is_told_once():
    engine = Engine(by_path={COMPLETIONS: CUT})
    result = await run(engine, Limits(max_batched_tokens=2048, max_model_length=600), seconds=10)

    assert result.problems == ("warm-up: 10 s were not enough, step short: refused",)


@pytest.mark.parametrize("verdict", [Verdict.READY, Verdict.FAILED])
async def test_the_budget_ends_it_with_the_verdict_that_was_set(verdict):
    engine = Engine(by_path={COMPLETIONS: Answer(503, {"error": "busy"})})
    result = await run(engine, verdict=verdict, seconds=10)

    assert result.verdict == verdict
    assert result.problems == ("warm-up: 10 s were not enough, step short: HTTP 503: busy",)
    assert engine.now == 10


async def test_an_answer_that_takes_too_long_ends_with_the_budget():
    engine = Engine(seconds=500)
    result = await run(engine, seconds=30)

    assert result.verdict == "Ready"
    assert result.problems == ("warm-up: 30 s were not enough, step long: no time was left",)


async def test_a_long_prompt_that_the_engine_refuses_is_skipped_with_the_reason():
    result = await run(Engine(longest=400))

    assert result.verdict == "Warm"
    assert result.problems[0].endswith(
        "skipped: the engine refuses a prompt of 529 words: HTTP 400: at most 400 tokens"
    )


async def test_a_refusal_after_an_uncounted_answer_is_no_other_api():
    engine = Engine(counts=False, longest=400)
    result = await run(engine)

    assert [path for path, _ in engine.asked] == [COMPLETIONS, COMPLETIONS]
    assert "skipped" in result.problems[0]


async def test_a_step_that_does_not_fit_is_skipped_with_the_reason():
    engine = Engine()
    result = await run(engine, Limits(max_model_length=256))

    assert result.verdict == "Warm"
    assert result.problems[0].startswith("warm-up: step long was skipped: needs more than 512")
    assert len(engine.asked) == 1


async def test_what_a_step_does_not_exercise_is_told():
    result = await run(Engine(), Limits(max_batched_tokens=8192, max_model_length=4096))

    assert result.verdict == "Warm"
    assert "batched-token limit of 8192" in result.problems[0]


async def test_an_engine_that_counts_nonsense_does_not_keep_the_pod():
    engine = Engine(per_word=0.0, added=1)
    result = await run(engine)

    assert result.verdict == "Warm"
    assert any("prompts were shorter than 513 tokens" in each for each in result.problems)


async def test_progress_is_told():
    seen = []
    engine = Engine()
    runner = Runner(
        engine=engine,
        model=None,
        budget=Budget(seconds=9, verdict=Verdict.READY),
        clock=engine.clock,
        sleep=engine.sleep,
        dice=random.Random(1),
        progress=seen.append,
    )
    await runner.run(plan(Limits()))

    assert seen == [0, 1, 2]


@given(
    st.integers(1, 100_000),
    st.lists(st.tuples(st.integers(1, 10_000), st.integers(1, 10_000)), max_size=3),
)
def test_there_is_always_a_word_to_ask(more_than, counted):
    assert words_for(Step(name="x", more_than=more_than), counted) >= 1


@pytest.mark.parametrize(
    ("body", "whether"),
    [
        ({"choices": [{"text": ""}]}, True),
        ({"choices": [{"message": {"content": None}}]}, True),
        ({"choices": [{}]}, False),
        ({"choices": ["x"]}, False),
        ({"choices": {}}, False),
        ({}, False),
        ([], False),
        (None, False),
    ],
)
def test_what_is_a_completion(body, whether):
    assert is_completion(Answer(200, body)) is whether
    assert not is_completion(Answer(201, body))


@pytest.mark.parametrize("usage", [None, [], {}, {"prompt_tokens": True}])
def test_tokens_that_are_no_number_are_unknown(usage):
    assert prompt_tokens(Answer(200, {"usage": usage})) is None


@pytest.mark.parametrize("tokens", [0, -1, 1 << 40, 1.5, "9", None])
def test_tokens_that_can_not_be_are_unknown(tokens):
    assert prompt_tokens(Answer(200, {"usage": {"prompt_tokens": tokens}})) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(None), "no answer"),
        (Answer(None, error="refused"), "refused"),
        (Answer(200, {}), "HTTP 200 without a completion"),
        (Answer(500, {"error": "a\x1b[31mb"}), "HTTP 500: a [31mb"),
        (Answer(500, {"detail": "x"}), "HTTP 500"),
        (Answer(500, "text"), "HTTP 500"),
    ],
)
def test_what_the_engine_said_in_a_line(answer, words):
    assert said(answer) == words


MODELS = {
    "data": [
        {"id": "adapter", "parent": "base", "max_model_len": 1},
        {"id": "base", "max_model_len": 4096},
        {"id": None},
        "nonsense",
    ]
}


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (MODELS, "base"),
        ({"data": [{"id": "only", "parent": "x"}]}, "only"),
        ({"data": []}, None),
        ({"data": "x"}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_first_base_model_is_asked(models, expected):
    assert first_model(models) == expected


@pytest.mark.parametrize(
    ("models", "config", "limits", "model", "length"),
    [
        (MODELS, None, Limits(max_model_length=9), "base", 9),
        (MODELS, {"max_position_embeddings": 7}, Limits(), "base", 4096),
        (MODELS, {"max_position_embeddings": 7}, Limits(), "other", 7),
        (None, {"text_config": {"max_position_embeddings": 5}}, Limits(), None, 5),
        (None, {"text_config": []}, Limits(), None, None),
        (None, {"max_position_embeddings": True}, Limits(), None, None),
        (None, None, Limits(), None, None),
    ],
)
def test_where_the_models_length_comes_from(models, config, limits, model, length):
    assert limits_from(models, config, limits, model).max_model_length == length
