"""How much faster the scanner is than prometheus_client's parser, on a page of 650 lines."""

import statistics
import time
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cacheaware_sidecar.engines import exposition, scan

LEAST_RATIO = 25


def milliseconds(work: Callable[[], object], runs: int) -> float:
    """The median; other work on the machine makes single runs slow, never fast."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def first_scan(page: bytes) -> None:
    exposition._kept_labels.cache_clear()
    exposition._kept_bound.cache_clear()
    scan(page)


def compare(page: bytes, report: Callable[[str], None]) -> float:
    text = page.decode()
    parser = milliseconds(lambda: list(text_string_to_metric_families(text)), 15)
    warm = milliseconds(lambda: scan(page), 300)
    cold = milliseconds(lambda: first_scan(page), 100)
    lines = page.count(b"\n")
    report(
        f"{lines} lines: scan {warm:.3f} ms ({cold:.3f} ms the first time), "
        f"prometheus_client {parser:.1f} ms, {parser / warm:.0f} times as long"
    )
    return parser / warm


@pytest.fixture
def report(capsys):
    def show(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")

    return show


@pytest.mark.benchmark
def test_a_page_of_vllm_scans_many_times_faster_than_it_parses(shared, report):
    page = (shared / "data" / "metrics" / "vllm-0.33.0-generated.prom").read_bytes()
    assert compare(page, report) >= LEAST_RATIO


@pytest.mark.benchmark
def test_a_page_of_hundreds_of_foreign_lines_does_too(report):
    registry = CollectorRegistry()
    Gauge("vllm:num_requests_running", "Running.", registry=registry).set(3)
    for number in range(30):
        histogram = Histogram(f"vllm:other_{number}", "Other.", ["m"], registry=registry)
        histogram.labels("m").observe(1)
    assert compare(generate_latest(registry), report) >= LEAST_RATIO
