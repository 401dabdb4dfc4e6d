import json
import math

import pytest

from cacheaware_sidecar import warmup_progress
from cacheaware_sidecar.engines import Histogram
from cacheaware_sidecar.lifecycle import Lifecycle, Verdict
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import Latency, ShapeState, StartState, WarmupState
from cacheaware_sidecar.warmup import Result
from cacheaware_sidecar.warmup_progress import WarmupProgress, restore

RESULT = Result(
    verdict=Verdict.WARM,
    problems=("one",),
    shapes=(
        ShapeState(name="long", requests=4, tokens=529, first_s=2.1, last_s=0.3),
        ShapeState(name="image", note="skipped: why"),
    ),
    requests=4,
    prompt_tokens=2116,
    generation_tokens=32,
)
ZERO = Latency(ttft_s=Histogram(4, 3.0, ((1.0, 3), (math.inf, 4))))
LOADING = Lifecycle(since=0.0)
WARMING = Lifecycle(phase=Phase.WARMING, since=40.0)
SERVING = Lifecycle(phase=Phase.SERVING, since=52.0, verdict=Verdict.WARM)


def warmed():
    progress = WarmupProgress()
    progress.phase_changed(LOADING, WARMING, 40.0)
    progress.step = progress.steps = 8
    progress.ended(1, RESULT, 11.5)
    progress.phase_changed(WARMING, SERVING, 52.0)
    return progress


def test_the_way_to_serving_is_measured_and_told():
    progress = warmed()

    assert progress.start_state() == StartState(loading_s=40.0, warming_s=12.0)
    assert progress.problems == ("one",)
    assert progress.state(Verdict.WARM) == WarmupState(
        step=8,
        steps=8,
        verdict="Warm",
        duration_s=11.5,
        requests=4,
        prompt_tokens=2116,
        generation_tokens=32,
        shapes=RESULT.shapes,
    )


def test_before_that_nothing_is_known():
    progress = WarmupProgress()

    assert progress.start_state() == StartState()
    assert progress.state(None) == WarmupState()


def test_a_warmup_that_was_off_has_asked_nothing_that_could_be_counted():
    progress = WarmupProgress()
    progress.ended(1, Result(verdict=Verdict.OFF), None)

    assert progress.state(Verdict.OFF) == WarmupState(verdict="Off")


def test_its_end_is_one_line(caplog):
    caplog.set_level("INFO")
    warmed()

    assert caplog.messages == [
        (
            "warm-up of engine 1: Warm after 11.5 s, 4 requests, 2,116 + 32 tokens; seconds:"
            " long 2.1 -> 0.3"
        )
    ]


def test_another_engine_begins_anew():
    progress = warmed()
    progress.phase_changed(SERVING, Lifecycle(since=90.0, engine=2), 90.0)
    assert (progress.start_state(), progress.state(None)) == (StartState(), WarmupState())

    again = Lifecycle(phase=Phase.WARMING, since=99.0, engine=2)
    progress.phase_changed(Lifecycle(since=90.0, engine=2), again, 99.0)
    assert progress.start_state() == StartState(loading_s=9.0)


def test_a_cordon_changes_nothing():
    progress = warmed()
    cordoned = Lifecycle(phase=Phase.CORDONED, since=60.0)
    progress.phase_changed(SERVING, cordoned, 60.0)
    progress.phase_changed(cordoned, SERVING, 70.0)

    assert progress.start_state() == StartState(loading_s=40.0, warming_s=12.0)


def test_a_restart_of_the_sidecar_forgets_nothing(tmp_path):
    warmed().save(tmp_path, "boot", ZERO)
    progress, zero = restore(tmp_path, "boot", 1)

    assert zero == ZERO
    assert progress.start_state() == warmed().start_state()
    assert progress.state(Verdict.WARM) == warmed().state(Verdict.WARM)
    assert progress.problems == ("one",)


def test_a_sidecar_that_was_restarted_in_the_warmup_measures_from_where_it_began(tmp_path):
    progress = WarmupProgress()
    progress.phase_changed(LOADING, WARMING, 40.0)
    progress.save(tmp_path, "boot", ZERO)
    progress, zero = restore(tmp_path, "boot", 1)
    assert zero is None, "the warm-up begins again"

    loading = Lifecycle(since=45.0)
    again = Lifecycle(phase=Phase.WARMING, since=46.0)
    progress.phase_changed(loading, again, 46.0)
    progress.phase_changed(again, SERVING, 52.0)
    assert progress.start_state() == StartState(loading_s=40.0, warming_s=12.0)


@pytest.mark.parametrize(
    ("boot", "engine"), [("other", 1), ("", 1), ("boot", 2)], ids=["boot", "no boot", "engine"]
)
def test_what_belongs_to_another_engine_or_boot_is_not_taken(tmp_path, boot, engine):
    warmed().save(tmp_path, "boot", ZERO)
    progress, zero = restore(tmp_path, boot, engine)

    assert (progress.state(None), zero) == (WarmupState(), None)


def damaged():
    yield "no file", None
    yield "no json", lambda record: "{"
    yield "another schema", lambda record: {**record, "schema": 2}
    yield "a number that is none", lambda record: {**record, "healthy_at": "x"}
    yield "a field is missing", lambda record: {**record, "zero": {}}
    yield "a histogram is none", lambda record: {**record, "zero": {"ttft_s": {"count": "x"}}}
    yield "a list", lambda record: []


@pytest.mark.parametrize(
    "damage", [each for _, each in damaged()], ids=[name for name, _ in damaged()]
)
def test_what_can_not_be_read_is_unknown(tmp_path, damage):
    file = tmp_path / warmup_progress.FILE
    if damage:
        warmed().save(tmp_path, "boot", ZERO)
        broken = damage(json.loads(file.read_text()))
        file.write_text(broken if isinstance(broken, str) else json.dumps(broken))
    progress, zero = restore(tmp_path, "boot", 1)

    assert (progress.state(None), zero) == (WarmupState(), None)
