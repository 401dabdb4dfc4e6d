import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sim import tokens


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param("Hello world", ["Hell", "o", " worl", "d"], id="words in pieces of four"),
        pytest.param("a  b", ["a", " ", " b"], id="a blank goes with the word after it"),
        pytest.param("a \n", ["a", " ", "\n"], id="blanks at the end"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_a_text_is_cut_into_tokens(text, pieces):
    assert tokens.pieces(text) == pieces


@given(st.text())
def test_the_tokens_of_a_text_are_the_text(text):
    assert "".join(tokens.pieces(text)) == text


@given(st.integers(0, 2**32 - 1), st.integers(0, 50), st.integers(0, 50))
def test_an_answer_is_as_many_tokens_as_it_claims_and_may_be_had_in_parts(seed, first, second):
    whole = tokens.answer(seed, 0, first + second)

    assert tokens.pieces("".join(whole)) == whole
    assert tokens.answer(seed, 0, first) + tokens.answer(seed, first, first + second) == whole
    assert len(whole) == first + second


def test_a_token_has_the_same_number_in_every_process():
    assert tokens.token_id("Hell") == 45_021


def test_blocks_have_the_same_name_only_if_everything_before_is_the_same():
    same, other = ["a", "b", "c", "d", "e"], ["x", "b", "c", "d", "e"]

    assert len(tokens.block_names(same, 2)) == 2
    assert tokens.block_names(same, 2)[0] == tokens.block_names(["a", "b"], 2)[0]
    assert tokens.block_names(same, 2)[1] != tokens.block_names(other, 2)[1]


@pytest.mark.parametrize("shared", [0, 10, 200])
def test_prompts_share_as_many_tokens_as_they_are_told(shared):
    one = tokens.pieces(tokens.prompt_of(100, 7, shared))
    two = tokens.pieces(tokens.prompt_of(100, 8, shared))

    assert len(one) == len(two) == 100
    assert [a == b for a, b in zip(one, two, strict=True)].count(True) >= min(shared, 100)
    assert one[: min(shared, 100)] == two[: min(shared, 100)]


def test_token_ids_are_tokens_too():
    assert tokens.pieces_of_ids([1, 2]) == ["#1", "#2"]
