"""A drift of the canary in words. Pure."""

from cacheaware_sidecar.canary.compare import CONFIRM, Comparison
from cacheaware_sidecar.health.symptom import ERROR, WARNING, Symptom


def drift(found: Comparison, on_end: int) -> Symptom | None:
    """The finding about so many drifted runs on end, of which this is the last."""
    if on_end < CONFIRM:
        return None
    return Symptom(
        "canary-drift",
        ERROR if found.doubtless else WARNING,
        f"{on_end} answers to the canary on end are not those of the baseline: {told(found)}",
        "compare weights, quantisation and engine flags with those of a healthy pod, and ask both"
        " with `cacheaware probe canary`; restart the pod if it alone has drifted",
    )


def told(found: Comparison) -> str:
    """A comparison in words."""
    if found.broken:
        return "a log probability is no number"
    parts = []
    if found.mean is not None and found.tolerance is not None:
        parts.append(
            f"log probabilities of {found.tokens} tokens differ by {found.mean:.3g} nats on"
            f" average, {found.tolerance:.3g} is the tolerance"
        )
    if found.first_changed is not None:
        more = ", which was no tie" if found.turned else ""
        parts.append(
            f"{found.changed:.0%} of the answer's tokens are others, from token"
            f" {found.first_changed + 1} on{more}"
        )
    return "; ".join(parts)
