import base64
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.prompts import WORDS, Length, picture, text, words_for
from cacheaware_sim.tokens import pieces


def test_all_words_are_of_four_letters_so_that_tokenizers_treat_them_alike():
    assert {len(word) for word in WORDS} == {4}
    assert len(WORDS) == len(set(WORDS)) == 100
    assert len(pieces(text(random.Random(1), 37))) == 37


def test_the_first_block_of_two_prompts_is_hardly_ever_the_same():
    """A block has 16 tokens or more; three words of a byte tokenizer are a million prompts."""
    assert len(WORDS) ** 3 == 10**6
    first, second = (text(random.Random(seed), 16) for seed in (1, 2))
    assert first.split()[0] != second.split()[0]


@pytest.mark.parametrize("rate", [1, 5, 3])
@pytest.mark.parametrize("added", [0, 1, 11])
@pytest.mark.parametrize("least", [64, 65, 100])
def test_a_multiple_of_16_is_met_at_once_when_the_line_is_known(rate, added, least):
    counted = [(9, 9 * rate + added), (70, 70 * rate + added)]
    tokens = words_for(Length(more_than=least - 1, aligned=True), counted) * rate + added

    assert tokens % 16 == 0
    assert least <= tokens < least + 16 * rate


def test_where_no_number_of_words_makes_a_multiple_a_prompt_is_asked_all_the_same():
    counted = [(9, 2 * 9 + 1), (70, 2 * 70 + 1)]
    tokens = words_for(Length(more_than=63, aligned=True), counted) * 2 + 1

    assert 63 < tokens < 70


@pytest.mark.parametrize("added", range(16))
def test_a_ragged_length_is_no_multiple(added):
    tokens = words_for(Length(more_than=64, aligned=False), [(9, 9 + added), (70, 70 + added)])

    assert tokens + added > 64
    assert (tokens + added) % 16


def test_the_line_takes_out_what_every_prompt_has():
    counted = [(10, 21), (100, 201), (100, 201)]

    assert words_for(Length(more_than=400), counted) == 207, "(413 - 1) / 2, with 3 % to spare"


def test_where_words_differ_in_tokens_no_prompt_is_too_short_or_too_long():
    """As with a tokenizer of bytes and pairs of them: four to six tokens a word."""
    dice = random.Random(1)
    counted = [(9, 47), (13, 60), (13, 66), (105, 520)]

    def tokens(words):
        return sum(dice.choice((4, 5, 5, 6)) for _ in range(words))

    for length in (Length(more_than=63, aligned=True), Length(more_than=64, aligned=False)):
        found = [tokens(words_for(length, counted)) for _ in range(200)]
        assert sum(each <= length.more_than for each in found) < 20
    most = [tokens(words_for(Length(more_than=900, at_most=1000), counted)) for _ in range(200)]
    assert sum(each > 1000 for each in most) < 60


def test_a_length_that_must_not_be_exceeded_has_nothing_to_spare():
    assert words_for(Length(more_than=512, at_most=513), [(9, 9), (70, 70)]) == 513


@given(
    st.integers(1, 100_000),
    st.sampled_from([None, True, False]),
    st.lists(st.tuples(st.integers(1, 10_000), st.integers(1, 10_000)), max_size=3),
)
def test_there_is_always_a_word_to_ask_and_never_more_than_a_few_a_token(
    more_than, aligned, counted
):
    """An engine may count what it likes: a prompt without an end would fill the memory."""
    words = words_for(Length(more_than=more_than, aligned=aligned), counted)
    assert 1 <= words <= 4 * 1.28 * (more_than + 1) + 72


@pytest.mark.parametrize(
    ("aligned", "tokens", "met"),
    [
        (None, 64, False),
        (None, 65, True),
        (True, 65, False),
        (True, 80, True),
        (False, 65, True),
        (False, 80, False),
    ],
)
def test_when_a_length_is_met(aligned, tokens, met):
    assert Length(more_than=64, aligned=aligned).is_met(tokens) is met


def test_a_picture_is_a_png_of_one_colour_and_each_is_new():
    dice = random.Random(1)
    first, second = picture(dice), picture(dice)
    kind, _, data = first.partition(",")
    png = base64.b64decode(data)

    assert kind == "data:image/png;base64"
    assert first != second
    assert len(png) < 1024
    chunks = dict(read_chunks(png))
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (224, 224)
    pixels = zlib.decompress(chunks[b"IDAT"])
    assert len(pixels) == 224 * (1 + 3 * 224)
    assert pixels[1:4] == pixels[-3:]


def read_chunks(png):
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", png[at + 8 + length : at + 12 + length])
        assert checksum == zlib.crc32(kind + data)
        yield kind, data
        at += 12 + length
