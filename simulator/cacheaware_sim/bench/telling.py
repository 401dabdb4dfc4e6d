"""What is won and lost, in sentences that are computed."""

from collections.abc import Iterable, Iterator, Sequence

from cacheaware_sim.bench.fronts import Point
from cacheaware_sim.bench.judge import ON_FRONT, Verdict, verdict
from cacheaware_sim.bench.markdown import UNKNOWN, listed, number, percent
from cacheaware_sim.bench.matrix import OURS
from cacheaware_sim.bench.results import Row, Table


def told(one: Table) -> str:
    """A paragraph about ours on a workload."""
    found = verdict(one)
    if found is None:
        return f"**{one.workload.title}**: no run of {OURS} is stored."
    return f"**{one.workload.title}.** " + " ".join(_sentences(one, found))


def attainment(row: Row) -> str:
    """The mean, and its deviation over seeds where there are several."""
    spread = row.attainment_spread
    return f"{row.point.attainment:.2f}" + ("" if spread is None else f" ± {spread:.2f}")


def against(found: Verdict) -> str:
    """The ratio to the best peer, and who that is."""
    if found.ratio is None:
        return UNKNOWN
    name = "no peer reaches it; the front" if found.against_front else found.ratio.against
    return f"{found.ratio.value:.3f} ({name})"


def _sentences(one: Table, found: Verdict) -> Iterator[str]:
    yield f"{_point(found.ours.point)} GPU-hours, {_beside_front(found, one.front)}."
    if found.beaten_by:
        yield f"**Lost** to {listed(_stands(found.beaten_by))}: as much for less."
    others = [row for row in found.left_of_us if row not in found.beaten_by]
    if others:
        yield f"Further left of the front, at other attainments: {listed(_stands(others))}."
    if not found.beaten_by and not others:
        yield "No peer is left of it."
    if found.against_front:
        yield "No peer comes up to its attainment."
    elif found.ratio is not None and found.ratio.value != 1:
        apart = percent(abs(100 * (1 / found.ratio.value - 1))).lstrip("+")
        more = "more" if found.ratio.value < 1 else "less"
        yield f"The best peer that comes up to it, {found.ratio.against}, pays {apart} {more}."
    yield from _levels(one, found)
    if found.lost_to_scale_down:
        yield f"**{number(found.lost_to_scale_down, 0)} requests were cut by its scaling down.**"


def _levels(one: Table, found: Verdict) -> Iterator[str]:
    reached = found.ours.point.attainment
    missed = [f"{level:g} %" for level in one.workload.levels if reached < level]
    if missed:
        yield f"**It does not reach {listed(missed)}.**"


def _beside_front(found: Verdict, front: Sequence[Point]) -> str:
    right = found.right_percent
    if right is None:
        most = max((one.attainment for one in front), default=0.0)
        than = "more" if found.ours.point.attainment > most else "less"
        return f"which is {than} than any constant number of pods attains that was tried"
    if abs(right) < ON_FRONT:
        return f"on the front of constant N ({percent(right)})"
    side = "**right of**" if right > 0 else "left of"
    return f"{percent(abs(right)).lstrip('+')} {side} the front of constant N"


def _stands(rows: Iterable[Row]) -> list[str]:
    return [f"{row.name} ({_point(row.point)})" for row in rows]


def _point(point: Point) -> str:
    return f"{number(point.attainment)} % at {number(point.gpu_hours)}"
