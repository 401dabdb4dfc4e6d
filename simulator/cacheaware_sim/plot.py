"""A run as a picture: demand, replicas, KV use and time to first token over one time axis.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from cacheaware_sim.fleet.timeline import Row
from cacheaware_sim.run_result import RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, SKY, ORANGE, VERMILION, GREEN, PURPLE = (
    "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7",
)  # fmt: skip
GREY = "#555555"
STAGES = (
    # field, colour, hatch: told apart in print without colours, too
    ("serving", SKY, ""),
    ("cordoned", ORANGE, "..."),
    ("terminating", VERMILION, "xxx"),
    ("starting", GREEN, "///"),
)
BINS = 240
"""Demand is shown as the mean of bins: the timeline's 5 s are noise."""
LONG_S = 3 * 3600.0
"""From here on time is shown in hours."""
LEAST_TTFT_S = 0.01


@dataclass(frozen=True, slots=True)
class Binned:
    """Means over equal parts of the run; a time is the middle of its part."""

    at_s: list[float]
    values: list[float]


def binned(rows: Sequence[Row], field: str, bins: int = BINS) -> Binned:
    """A field as means of at most `bins` parts; unknown values are left out.

    The rows of a run are evenly spaced.
    """
    width = -(-len(rows) // bins) or 1
    parts = groupby(enumerate(rows), key=lambda one: one[0] // width)
    at_s: list[float] = []
    values: list[float] = []
    for _, part in parts:
        known = [(row.at_s, value) for _, row in part if (value := getattr(row, field)) is not None]
        if known:
            at_s.append(fmean(at for at, _ in known))
            values.append(fmean(value for _, value in known))
    return Binned(at_s, values)


def draw(rows: Sequence[Row], result: RunResult, path: Path) -> None:
    """Write the picture; the suffix of the file tells its format.

    Raises:
        ModuleNotFoundError: The extra `plot` is not installed.
        OSError: The file can't be written.
    """
    figure_of(rows, result).savefig(path, dpi=150)


def figure_of(rows: Sequence[Row], result: RunResult) -> "Figure":
    """Four panels in a column, all over the same time."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second, and an extra

    unit, per = ("h", 3600.0) if result.span_s > LONG_S else ("min", 60.0)
    figure = Figure(figsize=(9, 9.5), layout="constrained")
    panels: Sequence[Axes] = figure.subplots(
        4, 1, sharex=True, gridspec_kw={"height_ratios": (2, 3, 2, 2)}
    )
    figure.suptitle(title(result), fontsize=11, x=0.01, ha="left")
    _demand(panels[0], rows, per)
    _replicas(panels[1], rows, per)
    _kv(panels[2], rows, per)
    _ttft(panels[3], rows, per, result.spec.slo_ttft_ms / 1e3)
    for panel in panels:
        panel.grid(visible=True, color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlim(0, result.span_s / per)
    panels[-1].set_xlabel(f"time ({unit})")
    figure.align_ylabels(panels)
    return figure


def title(result: RunResult) -> str:
    """What was run, and what came of it, in two lines."""
    spec, score = result.spec, result.score
    scale = f" x{spec.scale:g}" if spec.scale != 1 else ""
    met = f"{100 * score.attainment:.2f} % within {spec.slo_ttft_ms:g} ms to the first token and "
    met += f"{spec.slo_tpot_ms:g} ms per token, {result.gpu_hours:.2f} GPU-hours, {score.lost} lost"
    run = f"{spec.policy} on {spec.trace.name}{scale}, {spec.profile().name}"
    return f"{run}, cold start {spec.cold_start_s:g} s, seed {spec.seed}\n{met}"


def _demand(panel: "Axes", rows: Sequence[Row], per: float) -> None:
    requests, tokens = binned(rows, "requests_per_s"), binned(rows, "tokens_per_s")
    panel.plot(_times(requests, per), requests.values, color=BLUE, linewidth=1.2)
    panel.set_ylabel("requests/s", color=BLUE)
    panel.set_ylim(bottom=0)
    beside = panel.twinx()
    thousands = [value / 1e3 for value in tokens.values]
    beside.plot(_times(tokens, per), thousands, color=VERMILION, linewidth=1, linestyle="--")
    beside.set_ylabel("1,000 tokens/s", color=VERMILION)
    beside.set_ylim(bottom=0)
    beside.spines[["top", "left"]].set_visible(False)
    panel.set_title("demand: requests that came, and their prompt and output tokens", **_HEAD)


def _replicas(panel: "Axes", rows: Sequence[Row], per: float) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - as above

    times = [row.at_s / per for row in rows]
    floor = [0] * len(rows)
    for field, color, hatch in STAGES:
        counts = [getattr(row, field) for row in rows]
        if not any(counts):
            continue
        top = [below + count for below, count in zip(floor, counts, strict=True)]
        panel.fill_between(
            times, floor, top, step="post", label=field,
            facecolor=color, hatch=hatch, edgecolor="white" if hatch else color, linewidth=0,
        )  # fmt: skip
        floor = top
    wanted = [row.replicas for row in rows]
    panel.step(times, wanted, where="post", color="black", linewidth=1, label="asked for")
    panel.set_ylim(0, 1.2 * max([1, *floor, *wanted]))
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_ylabel("pods")
    panel.set_title("replicas by what they do", **_HEAD)
    panel.legend(loc="upper right", ncols=5, fontsize=8, frameon=False)


def _kv(panel: "Axes", rows: Sequence[Row], per: float) -> None:
    usage = binned(rows, "kv_usage")
    panel.plot(
        _times(usage, per), [100 * value for value in usage.values], color=BLUE, linewidth=1.2
    )
    panel.set_ylim(0, 105)
    panel.set_ylabel("KV cache in use (%)")
    panel.set_title("KV cache, mean over the pods that serve", **_HEAD)


def _ttft(panel: "Axes", rows: Sequence[Row], per: float, target_s: float) -> None:
    known = [(row.at_s / per, row.ttft_p90_s) for row in rows if row.ttft_p90_s is not None]
    values = [max(LEAST_TTFT_S, value) for _, value in known]
    panel.plot([at for at, _ in known], values, color=BLUE, linewidth=0.9, label="p90 of 5 s")
    panel.axhline(target_s, color=VERMILION, linewidth=1.2, linestyle="--", label="target")
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(_seconds)
    panel.set_ylabel("TTFT (s)")
    panel.set_title("time to the first token, from when the client sent its request", **_HEAD)
    panel.legend(loc="upper right", ncols=2, fontsize=8, frameon=False)


_HEAD: dict[str, Any] = {"loc": "left", "fontsize": 9, "color": GREY}


def _seconds(value: float, _position: float) -> str:
    return f"{value:g}"


def _times(some: Binned, per: float) -> list[float]:
    return [at / per for at in some.at_s]
