"""How many requests a pod has run lately: what its rates of the last minute are of."""

SMOOTH_S = 60.0


def smoothed(before: float | None, running: float | None, seconds: float) -> float | None:
    """The requests that ran over about the last minute; None where that is not known now.

    >>> smoothed(4.0, 10.0, 30.0), smoothed(None, 10.0, 5.0), smoothed(4.0, None, 5.0)
    (7.0, 10.0, None)
    """
    if running is None or before is None:
        return running
    return before + (running - before) * min(1.0, max(0.0, seconds) / SMOOTH_S)
