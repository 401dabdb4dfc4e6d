"""Who else owns a target's replicas. One owner, one writer: with another, we write nothing.

Of other installations of this operator: see claims.
"""

from cacheaware import names
from cacheaware.controller.registry import Registry, Scaler


def conflict(scaler: Scaler, registry: Registry) -> str | None:
    """The other owner as a noun; None when there is none."""
    if scaler.ref is None:
        return None
    claims = sorted(str(one) for one in registry.claims(scaler.ref))
    return " and ".join(claims) or older_rival(scaler, registry)


def older_rival(scaler: Scaler, registry: Registry) -> str | None:
    """Of several CacheAwareScalers in Scale the oldest writes; ties go by uid."""
    older = [one for one in registry.rivals(scaler) if age(one) < age(scaler)]
    return f"the older {names.KIND} {min(older, key=age).name}" if older else None


def age(scaler: Scaler) -> tuple[str, str]:
    """Sorts the oldest first."""
    return (scaler.created, scaler.uid)
