import json
from dataclasses import asdict, replace

import pytest

from cacheaware_sidecar import store
from cacheaware_sidecar.lifecycle import (
    Cordoned,
    DeadlineSet,
    DrainBegun,
    Healthy,
    Lifecycle,
    Scraped,
    Tick,
    Uncordoned,
    UsedToken,
    Verdict,
    WarmupEnded,
    advance,
)
from cacheaware_sidecar.phase import Phase

BOOT = "b7a1"
TWO = UsedToken("b", 950.0)


def state_in(phase):
    state = Lifecycle(since=1.0)
    events = [Scraped(100.0), Healthy(), WarmupEnded(1, Verdict.WARM), DrainBegun(25, 30)]
    for now, event in enumerate(events, 2):
        if state.phase is phase:
            break
        state = advance(state, event, float(now))
    return state


@pytest.mark.parametrize("phase", [Phase.LOADING, Phase.SERVING, Phase.DRAINING])
def test_the_phase_survives_the_sidecar(tmp_path, phase):
    state = state_in(phase)
    store.save(tmp_path, state, BOOT)

    assert store.restore(tmp_path, BOOT, 50.0) == state


def test_a_warmup_that_was_broken_off_begins_again(tmp_path):
    store.save(tmp_path, state_in(Phase.WARMING), BOOT)
    state = store.restore(tmp_path, BOOT, 50.0)

    assert state
    assert (state.phase, state.since, state.starts) == ("loading", 50.0, (100.0,))


def cordoned(phase=Phase.CORDONED):
    state = advance(state_in(Phase.SERVING), Cordoned("op", 60, UsedToken("a", 900.0)), 10.0)
    return state if phase is Phase.CORDONED else advance(state, DrainBegun(25, 30), 11.0)


@pytest.mark.parametrize("phase", [Phase.CORDONED, Phase.DRAINING])
def test_a_cordon_and_its_tokens_survive_the_sidecar(tmp_path, phase):
    store.save(tmp_path, cordoned(phase), BOOT)

    assert store.restore(tmp_path, BOOT, 50.0) == cordoned(phase)


def test_a_deadline_that_the_operator_told_survives_the_sidecar(tmp_path):
    state = advance(state_in(Phase.DRAINING), DeadlineSet(4), 10.0)
    store.save(tmp_path, state, BOOT)

    assert store.restore(tmp_path, BOOT, 50.0) == state
    assert state.drain.limit == 14.0


def test_a_lease_that_ran_out_meanwhile_ends_at_once(tmp_path):
    store.save(tmp_path, cordoned(), BOOT)
    state = store.restore(tmp_path, BOOT, 70.0)

    assert state
    assert advance(state, Tick(), 70.0).phase == "serving"


def test_which_tokens_are_spent_survives_the_node_too(tmp_path):
    again = advance(advance(cordoned(), Uncordoned(), 12.0), Cordoned("op", 60, TWO), 13.0)
    store.save(tmp_path, again, BOOT)

    assert store.restore(tmp_path, "other", 50.0) is None
    assert store.spent_tokens(tmp_path) == (UsedToken("a", 900.0), TWO)


def test_a_lease_that_would_never_end_is_not_trusted(tmp_path):
    state = cordoned()
    for until in (float("nan"), 1e9):
        store.save(tmp_path, replace(state, cordon=replace(state.cordon, until=until)), BOOT)
        assert store.restore(tmp_path, BOOT, 50.0) is None


def test_a_state_that_was_saved_before_there_were_leases_is_read(tmp_path):
    state = asdict(state_in(Phase.SERVING)) | {"cordoned_by": None}
    old = {name: value for name, value in state.items() if name not in {"cordon", "spent"}}
    (tmp_path / store.FILE).write_text(json.dumps({"schema": 1, "boot": BOOT, "state": old}))

    assert store.restore(tmp_path, BOOT, 50.0) == state_in(Phase.SERVING)
    assert store.spent_tokens(tmp_path) == ()


def test_a_state_of_another_boot_or_of_an_unknown_one_is_not_trusted(tmp_path):
    store.save(tmp_path, state_in(Phase.SERVING), BOOT)

    assert store.restore(tmp_path, "other", 50.0) is None
    store.save(tmp_path, state_in(Phase.SERVING), "")
    assert store.restore(tmp_path, "", 50.0) is None


def test_a_state_from_the_future_is_not_trusted(tmp_path):
    store.save(tmp_path, state_in(Phase.DRAINING), BOOT)

    assert store.restore(tmp_path, BOOT, 2.0) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        "x" * 70_000,
        '{"schema": 2}',
        '{"schema": 1, "boot": "b7a1", "state": {"phase": "nonsense"}}',
        '{"schema": 1, "boot": "b7a1", "state": null}',
    ],
)
def test_a_file_that_is_no_state_is_not_trusted(tmp_path, text):
    (tmp_path / store.FILE).write_text(text)

    assert store.restore(tmp_path, BOOT, 50.0) is None
    assert store.spent_tokens(tmp_path) == ()


def test_without_a_file_there_is_no_state(tmp_path):
    assert store.restore(tmp_path, BOOT, 50.0) is None
    assert store.spent_tokens(tmp_path) == ()


def test_this_boot_has_an_id_and_a_missing_one_is_empty(tmp_path, monkeypatch):
    assert len(store.boot_id()) == 36
    monkeypatch.setattr(store, "BOOT_ID", tmp_path / "none")
    assert store.boot_id() == ""


def test_the_file_is_json_that_a_person_can_read(tmp_path):
    store.save(tmp_path, state_in(Phase.SERVING), BOOT)

    assert json.loads((tmp_path / store.FILE).read_text())["state"]["phase"] == "serving"
