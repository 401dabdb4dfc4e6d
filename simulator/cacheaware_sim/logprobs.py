"""Log probabilities by a hash: a model that always says the same, and one that has drifted."""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

LIKELIEST = 1.5
"""Of an answer's tokens: from -1.5 to 0; a greedy answer is made of likely ones."""
LEAST = 8.0
"""Of a prompt's tokens: from -8 to 0."""
NARROWEST = 0.5
"""How far the likeliest token is ahead of the second, at least."""
DRIFT = 0.4
"""What a drifted model takes off a log probability, from 0 to this: 0.2 on average."""
SECOND = "~"
"""The token that would have come second."""


def of_tokens(
    prompt: Sequence[str], answer: Sequence[str], *, drifted: bool
) -> tuple[list[float | None], list[float]]:
    """Natural logarithms of the probabilities of a prompt's tokens and of its answer's.

    The first token of a prompt has none. A token's is a hash of all tokens up to it.
    """
    seed = 0
    found: list[float] = []
    for at, piece in enumerate((*prompt, *answer)):
        seed = crc32(piece.encode("utf-8", "surrogatepass"), seed)
        widest = LEAST if at < len(prompt) else LIKELIEST
        value = -widest * _share(seed, b"value")
        found.append(value - DRIFT * _share(seed, b"drift") if drifted else value)
    ahead: list[float | None] = [None, *found[1 : len(prompt)]]
    return ahead[: len(prompt)], found[len(prompt) :]


def _share(seed: int, what: bytes) -> float:
    return crc32(what, seed) / 0xFFFFFFFF


def completion(tokens: Sequence[str], values: Sequence[float | None], top: int) -> dict[str, Any]:
    """As OpenAI's completions have them."""
    offsets = [0]
    for piece in tokens:
        offsets.append(offsets[-1] + len(piece))
    likeliest = [
        None if value is None else _likeliest(piece, value, top)
        for piece, value in zip(tokens, values, strict=True)
    ]
    return {
        "text_offset": offsets[:-1],
        "token_logprobs": list(values),
        "tokens": list(tokens),
        "top_logprobs": likeliest,
    }


def chat(tokens: Sequence[str], values: Sequence[float], top: int) -> dict[str, Any]:
    """As OpenAI's chats have them."""
    return {
        "content": [
            {
                **_entry(piece, value),
                "top_logprobs": [_entry(*one) for one in _likeliest(piece, value, top).items()],
            }
            for piece, value in zip(tokens, values, strict=True)
        ]
    }


def _likeliest(piece: str, value: float, top: int) -> dict[str, float]:
    """The token itself and, where two or more are asked for, the second."""
    behind = NARROWEST + 2 * _share(crc32(piece.encode("utf-8", "surrogatepass")), b"second")
    return {piece: value, SECOND: value - behind} if top > 1 else {piece: value}


def _entry(piece: str, value: float) -> dict[str, Any]:
    return {"token": piece, "logprob": value, "bytes": list(piece.encode("utf-8", "replace"))}
