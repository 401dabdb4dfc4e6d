"""The operator's own metrics and logs."""

import json
import logging

import kopf
import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest

from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView, PodLoad, PodView
from cacheaware.telemetry import Metrics, set_up_logging
from cacheaware_sidecar.phase import Phase

FULL = PodLoad(running=3, waiting=1, usage=0.5, used_tokens=500, capacity_tokens=1000)
RATIO = PodLoad(running=1, waiting=0, usage=0.25)


def fleet(*loads, name="chat"):
    pods = tuple(PodView(name=f"p{n}", load=load) for n, load in enumerate(loads))
    return FleetView(namespace="demo", name=name, spec_replicas=2, pods=pods)


def decision(reason="Steady"):
    return Decision(desired=3, current=2, reason=reason, message="", serving=2, starting=1)


def value(metrics, metric, **labels):
    return metrics.registry.get_sample_value(f"cacheaware_{metric}", labels)


def shown(metrics, metric):
    return value(metrics, metric, namespace="demo", name="chat")


def test_a_round_is_shown():
    metrics = Metrics()
    metrics.decided(fleet(FULL, FULL), decision())
    assert [shown(metrics, f"{one}_replicas") for one in ("desired", "current", "starting")] == [
        3,
        2,
        1,
    ]
    assert shown(metrics, "kv_usage_ratio") == 0.5
    assert shown(metrics, "kv_used_tokens") == 1000
    assert (shown(metrics, "pending_requests"), shown(metrics, "running_requests")) == (2, 6)


def test_without_tokens_usage_is_the_mean_and_what_is_unknown_has_no_series():
    metrics = Metrics()
    metrics.decided(fleet(FULL), decision())
    metrics.decided(fleet(RATIO, PodLoad()), decision())
    assert shown(metrics, "kv_usage_ratio") == 0.25
    assert shown(metrics, "kv_capacity_tokens") is None
    metrics.decided(fleet(None), decision())
    assert shown(metrics, "kv_usage_ratio") is None
    assert shown(metrics, "pending_requests") is None


def test_a_sleeping_engines_cache_is_no_capacity():
    metrics = Metrics()
    metrics.decided(fleet(FULL, replace(FULL, used_tokens=0, sleeping=True)), decision())
    assert (shown(metrics, "kv_usage_ratio"), shown(metrics, "kv_capacity_tokens")) == (0.5, 1000)


def test_pods_that_do_not_serve_are_not_counted():
    metrics, view = Metrics(), fleet(FULL)
    loading = PodView(name="x", phase=Phase.LOADING, load=RATIO)
    metrics.decided(
        FleetView(namespace="demo", name="chat", spec_replicas=2, pods=(*view.pods, loading)),
        decision(),
    )
    assert shown(metrics, "running_requests") == 3


def test_only_the_last_reason_is_shown():
    metrics = Metrics()
    for reason in ("ScaledUp", "Steady", "Steady"):
        metrics.decided(fleet(FULL), decision(reason))
    page = generate_latest(metrics.registry).decode()
    assert 'reason="Steady"} 1.0' in page
    assert "ScaledUp" not in page


def test_series_of_a_scaler_that_is_gone_go_too_and_others_stay():
    metrics = Metrics()
    for name in ("chat", "other"):
        metrics.decided(fleet(FULL, name=name), decision())
        metrics.scaled.labels("demo", name, "up").inc()
        metrics.scrape_errors.labels("demo", name, "MetricsStale").inc()
    metrics.forget("demo", "chat")
    metrics.forget("demo", "chat")
    page = generate_latest(metrics.registry).decode()
    assert 'name="chat"' not in page
    assert 'cacheaware_scale_events_total{direction="up",name="other",namespace="demo"} 1.0' in page


def test_errors_of_the_api_are_counted():
    metrics = Metrics()
    metrics.api_error("GET", 503)
    assert value(metrics, "api_errors_total", method="GET", status="503") == 1


@pytest.fixture
def logged(capsys):
    root, kopfs = logging.getLogger(), logging.getLogger("kopf.objects")
    handlers, level, kopf_level = root.handlers[:], root.level, kopfs.level

    def lines(log_format):
        set_up_logging(log_format, "INFO")
        logging.getLogger("cacheaware").info("hello %s", "you")
        extra = {"settings": kopf.OperatorSettings(), "k8s_skip": False, "k8s_ref": {"name": "a"}}
        kopfs.info("Handler 'scalers' succeeded.", extra=extra)
        kopfs.error("oh", extra={**extra, "odd": object()})
        return capsys.readouterr().err.splitlines()

    yield lines
    root.handlers[:] = handlers
    root.setLevel(level)
    kopfs.setLevel(kopf_level)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_log_record_is_one_line_and_that_a_handler_ran_is_none(log_format, logged):
    ours, kopfs = logged(log_format)
    assert "hello you" in ours
    assert "oh" in kopfs


def test_a_json_record_holds_what_kopf_hangs_on_it_as_far_as_json_can(logged):
    ours, kopfs = map(json.loads, logged("json"))
    assert ours["message"] == "hello you"
    assert kopfs["k8s_ref"] == {"name": "a"}
    assert "settings" not in kopfs
    assert kopfs["odd"].startswith("<object")
