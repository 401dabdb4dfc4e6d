"""When a pod's KV cache is lost and the pod is not: its engine woke from sleep, or began anew.

A prefix cache that is reset by a call (vLLM `/reset_prefix_cache`, SGLang `/flush_cache`) leaves no
trace on a metrics page but the hits that fail to come; they are measured over the last minute.
"""

from msgspec import Struct
from msgspec.structs import replace

from cacheaware.observe.look import Look
from cacheaware_sidecar.phase import Phase

WOKE = "its engine woke from sleep"
ANEW = "its engine began anew"
AT_WORK = frozenset({Phase.SERVING, Phase.CORDONED})
BEFORE_WORK = frozenset({Phase.LOADING, Phase.WARMING})


class CacheMemory(Struct, frozen=True, kw_only=True):
    """What is remembered of a pod's cache; it outlives its containers' restarts."""

    prompt_tokens: float | None = None
    """The engine's counter when last told: one that fell is another engine's."""
    slept: bool = False
    """Its engine slept when last told."""
    emptied_at: float | None = None
    """When the cache was last found to be lost."""
    emptied_by: str = ""


def cached(before: CacheMemory, phase: Phase | None, look: Look) -> CacheMemory:
    """Take in a look.

    Args:
        before: what was remembered.
        phase: what the pod's sidecar told before; None without one.
        look: what it told now.
    """
    why = emptied_by(before, phase, look)
    told, sleeping = look.counters.prompt_tokens, look.load.sleeping if look.load else None
    return replace(
        before,
        prompt_tokens=before.prompt_tokens if told is None else told,
        slept=before.slept if sleeping is None else sleeping,
        emptied_at=look.at if why else before.emptied_at,
        emptied_by=why or before.emptied_by,
    )


def emptied_by(before: CacheMemory, phase: Phase | None, look: Look) -> str:
    """Why the cache is lost since the look before; empty where it is not known to be."""
    if phase in AT_WORK and look.phase in BEFORE_WORK:
        return ANEW
    told = look.counters.prompt_tokens
    if told is not None and before.prompt_tokens is not None and told < before.prompt_tokens:
        return ANEW
    wakes = look.load is not None and look.load.sleeping is False
    return WOKE if before.slept and wakes else ""
