"""Reading logs of served requests."""

import pytest

from cacheaware_sim.traces.trace import TraceError
from cacheaware_sim.validate.request_logs import ServedRequest, read_request_log

ROW = {
    "input_toks": 10, "output_toks": 3, "queued_ts": 5.0, "first_token_ts": 6.0,
    "last_token_ts": 8.0,
}  # fmt: skip


def test_requests_are_in_the_order_of_their_arrival_and_the_first_is_at_0(write):
    rows = [{**ROW, "queued_ts": 5 - n / 16, "input_toks": 100 - n} for n in range(20)]

    found = read_request_log(write(rows))

    assert [one.prompt_tokens for one in found] == list(range(81, 101))
    assert found[0].queued_at == 0
    assert found[-1].queued_at == 19 / 16
    assert found[-1].last_token_at == 3 + 19 / 16


def test_times_of_a_request():
    one = ServedRequest(1.0, 2.5, 4.5, prompt_tokens=10, output_tokens=3)
    assert (one.ttft_s, one.tpot_s, one.e2e_s) == (1.5, 1.0, 3.5)


def test_a_single_token_has_no_time_per_further_token():
    assert ServedRequest(0.0, 1.0, 1.0, prompt_tokens=1, output_tokens=1).tpot_s is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queued_ts": None}, "queued_ts None: must be seconds, at least 0"),
        ({"queued_ts": True}, "queued_ts True: must be seconds, at least 0"),
        ({"first_token_ts": 4}, "first_token_ts 4: must be seconds, at least 5"),
        ({"last_token_ts": 5.5}, "last_token_ts 5.5: must be seconds, at least 6"),
        ({"last_token_ts": float("inf")}, "last_token_ts inf: must be seconds, at least 6"),
        ({"input_toks": 0}, "input_toks 0: must be a whole number from 1 to "),
        ({"output_toks": "x"}, "output_toks 'x': must be a whole number from 1 to "),
    ],
    ids=["missing", "boolean", "early first", "early last", "infinite", "empty", "text"],
)
def test_a_bad_value_is_named_with_its_line(write, changes, message):
    path = write([ROW, {**ROW, **changes}])
    with pytest.raises(TraceError) as caught:
        read_request_log(path)
    assert str(caught.value).startswith(f"{path}:2: {message}")


def test_too_few_requests_are_refused(write):
    with pytest.raises(TraceError, match=r"19 requests: must hold at least 20$"):
        read_request_log(write([ROW] * 19))
