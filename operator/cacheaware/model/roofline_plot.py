"""The roofline as a picture: the roofs of a GPU, and where each operation stands."""

import sys
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from cacheaware.model.roofline import VECTOR, Bound
from cacheaware.model.walk import Row, Walk
from cacheaware.model.work import Phase

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#555555"
"""Colours of Okabe and Ito, which people with any colour vision can tell apart."""
SMALLEST_SHARE = 0.001
"""Rows below it are not drawn."""
CLOSE = 1.6
"""Marks within this factor of each other are one."""
LEAST, MOST = 0.1, 10_000.0


def draw(found: Walk, path: Path) -> None:
    """Write the picture; the suffix of the file tells its format.

    Raises:
        ModuleNotFoundError: The extra `plot` is not installed.
        OSError: The file can't be written.
    """
    figure_of(found).savefig(path, dpi=150)


def figure_of(found: Walk) -> "Figure":
    """Intensity to the right, speed up; the size of a mark is the row's share of the time."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second, and an extra

    figure = Figure(figsize=(9, 5.6), layout="constrained")
    panel: Axes = figure.subplots()
    figure.suptitle(title(found), fontsize=11, x=0.01, ha="left")
    _roofs(panel, found)
    _marks(panel, found)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(LEAST, MOST)
    panel.set_ylim(top=4 * max(found.gpu.tflops[row.operation.dtype] for row in found.rows))
    panel.set_xlabel("arithmetic intensity (FLOPs per byte of memory traffic)")
    panel.set_ylabel("TFLOPS that the roof allows")
    panel.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    return figure


def title(found: Walk) -> str:
    """What runs where, in one line."""
    step, name = found.step, found.model.model_type or found.model.layout
    tokens = f"{step.new:,} tokens each" if step.phase is Phase.PREFILL else "one token each"
    return (
        f"{name}, {found.parameters.total / 1e9:.2f} B parameters on {found.gpu.name}: "
        f"{step.phase}, {step.batch} x {tokens} on {step.context:,} cached"
    )


def _roofs(panel: "Axes", found: Walk) -> None:
    """The slope of memory, and one ceiling for each dtype that the step uses."""
    gpu = found.gpu
    used = sorted({row.operation.dtype for row in found.rows}, key=lambda one: gpu.tflops[one])
    for dtype in used:
        peak = gpu.tflops[dtype]
        ridge = peak * 1000 / gpu.bandwidth_gb_s
        panel.plot(
            [LEAST, ridge, MOST],
            [LEAST * gpu.bandwidth_gb_s / 1000, peak, peak],
            color=GREY,
            linewidth=1.4,
            linestyle="--" if dtype == VECTOR else "-",
        )
        words = "vector units" if dtype == VECTOR else "matrix units"
        label = f"{dtype} {words}: {peak:,.4g} TFLOPS, ridge at {ridge:.3g}"
        panel.annotate(
            label,
            (MOST, peak),
            xytext=(-2, 4 if dtype == VECTOR else 16),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color=GREY,
        )
    panel.annotate(
        f"memory: {gpu.bandwidth_gb_s:,.5g} GB/s",
        (LEAST, LEAST * gpu.bandwidth_gb_s / 1000),
        xytext=(24, 4),
        textcoords="offset points",
        fontsize=8,
        color=GREY,
    )


def _marks(panel: "Axes", found: Walk) -> None:
    """A numbered mark for rows that stand close together, and a list of what each number is."""
    lines = []
    for number, rows in enumerate(neighbours(found), start=1):
        share = sum(row.share for row in rows)
        largest = max(rows, key=lambda row: row.share)
        color = BLUE if largest.bound is Bound.MEMORY else VERMILION
        x, y = _place(largest)
        panel.scatter([x], [y], s=40 + 1500 * share, color=color, alpha=0.45, lw=0)
        panel.scatter([x], [y], s=9, color=color)
        panel.annotate(
            str(number),
            (x, y),
            xytext=(6 + 18 * share**0.5, -12 - 14 * share**0.5),
            textcoords="offset points",
            fontsize=10,
            fontweight="bold",
            color=color,
        )
        names = ", ".join(dict.fromkeys(row.operation.name for row in rows))
        lines.append(f"{number}  {fill(f'{names}: {share:.1%}', 52, subsequent_indent='    ')}")
    lines.append("blue waits for memory, red for arithmetic; area: share of the time")
    panel.text(
        0.99,
        0.03,
        "\n".join(lines),
        transform=panel.transAxes,
        ha="right",
        va="bottom",
        multialignment="left",
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "#dddddd"},
    )


def neighbours(found: Walk) -> list[list[Row]]:
    """Rows that take time, from low to high intensity; those too close to tell apart together."""
    drawn = [row for row in found.rows if row.operation.flops and row.share >= SMALLEST_SHARE]
    groups: list[list[Row]] = []
    for row in sorted(drawn, key=lambda one: one.operation.intensity):
        near = groups and _are_near(groups[-1][0], row)
        groups[-1].append(row) if near else groups.append([row])
    return groups


def _are_near(one: Row, other: Row) -> bool:
    apart = zip(_place(one), _place(other), strict=True)
    return one.bound is other.bound and all(
        max(pair) <= CLOSE * max(min(pair), sys.float_info.min) for pair in apart
    )


def _place(row: Row) -> tuple[float, float]:
    """Where a row stands: FLOPs per byte, and TFLOPS under the roof."""
    operation = row.operation
    return operation.intensity, operation.flops * row.times / row.seconds / 1e12
