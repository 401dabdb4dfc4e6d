from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cacheaware_sidecar.export import View, render
from cacheaware_sidecar.state import (
    CanaryState,
    DrainState,
    FindingState,
    KvState,
    PodState,
    ShapeState,
    StartState,
    WarmupState,
)

BARE = PodState(phase="loading")
FULL = PodState(
    phase="serving",
    phase_age_s=5.0,
    sample_age_s=0.5,
    sample_seq=7,
    engine="vllm",
    version="0.33",
    running=3.0,
    waiting=0.0,
    kv=KvState(
        usage=0.5,
        usage_max=0.6,
        used_bytes=1.5e9,
        capacity_bytes=3e9,
        used_tokens=100.0,
        capacity_tokens=200.0,
        page_bytes=65536,
    ),
    warmup=WarmupState(
        verdict="Warm",
        duration_s=2.0,
        requests=5,
        prompt_tokens=600,
        generation_tokens=40,
        shapes=(
            ShapeState(name="long", requests=4, first_s=2.1, last_s=0.3),
            ShapeState(name="image", note="skipped: why"),
        ),
    ),
    start=StartState(loading_s=40.0, warming_s=9.0),
    drain=DrainState(cordoned_by="op", cordoned_s=30.0, lease_s=45.0),
    problems=("one",),
)
WITHOUT_PREFIX = {
    "kv_cache_used_bytes",
    "kv_cache_capacity_bytes",
    "kv_page_bytes",
    "pending_requests",
    "running_requests",
}


INFO = ("cacheaware_info", ("engine", "vllm"), ("engine_version", "0.33"), ("version", "0.1"))


def samples(view):
    families = text_string_to_metric_families(render(view).decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def names(view):
    return {name for name, *_ in samples(view)}


def full(**more):
    return View(
        state=FULL,
        version="0.1",
        fresh=True,
        scrape_errors={"timed_out": 2},
        engine_restarts=1,
        drain_s=9.0,
        drain_cut=0.0,
        cordons=3,
        cordons_ended={"expired": 1},
        control_calls={("cordon", 200): 4, ("cordon", 401): 1},
        config_loaded=True,
        **more,
    )


def test_exactly_five_names_have_no_prefix():
    without = {name for name in names(full()) if not name.startswith("cacheaware_")}

    assert without == WITHOUT_PREFIX


def test_unknown_has_no_series():
    view = View(state=BARE, fresh=True)

    assert names(view) == {
        "cacheaware_phase",
        "cacheaware_problems",
        "cacheaware_info",
        "cacheaware_scrapes_total",
        "cacheaware_engine_restarts_total",
        "cacheaware_cordons_total",
    }


def test_zero_is_known():
    assert samples(full())["pending_requests",] == 0


def test_what_an_old_page_said_is_unknown_but_the_page_size_is_not():
    view = replace(full(), fresh=False)

    assert names(view) & WITHOUT_PREFIX == {"kv_page_bytes"}
    assert "cacheaware_kv_usage_ratio" not in names(view)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("kv_cache_used_bytes",), 1.5e9),
        (("running_requests",), 3),
        (("cacheaware_phase", ("phase", "serving")), 1),
        (("cacheaware_phase", ("phase", "loading")), 0),
        (("cacheaware_scrape_errors_total", ("kind", "timed_out")), 2),
        (("cacheaware_scrapes_total",), 7),
        (("cacheaware_engine_restarts_total",), 1),
        (("cacheaware_warmup_duration_seconds",), 2),
        (("cacheaware_start_loading_seconds",), 40),
        (("cacheaware_start_warming_seconds",), 9),
        (("cacheaware_warmup_requests",), 5),
        (("cacheaware_warmup_tokens", ("kind", "prompt")), 600),
        (("cacheaware_warmup_tokens", ("kind", "generation")), 40),
        (("cacheaware_warmup_latency_seconds", ("at", "first"), ("shape", "long")), 2.1),
        (("cacheaware_warmup_latency_seconds", ("at", "last"), ("shape", "long")), 0.3),
        (("cacheaware_warmup_verdict", ("verdict", "Warm")), 1),
        (("cacheaware_drain_duration_seconds",), 9),
        (("cacheaware_drain_cut_requests",), 0),
        (("cacheaware_cordon_age_seconds",), 30),
        (("cacheaware_cordon_lease_seconds",), 45),
        (("cacheaware_cordons_total",), 3),
        (("cacheaware_cordons_ended_total", ("how", "expired")), 1),
        (("cacheaware_control_answers_total", ("call", "cordon"), ("status", "200")), 4),
        (("cacheaware_control_answers_total", ("call", "cordon"), ("status", "401")), 1),
        (("cacheaware_config_loaded",), 1),
        (("cacheaware_problems",), 1),
        (
            ("cacheaware_info", ("engine", "vllm"), ("engine_version", "0.33"), ("version", "0.1")),
            1,
        ),
    ],
)
def test_what_is_shown(key, value):
    assert samples(full())[key] == value


def test_a_name_that_no_utf_8_can_hold_does_not_spoil_the_page():
    view = full()
    shapes = (replace(view.state.warmup.shapes[0], name="lora:\ud800"),)
    warmup = replace(view.state.warmup, shapes=shapes)
    shown = samples(replace(view, state=replace(view.state, warmup=warmup, version="\udfff")))

    assert shown["cacheaware_warmup_latency_seconds", ("at", "last"), ("shape", "lora:?")] == 0.3


def test_findings_have_a_series_each_with_its_severity():
    findings = (FindingState(id="kv-full", severity="warning", message="why"),)
    view = View(state=replace(BARE, findings=findings), fresh=True)

    assert samples(view)["cacheaware_finding", ("id", "kv-full"), ("severity", "warning")] == 1


def test_reliefs_are_counted_where_they_are_on():
    view = View(state=BARE, fresh=True, reliefs=2, relief_aborts={"no_route": 1})

    assert samples(view)["cacheaware_reliefs_total",] == 2
    assert samples(view)["cacheaware_relief_aborts_total", ("how", "no_route")] == 1


def test_a_canary_is_told_where_it_is_on():
    assert not [name for name, *_ in samples(View(state=BARE, fresh=True)) if "canary" in name]
    canary = CanaryState(
        verdict="Drifted",
        age_s=30.0,
        answered=9,
        skipped=2,
        difference_nats=0.2,
        tolerance_nats=0.05,
        changed_ratio=0.5,
    )
    shown = samples(View(state=replace(BARE, canary=canary), fresh=True))

    assert shown["cacheaware_canary_verdict", ("verdict", "Drifted")] == 1
    assert shown["cacheaware_canary_runs_total", ("result", "answered")] == 9
    assert shown["cacheaware_canary_runs_total", ("result", "skipped")] == 2
    assert shown["cacheaware_canary_age_seconds",] == 30
    assert shown["cacheaware_canary_difference_nats",] == 0.2
    assert shown["cacheaware_canary_tolerance_nats",] == 0.05
    assert shown["cacheaware_canary_changed_ratio",] == 0.5
    learning = samples(View(state=replace(BARE, canary=CanaryState()), fresh=True))
    assert learning["cacheaware_canary_runs_total", ("result", "failed")] == 0
    assert ("cacheaware_canary_difference_nats",) not in learning
