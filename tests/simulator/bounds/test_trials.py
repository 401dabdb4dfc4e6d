import pytest

from cacheaware_sim.bounds.oracle import Knowledge
from cacheaware_sim.bounds.search import UTILIZATIONS
from cacheaware_sim.bounds.trials import search
from cacheaware_sim.bounds.work import Curves
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.fleet.timeline import Row
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.policy import Limits

REQUESTS = 1000
KNOWN = Knowledge(
    work=Curves(5.0, arrived=(50.0,) * 20, due=(50.0,) * 20),
    cold_start_s=(60.0, 10.0),
    limits=Limits(1, 1000),
)


class Stage:
    """Plays a thousand requests in a hundred rows; with fewer pods more of them miss."""

    def __init__(self, *, fewest: int = 0, least_misses: int = 0, unfinished: int = 0):
        self.fewest, self.least_misses, self.unfinished = fewest, least_misses, unfinished
        self.rows = []

    def misses(self, pods):
        return self.least_misses + max(0, self.fewest - pods)

    def play(self, policy, watch):
        self.rows.append(0)
        score = Score(LatencyTargets())
        misses = self.misses(policy.plan.replicas[0])
        score.pod_seconds["serving"] = policy.plan.pod_seconds
        score.requests = REQUESTS
        for n in range(1, 101):
            score.finished = n * 10 - (self.unfinished if n == 100 else 0)
            score.good = score.finished - round(misses * n / 100)
            self.rows[-1] += 1
            watch(score, Row(5.0 * n, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, None))
        return score


def test_the_cheapest_plan_that_keeps_the_target_is_played():
    # 10 of 1,000 may miss: 40 pods for 50 are too few by 10
    stage = Stage(fewest=50)

    trial, how = search(KNOWN, 0.99, REQUESTS, stage.play)

    assert (trial.score.good, trial.score.attainment) == (990, 0.99)
    assert (how.reached, how.runs) == (True, len(stage.rows))
    assert trial.score.total_pod_seconds == 40 * 100
    assert len(trial.rows) == 100


def test_a_run_that_can_not_reach_the_target_any_more_ends_early():
    stage = Stage(fewest=120)

    search(KNOWN, 0.99, REQUESTS, stage.play)

    # 10 pods miss 110: the eleventh one is seen in the tenth row
    assert min(stage.rows) <= 11
    assert max(stage.rows) == 100


def test_requests_that_never_finished_count_as_missed():
    trial, how = search(KNOWN, 0.99, REQUESTS, Stage(unfinished=11).play)
    assert not how.reached

    trial, how = search(KNOWN, 0.99, REQUESTS, Stage(unfinished=10).play)
    assert how.reached
    assert trial.score.attainment == 0.99


def test_where_no_plan_reaches_the_target_the_most_generous_one_is_played_to_its_end():
    stage = Stage(least_misses=500)

    trial, how = search(KNOWN, 0.99, REQUESTS, stage.play)

    assert (how.reached, how.settings.utilization) == (False, UTILIZATIONS[0])
    assert how.runs == len(stage.rows)
    assert (trial.score.attainment, len(trial.rows)) == (0.5, 100)


@pytest.mark.parametrize(("target", "allowed"), [(1.0, 0), (0.999, 1), (0.9, 100)])
def test_a_target_allows_so_many_misses(target, allowed):
    assert search(KNOWN, target, REQUESTS, Stage(least_misses=allowed).play)[1].reached
    assert not search(KNOWN, target, REQUESTS, Stage(least_misses=allowed + 1).play)[1].reached


def test_a_search_is_told_in_the_words_of_the_json():
    _, how = search(KNOWN, 0.99, REQUESTS, Stage().play)

    assert how.as_json() == {
        "target_attainment_percent": 99,
        "reached": True,
        "runs": how.runs,
        "utilization": pytest.approx(2.0, rel=0.01),
        "smoothing_bins": 1,
    }
