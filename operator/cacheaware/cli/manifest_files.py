"""Manifests that commands are given: a file each, or standard input."""

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.inputs import STDIN, content_of

LARGEST = 16 * 1024 * 1024


def shown(name: str) -> str:
    """A file's name as messages say it."""
    return "standard input" if name == STDIN else name


def text_of(name: str) -> str:
    """The text of a file or of standard input, with its line breaks as they are.

    Raises:
        BadInputError: it can't be read, is too large, or is no text; the caller names the file.
    """
    try:
        content = content_of(name, LARGEST)
        text = content.decode("utf-8")
    except OSError as error:
        raise BadInputError(f"can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInputError("is no text in UTF-8") from error
    if len(content) > LARGEST:
        raise BadInputError(f"is larger than {LARGEST:,} bytes")
    return text
