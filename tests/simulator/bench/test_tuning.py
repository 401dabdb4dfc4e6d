"""How peers get their settings."""

import pytest

from cacheaware_sim.bench.choices import choices
from cacheaware_sim.bench.tuning import (
    BUDGET,
    GRIDS,
    TRAIN,
    Outcome,
    best,
    settings_of,
    tuning_cases,
)
from cacheaware_sim.bench.workloads import CODE, CONV
from cacheaware_sim.policies.registry import PEERS
from cacheaware_sim.policies.tuned import TUNED


def test_every_peer_has_a_grid_of_the_same_budget_with_its_default_in_it():
    assert set(GRIDS) == set(PEERS) == set(TUNED)
    for name, grid in GRIDS.items():
        assert 2 <= len(grid) <= BUDGET, name
        assert len(set(map(repr, grid))) == len(grid), name
        assert PEERS[name].default in grid, name
        assert all(type(one) is type(PEERS[name].default) for one in grid), name


@pytest.mark.parametrize("name", TUNED)
def test_the_tuned_settings_are_of_the_grid(name):
    assert TUNED[name] in GRIDS[name]


def test_the_train_split_is_the_first_twenty_minutes_of_both_of_azures_traces():
    for (load, _), whole in zip(TRAIN, (CONV, CODE), strict=True):
        assert (load.trace, load.scale) == (whole.trace, whole.scale)
        assert (load.from_s, load.to_s) == (0, 1200)


def outcomes(*pairs):
    return tuple(Outcome(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("found", "number"),
    [
        pytest.param(
            {0: outcomes((99, 3), (95, 3)), 1: outcomes((100, 2), (96, 3))}, 1, id="the cheapest"
        ),
        pytest.param(
            {0: outcomes((99, 9), (95, 9)), 1: outcomes((98.9, 1), (100, 1))}, 0, id="that reaches"
        ),
        pytest.param(
            {0: outcomes((90, 1), (95, 1)), 1: outcomes((99, 9), (88, 9))},
            1,
            id="else the one that misses by the fewest points",
        ),
        pytest.param(
            {0: outcomes((99, 2), (95, 2)), 1: outcomes((99, 2), (95, 2))}, 0, id="the first"
        ),
    ],
)
def test_the_best_setting_is(found, number):
    choice = best("wva-v1", found)

    assert choice.number == number
    assert choice.tried == len(found)
    assert choice.settings == GRIDS["wva-v1"][number]


def test_settings_are_those_of_the_variant():
    assert settings_of("dynamo", "default") == PEERS["dynamo"].default
    assert settings_of("dynamo", "tuned") == TUNED["dynamo"]
    assert settings_of("dynamo", "1") == GRIDS["dynamo"][1]
    assert settings_of("cacheaware", "default") is None
    assert settings_of("constant-7", "default") is None


def test_only_settings_with_all_their_runs_are_compared(store, result, tmp_path, monkeypatch):
    for load, _ in TRAIN:
        path = load.path(store.data)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(load.name)
    some = tuning_cases(["wva-v1"])
    for case in some[:3]:  # both workloads of the first setting, one of the second
        store.write(case, result(90.0, 2.0))

    (choice,) = choices(store, ["wva-v1"])

    assert (choice.policy, choice.number, choice.tried) == ("wva-v1", 0, 1)
    assert choice.outcomes == outcomes((90.0, 2.0), (90.0, 2.0))


def test_all_settings_run_on_both_workloads():
    some = tuning_cases()

    assert len(some) == 2 * sum(map(len, GRIDS.values()))
    assert {case.seed for case in some} == {0}
