"""Bad input gives one line: file, line, field, value, what is allowed."""

import gzip
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cacheaware_sim.traces import mooncake
from cacheaware_sim.traces.formats import FORMATS, open_trace
from cacheaware_sim.traces.trace import TraceError, TraceRequest, in_order

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
SERVEGEN = "arrived_at,input_tokens,output_tokens,client\n"
TOKENS = "must be a whole number from 1 to 10,000,000"
SCENARIO = """profile: poisson
rate: 2
max_seconds: 5
data: {prompt_tokens: 5, output_tokens: 6}
"""
GOOD = '{"at": 1, "prompt_tokens": 1, "completion_tokens": 1}\n'


def log(at="1", prompt="1", completion="1", rest=""):
    return f'{{"at": {at}, "prompt_tokens": {prompt}, "completion_tokens": {completion}{rest}}}'


def cake(at="0", tokens="600", output="1", ids="[1, 2]"):
    return (
        f'{{"timestamp": {at}, "input_length": {tokens}, '
        f'"output_length": {output}, "hash_ids": {ids}}}'
    )


def error(path, **options):
    with pytest.raises(TraceError) as caught:
        for _ in open_trace(path, **options):
            pass
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text.removeprefix(str(path))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("", ": empty: must be a CSV with", id="empty"),
        pytest.param("\n\n", ":1: content '': must be a CSV with", id="blank"),
        pytest.param(
            "# words\n" * 1001 + "load:\n", ":1: content '': must be a CSV with", id="comments"
        ),
        pytest.param(AZURE, ": holds no requests: must hold at least one", id="header only"),
        pytest.param("a,b\n1,2\n", ":1: content 'a,b': must be a CSV with", id="other header"),
        pytest.param(b"PK\3\4\0\0", ":1: binary data: must be UTF-8 text", id="zip"),
        pytest.param(b"a\xff\xfe", ":1: byte 0xff: must be UTF-8 text", id="not UTF-8"),
        pytest.param(AZURE.encode("utf-16"), ":1: binary data", id="UTF-16"),
        pytest.param(
            gzip.compress(AZURE.encode() * 999)[:30], ": not readable", id="broken archive"
        ),
        pytest.param('[{"at": 1}]', ":1: a JSON array: must be one JSON object", id="array"),
        pytest.param(
            AZURE + "2023-11-16 18:15:46,1\n", ":2: 2 fields: must be 3", id="field missing"
        ),
        pytest.param(
            AZURE + "yesterday,1,1\n",
            ":2: TIMESTAMP 'yesterday': must be a time as in 2023-11-16",
            id="no time",
        ),
        pytest.param(
            AZURE + '"2023-11-16 18:15:46,1\n' + "x" * 200_000,
            ":3: is no CSV: field larger than field limit",
            id="open quote",
        ),
        pytest.param(
            SERVEGEN + "0,-5,1,0\n", f":2: input_tokens '-5': {TOKENS}", id="negative tokens"
        ),
        pytest.param(SERVEGEN + "0,0,1,0\n", f":2: input_tokens '0': {TOKENS}", id="no prompt"),
        pytest.param(SERVEGEN + "0,1.5,1,0\n", f":2: input_tokens '1.5': {TOKENS}", id="1.5"),
        pytest.param(SERVEGEN + "0,1_0,1,0\n", f":2: input_tokens '1_0': {TOKENS}", id="1_0"),
        pytest.param(SERVEGEN + "0,,1,0\n", f":2: input_tokens '': {TOKENS}", id="nothing"),
        pytest.param(SERVEGEN + "0,nan,1,0\n", f":2: input_tokens 'nan': {TOKENS}", id="nan"),
        pytest.param(
            SERVEGEN + f"0,{'9' * 5000},1,0\n", ":2: input_tokens '99999999999", id="huge"
        ),
        pytest.param(
            SERVEGEN + "0,1,10000001,0\n",
            ":2: output_tokens '10000001': must be a whole number from 0 to 10,000,000",
            id="too many",
        ),
        pytest.param(
            SERVEGEN + "0,1,1,bob\n", ":2: client 'bob': must be a whole number", id="client"
        ),
        pytest.param(
            SERVEGEN + "nan,1,1,0\n",
            ":2: arrived_at 'nan': must be seconds from 0 to 31,622,400",
            id="time is nan",
        ),
        pytest.param(SERVEGEN + "1e999,1,1,0\n", ":2: arrived_at '1e999'", id="infinite time"),
        pytest.param(SERVEGEN + "-1,1,1,0\n", ":2: arrived_at '-1'", id="time below zero"),
        pytest.param(SERVEGEN + "1_0,1,1,0\n", ":2: arrived_at '1_0'", id="time with underscore"),
        pytest.param(SERVEGEN + "1700000000,1,1,0\n", ":2: arrived_at '17000", id="epoch time"),
        pytest.param(GOOD + "{", ":2: line '{': must be one whole JSON object", id="cut JSON"),
        pytest.param(GOOD + "7", ":2: line '7': must be one whole JSON object", id="a number"),
        pytest.param(GOOD + "[" * 100_000, ":2: line '[[[", id="deep JSON"),
        pytest.param('{"at": 1}', ":1: prompt tokens None: must be told by one of", id="no tokens"),
        pytest.param(
            '{"prompt_tokens": 1}', ":1: time None: must be told by one of", id="no time in a log"
        ),
        pytest.param(log(at="NaN"), ":1: at nan: must be epoch seconds", id="log time is nan"),
        pytest.param(log(at="true"), ":1: at True: must be epoch seconds", id="log time is true"),
        pytest.param(log(at="-1"), ":1: at -1: must be epoch seconds", id="log time below zero"),
        pytest.param(log(at="1e30"), ":1: at 1e+30: must be epoch seconds", id="log time too big"),
        pytest.param(log(at=f"1{'0' * 400}"), ":1: at 1000000", id="log time of 400 digits"),
        pytest.param(log(prompt="1.0"), f":1: prompt_tokens 1.0: {TOKENS}", id="float tokens"),
        pytest.param(log(prompt="true"), f":1: prompt_tokens True: {TOKENS}", id="true tokens"),
        pytest.param(
            log(rest=', "user": -4'), ":1: user -4: must be a whole number", id="negative client"
        ),
        pytest.param(
            cake(ids="[1, 2, 3]"), ":1: hash_ids [1, 2, 3]: must be a list of at most 2", id="ids"
        ),
        pytest.param(cake(ids="7"), ":1: hash_ids 7: must be a list", id="ids are no list"),
        pytest.param(cake(ids="[1, 1]"), ":1: hash_ids [1, 1]: must be a list without", id="twice"),
        pytest.param(cake(ids="[1, -2]"), ":1: hash_ids -2: must be a whole", id="negative id"),
        pytest.param(cake(tokens="null"), f":1: input_length None: {TOKENS}", id="null tokens"),
        pytest.param(cake(at="-1"), ":1: timestamp -1: must be seconds", id="bin below zero"),
    ],
)
def test_a_bad_file_gets_one_line_that_says_what_is_wrong_where(written, content, problem):
    assert error(written(content)).startswith(problem)


