"""Pauses that double: what failed again is tried again later and later."""

MOST_DOUBLINGS = 16


def doubled(first_s: float, times: int, longest_s: float) -> float:
    """Seconds to pause after so many failures in a row.

    >>> [doubled(60.0, times, 600.0) for times in (1, 2, 3, 4, 5)]
    [60.0, 120.0, 240.0, 480.0, 600.0]
    """
    return float(min(longest_s, first_s * 2 ** min(times - 1, MOST_DOUBLINGS)))
