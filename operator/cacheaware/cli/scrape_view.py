"""What `cacheaware scrape` shows: the JSON of one page, and the table made of it."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import typer

from cacheaware.cli.output import print_table
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.engines.rates import ratio
from cacheaware_sidecar.kv import Geometry
from cacheaware_sidecar.state import kv_state
from cacheaware_sidecar.state_json import histogram_to_json

COUNTERS = (
    "prompt_tokens",
    "generation_tokens",
    "requests",
    "preemptions",
    "prefix_queries",
    "prefix_hits",
)
COLUMNS = (
    "page",
    "engine",
    "version",
    "running",
    "waiting",
    "usage",
    "tokens",
    "capacity",
    "bytes",
)
LATENCIES = {
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "e2e_s": "whole request",
    "queue_s": "in the queue",
}
UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def report_of(
    source: str, sample: EngineSample, geometry: Geometry | None, notes: Iterable[str]
) -> dict[str, Any]:
    """One page in the words of the sidecar's state, with what only a page tells."""
    histograms = (
        ("ttft_s", sample.ttft),
        ("tpot_s", sample.tpot),
        ("e2e_s", sample.e2e),
        ("queue_s", sample.queue),
    )
    return {
        "source": source,
        "engine": sample.engine,
        "version": sample.version,
        "models": list(sample.models),
        "engines": sample.engines,
        "running": sample.running,
        "waiting": sample.waiting,
        "waiting_by_reason": dict(sample.waiting_by_reason) or None,
        "kv": {
            **asdict(kv_state(sample, geometry)),
            "num_blocks": sample.num_blocks,
            "dtype": sample.kv_dtype,
        },
        "prefix_hit_ratio": sample.prefix_hit_ratio,
        "counters": {name: getattr(sample, name) for name in COUNTERS},
        "latency": {name: each and histogram_to_json(each) for name, each in histograms},
        "started_at": sample.started_at,
        "problems": [*sample.problems, *notes],
    }


def print_reports(reports: list[dict[str, Any]]) -> None:
    """A block of lines for one page, a row each for several; the problems below."""
    if len(reports) == 1 and reports[0]["engine"] is None:
        typer.echo(f"{reports[0]['source']}: nothing that could be read")
    elif len(reports) == 1:
        print_table(("", reports[0]["source"]), _lines(reports[0]))
    elif reports:
        print_table(COLUMNS, [_row(report) for report in reports])
    for report in reports:
        for problem in report["problems"]:
            typer.echo(f"{report['source']}: {problem}" if len(reports) > 1 else f"! {problem}")


def _row(report: dict[str, Any]) -> list[Any]:
    kv = report["kv"]
    return [
        report["source"],
        report["engine"],
        report["version"],
        report["running"],
        report["waiting"],
        percent(kv["usage"]),
        count(kv["used_tokens"]),
        count(kv["capacity_tokens"]),
        bytes_of(kv),
    ]


def _lines(report: dict[str, Any]) -> list[tuple[str, Any]]:
    kv, counters, latency = report["kv"], report["counters"], report["latency"]
    reasons = report["waiting_by_reason"] or {}
    return [
        ("engine", " ".join(filter(None, (report["engine"], report["version"]))) or None),
        ("models", ", ".join(report["models"]) or None),
        ("engines", report["engines"]),
        ("running", report["running"]),
        ("waiting", report["waiting"]),
        *((f"  {reason}", count) for reason, count in reasons.items()),
        ("KV usage", percent(kv["usage"])),
        ("  fullest engine", percent(kv["usage_max"])),
        ("KV tokens", pair(count(kv["used_tokens"]), count(kv["capacity_tokens"]))),
        ("KV bytes", pair(size(kv["used_bytes"]), bytes_of(kv))),
        ("KV blocks", blocks_of(kv)),
        ("page of one layer", size(kv["page_bytes"])),
        ("KV dtype", kv["dtype"]),
        ("prefix cache hits", hits_of(report)),
        *((name.replace("_", " "), counters[name]) for name in COUNTERS[:4]),
        *((LATENCIES[name], mean_of(histogram)) for name, histogram in latency.items()),
    ]


def percent(ratio: float | None) -> str | None:
    """0..1 as a percentage."""
    return None if ratio is None else f"{ratio:.1%}"


def count(number: float | None) -> str:
    """A whole number, a dash where unknown."""
    return "-" if number is None else f"{number:,.0f}"


def size(number: float | None) -> str:
    """Bytes in the unit that suits them."""
    if number is None:
        return "-"
    unit = next((name for name, least in UNITS if number >= least), "B")
    return f"{number / dict(UNITS).get(unit, 1):,.4g} {unit}"


def bytes_of(kv: dict[str, Any]) -> str:
    """The capacity, and whether it is an estimate."""
    return size(kv["capacity_bytes"]) + (" (estimated)" if kv["estimated"] else "")


def blocks_of(kv: dict[str, Any]) -> str:
    """Blocks and the tokens of each."""
    block_size = count(kv["block_size"])
    return pair(
        count(kv["num_blocks"]), block_size if block_size == "-" else f"{block_size} tokens"
    )


def pair(part: str, whole: str) -> str:
    """One of the other; a single dash where both are unknown."""
    return part if part == whole == "-" else f"{part} of {whole}"


def hits_of(report: dict[str, Any]) -> str | None:
    """The share of prompt tokens found in the prefix cache since the engine's start."""
    hits, queries = report["counters"]["prefix_hits"], report["counters"]["prefix_queries"]
    if hits is None or queries is None:
        return percent(report["prefix_hit_ratio"])
    return percent(ratio(hits, queries))


def mean_of(histogram: dict[str, Any] | None) -> str | None:
    """The mean in ms, and of how many."""
    mean = ratio(histogram["sum"], histogram["count"]) if histogram else None
    if histogram is None or mean is None:
        return None
    return f"{mean * 1000:,.4g} ms, mean of {histogram['count']:,.0f}"
