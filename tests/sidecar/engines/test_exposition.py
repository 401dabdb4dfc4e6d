"""The text format: names matched whole, labels in any order and spacing, odd lines and values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.engines import scan
from cacheaware_sidecar.engines.exposition import (
    Finder,
    bounds_of,
    labels_of,
    read_series,
)

RUNNING = b"vllm:num_requests_running"
FINDER = Finder([RUNNING, b"vllm:num_requests_waiting", b"up"])


def series(line: bytes):
    """What is read of the one line about running requests."""
    (rest,) = FINDER.find(line)[RUNNING]
    return read_series(rest)


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        pytest.param(
            b'{engine="0",model_name="m"} 3.0', {"engine": "0", "model_name": "m"}, 3, id="usual"
        ),
        pytest.param(b" 3", {}, 3, id="no labels"),
        pytest.param(b"{} 3", {}, 3, id="empty braces"),
        pytest.param(
            b'\t{ engine = "0" , }\t3.0 ', {"engine": "0"}, 3, id="spaces and a last comma"
        ),
        pytest.param(b'{engine="0"} 3.0\r', {"engine": "0"}, 3, id="carriage return"),
        pytest.param(b'{engine="0"} 3.0 1700000000000', {"engine": "0"}, 3, id="timestamp"),
        pytest.param(b" 3.0 1700000000000", {}, 3, id="timestamp without labels"),
        pytest.param(b'{engine="0"}3', {"engine": "0"}, 3, id="no space after the brace"),
        pytest.param(b" 3.9024848896e+010", {}, 39024848896, id="three digits of exponent"),
        pytest.param(b" +3.5E-1", {}, 0.35, id="sign and capital E"),
        pytest.param(b'{m="a\\"b\\\\c\\nd"} 1', {"m": 'a"b\\c\nd'}, 1, id="escaped"),
        pytest.param(b'{m="\\q"} 1', {"m": "\\q"}, 1, id="an escape that is none"),
        pytest.param(
            b'{m="}{ 9 #,=",n="x"} 1', {"m": "}{ 9 #,=", "n": "x"}, 1, id="syntax in a value"
        ),
        pytest.param('{m="模型"} 1'.encode(), {"m": "模型"}, 1, id="not ASCII"),
        pytest.param(b'{m="\xff"} 1', {"m": "\ufffd"}, 1, id="not UTF-8"),
        pytest.param(b'{m=""} 1', {"m": ""}, 1, id="empty value"),
        pytest.param(b'{m="x"} 1 # {trace_id="}"} 0.5 17', {"m": "x"}, 1, id="exemplar"),
        pytest.param(b'{m="x"} 1 # {trace_id="a"} 0.5', {"m": "x"}, 1, id="exemplar without time"),
        pytest.param(b" +Inf", {}, math.inf, id="infinity"),
    ],
)
def test_a_line_is_read(line, labels, value):
    assert series(RUNNING + line) == (labels, value)


def test_nan_is_a_number_of_the_format():
    _, value = series(RUNNING + b" NaN")
    assert math.isnan(value)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{engine="0"}', id="value cut off"),
        pytest.param(b'{engine="0"', id="labels cut off"),
        pytest.param(b'{engine="0', id="label cut off"),
        pytest.param(b'{engine="0"} 3.0 x', id="no timestamp"),
        pytest.param(b'{engine="0"} 3.0 1 2', id="too many numbers"),
        pytest.param(b'{engine="0"} 1_000', id="underscore"),
        pytest.param(b'{engine="0"} three', id="word"),
        pytest.param(b"{engine} 3", id="label without value"),
        pytest.param(b'{engine="0" model="m"} 3', id="no comma"),
        pytest.param(b'{9="0"} 3', id="label that begins with a digit"),
        pytest.param(b' x{engine="0"} 3', id="something before the brace"),
        pytest.param(b" ", id="name alone"),
    ],
)
def test_a_broken_line_is_not_read(line):
    assert series(RUNNING + line) is None


def test_a_name_is_matched_whole():
    page = b"""\
# HELP vllm:num_requests_running Help that names vllm:num_requests_waiting{engine="0"} 7
# TYPE vllm:num_requests_running gauge
 # vllm:num_requests_running 9
vllm:num_requests_running_total 1
vllm:num_requests_waiting_by_reason{reason="capacity"} 2
vllm:num_requests_waiting_created 1.7e9
xvllm:num_requests_waiting 3
up{x="
vllm:num_requests_waiting
up 1"""
    assert FINDER.find(page) == {b"up": [b'{x="', b" 1"]}


def test_lines_are_kept_in_order_wherever_they_stand():
    page = b'up{a="1"} 1\n' + RUNNING + b' 5\n   up{a="2"} 2'
    assert FINDER.find(page)[b"up"] == [b'{a="1"} 1', b'{a="2"} 2']


def test_long_labels_are_read_but_not_kept():
    value = b"x" * 5000
    assert labels_of(b'{a="' + value + b'"') == {"a": value.decode()}
    assert bounds_of([b'{le="0.5",a="' + value + b'"']) == [0.5]


@pytest.mark.parametrize("le", [b"", b'{le="x"', b'{le="NaN"', b"{le", b'{a="1"'])
def test_a_bucket_without_a_bound_is_an_error(le):
    with pytest.raises(ValueError, match="upper bound"):
        bounds_of([le])


@given(st.binary(max_size=400))
def test_no_bytes_make_it_raise(page):
    scan(page)


PIECES = [
    *(
        b"vllm:num_requests_running",
        b"vllm:cache_config_info",
        b"sglang:token_usage",
        b"tgi_queue_size",
    ),
    *(b"vllm:time_to_first_token_seconds_bucket", b"vllm:time_to_first_token_seconds_sum"),
    *(
        b"{",
        b"}",
        b'engine="0"',
        b'engine="1"',
        b'le="0.5"',
        b'le="+Inf"',
        b'le="x"',
        b",",
        b" ",
        b"\t",
    ),
    *(b"1", b"0.5", b"-1", b"NaN", b"+Inf", b"1e999", b"#", b" # {", b"\n", b"\r\n", b'"', b"\\"),
    *(
        b'num_gpu_blocks="None"',
        b'num_gpu_blocks="7"',
        b'block_size="0"',
        b'kv_cache_size_tokens="x"',
    ),
]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join))
def test_no_mixture_of_the_format_makes_it_raise(page):
    sample = scan(page)
    for value in (sample.running, sample.waiting, sample.usage, sample.capacity_tokens):
        assert value is None or 0 <= value < math.inf
