"""From an engine's metrics page to one `EngineSample`: pure, one small file per engine."""

from cacheaware_sidecar.engines.detect import ENGINES
from cacheaware_sidecar.engines.rates import (
    Rates,
    fell_alone,
    rates,
    restarted,
    without_fallen,
)
from cacheaware_sidecar.engines.sample import EngineSample, Histogram
from cacheaware_sidecar.engines.scan import scan
from cacheaware_sidecar.engines.several import together
from cacheaware_sidecar.engines.subtract import Own, has_counted, since, with_own, without_own

__all__ = [
    "ENGINES",
    "EngineSample",
    "Histogram",
    "Own",
    "Rates",
    "fell_alone",
    "has_counted",
    "rates",
    "restarted",
    "scan",
    "since",
    "together",
    "with_own",
    "without_fallen",
    "without_own",
]
