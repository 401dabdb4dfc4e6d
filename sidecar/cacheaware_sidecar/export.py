"""The sidecar's own Prometheus page: five KV names without a prefix, all else `cacheaware_`.

What is unknown has no series; there is no `python_` or `process_` series.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import CanaryState, PodState

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that the page shows."""

    state: PodState
    version: str = "unknown"
    """Of the sidecar."""
    fresh: bool
    """Whether the newest page of the engine is young enough to speak of now."""
    scrape_errors: Mapping[str, int] = field(default_factory=dict)
    """By kind."""
    engine_restarts: int = 0
    drain_s: float | None = None
    drain_cut: float | None = None
    """Requests that still ran or waited at a drain's deadline; None without a drain that ended."""
    cordons: int = 0
    """That have begun."""
    cordons_ended: Mapping[str, int] = field(default_factory=dict)
    """By how."""
    control_calls: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By call and status."""
    config_loaded: bool | None = None
    """None where no configuration is asked for."""
    reliefs: int | None = None
    """Cordons by relief that have begun; None where it is off."""
    relief_aborts: Mapping[str, int] = field(default_factory=dict)
    """By what came of them."""


class _Page(Collector):
    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        yield from _load(self._view.state, fresh=self._view.fresh)
        yield from _pod(self._view.state, self._view.version)
        yield from _history(self._view)
        yield from _start(self._view.state)
        yield from _cordons(self._view)
        yield from _relief(self._view)
        yield from _canary(self._view.state.canary)
        yield from _labeled(
            "cacheaware_finding",
            "1 for what the last minute of the engine's pages, or its canary, shows.",
            ("id", "severity"),
            dict.fromkeys(((one.id, one.severity) for one in self._view.state.findings), 1.0),
        )


def render(view: View) -> bytes:
    """The page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(view))
    return generate_latest(registry)


def _gauge(name: str, text: str, value: float | None) -> Iterator[Metric]:
    if value is not None:
        yield GaugeMetricFamily(name, text, value=float(value))


def _load(state: PodState, *, fresh: bool) -> Iterator[Metric]:
    """What the engine carries, as long as that is known."""
    kv = state.kv
    yield from _gauge("kv_page_bytes", "One block of one layer on one rank.", kv.page_bytes)
    if not fresh:
        return
    yield from _gauge("kv_cache_used_bytes", "KV cache in use, whole pod.", kv.used_bytes)
    yield from _gauge("kv_cache_capacity_bytes", "KV cache, whole pod.", kv.capacity_bytes)
    yield from _gauge("pending_requests", "Requests that wait.", state.waiting)
    yield from _gauge("running_requests", "Requests being executed.", state.running)
    yield from _gauge("cacheaware_kv_usage_ratio", "KV cache in use, 0 to 1.", kv.usage)
    yield from _gauge("cacheaware_kv_usage_max_ratio", "Of the fullest engine.", kv.usage_max)
    yield from _gauge("cacheaware_kv_used_tokens", "Tokens in use.", kv.used_tokens)
    yield from _gauge("cacheaware_kv_capacity_tokens", "Tokens that fit.", kv.capacity_tokens)


def _pod(state: PodState, version: str) -> Iterator[Metric]:
    phases = GaugeMetricFamily("cacheaware_phase", "1 for the phase of the pod.", labels=["phase"])
    for phase in Phase:
        phases.add_metric([phase.value], float(phase == state.phase))
    yield phases
    yield from _gauge("cacheaware_phase_age_seconds", "Age of the phase.", state.phase_age_s)
    yield from _gauge(
        "cacheaware_sample_age_seconds", "Age of the newest good page.", state.sample_age_s
    )
    yield from _gauge("cacheaware_problems", "Problems in /v1/state.", len(state.problems))
    labels = {
        "engine": state.engine or "",
        "engine_version": state.version or "",
        "version": version,
    }
    info = GaugeMetricFamily("cacheaware_info", "What runs here.", labels=list(labels))
    info.add_metric([_sendable(each) for each in labels.values()], 1.0)
    yield info


def _history(view: View) -> Iterator[Metric]:
    errors = CounterMetricFamily(
        "cacheaware_scrape_errors", "Looks at the engine's page that failed.", labels=["kind"]
    )
    for kind, count in sorted(view.scrape_errors.items()):
        errors.add_metric([kind], float(count))
    yield errors
    good = float(view.state.sample_seq or 0)
    yield CounterMetricFamily("cacheaware_scrapes", "Good looks at the engine's page.", value=good)
    restarts = float(view.engine_restarts)
    yield CounterMetricFamily("cacheaware_engine_restarts", "Engines lost.", value=restarts)
    yield from _gauge("cacheaware_drain_duration_seconds", "Length of drain.", view.drain_s)
    yield from _gauge("cacheaware_drain_cut_requests", "Cut at its deadline.", view.drain_cut)
    loaded = None if view.config_loaded is None else float(view.config_loaded)
    yield from _gauge("cacheaware_config_loaded", "Whether config.json was read.", loaded)


