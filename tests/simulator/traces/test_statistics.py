"""Statistics: by hand, by a library, and the published table."""

import random
import statistics
from itertools import pairwise

import pytest

from cacheaware_sim.traces.formats import open_trace
from cacheaware_sim.traces.statistics import measure
from cacheaware_sim.traces.trace import TraceRequest


def test_nothing_has_no_statistics():
    found = measure([])
    assert (found.requests, found.clients) == (0, 0)
    assert found.rate_per_s is found.gap_cv is found.prompt is found.prefix_hit_percent is None
    assert found.dispersion == {1: None, 10: None, 60: None}


def test_requests_at_one_time_have_no_rate():
    found = measure([TraceRequest(5, 1, 1)] * 3)
    assert found.rate_per_s is found.gap_cv is None
    assert found.prompt.p99 == 1


def test_counts_of_whole_windows_give_the_dispersion():
    times = [0.1, 0.2, 0.3, 2.5, 3.1]  # whole seconds: 3, 0, 1
    found = measure([TraceRequest(at, 1, 1) for at in times]).dispersion[1]
    assert found.iod == pytest.approx(statistics.pvariance([3, 0, 1]) / (4 / 3))
    assert found.peak_to_mean == pytest.approx(3 / (4 / 3))


def test_all_figures_are_what_the_standard_library_says():
    rng = random.Random(1)
    rows, at = [], 0.0
    for _ in range(3000):
        at += rng.expovariate(2) * rng.choice([0.1, 5])
        rows.append(TraceRequest(at, rng.randint(1, 900), rng.randint(1, 9), rng.randrange(40)))
    found = measure(rows)
    gaps = [later.at - one.at for one, later in pairwise(rows)]
    counts = [0] * int(at // 10)
    for row in rows:
        if row.at // 10 < len(counts):
            counts[int(row.at // 10)] += 1
    prompts = [row.prompt_tokens for row in rows]
    cuts = statistics.quantiles(prompts, n=100, method="inclusive")
    assert found.gap_cv == pytest.approx(statistics.pstdev(gaps) / statistics.fmean(gaps))
    assert found.dispersion[10].iod == pytest.approx(
        statistics.pvariance(counts) / statistics.fmean(counts)
    )
    assert [found.prompt.p50, found.prompt.p90, found.prompt.p99] == pytest.approx(
        [cuts[49], cuts[89], cuts[98]]
    )
    assert found.prompt.mean == pytest.approx(statistics.fmean(prompts))
    assert found.clients == 40


def test_the_prefix_hit_is_the_share_of_prompt_tokens_that_came_before():
    rows = [
        TraceRequest(0, 40, 1, prefix=(1, 2)),
        TraceRequest(1, 60, 1, prefix=(1, 2, 3)),
        TraceRequest(2, 60, 1, prefix=(9, 2, 3)),
        TraceRequest(3, 500, 1),
    ]
    assert measure(rows).prefix_hit_percent == pytest.approx(100 * 32 / 160)


AZURE = "azure2023/AzureLLMInferenceTrace_"


@pytest.mark.parametrize(
    ("name", "clients", "rates", "tokens"),
    [
        pytest.param(
            AZURE + "conv.csv",
            (19_366, 1, 100),
            (5.53, (1.39, 3.86, 16.1), (2.9, 1.8, 1.5)),
            ((1155, 1020, 4142), (211, 129, 601)),
            id="azure conv",
        ),
        pytest.param(
            AZURE + "code.csv",
            (8819, 1, 100),
            (2.57, (13.2, 71.6, 164), (26, 12.8, 4.2)),
            ((2048, 1469, 7436), (27.9, 13, 251)),
            id="azure code",
        ),
        pytest.param(
            "servegen/r1_24h_x0.25.csv.gz",
            (345_961, 73, 68),
            (4.00, (3.1, 13.6, 67), (11.7, 4.1, 3.0)),
            ((1267, 208, 23_257), (1525, 789, 12_496)),
            id="servegen r1",
        ),
        pytest.param(
            "servegen/m-small_day2_x0.005.csv.gz",
            (143_704, 25, 94),
            (1.66, (2.3, 4.3, 9.4), (13.8, 4.0, 2.1)),
            ((169, 43, 1502), (30, 6, 199)),
            id="servegen m-small",
        ),
    ],
)
def test_the_public_traces_give_the_published_table(shared, name, clients, rates, tokens):
    rate, iod, peak = rates
    found = measure(open_trace(shared / "data/traces" / name))
    assert (found.requests, found.clients, round(found.top_clients_percent)) == clients
    windows = [found.dispersion[window] for window in (1, 10, 60)]
    digits = 0.016  # the table has two to three digits
    assert found.rate_per_s == pytest.approx(rate, abs=0.006)
    assert [one.iod for one in windows] == pytest.approx(iod, rel=digits)
    assert [one.peak_to_mean for one in windows] == pytest.approx(peak, rel=0.03)
    for counts, expected in zip((found.prompt, found.output), tokens, strict=True):
        assert [counts.mean, counts.p50, counts.p99] == pytest.approx(expected, rel=0.01)


def test_azures_gaps_are_as_published(shared):
    folder = shared / "data/traces"
    for name, cv in ((AZURE + "conv.csv", 1.09), (AZURE + "code.csv", 13.2)):
        assert measure(open_trace(folder / name)).gap_cv == pytest.approx(cv, rel=0.01)


def test_mooncake_with_its_jitter_is_as_published_but_for_what_the_quantising_made(shared):
    """The table's IoD at 10 s, 2.1, is that of the quantised times: 10 s is no multiple of 3 s.

    Its prefix hit counts hashes, 36.6 %, also those of the last block that is not full; in tokens
    of full blocks it is 37.3 %.
    """
    path = shared / "data/traces/mooncake/conversation_trace.jsonl"
    found = measure(open_trace(path, block_size=512), block_size=512)
    assert found.requests == 12_031
    assert found.rate_per_s == pytest.approx(3.40, abs=0.006)
    assert found.dispersion[60].iod == pytest.approx(2.9, rel=0.03)
    assert found.dispersion[60].peak_to_mean == pytest.approx(1.2, rel=0.02)
    assert found.dispersion[10].iod < 1.6
    assert found.dispersion[1].iod == pytest.approx(1.04, abs=0.05)
    assert found.gap_cv == pytest.approx(1.0, abs=0.03)
    prompt, output = found.prompt, found.output
    assert [prompt.mean, prompt.p50, prompt.p99] == pytest.approx([12_035, 6909, 85_400], rel=0.001)
    assert [output.mean, output.p50, output.p99] == pytest.approx([343, 350, 1118], rel=0.002)
    assert found.prefix_hit_percent == pytest.approx(37.34, abs=0.01)
    smaller = (one for _, one in zip(range(500), open_trace(path), strict=False))
    assert all(len(one.prefix) == one.prompt_tokens // 16 for one in smaller)
