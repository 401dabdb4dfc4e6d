import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.prompts import Length
from cacheaware_sidecar.warmup_plan import (
    CHAT,
    COMPLETIONS,
    SCHEMA,
    HotPrefix,
    Limits,
    Step,
    Wishes,
    body_of,
    plan,
)

MATRIX = ["short", "multiple-of-16", "ragged", "long", "repeat", "chunked", "together"]


def step(name, limits=None, **wishes):
    return {each.name: each for each in plan(limits or Limits(), Wishes(**wishes))}[name]


def test_the_matrix_with_nothing_known_of_the_engine():
    steps = {each.name: each for each in plan(Limits())}

    assert list(steps) == MATRIX
    assert {name: each.length for name, each in steps.items() if name in MATRIX[:4]} == {
        "short": Length(more_than=8),
        "multiple-of-16": Length(more_than=63, aligned=True),
        "ragged": Length(more_than=64, aligned=False),
        "long": Length(more_than=512),
    }
    assert steps["chunked"].skipped == "CACHEAWARE_MAX_BATCHED_TOKENS is not set"
    assert steps["repeat"].repeats == "long"
    assert steps["together"].at_once == 2
    assert all(each.answer_tokens >= 8 for each in steps.values())


@pytest.mark.parametrize(
    ("limits", "length", "word"),
    [
        (Limits(max_batched_tokens=2048), Length(more_than=2048), None),
        (
            Limits(max_batched_tokens=2048, max_model_length=2057),
            Length(more_than=2048, at_most=2049),
            None,
        ),
        (Limits(max_batched_tokens=2048, max_model_length=2056), None, "don't fit into 2056"),
        (
            Limits(engine="vllm", max_model_length=32_768),
            Length(more_than=8192, at_most=32_760),
            "of more than 8192 tokens",
        ),
        (
            Limits(engine="vllm", max_model_length=32_768, kv_tokens=4096),
            Length(more_than=4087, at_most=4088),
            "of more than 4087 tokens",
        ),
        (Limits(engine="vllm", max_model_length=512), None, "prompts are short: 512 tokens"),
        (Limits(engine="vllm"), None, "is not set"),
        (Limits(engine="vllm", kv_tokens=4096), None, "is not set"),
        (Limits(engine="sglang", max_model_length=32_768), None, "is not set"),
    ],
    ids=[
        "set",
        "just fits",
        "longer than the model",
        "unset, vLLM",
        "unset, a small cache",
        "unset, a short model",
        "unset, no length",
        "unset, only the cache is known",
        "unset, another engine",
    ],
)
def test_one_prompt_is_longer_than_what_the_engine_takes_at_once(limits, length, word):
    chunked = step("chunked", limits)

    assert (None if chunked.skipped else chunked.length) == length
    assert (chunked.note or chunked.skipped) is None if word is None else True
    assert word is None or word in (chunked.note or chunked.skipped)


@pytest.mark.parametrize(
    ("room", "left", "repeats"),
    [
        (521, ["short", "multiple-of-16", "ragged", "long"], "long"),
        (520, ["short", "multiple-of-16", "ragged"], "ragged"),
        (88, ["short", "multiple-of-16", "ragged"], "ragged"),
        (87, ["short", "multiple-of-16"], "short"),
        (86, ["short"], "short"),
        (17, ["short"], "short"),
        (16, [], "short"),
    ],
)
def test_what_does_not_fit_into_the_models_length_is_left_out(room, left, repeats):
    steps = {each.name: each for each in plan(Limits(max_model_length=room))}

    assert [name for name in MATRIX[:4] if not steps[name].skipped] == left
    assert steps["repeat"].repeats == repeats
    assert all("fit into" in steps[name].skipped for name in MATRIX[:4] if name not in left)


@pytest.mark.parametrize(
    ("kv_tokens", "at_once"),
    [(None, 2), (10**6, 4), (449, 4), (448, 4), (447, 3), (224, 2), (223, None), (0, None)],
)
def test_as_many_are_asked_at_once_as_fit_into_the_cache_and_never_more_than_four(
    kv_tokens, at_once
):
    together = step("together", Limits(kv_tokens=kv_tokens))

    assert (None if together.skipped else together.at_once) == at_once
    assert kv_tokens is None or at_once or f"only {kv_tokens} tokens" in together.skipped


