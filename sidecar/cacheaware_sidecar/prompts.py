"""Prompts of a wanted length in tokens, made of random words.

How many tokens a word makes is learned from the engine's own counts. All words have four letters,
so that nearly every tokenizer makes the same number of tokens of each: most make one, a tokenizer
of bytes makes five. The words of a prompt are drawn anew each time from a source that is seeded
for each pod and run: no two prompts share a prefix that a cache could hold, and none leaves
anything behind that a user's prompt could hit.
"""

import base64
import random
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

ALIGNMENT = 16
"""Kernels are specialised on sizes that are a multiple of 16 and on sizes that are not."""
MARGIN = 1.03
"""A prompt is aimed a little longer than needed, for words that differ in tokens."""
LEAST_RATE = 0.25
"""Tokens a word at least, whatever an engine counts: it bounds what a wrong count makes us ask."""
MOST_MORE_WORDS = 64
"""So many words more are tried out on paper to meet a multiple."""
PICTURE = 224
"""Pixels of a side: the usual input of a vision encoder."""
_TEXT = (
    "time year life work part case week hand room area fact side kind head line body back face"
    " door word city name team idea game book food road tree fish bird king gold wind fire rain"
    " snow lake ship boat farm corn rice milk salt soup cake meat bone skin hair nose lips foot"
    " coat shoe ring rope wire tool nail iron coal sand rock hill cave wall roof yard gate path"
    " lane town shop bank mail card song tune drum horn bell poem play film news page note list"
    " text form rule plan goal task test exam mark rank"
)
WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long a prompt is to be, in tokens."""

    more_than: int
    at_most: int | None = None
    """More tokens than this don't fit beside the answer."""
    aligned: bool | None = None
    """A multiple of 16, surely none, or either."""

    def is_met(self, tokens: int) -> bool:
        """Whether a prompt of so many tokens will do."""
        return tokens > self.more_than and self._is_aligned(tokens)

    def _is_aligned(self, tokens: int) -> bool:
        return self.aligned is None or (tokens % ALIGNMENT == 0) is self.aligned


def text(dice: random.Random, words: int) -> str:
    """So many random words."""
    return " ".join(dice.choices(WORDS, k=words))


def picture(dice: random.Random) -> str:
    """A picture of one random colour as the data URL of a PNG (RFC 2397, PNG 1.2).

    Each is new: an engine keeps what its encoder made of a picture that it has seen.
    """
    row = b"\0" + dice.randbytes(3) * PICTURE
    header = struct.pack(">IIBBBBB", PICTURE, PICTURE, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(row * PICTURE)), (b"IEND", b"")
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def words_for(length: Length, counted: Sequence[tuple[int, int]]) -> int:
    """How many words make a prompt of this length, by the (words, tokens) counted so far.

    Nothing counted: one token a word. One prompt: its tokens a word. More: the line through the
    last two that differ, which takes out what a chat template or a start token adds.
    """
    rate, added = _line(counted)
    least = length.more_than + 1
    most = length.at_most or ceil(least * MARGIN)
    aim = max(least, min(ceil(least * MARGIN), most))
    longest = ceil(aim / LEAST_RATE)
    words = min(max(1, ceil((aim - added) / rate)), longest)
    if length.aligned is None:
        return words
    fewest = min(max(1, ceil((least - added) / rate)), longest)
    tried = range(fewest, fewest + MOST_MORE_WORDS)
    return next((each for each in tried if length.is_met(round(each * rate + added))), words)


def _line(counted: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Tokens a word, and tokens that every prompt has."""
    if not counted:
        return 1.0, 0.0
    words, tokens = counted[-1]
    for before, less in reversed(counted):
        slope = (tokens - less) / (words - before) if words != before else 0.0
        if slope >= LEAST_RATE:
            return slope, tokens - slope * words
    return max(tokens / words, LEAST_RATE), 0.0
