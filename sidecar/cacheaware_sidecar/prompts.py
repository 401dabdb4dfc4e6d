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
from math import ceil, fsum

ALIGNMENT = 16
"""Kernels are specialised on sizes that are a multiple of 16 and on sizes that are not."""
MARGIN = 1.03
"""A prompt is aimed a little longer than needed, for words that differ in tokens."""
LEAST_RATE = 0.25
"""Tokens a word at least, whatever an engine counts: it bounds what a wrong count makes us ask."""
KEPT = 16
"""The newest counts tell."""
MOST_UNDER = 4
"""A quarter is added to a length at most, however far off counts have been."""
ROUNDING = 1e-9
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

    Nothing counted: one token a word. Counts of one number of words: its tokens a word. Others:
    the line through the newest counts, which takes out what a chat template or a start token adds.
    Where words differ in tokens, so do prompts of equally many words: by as much as the counts have
    been off the line, a prompt is aimed longer than needed, and shorter than allowed.
    """
    line = _line(counted[-KEPT:])
    least = length.more_than + 1
    under = min(line.under, least // MOST_UNDER)
    aim = ceil(least * MARGIN) + under
    if length.at_most is not None:
        aim = min(aim, length.at_most - line.over)
    aim = max(least, aim)
    longest = ceil(aim / LEAST_RATE)
    words = min(line.words(aim), longest)
    if length.aligned is None:
        return words
    fewest = min(line.words(least + under), longest)
    tried = range(fewest, fewest + MOST_MORE_WORDS)
    return next((each for each in tried if length.is_met(round(line.tokens(each)))), words)


@dataclass(frozen=True, slots=True)
class _Line:
    """Tokens by words: what one more word adds, what every prompt has, how far counts are off."""

    rate: float = 1.0
    added: float = 0.0
    under: int = 0
    over: int = 0

    def tokens(self, words: int) -> float:
        return words * self.rate + self.added

    def words(self, tokens: int) -> int:
        """The fewest words that make so many tokens."""
        return max(1, ceil((tokens - self.added) / self.rate - ROUNDING))


def _line(counted: Sequence[tuple[int, int]]) -> _Line:
    """The line of least squares."""
    if not counted:
        return _Line()
    words = fsum(each for each, _ in counted) / len(counted)
    tokens = fsum(each for _, each in counted) / len(counted)
    spread = fsum((each - words) ** 2 for each, _ in counted)
    rate, added = max(tokens / words, LEAST_RATE), 0.0
    if spread:
        slope = fsum((w - words) * (t - tokens) for w, t in counted) / spread
        if slope >= LEAST_RATE:
            rate, added = slope, tokens - slope * words
    off = [found - (each * rate + added) for each, found in counted]
    return _Line(rate, added, max(0, round(-min(off))), max(0, round(max(off))))
