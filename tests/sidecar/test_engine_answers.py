import pytest

from cacheaware_sidecar.engine_answers import (
    Answer,
    answer_tokens,
    cached_tokens,
    is_completion,
    prompt_tokens,
    said,
)


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
    answer = Answer(200, {"usage": usage})

    assert prompt_tokens(answer) is answer_tokens(answer) is cached_tokens(answer) is None


@pytest.mark.parametrize("tokens", [0, -1, 1 << 40, 1.5, "9", None])
def test_tokens_that_can_not_be_are_unknown(tokens):
    assert prompt_tokens(Answer(200, {"usage": {"prompt_tokens": tokens}})) is None


def test_tokens_as_the_engine_counts_them():
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 0,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    answer = Answer(200, {"usage": usage})

    assert (prompt_tokens(answer), answer_tokens(answer), cached_tokens(answer)) == (9, 0, 0)


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
