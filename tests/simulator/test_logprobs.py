"""Log probabilities of the mock engine: the same each time, in OpenAI's shapes, and adrift."""

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sim.logprobs import chat, completion, of_tokens
from cacheaware_sim.tokens import pieces

PROMPT = pieces("The lighthouse keeper wrote down what he saw each evening: the wind, the ships")
ANSWER = [" abcd", " efgh", " ijkl", " mnop"]


def test_they_are_the_same_each_time_and_below_zero():
    ahead, values = of_tokens(PROMPT, ANSWER, drifted=False)

    assert (ahead, values) == of_tokens(PROMPT, ANSWER, drifted=False)
    assert ahead[0] is None
    assert all(value <= 0 for value in [*ahead[1:], *values])
    assert len(set(ahead)) == len(PROMPT)


def test_a_model_adrift_says_less_by_a_fifth_on_average():
    healthy = of_tokens(PROMPT * 20, ANSWER, drifted=False)[0]
    adrift = of_tokens(PROMPT * 20, ANSWER, drifted=True)[0]
    gaps = [one - two for one, two in zip(healthy[1:], adrift[1:], strict=True)]

    assert min(gaps) >= 0
    assert fmean(gaps) == pytest.approx(0.2, abs=0.02)


@given(st.lists(st.text(min_size=1, max_size=4), max_size=9), st.booleans())
def test_there_is_one_for_each_token(prompt, drifted):
    ahead, values = of_tokens(prompt, ANSWER, drifted=drifted)

    assert len(ahead) == len(prompt)
    assert len(values) == len(ANSWER)


def test_completions_have_parallel_lists():
    told = completion(["a", "bc"], [None, -1.0], 2)

    assert told["tokens"] == ["a", "bc"]
    assert told["token_logprobs"] == [None, -1.0]
    assert told["text_offset"] == [0, 1]
    assert told["top_logprobs"][0] is None
    assert max(told["top_logprobs"][1], key=told["top_logprobs"][1].get) == "bc"
    assert completion(["a"], [-1.0], 0)["top_logprobs"] == [{"a": -1.0}]


def test_chats_have_a_list_of_objects():
    (entry,) = chat(["é"], [-1.0], 2)["content"]

    assert (entry["token"], entry["logprob"], entry["bytes"]) == ("é", -1.0, [195, 169])
    assert [one["token"] for one in entry["top_logprobs"]] == ["é", "~"]
