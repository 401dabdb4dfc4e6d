"""What the canary remembers: learning, comparing, confirming, and what it says."""

import json
import math

import pytest
from tests.sidecar.canary.fakes import baseline, run

from cacheaware_sidecar.canary.ask import Asked
from cacheaware_sidecar.canary.baseline import REPEATS, Identity
from cacheaware_sidecar.canary.baseline_json import BaselineError, as_text
from cacheaware_sidecar.canary.compare import CONFIRM, Comparison
from cacheaware_sidecar.canary.completion import PROMPT, Way
from cacheaware_sidecar.canary.finding import drift
from cacheaware_sidecar.canary.keeper import FILE, Canary, Verdict
from cacheaware_sidecar.settings import Settings

VLLM = {"model": "m", "engine": "vllm", "version": "0.32.0"}


def asked(one=None, way=Way.ECHO, **identity):
    return Asked(run=one or run(), way=way, identity=Identity(**{**VLLM, **identity}))


@pytest.fixture
def canary(tmp_path):
    return Canary(Settings(shared_dir=str(tmp_path), canary_seconds=300))


@pytest.fixture
def held(tmp_path):
    """A canary with the baseline of a file."""
    file = tmp_path / "baseline.json"
    file.write_text(as_text(baseline(**VLLM)))
    return Canary(Settings(shared_dir=str(tmp_path), canary_seconds=300, canary_file=str(file)))


def learn(canary, runs=REPEATS):
    for at in range(runs):
        canary.take(asked(run(noise=0.01, seed=at)), float(at))


def test_off_it_says_nothing(tmp_path):
    off = Canary(Settings(shared_dir=str(tmp_path)))

    assert off.state(5.0) is None
    assert (off.problems, off.findings) == ((), ())


def test_without_a_file_the_first_runs_are_the_baseline(canary, tmp_path):
    assert canary.question("m", None).ways == tuple(Way)
    learn(canary, 3)
    told = canary.state(10.0)
    assert (told.verdict, told.reason) == ("Learning", "3 of 8 runs of the baseline")
    assert (told.baseline, told.age_s, told.tokens) == (None, 8.0, None)
    assert canary.pause_s == 60
    assert canary.question(None, "vllm").ways == (Way.ECHO,)

    learn(canary, 5)
    assert canary.state(10.0).baseline == "learned"
    assert canary.verdict is Verdict.SAME
    assert canary.pause_s == 300
    assert json.loads((tmp_path / FILE).read_text())["prompt"] == PROMPT

    canary.take(asked(run(noise=0.01, seed=77)), 20.0)
    assert canary.state(21.0).verdict == "Same"
    assert canary.state(21.0).tokens == 55


def test_what_was_learned_outlives_the_sidecar(canary, tmp_path):
    learn(canary, 5)
    again = Canary(Settings(shared_dir=str(tmp_path), canary_seconds=300))
    learn(again, 3)

    assert again.state(9.0).baseline == "learned"
    again.take(asked(run(weights=8)), 20.0)
    assert again.verdict is Verdict.DRIFTED


def test_what_cannot_be_read_is_learned_anew(canary, tmp_path):
    learn(canary)
    (tmp_path / FILE).write_text("{")
    again = Canary(Settings(shared_dir=str(tmp_path), canary_seconds=300))
    again.take(asked(), 1.0)

    assert again.reason == "1 of 8 runs of the baseline"


@pytest.mark.parametrize("other", [{"model": "n"}, {"version": "0.33.0"}, {"engine": "sglang"}])
def test_another_model_or_version_is_learned_anew_and_no_alarm(canary, other):
    learn(canary)
    canary.take(asked(run(weights=8), **other), 20.0)

    assert canary.verdict is Verdict.LEARNING
    assert canary.drifted_runs == 0


def test_a_disk_that_is_full_does_not_end_it(tmp_path):
    canary = Canary(Settings(shared_dir=str(tmp_path / "nowhere"), canary_seconds=300))
    learn(canary)

    assert canary.state(9.0).baseline == "learned"


def test_a_broken_model_is_not_learned(canary):
    canary.take(asked(run(shift=math.nan)), 1.0)

    assert canary.verdict is Verdict.NOT_APPLICABLE
    assert "no number" in canary.reason


