"""From an engine's metrics page to one `EngineSample`: pure, one small file per engine."""

from cacheaware_sidecar.engines.sample import EngineSample, Histogram

__all__ = ["EngineSample", "Histogram"]
