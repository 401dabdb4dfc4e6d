"""The phases of a pod: words of the contract between sidecar and operator."""

from enum import StrEnum


class Phase(StrEnum):
    """Where a pod stands, in the order of its life."""

    LOADING = "loading"
    WARMING = "warming"
    SERVING = "serving"
    CORDONED = "cordoned"
    DRAINING = "draining"
    DRAINED = "drained"
