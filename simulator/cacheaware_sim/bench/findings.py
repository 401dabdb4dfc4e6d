"""What the page tells, from stored results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cacheaware_sim.bench.matrix import MAIN, Case, Wanted, cases
from cacheaware_sim.bench.results import Table, tables_of
from cacheaware_sim.bench.store import Store
from cacheaware_sim.bench.tuning import Choice
from cacheaware_sim.bench.workloads import R1_DAY

STANDARD_TITLE = "standard"
LISTED = (STANDARD_TITLE, R1_DAY.title)
"""Parts that are told even where nothing of them is stored."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the benchmark, and how much of it there is."""

    title: str
    stored: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that the page tells."""

    parts: tuple[Part, ...]
    tables: tuple[Table, ...]
    choices: tuple[Choice, ...]
    """Of the tuning; none: its runs are not stored."""
    pictures: str = ""
    """The folder of the pictures, from the page."""

    @property
    def main(self) -> tuple[Table, ...]:
        """The tables of the main setting."""
        return tuple(one for one in self.tables if one.setting == MAIN)

    @property
    def band(self) -> tuple[Table, ...]:
        """Those of all other settings."""
        return tuple(one for one in self.tables if one.setting != MAIN)


def findings(
    wanted: Wanted, store: Store, choices: Sequence[Choice], *, pictures: str = ""
) -> Findings:
    """What is stored of the runs that are asked for; traces that are not there have none."""
    some = [
        case
        for case in cases(wanted)
        if case.workload.generated or case.workload.path(store.data).is_file()
    ]
    return Findings(
        parts=parts_of(some, set(store.missing(some))),
        tables=tables_of(some, store),
        choices=tuple(choices),
        pictures=pictures,
    )


def parts_of(some: Iterable[Case], missing: set[Case]) -> tuple[Part, ...]:
    """The parts of these runs."""
    counts: dict[str, list[bool]] = {}
    for case in some:
        counts.setdefault(_part(case), []).append(case not in missing)
    there = {title: stored for title, stored in counts.items() if title in LISTED or any(stored)}
    others = [stored for title, stored in counts.items() if title not in there]
    parts = [Part(title, sum(stored), len(stored)) for title, stored in there.items()]
    if others:
        parts.append(Part(f"{len(others)} other settings", 0, sum(map(len, others))))
    return tuple(parts)


def _part(case: Case) -> str:
    if case.setting != MAIN:
        return case.setting.title
    return R1_DAY.title if case.workload == R1_DAY else STANDARD_TITLE
