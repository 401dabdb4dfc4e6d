"""Which problems are news: each is said once when it comes up, not once a second."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

FORGET_S: Final = 300.0
"""A problem that comes back within this time is no news."""


@dataclass(slots=True)
class ProblemLog:
    """Remembers what was said and when it was last seen."""

    _seen: dict[str, float] = field(default_factory=dict)

    def update(self, problems: Iterable[str], now: float) -> list[str]:
        """The problems that were not there lately."""
        self._seen = {line: at for line, at in self._seen.items() if now - at < FORGET_S}
        current = tuple(problems)
        news = [line for line in dict.fromkeys(current) if line not in self._seen]
        self._seen.update(dict.fromkeys(current, now))
        return news
