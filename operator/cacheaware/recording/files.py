"""Files of recordings: written line by line within a bound, read as far as they are whole."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from cacheaware.recording.lines import RecordingError

GZIP: Final = b"\x1f\x8b"
GZIP_BITS: Final = 31
"""zlib's way to say: with the header and trailer of gzip."""
TRAILER: Final = 32
"""Bytes that the end of a gzip stream may take."""
CHUNK: Final = 64 * 1024
LONGEST: Final = 64 * 1024 * 1024
"""Bytes of a line; 5,000 pods take 10 MB."""


class Writer:
    """Writes whole lines, each at once to the file, and none beyond the bound.

    Args:
        file: opened for writing.
        packed: whether to write gzip.
        most: bytes that the file may have.
    """

    def __init__(self, file: BinaryIO, *, packed: bool, most: int) -> None:
        self._file = file
        self._packer = zlib.compressobj(wbits=GZIP_BITS) if packed else None
        self._most = most - TRAILER if packed else most
        self.size = 0
        """Bytes written."""

    def write(self, line: str) -> bool:
        """Write a line; False where it has no room, and then nothing is written."""
        content, packer = line.encode(), self._packer
        if packer is not None:
            packer = packer.copy()
            # Each line can be read without those after it: a recording that is cut is readable.
            content = packer.compress(content) + packer.flush(zlib.Z_SYNC_FLUSH)
        if self.size + len(content) > self._most:
            return False
        self._packer = packer
        self._put(content)
        return True

    def close(self) -> None:
        """End the file."""
        if self._packer is not None:
            self._put(self._packer.flush())

    def _put(self, content: bytes) -> None:
        self._file.write(content)
        self._file.flush()
        self.size += len(content)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file."""

    number: int
    content: bytes
    whole: bool = True
    """Whether it has its end."""


def lines_of(chunks: Iterator[bytes]) -> Iterator[Line]:
    """The lines of a file that aren't blank.

    Raises:
        RecordingError: one is too long, or what is packed can't be unpacked.
    """
    number, rest = 0, b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for content in whole:
            number += 1
            if content.strip():
                yield Line(number, content)
        if len(rest) > LONGEST:
            raise RecordingError(f"line {number + 1} has more than {LONGEST:,} bytes")
    if rest.strip():
        yield Line(number + 1, rest, whole=False)


def unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What a file holds, whether or not it is gzip; of one that is cut all that is there.

    Raises:
        RecordingError: it is damaged, or there is something after its end.
    """
    first = next(chunks, b"")
    if not first.startswith(GZIP):
        yield first
        yield from chunks
        return
    unpack = zlib.decompressobj(wbits=GZIP_BITS)
    for chunk in (first, *chunks):
        try:
            yield unpack.decompress(chunk)
        except zlib.error as error:
            raise RecordingError(f"the gzip in it is damaged: {error}") from None
        if unpack.unused_data:
            raise RecordingError("something follows the end of the gzip in it")


def chunks_of(file: BinaryIO) -> Iterator[bytes]:
    """A file's content, piece by piece."""
    while chunk := file.read(CHUNK):
        yield chunk
