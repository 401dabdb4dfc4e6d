"""The cost-attainment front of a workload as a picture.

Up is better, left is cheaper. Attainment is drawn by its misses, on a logarithmic axis: from 99 to
99.9 % is as far as from 90 to 99. Colours as in `plot`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cacheaware_sim.bench.fronts import Point, front_of
from cacheaware_sim.bench.results import Row, Table
from cacheaware_sim.plot import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from cacheaware_sim.policies.registry import PEERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST = 40.0
MOST = 99.99
"""Per cent of requests: the axis ends there, and what is better is drawn there."""
TICKS = (40, 60, 80, 90, 95, 98, 99, 99.5, 99.9, 99.99)
COLORS = (BLUE, SKY, ORANGE, GREEN, PURPLE)
MARKERS = "os^"


def draw_front(table: Table, path: Path) -> None:
    """Write the picture of a workload.

    Raises:
        ModuleNotFoundError: The extra `plot` is not installed.
        OSError: The file can't be written.
    """
    figure_of(table).savefig(path, dpi=90)


def misses(attainment: float) -> float:
    """Per cent of requests that missed, as far as the axis goes."""
    return max(100 - MOST, 100 - attainment)


def figure_of(table: Table) -> "Figure":
    """Constants as a line, peers hollow as shipped and filled when tuned, ours as a star."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second, and an extra

    figure = Figure(figsize=(9, 5.2), layout="constrained")
    panel: Axes = figure.subplots()
    _constants(panel, table.constants)
    _hindsight(panel, table.oracle_front)
    for row in table.peers:
        _peer(panel, row)
    if table.ours is not None:
        panel.plot(
            [table.ours.point.gpu_hours], [misses(table.ours.point.attainment)], "*",
            color=VERMILION, markersize=15, markeredgecolor="white", label="cacheaware", zorder=5,
        )  # fmt: skip
    _axes(panel, table)
    hidden = sum(row.point.attainment < LEAST for row in table.rows)
    if hidden:
        panel.annotate(
            f"{hidden} under {LEAST:g} % not shown", (0.99, 0.01), xycoords="axes fraction",
            ha="right", va="bottom", fontsize=8, color=GREY,
        )  # fmt: skip
    return figure


def _constants(panel: "Axes", rows: Sequence[Row]) -> None:
    points = [row.point for row in rows]
    panel.plot(
        [one.gpu_hours for one in points], [misses(one.attainment) for one in points],
        color="black", linewidth=1.4, marker=".", label="constant N", zorder=3,
    )  # fmt: skip
    for row in rows:
        if row.point.attainment >= LEAST:
            panel.annotate(
                row.policy.removeprefix("constant-"),
                (row.point.gpu_hours, misses(row.point.attainment)),
                xytext=(5, -9), textcoords="offset points", fontsize=7,
            )  # fmt: skip


def _hindsight(panel: "Axes", oracle: Sequence[Point]) -> None:
    points = front_of(oracle)
    if points:
        panel.plot(
            [one.gpu_hours for one in points], [misses(one.attainment) for one in points],
            color=GREY, linewidth=1, linestyle="--", marker="D", markersize=4,
            label="oracle", zorder=2,
        )  # fmt: skip


def _peer(panel: "Axes", row: Row) -> None:
    number = list(PEERS).index(row.policy)
    color, marker = COLORS[number % len(COLORS)], MARKERS[number // len(COLORS) % len(MARKERS)]
    tuned = row.variant != "default"
    if row.point.attainment < LEAST:
        return
    panel.plot(
        [row.point.gpu_hours], [misses(row.point.attainment)], marker, color=color, markersize=7,
        markerfacecolor=color if tuned else "none", label=row.name, zorder=4,
    )  # fmt: skip


def _axes(panel: "Axes", table: Table) -> None:
    shown = [row.point.gpu_hours for row in table.rows if row.point.attainment >= LEAST]
    if shown:
        panel.set_xlim(0.8 * min(shown), 1.25 * max(shown))
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_ylim(100 - LEAST, 0.8 * (100 - MOST))
    panel.set_yticks([100 - tick for tick in TICKS], [f"{tick:g}" for tick in TICKS], minor=False)
    panel.set_yticks([], minor=True)
    panel.xaxis.set_major_formatter(_plain)
    panel.xaxis.set_minor_formatter(_plain)
    panel.tick_params(axis="x", which="both", labelsize=8)
    panel.set_xlabel("GPU-hours")
    panel.set_ylabel("requests within their targets (%)")
    panel.set_title(
        f"{table.workload.title}: {table.setting.title}; left is cheaper", loc="left", fontsize=9,
        color=GREY,
    )  # fmt: skip
    panel.grid(visible=True, color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False)


def _plain(value: float, _position: float) -> str:
    return f"{value:g}"
