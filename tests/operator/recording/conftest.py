"""One wave, played once for all tests."""

import pytest
from tests.operator.recording.played import Played, play

from cacheaware.recording.lines import written


@pytest.fixture(scope="session")
def played() -> Played:
    """A wave that comes and goes, so that the fleet grows and shrinks."""
    with pytest.MonkeyPatch.context() as patch:
        return play(patch, (4, 30, 2, 2, 2, 2))


@pytest.fixture(scope="session")
def recording(played) -> bytes:
    """The wave as a file."""
    return "".join(map(written, (played.header, *played.rounds))).encode()