def test_each_feature_that_the_user_names_is_a_step_and_each_adapter():
    wishes = {
        "features": ("structured-output", "logprobs", "lora", "lora:b", "lora:new", "image"),
        "adapters": ("a", "b"),
    }
    steps = plan(Limits(), Wishes(**wishes))

    assert [each.name for each in steps[7:]] == [
        "structured-output",
        "logprobs",
        "lora:a",
        "lora:b",
        "lora:new",
        "image",
    ]
    assert [each.model for each in steps[9:12]] == ["a", "b", "new"]
    assert all(each.is_named for each in steps[7:])
    assert not any(each.is_named for each in steps[:7])


def test_adapters_that_are_not_there_are_told():
    assert step("lora", features=("lora",)).skipped == "/v1/models names no LoRA adapter"


def test_the_users_own_prefixes_come_last_and_are_asked_as_they_are():
    chat = {"messages": [{"role": "system", "content": "You are Ada."}], "model": "sql"}
    prefixes = (HotPrefix("a", {"prompt": "p"}), HotPrefix("b", chat))
    *_, logprobs, first, second = plan(Limits(), Wishes(features=("logprobs",), prefixes=prefixes))

    assert (logprobs.name, first.name, second.name) == ("logprobs", "prefix:a", "prefix:b")
    assert (first.paths, second.paths) == ((COMPLETIONS,), (CHAT,))
    common = {"max_tokens": 1, "temperature": 0.0}
    assert body_of(first, COMPLETIONS, "", model="m", picture=None) == {
        "model": "m",
        "prompt": "p",
        **common,
    }
    assert body_of(second, CHAT, "", model="m", picture=None) == {**chat, **common}


COMMON = {"model": "m", "max_tokens": 8, "temperature": 0.0}
USER = {"messages": [{"role": "user", "content": "w w"}]}


@pytest.mark.parametrize(
    ("given", "path", "body"),
    [
        (Step(name="x"), COMPLETIONS, {**COMMON, "prompt": "w w"}),
        (Step(name="x"), CHAT, {**COMMON, **USER}),
        (Step(name="x", feature="lora", model="a"), COMPLETIONS, {"model": "a", "prompt": "w w"}),
        (Step(name="x", feature="logprobs"), COMPLETIONS, {"logprobs": 5}),
        (Step(name="x", feature="logprobs"), CHAT, {"logprobs": True, "top_logprobs": 5}),
        (
            Step(name="x", feature="structured-output"),
            CHAT,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "warmup", "schema": SCHEMA},
                }
            },
        ),
    ],
    ids=["completion", "chat", "adapter", "logprobs", "chat logprobs", "structured"],
)
def test_what_is_asked(given, path, body):
    asked = body_of(given, path, "w w", model="m", picture=None)

    assert body.items() <= asked.items()
    assert asked.keys() - body.keys() <= {"model", "prompt", "messages", *COMMON}


def test_a_picture_is_shown_beside_the_words():
    image = Step(name="image", feature="image")
    asked = body_of(image, CHAT, "w", model=None, picture="data:,")

    assert image.paths == (CHAT,)
    assert "model" not in asked
    assert asked["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "text", "text": "w"},
    ]


SIZES = st.none() | st.integers(1, 200_000)


@given(SIZES, SIZES, SIZES, st.sampled_from([None, "vllm", "sglang"]))
def test_no_step_takes_more_than_a_pod_in_service(batched, length, kv, engine):
    limits = Limits(
        max_batched_tokens=batched, max_model_length=length, kv_tokens=kv, engine=engine
    )
    features = ("logprobs", "structured-output", "image", "lora:a")
    for each in plan(limits, Wishes(features=features)):
        if each.skipped or each.repeats or limits.room is None:
            continue
        assert each.length.more_than + 1 + each.answer_tokens <= limits.room
        assert each.length.at_most + each.answer_tokens <= limits.room
        assert kv is None or each.at_once * (each.length.more_than + 1) <= kv
        assert each.at_once <= 4
