"""From a model's config.json to bytes, pages and blocks per request: pure.

`geometry(config)` gives a `Geometry`; a field that can't be right raises `ConfigError`.
"""

from cacheaware_sidecar.kv.errors import ConfigError
from cacheaware_sidecar.kv.geometry import Geometry
from cacheaware_sidecar.kv.kinds import Kind
from cacheaware_sidecar.kv.layer import Layer
from cacheaware_sidecar.kv.parallel import Parallel
from cacheaware_sidecar.kv.sizing import check_options, geometry

__all__ = ["ConfigError", "Geometry", "Kind", "Layer", "Parallel", "check_options", "geometry"]