def test_a_drift_is_a_finding_when_it_was_seen_three_times_on_end(held):
    for at in range(1, CONFIRM + 1):
        assert held.findings == ()
        held.take(asked(run(shift=0.2)), float(at))
        assert held.verdict is Verdict.DRIFTED
        assert held.pause_s == (60 if at < CONFIRM else 300)
    (found,) = held.findings
    assert (found.id, found.severity) == ("canary-drift", "warning")
    assert "0.2" in found.message
    assert held.state(9.0).drifted_runs == 3

    held.take(asked(run(noise=0.01, seed=3)), 9.0)
    assert held.findings == ()
    assert held.verdict is Verdict.SAME


@pytest.mark.parametrize("one", [run(weights=8), run(shift=math.nan)], ids=["other", "nan"])
def test_it_is_an_error_beyond_any_doubt_alone(held, one):
    for at in range(CONFIRM):
        held.take(asked(one), float(at))

    assert [each.severity for each in held.findings] == ["error"]


def test_a_turned_token_is_told(held):
    other = run(answer=(" other",) * 16)
    for at in range(CONFIRM):
        held.take(asked(other), float(at))

    assert "100% of the answer's tokens are others, from token 1 on" in held.findings[0].message
    assert "no tie" in held.findings[0].message


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (asked(version="0.33.0"), "version 0.32.0, this is 0.33.0"),
        (asked(model="n"), "model m, this is n"),
        (asked(run(prompt=20)), "another tokeniser"),
    ],
    ids=["version", "model", "tokens"],
)
def test_a_file_of_another_model_is_not_comparable_and_no_alarm(held, answer, said):
    for at in range(CONFIRM):
        held.take(asked(run(shift=0.2)), float(at))
    held.take(answer, 9.0)

    assert held.verdict is Verdict.NOT_COMPARABLE
    assert said in held.reason
    assert held.findings == ()
    assert held.problems == (f"canary: NotComparable: {held.reason}",)
    assert held.state(9.0).baseline == "file"


def test_a_file_asks_what_it_was_made_of(held):
    question = held.question(None, "vllm")

    assert (question.prompt, question.ways) == ("the canary", (Way.ECHO,))
    assert (question.model, question.preferred) == (None, "m")


def test_a_file_is_read_as_it_is_now(held, tmp_path):
    file = tmp_path / "baseline.json"
    held.question(None, None)
    file.write_text(as_text(baseline(model="n")))
    assert held.question(None, None).preferred == "n"

    file.write_text("{")
    with pytest.raises(BaselineError, match=r"baseline\.json: it is no JSON"):
        held.question(None, None)
    file.write_bytes(b"\xff")
    with pytest.raises(BaselineError, match="it is no text"):
        held.question(None, None)
    file.unlink()
    with pytest.raises(BaselineError, match="can't be read: No such file"):
        held.question(None, None)


def test_runs_without_an_answer_change_no_verdict(held):
    held.take(asked(), 1.0)
    held.failed("no answer within 30 s")
    assert held.verdict is Verdict.SAME
    assert held.reason == "the last run failed: no answer within 30 s"
    held.skipped("3 requests wait")

    told = held.state(5.0)
    assert (told.answered, told.failed, told.skipped) == (1, 1, 1)
    assert told.reason == "the last run was skipped: 3 requests wait"
    assert told.age_s == 4.0


def test_another_engine_begins_without_a_verdict_but_with_the_baseline(held):
    for at in range(CONFIRM):
        held.take(asked(run(shift=0.2)), float(at))
    held.forget_engine()

    assert held.findings == ()
    assert held.state(9.0).verdict is None
    held.take(asked(), 9.0)
    assert held.verdict is Verdict.SAME


def test_an_engine_without_log_probabilities_is_not_applicable(held):
    held.does_not_apply("echo: the answer has no log probabilities", 1.0)

    assert held.verdict is Verdict.NOT_APPLICABLE
    assert held.problems == ("canary: NotApplicable: echo: the answer has no log probabilities",)


def test_a_token_that_turned_is_told_where_nothing_else_can_be():
    found = drift(Comparison(tokens=0, changed=1.0, first_changed=0, turned=True), CONFIRM)

    assert found.severity == "warning"
    assert found.message.endswith("100% of the answer's tokens are others, from token 1 on,"
                                  " which was no tie")  # fmt: skip
