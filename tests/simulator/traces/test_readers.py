"""Each format is read for what it is."""

import json

import pytest

from cacheaware_sim.traces.azure import read_azure
from cacheaware_sim.traces.formats import open_trace
from cacheaware_sim.traces.mooncake import read_mooncake
from cacheaware_sim.traces.request_log import read_request_log
from cacheaware_sim.traces.servegen import read_servegen
from cacheaware_sim.traces.trace import Notes, TraceRequest

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
SERVEGEN = "arrived_at,input_tokens,output_tokens,client\n0.000,395,634,23\n0.015,15417,997,15\n"


def mooncake(*rows):
    return "".join(
        json.dumps(
            {"timestamp": at, "input_length": tokens, "output_length": 9, "hash_ids": list(ids)}
        )
        + "\n"
        for at, tokens, ids in rows
    )


def logged(**fields):
    return json.dumps(fields) + "\n"


def test_azures_first_request_is_at_zero_and_the_others_after_it(written):
    requests = list(read_azure(written(AZURE)))
    assert requests == [TraceRequest(0.0, 374, 44), TraceRequest(4.314579, 396, 109)]


def test_azures_later_traces_tell_the_zone(written):
    text = AZURE.replace("6805900", "680590+00:00").replace("9951690", "995169+00:00")
    assert list(read_azure(written(text))) == list(read_azure(written(AZURE, "other")))


def test_servegen_keeps_times_and_clients(written):
    expected = [TraceRequest(0.0, 395, 634, 23), TraceRequest(0.015, 15417, 997, 15)]
    assert list(read_servegen(written(SERVEGEN))) == expected
    assert list(read_servegen(written(SERVEGEN, "t.csv.gz"))) == expected


def test_columns_may_stand_in_any_order_and_among_others(written):
    text = "client,model,output_tokens,input_tokens,arrived_at\n7,x,2,3,1.5\n"
    assert list(read_servegen(written(text))) == [TraceRequest(1.5, 3, 2, 7)]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(lambda text: "\ufeff" + text, id="byte order mark"),
        pytest.param(lambda text: text + "\n\n", id="blank lines at the end"),
        pytest.param(lambda text: text.rstrip(), id="no end of the last line"),
        pytest.param(lambda text: text.replace(",", ", "), id="blanks after commas"),
    ],
)
@pytest.mark.parametrize("text", [AZURE, SERVEGEN], ids=["azure", "servegen"])
def test_what_editors_do_to_a_csv_changes_nothing(written, change, text):
    changed = list(open_trace(written(change(text))))
    assert changed == list(open_trace(written(text, "as it was")))


def test_rows_out_of_order_are_put_into_order(written):
    text = "arrived_at,input_tokens,output_tokens,client\n" + "".join(
        f"{at},1,1,0\n" for at in (3, 1, 2, 0)
    )
    assert [request.at for request in read_servegen(written(text))] == [0, 1, 2, 3]


def test_zero_output_tokens_are_read_as_one_and_counted(written):
    notes = Notes()
    text = SERVEGEN.replace("634", "0")
    requests = list(read_servegen(written(text), notes=notes))
    assert [request.output_tokens for request in requests] == [1, 997]
    assert notes.zero_outputs == 1


def test_mooncakes_hashes_become_names_of_the_blocks_that_the_prompt_fills(written):
    path = written(mooncake((0, 512, [5]), (0, 600, [5, 9]), (0, 15, [7])))
    first, second, third = read_mooncake(path)
    assert first.prefix == tuple(range(160, 192))
    assert second.prefix == (*range(160, 192), *range(288, 293)), "88 tokens fill 5 blocks of 16"
    assert third.prefix == ()


def test_mooncakes_names_follow_the_engines_block_size(written):
    path = written(mooncake((0, 600, [5, 9])))
    (request,) = read_mooncake(path, block_size=64)
    assert request.prefix == (*range(40, 48), 72)
    with pytest.raises(ValueError, match="block_size 48: must divide 512"):
        read_mooncake(path, block_size=48)


