"""The oracle's simulations: those that miss the target end early, the cheapest good one counts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cacheaware_sim.bounds.oracle import Knowledge, OraclePolicy, OracleSettings
from cacheaware_sim.bounds.search import cheapest, ladders
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.fleet.timeline import Row
from cacheaware_sim.policies.policy import Policy

Watch = Callable[[Score, Row], None]
Play = Callable[[Policy, Watch], Score]
"""Plays the trace under a policy; at each row of the timeline it tells the score until then."""


SLACK = 1e-6
"""Of a count of requests: a share is no whole number of them."""


class MissedError(Exception):
    """So many requests have missed their targets that this run can't reach its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How the oracle came to its plan."""

    settings: OracleSettings
    target: float
    """Share of requests, 0..1."""
    reached: bool
    """False: not even the most generous plan did, and that is the one that was played."""
    runs: int
    """Simulations, those that ended early included."""

    def as_json(self) -> dict[str, Any]:
        """Stable keys."""
        return {
            "target_attainment_percent": round(100 * self.target, 6),
            "reached": self.reached,
            "runs": self.runs,
            "utilization": round(self.settings.utilization, 4),
            "smoothing_bins": self.settings.smoothing,
        }


@dataclass(frozen=True, slots=True)
class Trial:
    """One simulation."""

    score: Score
    rows: list[Row] = field(default_factory=list)


def search(known: Knowledge, target: float, requests: int, play: Play) -> tuple[Trial, Search]:
    """The oracle's cheapest run that reaches a target; where none does, its most generous one.

    Args:
        known: What it knows.
        target: Share of requests within their targets, 0..1.
        requests: Of the trace.
        play: How to simulate.
    """
    allowed = requests * (1 - target) + SLACK

    def attempt(settings: OracleSettings) -> Trial | None:
        try:
            trial = _trial(known, settings, allowed, play)
        except MissedError:
            return None
        return trial if requests - trial.score.good <= allowed else None

    found = cheapest(ladders(), lambda settings: known.plan(settings).pod_seconds, attempt)
    if found.best is not None:
        settings, trial = found.best
        return trial, Search(settings=settings, target=target, reached=True, runs=found.runs)
    settings = next(iter(ladders()))[0]
    trial = _trial(known, settings, requests, play)
    return trial, Search(settings=settings, target=target, reached=False, runs=found.runs + 1)


def _trial(known: Knowledge, settings: OracleSettings, allowed: float, play: Play) -> Trial:
    rows: list[Row] = []

    def watch(score: Score, row: Row) -> None:
        rows.append(row)
        if score.finished - score.good + score.lost > allowed:
            raise MissedError

    return Trial(play(OraclePolicy(known, settings), watch), rows)
