"""Pods whose cache was lost while they went on: nothing in it is worth keeping, or will be hit.

What a pod tells of its prefix hits is of the last minute, and so of the cache before. Until that is
over its hit ratio is 0: the pod is worth less as long as its cache is cold, and its prompts count
whole, for they have to be prefilled anew.
"""

from msgspec.structs import replace

from cacheaware.decide.supply import Pod, Supply

MEASURED_SECONDS = 60.0
"""Hit ratios are measured over this time (`Observed` in the sidecar)."""


def is_cold(pod: Pod) -> bool:
    """Whether a pod's hits may still be those of a cache that is gone."""
    emptied_s = pod.view.emptied_s
    return emptied_s is not None and emptied_s < MEASURED_SECONDS


def without_hits(supply: Supply) -> Supply:
    """The supply with no hits in caches that were lost a moment ago."""
    if not any(map(is_cold, supply.serving + supply.cordoned)):
        return supply
    return replace(
        supply,
        serving=tuple(map(cold, supply.serving)),
        cordoned=tuple(map(cold, supply.cordoned)),
    )


def cold(pod: Pod) -> Pod:
    """A pod with nothing in its prefix cache, if that was lost."""
    if pod.load is None or not is_cold(pod):
        return pod
    return replace(pod, load=replace(pod.load, prefix_hit_ratio=0.0))


def emptied_words(supply: Supply) -> str:
    """Whose caches were lost, and how; empty where none was."""
    lost = [pod for pod in supply.serving + supply.cordoned if is_cold(pod)]
    if not lost:
        return ""
    view = lost[0].view
    more = f", and of {len(lost) - 1:,} more" if len(lost) > 1 else ""
    return (
        f"the cache of {view.name} was lost {view.emptied_s or 0.0:,.0f} s ago"
        f" ({view.emptied_by}){more}: prompts there count whole"
    )
