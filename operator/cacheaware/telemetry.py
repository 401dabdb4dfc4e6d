"""What the operator tells about itself: Prometheus metrics and logs."""

import logging
import sys
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from cacheaware.decide.cold_start import ColdStart, Stage
from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView
from cacheaware_sidecar.phase import Phase

SCALER = ("namespace", "name")
NOISY = ("kopf.activities", "kopf.objects", "kopf._core.reactor.running", "aiohttp.access")
"""Loggers that tell each time that all went well."""
ONLY_FOR_KOPF = ("k8s_skip", "settings")
"""What kopf hangs on its records for its own formatters; settings can't be copied into JSON."""


class Metrics:
    """All series; those of a scaler that is gone are removed."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.desired = self._gauge("desired_replicas", "Replicas the operator wants.")
        self.current = self._gauge("current_replicas", "Replicas the target asks for.")
        self.serving = self._gauge("serving_replicas", "Pods that serve.")
        self.starting = self._gauge("starting_replicas", "Pods ordered and not yet serving.")
        self.cordoned = self._gauge(
            "cordoned_replicas", "Pods out of the endpoints that go when they are empty."
        )
        self.unknown = self._gauge("unknown_replicas", "Serving pods of which nothing is known.")
        self.usage = self._gauge(
            "kv_usage_ratio", "Pinned KV of the serving pods, 0..1, weighted by capacity."
        )
        self.used = self._gauge("kv_used_tokens", "Tokens pinned in the serving pods' KV caches.")
        self.capacity = self._gauge("kv_capacity_tokens", "Tokens that fit into those caches.")
        self.pending = self._gauge("pending_requests", "Requests waiting in the serving pods.")
        self.running = self._gauge("running_requests", "Requests running in the serving pods.")
        self.reason = Gauge(
            "cacheaware_decision",
            "1 for the reason of the last decision.",
            (*SCALER, "reason"),
            registry=self.registry,
        )
        self.scaled = self._counter("scale_events", "Changes of replicas written.", "direction")
        self.scrape_errors = self._counter("scrape_errors", "Looks without a load.", "reason")
        self.wrong_victims = self._counter(
            "other_pods_deleted", "Pods that went in a shrink and were not chosen."
        )
        self.failed_rounds = self._counter("failed_rounds", "Rounds that ended in an error.")
        self.round_seconds = Histogram(
            "cacheaware_round_seconds",
            "From reading the target to the end of a scaler's round.",
            registry=self.registry,
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.control_calls = Counter(
            "cacheaware_control_calls",
            "Calls to sidecars: cordon, uncordon, deadline.",
            ("call", "outcome"),
            registry=self.registry,
        )
        self.drains = Histogram(
            "cacheaware_drain_seconds",
            "From a pod's cordon until it was given up empty, or came back.",
            (*SCALER, "outcome"),
            registry=self.registry,
            buckets=(5, 10, 30, 60, 120, 300, 600, 1200, 3600),
        )
        self.cold_starts = Histogram(
            "cacheaware_cold_start_seconds",
            "Pods' ways to serving, by stage: schedule, pull, load, warm, and total.",
            (*SCALER, "stage"),
            registry=self.registry,
            buckets=(1, 2.5, 5, 10, 20, 40, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600),
        )
        self.api_errors = Counter(
            "cacheaware_api_errors",
            "Calls to the Kubernetes API that failed; status 0: not reached.",
            ("method", "status"),
            registry=self.registry,
        )
        self.lease = Gauge(
            "cacheaware_lease_held", "1 while this operator may write.", registry=self.registry
        )
        self.watch_silence = Gauge(
            "cacheaware_pod_watch_silence_seconds",
            "Since the most silent watch of pods was known to work.",
            registry=self.registry,
        )
        self._reasons: dict[tuple[str, str], str] = {}
        self._numbers: dict[tuple[str, str], tuple[float | None, ...]] = {}
        """What the gauges of a scaler show."""
        self._series: dict[tuple[str, str], dict[Gauge, Gauge]] = {}
        """A scaler's own series of each gauge: to look it up costs as much as all else here."""
        self._by_scaler: list[Gauge] = [
            self.desired, self.current, self.serving, self.starting, self.cordoned, self.unknown,
            self.usage, self.used, self.capacity, self.pending, self.running,
        ]  # fmt: skip

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"cacheaware_{name}", text, SCALER, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"cacheaware_{name}", text, (*SCALER, *labels), registry=self.registry)

    def api_error(self, method: str, status: int) -> None:
        """A call to the API failed."""
        self.api_errors.labels(method, str(status)).inc()

    def started(self, namespace: str, name: str, start: ColdStart) -> None:
        """A pod has begun to serve."""
        for stage in Stage:
            self.cold_starts.labels(namespace, name, stage.value).observe(start.of(stage))
        self.cold_starts.labels(namespace, name, "total").observe(start.total)

    def control_call(self, call: str, outcome: str) -> None:
        """A sidecar was called."""
        self.control_calls.labels(call, outcome).inc()

    def drained(self, namespace: str, name: str, outcome: str, lasted: Iterable[float]) -> None:
        """Pods' drains ended: `emptied` or `called_off`."""
        for seconds in lasted:
            self.drains.labels(namespace, name, outcome).observe(seconds)

    def decided(self, fleet: FleetView, decision: Decision) -> None:
        """Show a round; a number that is not known has no series rather than a zero."""
        key = (fleet.namespace, fleet.name)
        loads = [pod.load for pod in fleet.pods if pod.phase is Phase.SERVING]
        serving = [load for load in loads if load is not None and not load.sleeping]
        used, capacity = (
            total(x.used_tokens for x in serving),
            total(x.capacity_tokens for x in serving),
        )
        usages = [load.usage for load in serving]
        self._show_numbers(
            key,
            decision.desired,
            decision.current,
            decision.serving,
            decision.starting,
            fleet.cordoned,
            decision.unknown,
            ratio(used, capacity, usages),
            used,
            capacity,
            total(load.waiting for load in serving),
            total(load.running for load in serving),
        )
        self._show_reason(key, decision.reason)

    def _show_numbers(self, key: tuple[str, str], *values: float | None) -> None:
        """Show what has changed of the numbers, in the order of the gauges."""
        before = self._numbers.get(key, (None,) * len(values))
        series = self._series.setdefault(key, {})
        for gauge, value, shown in zip(self._by_scaler, values, before, strict=True):
            if value != shown:
                show(gauge, key, value, series)
        self._numbers[key] = values

    def _show_reason(self, key: tuple[str, str], reason: str) -> None:
        before = self._reasons.get(key)
        if before == reason:
            return
        if before is not None:
            self.reason.remove(*key, before)
        self._reasons[key] = reason
        self.reason.labels(*key, reason).set(1)

    def undecided(self, namespace: str, name: str) -> None:
        """Nothing is known of a scaler's target now: the numbers of before are not shown on."""
        self._show_numbers((namespace, name), *([None] * len(self._by_scaler)))
        del self._numbers[namespace, name], self._series[namespace, name]
        if (reason := self._reasons.pop((namespace, name), None)) is not None:
            self.reason.remove(namespace, name, reason)

    def forget(self, namespace: str, name: str) -> None:
        """Remove a scaler's series."""
        self.undecided(namespace, name)
        match = {"namespace": namespace, "name": name}
        counters = (self.scaled, self.scrape_errors, self.wrong_victims, self.failed_rounds)
        for metric in (*counters, self.cold_starts, self.drains):
            metric.remove_by_labels(match)


