"""The model's KV geometry for what the engine says of itself: its block size and cache dtype."""

from typing import Any

from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.kv import ConfigError, Geometry, Parallel, geometry
from cacheaware_sidecar.settings import Settings


class ModelGeometry:
    """The geometry at a sample's block size and dtype, computed anew only when they change."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._config: dict[str, Any] | None = None
        self._key: tuple[int | None, str] | None = None
        self._geometry: Geometry | None = None
        self.problems: tuple[str, ...] = ()
        """Why bytes are unknown, or what to know about them."""

    @property
    def config(self) -> dict[str, Any] | None:
        """The model's config.json, once there is one."""
        return self._config

    @config.setter
    def config(self, config: dict[str, Any]) -> None:
        if config != self._config:
            self._config, self._key = config, None

    def of(self, sample: EngineSample) -> Geometry | None:
        """The geometry at the sample's block size; None where it is unknown."""
        if self._config is None:
            return None
        key = (sample.block_size, self._dtype(sample))
        if key != self._key:
            self._key = key
            self._compute(self._config, *key)
        return self._geometry

    def _dtype(self, sample: EngineSample) -> str:
        told = self._settings.kv_cache_dtype
        return told if told != "auto" else sample.kv_dtype or "auto"

    def _compute(self, config: dict[str, Any], block_size: int | None, dtype: str) -> None:
        settings = self._settings
        self._geometry, self.problems = None, ()
        try:
            parallel = Parallel(
                tensor=settings.tensor_parallel,
                pipeline=settings.pipeline_parallel,
                decode_context=settings.decode_context_parallel,
            )
            self._geometry = geometry(config, parallel, dtype, block_size)
            self.problems = self._geometry.warnings
        except ConfigError as error:
            self.problems = (f"config.json: {error}",)