def test_mooncakes_requests_lie_inside_their_bins_in_the_order_of_the_file(written):
    rows = [(at, 1000 + row, []) for at in (0, 3000, 3002, 20_000) for row in range(50)]
    requests = list(read_mooncake(written(mooncake(*rows)), seed=3))
    times = [request.at for request in requests]
    assert times == sorted(times)
    assert [request.prompt_tokens for request in requests] == [row[1] for row in rows]
    ends = {0: 3.0, 3000: 3.002, 3002: 6.002, 20_000: 23.0}
    for (at, _, _), request in zip(rows, requests, strict=True):
        assert at / 1e3 <= request.at < ends[at]
    assert len(set(times[:50])) == 50, "no longer all at once"


def test_mooncakes_first_bin_begins_at_zero_and_times_belong_to_the_seed(written):
    path = written(mooncake((60_000, 5, []), (63_000, 5, [])))
    first, second = read_mooncake(path, seed=1)
    assert first.at < 3.0 <= second.at < 6.0
    assert list(read_mooncake(path, seed=1)) == [first, second]
    assert list(read_mooncake(path, seed=2)) != [first, second]


def test_mooncakes_rows_without_hashes_share_nothing(written):
    text = logged(timestamp=0, input_length=600, output_length=2)
    (request,) = open_trace(written(text))
    assert request.prefix is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(1_700_000_000, 1_700_000_002.5, id="epoch seconds"),
        pytest.param("1700000000", "1700000002.5", id="epoch seconds as text"),
        pytest.param(1_700_000_000_000, 1_700_000_002_500, id="milliseconds"),
        pytest.param(1_700_000_000_000_000, 1_700_000_002_500_000, id="microseconds"),
        pytest.param(1_700_000_000_000_000_000, 1_700_000_002_500_000_000, id="nanoseconds"),
        pytest.param("2023-11-14T22:13:20Z", "2023-11-14T23:13:22.5+01:00", id="ISO 8601"),
        pytest.param("2023-11-14 22:13:20", "2023-11-14 22:13:22.500", id="ISO without a zone"),
        pytest.param(0, 2.5, id="seconds since the start"),
    ],
)
def test_a_logs_times_may_be_told_in_any_usual_way(written, first, second):
    text = "".join(
        logged(timestamp=at, prompt_tokens=3, completion_tokens=4) for at in (first, second)
    )
    assert list(read_request_log(written(text))) == [
        TraceRequest(0.0, 3, 4),
        TraceRequest(2.5, 3, 4),
    ]


@pytest.mark.parametrize(
    "row",
    [
        {"created": 5, "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
        {"at": 5, "input_tokens": 3, "output_tokens": 4},
        {"arrival_time": 5, "input_toks": 3, "output_toks": 4},
        {"time": 5, "response": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}},
        {"response": {"body": {"created": 5, "usage": {"input_tokens": 3, "output_tokens": 4}}}},
        {"timestamp": None, "created": 5, "prompt_tokens": 3, "completion_tokens": 4},
    ],
    ids=["completion", "short names", "engine log", "proxy", "batch result", "null is not there"],
)
def test_a_logs_fields_are_found_under_the_usual_names(written, row):
    assert list(open_trace(written(logged(**row)))) == [TraceRequest(0.0, 3, 4)]


def test_a_logs_clients_keep_their_number_or_get_one(written):
    rows = [{"user": "ann"}, {"client": 7}, {"user_id": "ann"}, {"user": "bob"}, {}]
    text = "".join(logged(at=0, input_tokens=1, output_tokens=1, **row) for row in rows)
    ann, seven, again, bob, nobody = (one.client for one in read_request_log(written(text)))
    assert (seven, nobody) == (7, 0)
    assert ann == again == 953319920708613029
    assert bob not in {ann, seven, nobody}


def test_the_logs_of_a_real_vllm_are_read(shared):
    requests = list(open_trace(shared / "data/latency/RTX4090_Llama-3.1-8B/requests.jsonl"))
    assert len(requests) == 300
    assert requests[0] == TraceRequest(0.0, 2358, 531)
