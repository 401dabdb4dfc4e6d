"""PURE: what one or two looks at an engine's page say about the health of its KV cache."""

from cacheaware_sidecar.health.examine import examine
from cacheaware_sidecar.health.looks import Look, Looks, look
from cacheaware_sidecar.health.symptom import ERROR, INFO, WARNING, Symptom

__all__ = ["ERROR", "INFO", "WARNING", "Look", "Looks", "Symptom", "examine", "look"]
