"""The sidecar's own findings: over the last minute, only of a pod that serves."""

from tests.sidecar.health.pages import AFTER, BEFORE, page

from cacheaware_sidecar.health import look
from cacheaware_sidecar.health.window import HealthWindow, problem_lines


def at(**numbers):
    return look(page(BEFORE | numbers))


def ids(window):
    return {one.id: one.severity for one in window.findings}


def test_a_storm_is_found_between_looks_and_gone_a_minute_after_it_ended():
    window = HealthWindow()
    window.take([at()], 0.0)
    assert ids(window) == {}
    window.take([look(page(AFTER | {"num_preemptions_total": 1300}))], 30.0)
    assert ids(window) == {"preemption-storm": "error"}
    assert problem_lines(window.findings) == ("health: preemption-storm (error)",)
    for second in (45.0, 60.0, 75.0, 90.0, 105.0):
        told = {"num_preemptions_total": 1300, "generation_tokens_total": 3_000_000 + second}
        window.take([look(page(AFTER | told))], second)
    assert ids(window) == {}


def test_it_looks_each_quarter_of_a_minute():
    window = HealthWindow()
    assert window.is_due(0.0)
    window.take([at()], 0.0)
    assert not window.is_due(14.0)
    assert window.is_due(15.0)


def test_of_several_engines_the_worst_is_told():
    window = HealthWindow()
    window.take([at(), at()], 0.0)
    full = {"kv_cache_usage_perc": 0.99}
    window.take([at(kv_cache_usage_perc=0.92), at(**full, num_requests_waiting=9)], 30.0)
    window.take([at(kv_cache_usage_perc=0.92), at(**full, num_requests_waiting=9)], 100.0)
    window.take([at(kv_cache_usage_perc=0.92), at(**full, num_requests_waiting=9)], 120.0)
    assert ids(window)["kv-full"] == "error"


def test_another_number_of_engines_begins_anew():
    window = HealthWindow()
    window.take([at()], 0.0)
    window.take([at(num_preemptions_total=1300), at()], 30.0)
    assert ids(window) == {}


def test_a_pod_that_does_not_serve_has_no_findings():
    window = HealthWindow()
    window.take([at(kv_cache_usage_perc=0.95)], 0.0)
    assert ids(window) == {"kv-full": "warning"}
    window.forget()
    assert ids(window) == {}
    assert window.is_due(0.0)
