import hashlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sidecar.canary.fakes import ANSWER, chat, completion, run

from cacheaware_sidecar.canary.completion import (
    PROMPT,
    NoLogprobsError,
    Run,
    Token,
    Way,
    read_run,
    request_body,
)

VLLM_ECHO = {
    "choices": [
        {
            "index": 0,
            "text": "the quick22",
            "logprobs": {
                "text_offset": [0, 3, 9, 10],
                "token_logprobs": [None, -6.146134376525879, -5.210355758666992, -5.18587398529],
                "tokens": ["the", " quick", "2", "2"],
                "top_logprobs": [
                    None,
                    {" quick": -6.146134376525879, "": -5.521134376525879},
                    {"2": -5.210355758666992, "e": -5.659574508666992},
                    {"2": -5.18587398529, "e": -5.63899898529},
                ],
            },
            "finish_reason": "length",
        }
    ],
    "usage": {"prompt_tokens": 2, "total_tokens": 4, "completion_tokens": 2},
}
"""Of vLLM 0.32, with `echo`."""


def test_vllm_tells_of_the_prompt_and_of_the_answer():
    found = read_run(VLLM_ECHO, Way.ECHO)

    assert [each.text for each in found.prompt] == ["the", " quick"]
    assert [each.logprob for each in found.prompt] == [None, -6.146134376525879]
    assert [each.text for each in found.answer] == ["2", "2"]
    assert found.answer[0].margin == pytest.approx(0.44921875)


def test_without_echo_all_tokens_are_the_answers():
    found = read_run(completion(run(prompt=0)), Way.PLAIN)

    assert found.prompt == ()
    assert [each.text for each in found.answer] == list(ANSWER)


def test_the_shape_of_chats_is_read_in_either_route():
    one = run()

    for way in Way:
        found = read_run(chat(one), way)
        assert found.prompt == ()
        assert [each.logprob for each in found.answer] == [each.logprob for each in one.answer]
        assert [each.margin for each in found.answer] == pytest.approx([3.0123] * len(ANSWER))


def test_an_engine_that_ignores_echo_has_no_prompt():
    found = read_run(completion(run(prompt=0)), Way.ECHO)

    assert found.prompt == ()
    assert len(found.answer) == len(ANSWER)


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        pytest.param(Way.ECHO, None, id="nothing"),
        pytest.param(Way.ECHO, {"choices": []}, id="no-choice"),
        pytest.param(Way.ECHO, {"choices": [{"text": "x", "logprobs": None}]}, id="null"),
        pytest.param(Way.CHAT, {"choices": [{"logprobs": {"content": [7]}}]}, id="no-object"),
        pytest.param(
            Way.PLAIN,
            {"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": [-1, -2]}}]},
            id="uneven",
        ),
        pytest.param(
            Way.PLAIN,
            {"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": [10**400]}}]},
            id="an-integer-without-end",
        ),
        pytest.param(Way.ECHO, {**VLLM_ECHO, "usage": None}, id="no-usage"),
        pytest.param(
            Way.ECHO, {**VLLM_ECHO, "usage": {"completion_tokens": 5}}, id="more-than-there-are"
        ),
        pytest.param(Way.ECHO, {**VLLM_ECHO, "usage": {"completion_tokens": True}}, id="no-count"),
    ],
)
def test_an_answer_without_log_probabilities_has_nothing_to_compare(way, answer):
    with pytest.raises(NoLogprobsError):
        read_run(answer, way)


def test_margins_are_unknown_where_only_one_token_is_told():
    told = {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [{"a": -1.0}]}

    assert read_run({"choices": [{"logprobs": told}]}, Way.PLAIN).answer == (Token("a", -1.0),)
    del told["top_logprobs"]
    assert read_run({"choices": [{"logprobs": told}]}, Way.PLAIN).answer == (Token("a", -1.0),)


def test_what_is_no_number_is_kept_as_such():
    answer = json.loads(json.dumps(completion(run(shift=math.nan))))

    assert math.isnan(read_run(answer, Way.ECHO).answer[0].logprob)


def test_the_request_is_greedy_and_short_in_every_way():
    asked = {way: request_body(PROMPT, way, "m") for way in Way}

    for each in asked.values():
        assert each["temperature"] == 0
        assert each["seed"] == 0
        assert each["max_tokens"] == 16
        assert each["model"] == "m"
    assert asked[Way.ECHO]["echo"] is True
    assert "echo" not in asked[Way.PLAIN]
    assert asked[Way.CHAT]["logprobs"] is True
    assert "model" not in request_body(PROMPT, Way.PLAIN, None)


def test_ways_know_their_route():
    assert [way.path for way in Way] == [
        "/v1/completions",
        "/v1/completions",
        "/v1/chat/completions",
    ]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "logprobs",
                    "tokens",
                    "token_logprobs",
                    "top_logprobs",
                    "content",
                    "usage",
                    "completion_tokens",
                    "token",
                    "logprob",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=30,
)


@given(json_like, st.sampled_from(Way))
def test_whatever_an_engine_answers_is_a_run_or_has_nothing_to_compare(answer, way):
    try:
        found = read_run(answer, way)
    except NoLogprobsError:
        return
    assert isinstance(found, Run)
    assert len(found.answer) > 0


def test_the_prompt_is_never_changed():
    digest = hashlib.sha256(PROMPT.encode()).hexdigest()

    assert digest == "191686c86c522d3a6afc102fcaf1b2c961b4ac6e32b0dfdc1060131e95e123c3"
