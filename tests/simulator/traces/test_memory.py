"""Memory does not grow with the length of a trace."""

import json
import tracemalloc
from collections import deque
from datetime import datetime, timedelta

import pytest

from cacheaware_sim.traces import trace as trace_module
from cacheaware_sim.traces.formats import open_trace
from cacheaware_sim.traces.generate import generate
from cacheaware_sim.traces.reshape import between, scaled, stretched, thinned

START = datetime(2024, 5, 10)  # noqa: DTZ001 - as Azure writes it


def azure(number):
    return f"{START + timedelta(seconds=number / 9)},1{number % 99},{1 + number % 77}\n"


def servegen(number):
    return f"{number / 9:.3f},1{number % 99},{1 + number % 77},{number % 5}\n"


def log(number):
    row = {"created": 1.7e9 + number / 9, "user": f"u{number}"}
    return json.dumps(row | {"usage": {"prompt_tokens": 5, "completion_tokens": 6}}) + "\n"


def mooncake(number):
    row = {"timestamp": number // 30 * 3000, "input_length": 2000, "output_length": 6}
    return json.dumps(row | {"hash_ids": list(range(number * 4, number * 4 + 4))}) + "\n"


BUFFERS = 300_000
"""Bytes of buffers that a short trace does not fill; 9,000 held rows would be 2,000,000."""
HEADERS = {
    azure: "TIMESTAMP,ContextTokens,GeneratedTokens\n",
    servegen: "arrived_at,input_tokens,output_tokens,client\n",
}


def peak_of(requests):
    """Bytes at most while the requests are taken one by one."""
    tracemalloc.start()
    try:
        deque(requests, maxlen=0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def small_window(monkeypatch):
    """Fewer rows held for their order, so that a file need not be huge to be long."""
    monkeypatch.setattr(trace_module.in_order, "__defaults__", (trace_module.ORDER_WINDOW // 64,))


@pytest.mark.parametrize("ending", ["", ".gz"], ids=["plain", "gzip"])
@pytest.mark.parametrize("row", [azure, servegen, log, mooncake])
def test_a_file_of_four_times_the_length_needs_no_more_memory(written, small_window, row, ending):
    peaks = []
    for rows in (3000, 12_000):
        text = HEADERS.get(row, "") + "".join(map(row, range(rows)))
        path = written(text, f"{rows}{ending}")
        del text
        peaks.append(peak_of(open_trace(path)))
    short, long = peaks
    assert long < short * 1.25 + BUFFERS


@pytest.mark.parametrize(
    "reshape",
    [
        lambda trace: trace,
        lambda trace: scaled(trace, 3.5),
        lambda trace: stretched(trace, 2.5, window_s=60),
        lambda trace: thinned(trace, 0.5),
        lambda trace: between(trace, 100),
    ],
    ids=["generated", "scaled", "stretched", "thinned", "between"],
)
def test_eight_times_the_time_needs_no_more_memory(reshape):
    short, long = (peak_of(reshape(generate("steady", seconds))) for seconds in (600, 4800))
    assert long < short * 1.25 + BUFFERS, "all of it would be 10,000,000"
