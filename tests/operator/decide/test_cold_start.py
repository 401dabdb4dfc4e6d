import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware.decide.cold_start import (
    KEPT,
    LEAST_S,
    UNLEARNED_S,
    ColdStart,
    Stage,
    Starting,
    deadline_s,
    expected_s,
    is_overdue,
    left_s,
    percentile,
    with_start,
)
from cacheaware.decide.learned import Learned


def start(schedule=1.0, pull=20.0, load=40.0, warm=8.0):
    return ColdStart(schedule=schedule, pull=pull, load=load, warm=warm)


FIVE = tuple(start(load=40.0 + i) for i in range(5))  # the slowest load took 44 s


def test_a_start_is_the_sum_of_its_stages():
    assert start().total == 69.0


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        pytest.param([], 99, None, id="nothing has no percentile"),
        pytest.param([7], 1, 7, id="of one value it is that value"),
        pytest.param([1, 2, 3, 4], 50, 2, id="the median of an even count is the lower one"),
        pytest.param(range(1, 101), 99, 99, id="the 99th of a hundred"),
        pytest.param(range(1, 11), 99, 10, id="of ten the 99th is the largest"),
    ],
)
def test_percentiles_are_those_of_the_nearest_rank(values, percent, expected):
    assert percentile(values, percent) == expected


@pytest.mark.parametrize(
    ("starts", "pod", "expected"),
    [
        pytest.param(FIVE, Starting(Stage.LOAD, 0), 66.0, id="1.5 times the slowest of few"),
        pytest.param(FIVE, Starting(Stage.SCHEDULE, 0), LEAST_S, id="never shorter than ten s"),
        pytest.param(FIVE[:4], Starting(Stage.LOAD, 0), UNLEARNED_S, id="four tell nothing"),
        pytest.param(
            FIVE[:4], Starting(Stage.LOAD, 0, budget_s=600), 600.0, id="then the startup budget"
        ),
        pytest.param(
            FIVE[:4],
            Starting(Stage.PULL, 0, budget_s=600),
            UNLEARNED_S,
            id="which is about loading alone",
        ),
        pytest.param(FIVE, Starting(Stage.PULL, 0), 30.0, id="a pull is learned"),
        pytest.param(
            FIVE, Starting(Stage.PULL, 0, new_node=True), UNLEARNED_S, id="on nodes that know it"
        ),
        pytest.param(
            FIVE, Starting(Stage.LOAD, 0, new_node=True), 66.0, id="a new node loads like others"
        ),
    ],
)
def test_each_stage_has_its_deadline(starts, pod, expected):
    assert deadline_s(starts, pod) == expected


def test_a_pod_is_overdue_when_its_stage_has_lasted_too_long():
    assert not is_overdue(FIVE, Starting(Stage.LOAD, 65.9))
    assert is_overdue(FIVE, Starting(Stage.LOAD, 66.0))


def test_the_median_start_is_known_from_five_starts_on():
    assert expected_s(FIVE[:4]) is None
    assert expected_s(FIVE) == 71.0


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(Starting(Stage.SCHEDULE, 0), 71.0, id="all stages lie ahead"),
        pytest.param(Starting(Stage.LOAD, 30), 20.0, id="the rest of loading, and warming"),
        pytest.param(Starting(Stage.WARM, 60), 0.0, id="late: any moment"),
    ],
)
def test_what_is_left_of_a_start_is_told_by_the_medians(pod, expected):
    assert left_s(FIVE, pod) == expected


def test_what_is_left_is_unknown_while_too_few_were_seen():
    assert left_s(FIVE[:4], Starting(Stage.WARM, 1)) is None


@given(st.lists(st.floats(0, 1e5), max_size=120))
def test_only_the_newest_starts_are_kept(loads):
    starts = ()
    for load in loads:
        starts = with_start(starts, start(load=load))
    assert [one.load for one in starts] == loads[-KEPT:]


@given(st.lists(st.floats(0, 1e5), min_size=5, max_size=60))
def test_a_deadline_is_never_shorter_than_the_slowest_start_but_one_in_a_hundred(loads):
    starts = tuple(start(load=load) for load in loads)
    late = sum(load > deadline_s(starts, Starting(Stage.LOAD, 0)) for load in loads)
    assert late <= len(loads) / 100


class TestFleet:
    """What the learned starts change in a decision."""

    def starting(self, make, stage, age_s, **fields):
        return make.booting("z", starting=Starting(stage, age_s), age_s=age_s, **fields)

    def fleet(self, make, pod, starts=FIVE):
        busy = make.pod("a", kv=1.0, waiting=3, running=9)
        return make.fleet([busy, pod], learned=Learned(starts=starts))

    def test_a_start_is_overdue_by_what_others_took(self, make, once):
        late = once(self.fleet(make, self.starting(make, Stage.LOAD, 70.0)))
        assert (late.overdue, late.starting, late.reason) == (1, 0, "StartOverdue")

    def test_a_slow_pull_does_not_use_up_the_time_to_load(self, make, once):
        early = once(self.fleet(make, self.starting(make, Stage.LOAD, 60.0)))
        assert (early.overdue, early.starting) == (0, 1)

    def test_while_too_few_were_seen_half_an_hour_is_patience(self, make, once):
        early = once(self.fleet(make, self.starting(make, Stage.LOAD, 70.0), FIVE[:4]))
        assert (early.overdue, early.starting) == (0, 1)

    def test_a_pod_whose_stage_is_not_known_is_judged_by_its_age(self, make, once):
        early = once(self.fleet(make, make.booting("z", age_s=1799.0)))
        late = once(self.fleet(make, make.booting("z", age_s=1800.0)))
        assert (early.overdue, late.overdue) == (0, 1)

    def test_when_the_next_pod_will_serve_is_told(self, make, once):
        told = once(self.fleet(make, self.starting(make, Stage.LOAD, 30.0)))
        assert "1 starting, the next in some 20 s" in told.message

    def test_a_pod_is_young_for_as_long_as_a_start_takes(self, make, once):
        pods = [make.idle("a"), make.idle("b", age_s=500, serving_age_s=80)]
        slow = make.fleet(pods, learned=Learned(starts=FIVE))
        assert [one.pod for one in once(slow).victims] == ["b"]
        unknown = make.fleet(pods)
        assert [one.pod for one in once(unknown).victims] == ["a"]
