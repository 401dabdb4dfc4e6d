"""The last minute of looks at the pod's engines, and what they come to."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from cacheaware_sidecar.health import ERROR, INFO, Look, Looks, Symptom, examine

STEP_S: Final = 15.0
"""Between two looks that are kept: the rules want changes, and a look is not for nothing."""
WINDOW_S: Final = 60.0


class HealthWindow:
    """Findings about a pod that serves; none before it does, for a warm-up is no load."""

    def __init__(self) -> None:
        self.findings: tuple[Symptom, ...] = ()
        self._looks: deque[tuple[float, tuple[Look, ...]]] = deque()

    def is_due(self, now: float) -> bool:
        """Whether it is time for another look."""
        return not self._looks or now - self._looks[-1][0] >= STEP_S

    def take(self, looks: Sequence[Look], now: float) -> None:
        """Takes one look at each engine of the pod."""
        own = tuple(looks)
        if self._looks and len(self._looks[-1][1]) != len(own):
            self._looks.clear()
        self._looks.append((now, own))
        while len(self._looks) > 2 and self._looks[1][0] <= now - WINDOW_S:
            self._looks.popleft()
        at, before = self._looks[0]
        pairs = zip(before, own, strict=True)
        seconds = round(now - at, 1)
        every = [Looks(new, old if now > at else None, seconds) for old, new in pairs]
        found: dict[str, Symptom] = {}
        for one in (symptom for each in every for symptom in examine(each)):
            if one.id not in found or one.severity == ERROR:
                found[one.id] = one
        self.findings = tuple(found.values())

    def forget(self) -> None:
        """The pod does not serve: what was found is void."""
        self._looks.clear()
        self.findings = ()


def problem_lines(findings: Iterable[Symptom]) -> tuple[str, ...]:
    """What a person should know, one line each; without numbers, which are new each time."""
    bad = (one for one in findings if one.severity != INFO)
    return tuple(f"health: {one.id} ({one.severity})" for one in bad)
