from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.engines import EngineSample, Histogram, scan, together
from cacheaware_sidecar.state import counters

ONE = EngineSample(
    engine="vllm",
    engines=1,
    models=("m",),
    running=2.0,
    waiting=1.0,
    waiting_by_reason=(("capacity", 1.0),),
    usage=0.5,
    usage_max=0.5,
    used_tokens=50.0,
    capacity_tokens=100.0,
    requests=7.0,
    e2e=Histogram(2.0, 3.0, ((1.0, 1.0), (float("inf"), 2.0))),
    started_at=10.0,
    adapters=("sql",),
)
OTHER = replace(
    ONE,
    running=0.0,
    usage=0.1,
    usage_max=None,
    used_tokens=30.0,
    capacity_tokens=300.0,
    started_at=12.0,
    adapters=("chat",),
    problems=("a line",),
)


def test_one_engine_is_itself():
    assert together([ONE]) is ONE


def test_two_engines_add_up_and_the_fullest_is_kept():
    both = together([ONE, OTHER])
    assert (both.engines, both.running, both.waiting, both.requests) == (2, 2.0, 2.0, 14.0)
    assert (both.used_tokens, both.capacity_tokens) == (80.0, 400.0)
    assert both.usage == 0.2  # (0.5 x 100 + 0.1 x 300) / 400
    assert both.usage_max == 0.5
    assert both.e2e == Histogram(4.0, 6.0, ((1.0, 2.0), (float("inf"), 4.0)))
    assert both.waiting_by_reason == (("capacity", 2.0),)
    assert both.adapters == ("chat", "sql")
    assert both.started_at == 12.0
    assert both.problems == ("a line",)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [(True, True, True), (True, False, False), (None, False, False), (True, None, None)],
)
def test_engines_on_pages_of_their_own_sleep_together_when_all_do(one, other, both):
    pages = [replace(ONE, sleeping=one), replace(ONE, sleeping=other)]

    assert together(pages).sleeping is both


def test_a_pod_prefills_as_fast_as_its_engines_together():
    one = replace(ONE, e2e=None)
    pages = [
        replace(one, prefill_seconds=10.0, prefilled_tokens=50_000.0, requests=5.0),
        replace(one, prefill_seconds=30.0, prefilled_tokens=150_000.0, requests=15.0),
    ]

    told = counters(together(pages))

    assert (told.requests, told.prefilled_tokens, told.prefill_seconds) == (20.0, 200_000.0, 20.0)
    assert counters(replace(pages[0], engines=None)).prefill_seconds is None


@pytest.mark.parametrize(("whole", "told"), [(152.3, None), (2e6, 1_144_335.0)])
def test_prefills_that_took_longer_than_their_requests_are_not_believed(whole, told):
    """Seen on vLLM 0.32: of 28 requests 18 were aborted by a pause while they waited."""
    page = replace(ONE, prefill_seconds=1_144_335.0, e2e=Histogram(28.0, whole, ()), engines=1)

    assert counters(page).prefill_seconds == told


def test_what_one_engine_does_not_tell_is_unknown_of_all():
    both = together([ONE, replace(ONE, running=None, usage=None, usage_max=None, e2e=None)])
    assert both.running is both.usage is both.usage_max is both.e2e is None
    assert together([ONE, replace(ONE, started_at=None)]).started_at is None


def test_hit_ratios_are_weighted_by_capacity_too():
    both = [replace(ONE, prefix_hit_ratio=0.8), replace(OTHER, prefix_hit_ratio=0.4)]
    assert together(both).prefix_hit_ratio == pytest.approx(0.5)
    assert together([both[0], OTHER]).prefix_hit_ratio is None


def test_without_a_capacity_usage_is_the_mean():
    assert together([ONE, replace(OTHER, capacity_tokens=None)]).usage == 0.3


def test_histograms_of_other_bounds_do_not_add_up():
    other = replace(ONE, e2e=Histogram(1.0, 1.0, ((2.0, 1.0), (float("inf"), 1.0))))
    assert together([ONE, other]).e2e is None


@given(st.lists(st.integers(0, 50), min_size=2, max_size=5))
def test_pages_of_several_ports_tell_what_one_page_of_all_ranks_tells(running):
    def line(rank, count):
        label = f'{{engine="{rank}",model_name="m"}}'
        return (
            f"vllm:num_requests_running{label} {count}\n"
            f"vllm:num_requests_waiting{label} 1\n"
            f"vllm:kv_cache_usage_perc{label} {count / 100}\n"
        )

    lines = [line(rank, count) for rank, count in enumerate(running)]
    several = together([scan(one.encode()) for one in lines])
    single = scan("".join(lines).encode())
    assert (several.engines, several.running, several.waiting, several.usage_max) == (
        single.engines,
        single.running,
        single.waiting,
        single.usage_max,
    )


class TestAdapters:
    PAGE = (
        'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
        'vllm:num_requests_waiting{engine="0",model_name="m"} 0\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.1\n'
    )

    def info(self, running, waiting, at):
        labels = f'max_lora="4",running_lora_adapters="{running}",waiting_lora_adapters="{waiting}"'
        return f"vllm:lora_requests_info{{{labels}}} {at}\n"

    def test_the_newest_series_tells_the_adapters_in_use(self):
        page = self.PAGE + self.info("old", "", 1.7e9) + self.info("sql,chat", "sql", 1.8e9)
        assert scan(page.encode()).adapters == ("chat", "sql")

    def test_none_in_use_is_none(self):
        assert scan((self.PAGE + self.info("", "", 1.8e9)).encode()).adapters == ()

    def test_an_engine_without_adapters_has_none(self):
        assert scan(self.PAGE.encode()).adapters == ()
