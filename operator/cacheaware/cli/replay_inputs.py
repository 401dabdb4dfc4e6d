"""What `replay` is given: recordings, and pages and states that people have kept."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.inputs import STDIN, content_of
from cacheaware.cli.manifest_files import shown

if TYPE_CHECKING:
    from cacheaware.recording.histories import Kept
    from cacheaware.recording.lines import Header, Round

LARGEST_FILE = 64 * 1024 * 1024
"""Bytes of a page or of states."""
Tell = Callable[[str], None]


@dataclass(slots=True)
class History:
    """One thing to replay."""

    name: str
    header: "Header"
    rounds: "Iterator[Round]"
    is_cut: Callable[[], bool] = field(default=lambda: False)


def histories(names: Sequence[str], interval: float, tell: Tell) -> Iterator[History]:
    """Each recording by itself, each folder of pages, and the other pages together as one pod.

    Args:
        names: files, folders, or `-`.
        interval: seconds between pages.
        tell: takes a line about each that can't be read.
    """
    loose: list[str] = []
    for name in chain.from_iterable(expanded(name) for name in names):
        try:
            if name != STDIN and Path(name).is_dir():
                yield folder(Path(name), interval, tell)
            elif (found := recording(name)) is not None:
                yield found
            else:
                loose.append(name)
        except BadInputError as error:
            tell(f"{name}: {error}")
    if loose:
        more = f" and {len(loose) - 1} more" if len(loose) > 1 else ""
        yield pages(f"{loose[0]}{more}", [loose], interval, tell)


def expanded(name: str) -> list[str]:
    """A folder of recordings as its files; anything else as it is."""
    path = Path(name)
    if name == STDIN or not path.is_dir():
        return [name]
    files = [str(one) for one in in_order(path) if one.is_file()]
    return files if files and begins_recording(files[0]) else [name]


def begins_recording(name: str) -> bool:
    """Whether a file is a recording; one that can't be read is none."""
    from cacheaware.recording.reading import READ_AT_FIRST, is_recording

    try:
        return is_recording(content_of(name, READ_AT_FIRST))
    except (OSError, ValueError):
        return False


def recording(name: str) -> History | None:
    """A recording; None where the file is another thing.

    Raises:
        BadInputError: it can't be read.
    """
    from cacheaware.recording.lines import RecordingError
    from cacheaware.recording.reading import Reader, is_recording

    chunks = content_in(name)
    try:
        first = next(chunks, b"")
        if name != STDIN and not first.strip():
            raise BadInputError("is empty")
        if name != STDIN and not is_recording(first):
            return None
        reader = Reader(chain([first], chunks))
    except OSError as error:
        raise BadInputError(f"can't be read: {error.strerror or error}") from error
    except (RecordingError, ValueError) as error:
        raise BadInputError(str(error)) from error
    return History(shown(name), reader.header, reader.rounds(), lambda: reader.cut)


def content_in(name: str) -> Iterator[bytes]:
    """What a file or standard input holds, piece by piece.

    Raises:
        OSError: it can't be read.
        ValueError: no file has such a name.
    """
    from cacheaware.recording.files import chunks_of

    if name == STDIN:
        yield from chunks_of(sys.stdin.buffer)
        return
    with Path(name).open("rb") as file:
        yield from chunks_of(file)


def folder(path: Path, interval: float, tell: Tell) -> History:
    """A folder of one pod's pages, or of folders, one for each pod.

    Raises:
        BadInputError: there is nothing in it.
    """
    files = [str(one) for one in in_order(path) if one.is_file()]
    below = [one for one in in_order(path) if one.is_dir()]
    if files and below:
        raise BadInputError("holds files and folders; allowed: one pod's files, or a folder a pod")
    pods = [files] if files else [list(map(str, in_order(one))) for one in below]
    if not any(pods):
        raise BadInputError("holds no files")
    return pages(str(path), pods, interval, tell)


def in_order(path: Path) -> list[Path]:
    """What a folder holds, hidden files aside; numbers in names by their value."""
    there = (one for one in path.iterdir() if not one.name.startswith("."))
    return sorted(there, key=lambda one: natural(one.name))


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts page-2 before page-10."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(one), "") if one.isdecimal() else (1, 0, one) for one in parts]


def pages(name: str, pods: Sequence[Sequence[str]], interval: float, tell: Tell) -> History:
    """Pods by their pages; each file is read when its turn comes."""
    from cacheaware.recording.histories import header_for, rounds_of

    answers = [kept_in(files, tell) for files in pods]
    return History(name, header_for(interval), rounds_of(answers, interval))


def kept_in(files: Sequence[str], tell: Tell) -> "Iterator[Kept]":
    """What files hold, one after the other; of one that can't be read a line is told."""
    from cacheaware.recording.histories import answers_of
    from cacheaware.recording.lines import RecordingError

    for name in files:
        try:
            content = content_of(name, LARGEST_FILE)
            if len(content) > LARGEST_FILE:
                raise RecordingError(f"is larger than {LARGEST_FILE:,} bytes")
            if not content.strip():
                raise RecordingError("is empty")
            yield from answers_of(content)
        except OSError as error:
            tell(f"{name}: can't be read: {error.strerror or error}")
        except ValueError as error:
            tell(f"{name}: {error}")
