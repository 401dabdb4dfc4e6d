"""Whether two named pages are two looks at one engine."""

import pytest
from tests.sidecar.health.pages import AFTER, BEFORE, INFO, page

from cacheaware.doctor.two_pages import compared

STARTED = "process_start_time_seconds"
FEWER = {
    "num_preemptions_total": 3,
    "prefix_cache_queries_total": 50_000,
    "prefix_cache_hits_total": 10_000,
    "prompt_tokens_total": 50_000,
    "generation_tokens_total": 9_000,
    "request_success_total": 60,
}


def doubt(before=None, after=None, **more):
    later = page(AFTER | (after or {}), **more)
    looks, found = compared(page(BEFORE | (before or {})), later, 60.0)
    assert (looks.before is None) is (found is not None)
    return found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({STARTED: 5.0}, {STARTED: 5.0}),
        ({STARTED: 5.0}, {STARTED: 5.0, "num_preemptions_total": 1}),
        ({STARTED: 5.0}, {}),
    ],
)
def test_pages_on_which_nothing_began_anew_are_two_looks(before, after):
    assert doubt(before, after) is None


def test_pages_of_two_kinds_of_engines_stay_together_for_the_rule_that_tells_of_them():
    looks, found = compared(b"sglang:num_running_reqs 3.0\n", page(AFTER), None)
    assert found is None
    assert looks.two_engines


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, FEWER, "counters fell: the engine began anew between the pages, or they are of two"),
        ({STARTED: 5.0}, FEWER | {STARTED: 95.0}, "its process started 90 s later"),
        ({STARTED: 5.0}, {STARTED: 95.0}, "its process started 90 s later"),
        ({"num_preemptions_total": 0}, FEWER, "counters fell"),
    ],
)
def test_what_a_restart_and_another_pod_would_both_show_is_told_as_either(before, after, said):
    found = doubt(before, after)
    assert found.id == "restart-or-two-engines"
    assert said in found.message


def test_other_settings_are_another_engine_or_one_that_began_anew():
    found = doubt(info=INFO | {"block_size": "32"})
    assert found.id == "restart-or-two-engines"
    assert "block size 16 became 32" in found.message


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({STARTED: 95.0}, {STARTED: 5.0}, "started 90 s before that of the earlier"),
        ({}, FEWER | {"request_success_total": 20_000}, "requests grew from 10,000 to 20,000"),
        ({STARTED: 5.0}, {"prompt_tokens_total": 7, STARTED: 9.0}, "prompt tokens fell from 9,0"),
    ],
)
def test_a_start_before_and_counters_that_go_two_ways_are_two_engines(before, after, said):
    found = doubt(before, after)
    assert found.id == "two-engines"
    assert said in found.message


def test_counters_that_fall_in_one_process_are_pages_in_the_wrong_order():
    found = doubt({STARTED: 5.0}, FEWER | {STARTED: 5.0})
    assert found.id == "two-engines"
    assert "in the wrong order: the process is the same, and requests fell" in found.message
    assert "the earlier one first" in found.fix


@pytest.mark.parametrize(
    "after",
    [
        {"prompt_tokens_total": 7},
        {"prompt_tokens_total": 7, "generation_tokens_total": 7, "request_success_total": 20_000},
    ],
)
def test_one_counter_that_falls_or_one_that_grows_says_nothing_of_the_order(after):
    assert doubt({STARTED: 5.0}, after | {STARTED: 5.0}) is None


@pytest.mark.parametrize("label", ["model_name", "engine", "pod", "instance"])
def test_another_value_of_a_label_that_outlives_a_restart_is_another_engine(label):
    def of(value, numbers):
        plain = page(numbers).replace(b'engine="0",', b"").replace(b'model_name="m"', b"")
        return plain.replace(b"{}", f'{{{label}="{value}"}}'.encode())

    looks, found = compared(of("a", BEFORE), of("b", AFTER), 60.0)
    assert found.id == "two-engines"
    assert f"{label} is 'a' on the earlier, 'b' on the later" in found.message
    assert looks.before is None
    assert compared(of("a", BEFORE), of("a", AFTER), 60.0)[1] is None


def test_a_label_with_a_value_in_common_is_no_other_engine():
    extra = ['vllm:num_requests_running{engine="0",model_name="adapter"} 1']
    assert doubt(extra=extra) is None
