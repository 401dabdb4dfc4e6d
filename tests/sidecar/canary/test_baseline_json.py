import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sidecar.canary.fakes import baseline

from cacheaware_sidecar.canary.baseline_json import BaselineError, as_text, from_text
from cacheaware_sidecar.canary.compare import compare


def stored(**changes):
    return json.dumps({**json.loads(as_text(baseline(model="m"))), **changes})


def test_a_baseline_comes_back_as_it_was_stored():
    healthy = baseline(model="m", engine="vllm", version="0.32.0")
    again = from_text(as_text(healthy))

    assert as_text(again) == as_text(healthy)
    assert again.identity == healthy.identity
    assert again.step is None
    assert from_text(stored(step=0.0625)).resolution == 1 / 32
    assert [len(each.answer) for each in again.runs] == [16] * 8
    assert again.runs[0].prompt[0].logprob is None
    assert compare(again, healthy.runs[0]).mean < 0.02


def test_one_that_is_still_learned_may_have_fewer_runs():
    few = as_text(baseline(runs=1))

    assert len(from_text(few, fewest=1).runs) == 1
    with pytest.raises(BaselineError, match="runs is 1; allowed: a list of 4 to 16 runs"):
        from_text(few)
    assert json.loads(as_text(baseline(runs=0)))["prompt_tokens"] == []


RUN = json.loads(stored())["runs"][0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no canary"),
        (stored(probe="norms"), "no canary"),
        (stored(schema=2), "schema is 2; allowed: 1"),
        (stored(way="loud"), "way is 'loud'; allowed: echo, plain, chat"),
        (stored(way=[]), "way is []"),
        (stored(step=0), "step is 0; allowed: a number above 0 up to 1, or null"),
        (stored(step="1/16"), "step is '1/16'"),
        (stored(prompt=""), "prompt is ''; allowed: 1 to 2048 characters"),
        (stored(prompt="x" * 2049), "allowed: 1 to 2048 characters"),
        (stored(model=7), "model is 7; allowed: up to 256 characters, or null"),
        (stored(runs=3), "runs is 3"),
        (stored(runs=[7] * 4), "runs[0] is 7; allowed: an object"),
        (stored(prompt_tokens="x"), "prompt_tokens is 'x'"),
        (stored(prompt_tokens=["x"]), "runs[0].prompt_logprobs"),
        (stored(prompt_tokens=[7]), "prompt_tokens is [7]; allowed: a list of tokens as text"),
        (stored(runs=[{**RUN, "answer": []}] * 4), "runs[0].answer is []"),
        (stored(runs=[{**RUN, "margins": [1]}] * 4), "runs[0].margins is [1]"),
        (stored(runs=[{**RUN, "margins": ["1"] * 16}] * 4), "allowed: numbers and null"),
        (stored(runs=[{**RUN, "margins": [10**400] * 16}] * 4), "allowed: numbers and null"),
        (stored().replace("-3.", "NaN, -3.", 1), "runs[0].prompt_logprobs"),
    ],
)
def test_what_is_no_baseline_is_one_line(text, said):
    with pytest.raises(BaselineError) as caught:
        from_text(text)

    line = str(caught.value)
    assert said in line
    assert "allowed: " in line
    assert "\n" not in line


@given(st.binary(max_size=200))
def test_whatever_is_in_a_file_is_a_baseline_or_an_error_of_one_kind(data):
    with pytest.raises(BaselineError):
        from_text(data.decode(errors="replace"))
