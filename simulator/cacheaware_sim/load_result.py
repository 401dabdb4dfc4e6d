"""What became of the requests of a load generator."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

MOST_LOSSES = 100


@dataclass(frozen=True, slots=True)
class Loss:
    """One request that was lost."""

    at: str
    """When it was lost, in UTC as ISO 8601, to be found in the logs of others."""
    request: int
    kind: str
    after_s: float
    """Seconds since it was sent."""
    pieces: int
    """Pieces of the answer that had come."""
    detail: str
    """What the server or the connection said."""


@dataclass(slots=True)
class LoadResult:
    """Counts and times (seconds) of the requests that were sent."""

    sent: int = 0
    ok: int = 0
    not_sent: int = 0
    """Arrivals of an open loop while too many requests were in flight."""
    failed: Counter[str] = field(default_factory=Counter)
    """By kind, e.g. refused, http-500, error-in-stream, no-finish-reason, cut, timeout."""
    losses: list[Loss] = field(default_factory=list)
    """The first ones, in order of time."""
    began_at: str | None = None
    """When the sending began, in UTC as ISO 8601; None: not yet."""
    duration_s: float = 0.0
    slo_ttft_ms: float | None = None
    slo_tpot_ms: float | None = None
    within_targets: int = 0
    """Streams whose times were both within the targets that there are."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    ttft_s: list[float] = field(default_factory=list)
    tpot_s: list[float] = field(default_factory=list)
    e2e_s: list[float] = field(default_factory=list)

    def lose(self, loss: Loss) -> None:
        """Keep a loss; of very many the first."""
        if len(self.losses) < MOST_LOSSES:
            self.losses.append(loss)

    def timed(self, ttft_s: float, tpot_s: float | None) -> None:
        """Take in the times of a stream; None: it had no further token."""
        self.ttft_s.append(ttft_s)
        if tpot_s is not None:
            self.tpot_s.append(tpot_s)
        ttft_met = self.slo_ttft_ms is None or ttft_s * 1e3 <= self.slo_ttft_ms
        tpot_met = self.slo_tpot_ms is None or (tpot_s or 0.0) * 1e3 <= self.slo_tpot_ms
        self.within_targets += ttft_met and tpot_met

    def attainment_percent(self) -> float | None:
        """Streams within the targets, of all that came, sent or not; None without a target."""
        came = self.sent + self.not_sent
        if not came or (self.slo_ttft_ms is None and self.slo_tpot_ms is None):
            return None
        return round(100 * self.within_targets / came, 3)

    def as_json(self) -> dict[str, Any]:
        """Stable keys; latencies are null where nothing was measured."""
        return {
            "sent": self.sent,
            "ok": self.ok,
            "failed": dict(sorted(self.failed.items())),
            "failed_total": self.failed.total(),
            "losses": [asdict(loss) for loss in self.losses],
            "not_sent": self.not_sent,
            "began_at": self.began_at,
            "duration_s": round(self.duration_s, 3),
            "requests_per_s": round(self.sent / self.duration_s, 3) if self.duration_s else None,
            "attainment_percent": self.attainment_percent(),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "ttft_s": summary(self.ttft_s),
            "tpot_s": summary(self.tpot_s),
            "e2e_s": summary(self.e2e_s),
        }


def summary(values: list[float]) -> dict[str, float] | None:
    """Mean, quantiles (the next value at or above) and maximum; None of no values.

    >>> summary([1.0, 2.0, 3.0, 4.0])["p50"]
    2.0
    """
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    quantiles = {
        name: ordered[min(last, max(0, -int(-share * len(ordered) // 1) - 1))]
        for name, share in QUANTILES.items()
    }
    numbers = {"mean": fmean(ordered), **quantiles, "max": ordered[-1]}
    return {name: round(number, 6) for name, number in numbers.items()}
