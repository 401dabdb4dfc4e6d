"""A recording as a header and its rounds."""

import json
from collections.abc import Callable, Iterator
from typing import TypeVar

from cacheaware.recording.files import Line, lines_of, unpacked
from cacheaware.recording.lines import Header, RecordingError, Round, header_of, round_of

T = TypeVar("T")
READ_AT_FIRST = 64 * 1024


class Reader:
    """Reads a recording line by line.

    Args:
        chunks: the file's content.

    Raises:
        RecordingError: it does not begin with a header.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._lines = lines_of(unpacked(chunks))
        self.line = 0
        """The number of the line that was read last."""
        self.cut = False
        """The last line has no end: what wrote it was stopped."""
        try:
            first = next(self._lines, None)
        except RecordingError as error:
            raise located(error, 1) from None
        if first is None:
            raise RecordingError("is empty; a recording begins with a header")
        self.header: Header = self._read(first, header_of)

    def rounds(self) -> Iterator[Round]:
        """The rounds that are whole.

        Raises:
            RecordingError: a line can't be read; it tells which.
        """
        while (line := self._next()) is not None:
            try:
                yield self._read(line, round_of)
            except RecordingError:
                if line.whole:
                    raise
                self.cut = True

    def _next(self) -> Line | None:
        try:
            return next(self._lines, None)
        except RecordingError as error:
            raise located(error, self.line + 1) from None

    def _read(self, line: Line, read: Callable[[bytes], T]) -> T:
        self.line = line.number
        try:
            return read(line.content)
        except RecordingError as error:
            raise located(error, line.number) from None


def located(error: RecordingError, line: int) -> RecordingError:
    """The same problem with its line."""
    return RecordingError(f"line {line}: {error}")


def is_recording(first: bytes) -> bool:
    """Whether a file that begins so is meant to be a recording: packed, or an object with a kind.

    Pages and states are neither.
    """
    try:
        beginning = next(unpacked(iter([first])))
    except RecordingError:
        return True
    line = beginning.lstrip().split(b"\n", 1)[0]
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return b'"cacheaware-recording"' in line
    return isinstance(found, dict) and "kind" in found
