"""Who else owns a target's replicas. One owner, one writer: with another, we write nothing."""

from cacheaware import names
from cacheaware.controller.registry import Registry, Scaler


def conflict(scaler: Scaler, registry: Registry, installation: str) -> str | None:
    """The other owner in words; None when there is none."""
    if scaler.ref is None:
        return None
    if scaler.installation is not None and scaler.installation != installation:
        return (
            f"the annotation {names.OWNER} gives this object to the installation in"
            f" {scaler.installation!r}; this one is {installation!r}"
        )
    claims = sorted(str(one) for one in registry.claims(scaler.ref))
    if claims:
        return f"{scaler.ref.kind} {scaler.ref.name} is managed by {' and '.join(claims)}"
    return older_rival(scaler, registry)


def older_rival(scaler: Scaler, registry: Registry) -> str | None:
    """Of several CacheAwareScalers in Scale the oldest writes; ties go by uid."""
    older = [one for one in registry.rivals(scaler) if age(one) < age(scaler)]
    if not older:
        return None
    first = min(older, key=age)
    return f"the older {names.KIND} {first.name} scales {first.ref}"


def age(scaler: Scaler) -> tuple[str, str]:
    """Sorts the oldest first."""
    return (scaler.created, scaler.uid)
