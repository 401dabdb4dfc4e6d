"""Who is left of whom, and how it is told."""

import pytest

from cacheaware_sim.bench.judge import verdict
from cacheaware_sim.bench.telling import told

CONSTANTS = {
    "constant-4": [(50, 4)] * 2,
    "constant-6": [(98, 6)] * 2,
    "constant-8": [(99.6, 8)] * 2,
}


def names(rows):
    return [row.name for row in rows]


def test_a_peer_that_attains_as_much_for_less_has_beaten_us(planted):
    table = planted(
        {
            **CONSTANTS,
            "cacheaware": [(98, 6.6)] * 2,
            ("wva-v1", "tuned"): [(98.5, 6.5)] * 2,
            "dynamo": [(97, 7)] * 2,
            "keda-kv": [(40, 2)] * 2,
        }
    )
    found = verdict(table)

    assert found.right_percent == pytest.approx(10)
    assert names(found.beaten_by) == ["wva-v1 tuned"]
    assert names(found.beats) == ["dynamo"]
    assert names(found.left_of_us) == ["wva-v1 tuned"]
    assert (found.ratio.value, found.ratio.against) == (pytest.approx(6.6 / 6.5), "wva-v1 tuned")
    assert not found.against_front


def test_a_peer_may_be_further_left_without_attaining_as_much(planted):
    # at 74 % constants pay 5
    table = planted({**CONSTANTS, "cacheaware": [(98, 6)] * 2, "dynamo": [(74, 4.5)] * 2})

    assert names(verdict(table).left_of_us) == ["dynamo"]
    assert verdict(table).beaten_by == ()


def test_a_policy_that_hardly_serves_is_left_of_nobody(planted):
    # at 49 % it would be far left
    constants = {**CONSTANTS, "constant-3": [(10, 3)] * 2}
    table = planted({**constants, "cacheaware": [(98, 6)] * 2, "dynamo": [(49, 1)] * 2})

    assert verdict(table).left_of_us == ()


def test_regret_is_to_the_oracle_at_our_attainment_and_on_our_first_seed(planted):
    table = planted(
        {**CONSTANTS, "cacheaware": [(97, 6), (99, 60)]},
        oracle=[(95, 95, 3), (99, 99, 5), (99.9, 99.2, 9)],
        bound=2.0,
    )
    found = verdict(table)

    assert found.oracle_regret_percent == pytest.approx(50)
    assert found.bound_ratio == 3.0


def test_a_plan_of_the_oracle_that_misses_its_target_is_no_yardstick(planted):
    table = planted({**CONSTANTS, "cacheaware": [(98, 6)] * 2}, oracle=[(99, 98, 3)])

    assert verdict(table).oracle_regret_percent is None


def test_without_ours_there_is_nothing_to_judge(planted):
    table = planted(CONSTANTS)

    assert verdict(table) is None
    assert told(table) == "**Azure conv x4**: no run of cacheaware is stored."


@pytest.mark.parametrize(
    ("ours", "sentence"),
    [
        ((98, 6.6), "98.00 % at 6.60 GPU-hours, 10.0 % **right of** the front of constant N."),
        ((98, 5.4), "98.00 % at 5.40 GPU-hours, 10.0 % left of the front of constant N."),
        ((98, 6.03), "98.00 % at 6.03 GPU-hours, on the front of constant N (+0.5 %)."),
        ((99.9, 9), "9.00 GPU-hours, which is more than any constant number of pods attains"),
        ((20, 3), "3.00 GPU-hours, which is less than any constant number of pods attains"),
    ],
    ids=["right", "left", "on it", "above", "below"],
)
def test_where_ours_stands_is_told(planted, ours, sentence):
    assert sentence in told(planted({**CONSTANTS, "cacheaware": [ours] * 2}))


def test_losses_are_told_like_wins(planted):
    lost = told(planted({**CONSTANTS, "cacheaware": [(98, 6)] * 2, "wva-v1": [(98.5, 3)] * 2}))
    won = told(planted({**CONSTANTS, "cacheaware": [(98, 6)] * 2, "wva-v1": [(98.5, 12)] * 2}))

    assert "**Lost** to wva-v1 (98.50 % at 3.00): as much for less." in lost
    assert "The best peer that comes up to it, wva-v1, pays 50.0 % less." in lost
    assert "No peer is left of it." in won
    assert "wva-v1, pays 100.0 % more." in won


def test_levels_that_are_not_reached_are_told(planted):
    assert "**It does not reach 95 % and 99 %.**" in told(
        planted({**CONSTANTS, "cacheaware": [(90, 6)] * 2})
    )
    assert "does not reach" not in told(planted({**CONSTANTS, "cacheaware": [(99.5, 9)] * 2}))


def test_where_no_peer_comes_up_to_ours_that_is_told(planted):
    text = told(planted({**CONSTANTS, "cacheaware": [(98, 6)] * 2, "dynamo": [(60, 5)] * 2}))

    assert "No peer comes up to its attainment." in text


def test_requests_that_our_shrinking_cut_are_told(planted, result):
    table = planted({**CONSTANTS, "cacheaware": [(98, 6)] * 2})
    for one in table.ours.results:
        one["lost_to_scale_down"] = 2

    assert "**4 requests were cut by its scaling down.**" in told(table)
