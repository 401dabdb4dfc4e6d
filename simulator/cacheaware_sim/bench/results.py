"""Stored results as the report needs them: by workload, setting and policy, over seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from cacheaware_sim.bench.bootstrap import Field
from cacheaware_sim.bench.fronts import Point
from cacheaware_sim.bench.matrix import BOUND, ORACLE, OURS, Case, Setting
from cacheaware_sim.bench.store import Store
from cacheaware_sim.bench.workloads import Workload

Result = Mapping[str, Any]
"""The JSON of a run."""
CONSTANTS = "constant-"


@dataclass(frozen=True, slots=True)
class Row:
    """A policy in one variant, over its seeds."""

    policy: str
    variant: str
    results: tuple[Result, ...]
    """One a seed, in their order."""

    @property
    def name(self) -> str:
        """The policy, and its variant where it is not as shipped."""
        return self.policy if self.variant == "default" else f"{self.policy} {self.variant}"

    @property
    def is_constant(self) -> bool:
        """Whether it is part of the front."""
        return self.policy.startswith(CONSTANTS)

    @property
    def points(self) -> tuple[Point, ...]:
        """One a seed."""
        return tuple(point_of(result) for result in self.results)

    @property
    def point(self) -> Point:
        """The mean over seeds."""
        return Point(self.mean("attainment_percent"), self.mean("gpu_hours"))

    @property
    def attainment_spread(self) -> float | None:
        """The standard deviation over seeds, percentage points; None of one."""
        return stdev(one.attainment for one in self.points) if len(self.results) > 1 else None

    def mean(self, *keys: str) -> float:
        """Of a number of the results, over seeds; those that have none are left out.

        Raises:
            ValueError: None has it.
        """
        found = self.known(*keys)
        if not found:
            raise ValueError(f"{'.'.join(keys)}: must be in one of the results of {self.name}")
        return fmean(found)

    def mean_or_none(self, *keys: str) -> float | None:
        """The same; None where none has it."""
        found = self.known(*keys)
        return fmean(found) if found else None

    def known(self, *keys: str) -> list[float]:
        """The number in each of the results that has it."""
        found = []
        for result in self.results:
            value: Any = result
            for key in keys:
                value = value[key]
            if value is not None:
                found.append(float(value))
        return found


@dataclass(frozen=True, slots=True)
class Table:
    """All of one workload in one setting."""

    workload: Workload
    setting: Setting
    ours: Row | None
    constants: tuple[Row, ...]
    """From few pods to many."""
    peers: tuple[Row, ...]
    oracle: tuple[Result, ...]
    bound: Result | None

    @property
    def front(self) -> tuple[Point, ...]:
        """What constants reach, as they are."""
        return tuple(row.point for row in self.constants)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Ours, then peers, then constants."""
        return (*((self.ours,) if self.ours else ()), *self.peers, *self.constants)

    @property
    def field(self) -> Field | None:
        """For the bootstrap; None without ours."""
        if self.ours is None:
            return None
        return Field(
            ours=self.ours.points,
            peers={row.name: row.points for row in self.peers},
            constants={row.name: row.points for row in self.constants},
        )

    @property
    def oracle_front(self) -> tuple[Point, ...]:
        """What the oracle reached where it reached its target."""
        return tuple(point_of(one) for one in self.oracle if one["oracle"]["reached"])


def point_of(result: Result) -> Point:
    """Of one run."""
    return Point(result["attainment_percent"], result["gpu_hours"])


def tables_of(cases: Iterable[Case], store: Store) -> tuple[Table, ...]:
    """One a workload and setting, in the order of the cases, of what is stored of them."""
    groups: dict[tuple[Workload, Setting], list[tuple[Case, Result]]] = {}
    for case in cases:
        if (result := store.read(case)) is not None:
            groups.setdefault((case.workload, case.setting), []).append((case, result))
    return tuple(table_of(load, setting, runs) for (load, setting), runs in groups.items())


def table_of(load: Workload, setting: Setting, runs: Iterable[tuple[Case, Result]]) -> Table:
    """One workload in one setting, from its runs."""
    by_name: dict[tuple[str, str], list[tuple[int, Result]]] = {}
    oracle: list[Result] = []
    bound: Result | None = None
    for case, result in runs:
        if case.policy == ORACLE:
            oracle.append(result)
        elif case.policy == BOUND:
            bound = result
        else:
            by_name.setdefault((case.policy, case.variant), []).append((case.seed, result))
    rows = [
        Row(*name, tuple(result for _, result in sorted(found, key=lambda one: one[0])))
        for name, found in by_name.items()
    ]
    constants = [row for row in rows if row.is_constant]
    return Table(
        workload=load,
        setting=setting,
        ours=next((row for row in rows if row.policy == OURS), None),
        constants=tuple(sorted(constants, key=lambda row: row.point.gpu_hours)),
        peers=tuple(row for row in rows if row.policy != OURS and not row.is_constant),
        oracle=tuple(oracle),
        bound=bound,
    )