def show(
    gauge: Gauge, key: tuple[str, str], value: float | None, series: dict[Gauge, Gauge]
) -> None:
    """Set a gauge, or remove its series where the value is not known."""
    if value is None:
        gauge.remove(*key)
        series.pop(gauge, None)
        return
    if gauge not in series:
        series[gauge] = gauge.labels(*key)
    series[gauge].set(value)


def total(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def ratio(
    used: float | None, capacity: float | None, usages: Iterable[float | None]
) -> float | None:
    """Usage by tokens where they are known, else the mean of the pods' usages."""
    if used is not None and capacity:
        return used / capacity
    known = [usage for usage in usages if usage is not None]
    return sum(known) / len(known) if known else None


def set_up_logging(log_format: str, level: str) -> None:
    """One line per record on stderr: plain text, or JSON for a log collector."""
    handler = logging.StreamHandler(sys.stderr)
    fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
    handler.setFormatter(json_lines(fields) if log_format == "json" else logging.Formatter(fields))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in NOISY:
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def json_lines(fields: str) -> JsonFormatter:
    """JSON of the fields and of the object that kopf names; any value that JSON lacks as text."""
    return JsonFormatter(fields, json_default=str, reserved_attrs=[*RESERVED_ATTRS, *ONLY_FOR_KOPF])
