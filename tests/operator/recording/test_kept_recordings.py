"""Recordings that people have kept stay readable: the one in the docs is of the first schema."""

import re
from pathlib import Path

from tests.operator.cli.conftest import ran

from cacheaware.recording.files import chunks_of
from cacheaware.recording.reading import Reader
from cacheaware.recording.replay import Replay, scaler_of

KEPT = Path(__file__).parents[3] / "docs" / "recordings" / "wave.jsonl.gz"
ROW = re.compile(r"\d:\d\d:\d\d ")


def test_the_recording_of_the_docs_is_read_whole_and_decided():
    with KEPT.open("rb") as file:
        reader = Reader(chunks_of(file))
        replay = Replay(reader.header, scaler_of(reader.header.target_kind, reader.header.spec))
        steps = list(replay.steps(reader.rounds()))

    assert (reader.header.version, reader.cut, len(steps)) == (1, False, 111)
    assert {step.decision.current for step in steps} == {4, 5, 6}
    assert all(step.decision.raw is not None for step in steps[1:])
    assert replay.cold_start_s is not None


def test_the_page_shows_what_is_decided_on_it_today(capsys):
    text = (KEPT.parents[1] / "replay.md").read_text()
    shown = [columns(line) for line in text.splitlines() if ROW.match(line)]

    code, out, _ = ran(capsys, "replay", str(KEPT))

    assert code == 0
    assert shown == [columns(line)[:7] for line in out.splitlines() if ROW.match(line)]


def columns(line):
    """The cells of a row."""
    return re.split(r"  +", line.strip())