def _start(state: PodState) -> Iterator[Metric]:
    """How the pod came to serve."""
    start, warmup = state.start, state.warmup
    yield from _gauge("cacheaware_start_loading_seconds", "Until healthy.", start.loading_s)
    yield from _gauge("cacheaware_start_warming_seconds", "From then to serving.", start.warming_s)
    yield from _gauge("cacheaware_warmup_duration_seconds", "Length of warm-up.", warmup.duration_s)
    yield from _gauge("cacheaware_warmup_requests", "Answered in it.", warmup.requests)
    tokens = {"prompt": warmup.prompt_tokens, "generation": warmup.generation_tokens}
    yield from _labeled(
        "cacheaware_warmup_tokens",
        "Of those.",
        ("kind",),
        {(kind,): float(count) for kind, count in tokens.items() if count is not None},
    )
    yield from _labeled(
        "cacheaware_warmup_latency_seconds",
        "Of a shape.",
        ("shape", "at"),
        {
            (shape.name, at): seconds
            for shape in warmup.shapes
            for at, seconds in (("first", shape.first_s), ("last", shape.last_s))
            if seconds is not None
        },
    )
    if warmup.verdict is not None:
        verdict: dict[tuple[str, ...], float] = {(warmup.verdict,): 1.0}
        yield from _labeled("cacheaware_warmup_verdict", "How it ended.", ("verdict",), verdict)


def _sendable(label: str) -> str:
    """A label as UTF-8 can hold it: an adapter's name, from an engine, may be half a surrogate."""
    return label.encode("utf-8", "replace").decode()


def _labeled(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> Iterator[Metric]:
    """A gauge with a series for each value; none where there is no value."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for each, value in values.items():
        family.add_metric([_sendable(label) for label in each], value)
    if values:
        yield family


def _cordons(view: View) -> Iterator[Metric]:
    drain = view.state.drain
    yield from _gauge("cacheaware_cordon_age_seconds", "Since its begin.", drain.cordoned_s)
    yield from _gauge("cacheaware_cordon_lease_seconds", "Until its end.", drain.lease_s)
    begun = float(view.cordons)
    yield CounterMetricFamily("cacheaware_cordons", "Cordons of this pod.", value=begun)
    ended = CounterMetricFamily(
        "cacheaware_cordons_ended", "How they ended: uncordoned, expired, engine.", labels=["how"]
    )
    for how, count in sorted(view.cordons_ended.items()):
        ended.add_metric([how], float(count))
    yield ended
    calls = CounterMetricFamily(
        "cacheaware_control_answers", "Control calls answered.", labels=["call", "status"]
    )
    for (call, status), count in sorted(view.control_calls.items()):
        calls.add_metric([call, str(status)], float(count))
    yield calls


def _relief(view: View) -> Iterator[Metric]:
    if view.reliefs is None:
        return
    begun = float(view.reliefs)
    yield CounterMetricFamily("cacheaware_reliefs", "Cordons by relief.", value=begun)
    aborts = CounterMetricFamily(
        "cacheaware_relief_aborts", "What came of aborts by relief.", labels=["how"]
    )
    for how, count in sorted(view.relief_aborts.items()):
        aborts.add_metric([how], float(count))
    yield aborts


def _canary(canary: CanaryState | None) -> Iterator[Metric]:
    if canary is None:
        return
    runs = CounterMetricFamily(
        "cacheaware_canary_runs", "What came of runs of the canary.", labels=["result"]
    )
    for result in ("answered", "failed", "skipped"):
        runs.add_metric([result], float(getattr(canary, result)))
    yield runs
    if canary.verdict is not None:
        verdict: dict[tuple[str, ...], float] = {(canary.verdict,): 1.0}
        yield from _labeled("cacheaware_canary_verdict", "Of the last.", ("verdict",), verdict)
    yield from _gauge("cacheaware_canary_age_seconds", "Of the last verdict.", canary.age_s)
    yield from _gauge(
        "cacheaware_canary_difference_nats",
        "Mean difference of log probabilities from the baseline.",
        canary.difference_nats,
    )
    yield from _gauge(
        "cacheaware_canary_tolerance_nats", "Up to which it is no drift.", canary.tolerance_nats
    )
    yield from _gauge(
        "cacheaware_canary_changed_ratio",
        "Tokens of the answer that are others.",
        canary.changed_ratio,
    )