def test_a_long_value_is_not_shown_whole(written):
    assert len(error(written(SERVEGEN + f"0,{'9' * 5000},1,0\n"))) < 200


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("content", ["", "\n", "x", "{}\n", b"\0"], ids=repr)
def test_every_reader_refuses_what_is_nothing(written, format_name, content):
    assert error(written(content), format=format_name)


def test_a_file_that_is_not_there_or_a_folder_gets_its_line(tmp_path):
    assert error(tmp_path / "none") == ": not readable: No such file or directory"
    assert error(tmp_path) == ": not readable: Is a directory"


def test_a_missing_column_is_named(written):
    text = "TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,1\n"
    assert error(written(text), format="azure") == (
        ":1: header 'TIMESTAMP,ContextTokens': "
        "must be column names with GeneratedTokens once among them"
    )


def test_a_column_that_is_there_twice_is_refused(written):
    assert "client once" in error(written(SERVEGEN.rstrip() + ",client\n0,1,1,1,2\n"))


def test_a_line_without_an_end_is_refused(written):
    assert "line of over 16,777,216 bytes" in error(written(b"x" * (2**24 + 5)))


def test_an_unknown_format_is_refused(written):
    with pytest.raises(ValueError, match="format 'csv': must be one of auto, azure"):
        open_trace(written(GOOD), "csv")


def test_the_first_error_comes_when_the_trace_is_opened(written):
    with pytest.raises(TraceError):
        open_trace(written(AZURE))


def test_a_row_that_comes_too_late_is_refused_with_its_line(written):
    rows = [(line, TraceRequest(float(line), 1, 1)) for line in range(2, 30)]
    rows.append((30, TraceRequest(1.0, 1, 1)))
    path = written("")
    with pytest.raises(TraceError, match=r":30: time 1: comes after 19, must be at most 10 rows"):
        list(in_order(rows, path, window=10))


@settings(deadline=None)
@given(st.permutations(range(40)))
def test_any_order_inside_the_window_comes_out_sorted(order):
    rows = [(line, TraceRequest(float(at), 1, 1)) for line, at in enumerate(order)]
    assert [one.at for one in in_order(rows, "x", window=40)] == sorted(order)


def test_too_many_requests_of_one_timestamp_are_refused(written, monkeypatch):
    monkeypatch.setattr(mooncake, "MOST_IN_BIN", 3)
    rows = [cake(), *[cake(at="3000")] * 4]
    assert error(written("\n".join(rows))) == (
        ": timestamp 3000: must be that of at most 3 requests"
    )


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_damage_to_a_file_gives_anything_but_requests_or_one_line(written, data):
    good = data.draw(
        st.sampled_from(
            [
                AZURE + "2023-11-16 18:15:46.68,374,44\n" * 3,
                SERVEGEN + "0.5,374,44,3\n" * 3,
                GOOD * 3,
                (cake() + "\n") * 3,
                SCENARIO,
            ]
        )
    ).encode()
    raw = bytearray(good)
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = rng.randrange(len(raw))
        raw[place : place + rng.randrange(3)] = rng.choice(
            [b"", b"\0", b"-", b"9" * 30, b",", b"\n", b'"', b"\xff", b"nan", b"{", b": ", b"1e9"]
        )
    try:
        for count, request in enumerate(open_trace(written(bytes(raw))), 1):
            assert request.prompt_tokens >= 1
            assert request.output_tokens >= 1
            assert request.at >= 0
            if count == 100:
                break
    except TraceError as bad:
        assert "\n" not in str(bad)  # noqa: PT017 - both ends are right
