"""A tokenizer without a vocabulary, and answers that are as many tokens as they claim.

A token is a blank with up to four characters after it, up to four characters inside a word, or a
blank on its own: "Hello world" is "Hell", "o", " worl", "d". Close to four characters a token, the
same in every process, and linear in the length of the text.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain, repeat
from zlib import crc32

PIECE = re.compile(r"\s?\S{1,4}|\s")
VOCABULARY = 1 << 17
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def pieces(text: str) -> list[str]:
    """The tokens of a text; together they are the text."""
    return PIECE.findall(text)


def token_id(piece: str) -> int:
    """A number for a token, the same in every process (two tokens may share one)."""
    return crc32(piece.encode("utf-8", "surrogatepass")) % VOCABULARY


def answer(seed: int, start: int, end: int) -> list[str]:
    """Tokens of an endless answer: each is one token of the tokenizer, the same for a seed."""
    return [_word(crc32(index.to_bytes(4), seed)) for index in range(start, end)]


def _word(number: int) -> str:
    digits = []
    for _ in range(4):
        number, digit = divmod(number, len(LETTERS))
        digits.append(LETTERS[digit])
    return " " + "".join(digits)


def block_names(tokens: Sequence[str], block_size: int) -> list[int]:
    """The chained hashes of the full blocks: equal only if everything before is equal, too."""
    names = []
    parent = b""
    for start in range(0, len(tokens) - block_size + 1, block_size):
        content = "\0".join(tokens[start : start + block_size])
        digest = blake2b(parent + content.encode("utf-8", "surrogatepass"), digest_size=8)
        parent = digest.digest()
        names.append(int.from_bytes(parent))
    return names


def seed_of(tokens: Iterable[str]) -> int:
    """The seed of the answer to a prompt."""
    return crc32("".join(tokens).encode("utf-8", "surrogatepass"))


def prompt_of(tokens: int, seed: int, shared: int = 0) -> str:
    """A prompt of that many tokens; the first `shared` ones are the same for every seed."""
    shared = min(shared, tokens)
    return "".join(chain(answer(0, 0, shared), answer(seed, shared, tokens)))


def pieces_of_ids(ids: Iterable[int]) -> list[str]:
    """The tokens of a prompt that comes as token ids: any name will do."""
    return list(map("{}{}".format, repeat("#"), ids))
