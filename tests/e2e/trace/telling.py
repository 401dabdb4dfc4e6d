"""What a comparison tells: a table, a file, a picture."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tests.e2e.trace.agreement import Agreement, Moment

FOLDER = Path(__file__).parents[3] / "build" / "trace"
BLUE, VERMILION = "#0072B2", "#D55E00"
PANELS = (
    ("replicas", "replicas asked for"),
    ("serving", "pods that serve"),
    ("running", "requests running"),
    ("waiting", "requests waiting"),
)


def client_figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the load generator's result says, under the names of `simulated.figures`."""
    return {
        "sent": result["sent"],
        "lost": result["failed_total"] + result["not_sent"],
        "attainment_percent": result["attainment_percent"],
        "ttft_p50_s": result["ttft_s"]["p50"],
        "ttft_p90_s": result["ttft_s"]["p90"],
        "tpot_p50_s": result["tpot_s"]["p50"],
    }


def table(
    found: Agreement,
    cluster: Mapping[str, Any],
    simulator: Mapping[str, Any],
    spread: tuple[float, float],
) -> str:
    """Both side by side.

    Args:
        found: The comparison of the timelines.
        cluster: What clients saw on the cluster.
        simulator: What they saw in the simulator.
        spread: Least and most mean replicas of the simulator's seeds.
    """
    rows = [("", "cluster", "simulator", "apart")]
    for name in ("replicas", "pod_seconds", "serving", "running", "waiting"):
        pair = getattr(found, name)
        label = name if name == "pod_seconds" else f"mean {name}"
        rows.append((label, f"{pair.cluster:.4g}", f"{pair.simulator:.4g}", apart(*_both(pair))))
    for label, pair in (("first growth, s", found.grew_s), ("first shrink, s", found.shrank_s)):
        rows.append((label, f"{pair.cluster:g}", f"{pair.simulator:g}", ""))
    for name, value in cluster.items():
        other = simulator[name]
        rows.append((name, f"{value:.4g}", f"{other:.4g}", apart(value, other)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    alike = (
        f"replicas within one in {found.within_one:.0%} of the time, the same in {found.same:.0%}"
    )
    return "\n".join(
        [
            *(_line(row, widths) for row in rows),
            f"{alike}, with the cluster {found.shift_s:g} s later",
            f"mean replicas of the simulator's seeds: {spread[0]:.2f} to {spread[1]:.2f}",
        ]
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (f"{text:>{width}}" for text, width in zip(row, widths, strict=True))
    return "  ".join([first, *others])


def _both(pair: Any) -> tuple[float, float]:
    return pair.cluster, pair.simulator


def apart(value: float, other: float) -> str:
    """The distance in per cent of the other; nothing where that is 0."""
    return f"{value / other - 1:+.1%}" if other else ""


def write(path: Path, cluster: Sequence[Moment], simulator: Sequence[Moment]) -> None:
    """Both timelines on one grid as CSV; unknown is empty."""
    names = [one.name for one in fields(Moment)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["of", *names])
        for of, moments in (("cluster", cluster), ("simulator", simulator)):
            for one in moments:
                writer.writerow([of, *(getattr(one, name) for name in names)])


def draw(path: Path, cluster: Sequence[Moment], simulator: Sequence[Moment]) -> None:
    """Both timelines over each other, a panel for each figure."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9, 9), layout="constrained")
    panels = figure.subplots(len(PANELS), 1, sharex=True)
    figure.suptitle("ten minutes of conversations: real cluster and simulator", x=0.01, ha="left")
    for panel, (name, title) in zip(panels, PANELS, strict=True):
        for moments, color, style, label in (
            (simulator, VERMILION, "--", "simulator"),
            (cluster, BLUE, "-", "cluster"),
        ):
            known = [one for one in moments if getattr(one, name) is not None]
            panel.step(
                [one.at_s / 60 for one in known],
                [getattr(one, name) for one in known],
                where="post", color=color, linestyle=style, linewidth=1.3, label=label,
            )  # fmt: skip
        panel.set_title(title, loc="left", fontsize=9)
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(visible=True, color="#dddddd", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(loc="upper right", ncols=2, fontsize=8, frameon=False)
    panels[-1].set_xlabel("time (min)")
    figure.savefig(path, dpi=150)
