"""Relieves a pod: takes the steps, says each in the log, and counts them."""

import logging
from collections import Counter
from dataclasses import replace

from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.health import ERROR, Symptom
from cacheaware_sidecar.lifecycle import Cordoned, Lifecycle, Uncordoned
from cacheaware_sidecar.relief import HOLDER, Rules, Step, Strain, observed, step

log = logging.getLogger(__name__)


class Relief:
    """Remembers the strain of one pod; without rules it never does anything."""

    def __init__(self, rules: Rules | None, now: float) -> None:
        self.rules = rules
        self.strain = Strain(last=now)
        self.begun = 0
        self.aborts: Counter[str] = Counter()
        """By what came of them."""

    def look(
        self, state: Lifecycle, sample: EngineSample | None, now: float
    ) -> tuple[Cordoned | Uncordoned | None, bool]:
        """Takes a look: an event for the phases, if one is due, and whether to abort now."""
        rules = self.rules
        if rules is None:
            return None, False
        self.strain = observed(self.strain, sample, rules, now)
        match step(self.strain, state, rules, now):
            case Step.CORDON:
                self.strain = replace(self.strain, last=now, aborted=False)
                self.begun += 1
                log.warning("relief: %s; cordoned for %g s", self._why(rules), rules.lease_s)
                return Cordoned(HOLDER, rules.lease_s), False
            case Step.ABORT:
                self.strain = replace(self.strain, aborted=True)
                log.warning("relief: still so; what is in flight is aborted, as is allowed")
                return None, True
            case Step.UNCORDON:
                log.warning("relief: there is room again; given back")
                return Uncordoned(), False
            case _:
                return None, False

    def aborted(self, how: str) -> None:
        """Takes what came of an abort."""
        self.aborts[how] += 1
        log.warning("relief: abort: %s", how)

    def findings(self, state: Lifecycle) -> tuple[Symptom, ...]:
        """What a person should know while it lasts."""
        if self.rules is None or state.cordon is None or state.cordon.by != HOLDER:
            return ()
        return (Symptom("relief", ERROR, f"the pod has cordoned itself: {self._why(self.rules)}"),)

    @staticmethod
    def _why(rules: Rules) -> str:
        return (
            f"{rules.level:.0%} of the KV cache pinned and requests waiting for {rules.after_s:g} s"
        )
