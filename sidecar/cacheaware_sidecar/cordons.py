"""What became of the cordons of a pod: told in the log, counted for the metrics."""

import logging
from collections import Counter

from cacheaware_sidecar.lifecycle import Cordon, Event, Tick, Uncordoned

UNCORDONED = "uncordoned"
EXPIRED = "expired"
ENGINE = "engine"
WORDS = {
    UNCORDONED: "was taken back",
    EXPIRED: "has ended: nobody renewed it",
    ENGINE: "has ended with its engine",
}
log = logging.getLogger(__name__)


class Cordons:
    """Counts them."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended: Counter[str] = Counter()
        """By how."""

    def note(self, before: Cordon | None, after: Cordon | None, event: Event) -> None:
        """Takes what an event has made of the pod's cordon."""
        if after and not before:
            self.begun += 1
            log.info("cordoned by %s", after.by)
        if before and not after:
            how = _how(event)
            self.ended[how] += 1
            log.info("the cordon of %s %s", before.by, WORDS[how])


def _how(event: Event) -> str:
    if isinstance(event, Uncordoned):
        return UNCORDONED
    return EXPIRED if isinstance(event, Tick) else ENGINE
