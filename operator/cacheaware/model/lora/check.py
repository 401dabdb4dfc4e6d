"""Whether an adapter binds: every tensor against the modules of the base model."""

from dataclasses import dataclass

from cacheaware.doctor.findings import Finding, Severity, worst_first
from cacheaware.model.lora.adapter import Adapter
from cacheaware.model.lora.base_model import Base
from cacheaware.model.lora.engines import Case, Outcome, outcomes
from cacheaware.model.lora.matches import Match, match_of
from cacheaware.model.lora.rules import RULES, Seen
from cacheaware.model.lora.tensors import values_of


@dataclass(frozen=True, slots=True)
class Report:
    """What was found about an adapter."""

    matches: tuple[Match, ...]
    findings: tuple[Finding, ...]
    engines: tuple[Outcome, ...]

    @property
    def well(self) -> bool:
        """Whether nothing but information was found."""
        return all(one.severity is Severity.INFO for one in self.findings)


def check(adapter: Adapter, base: Base) -> Report:
    """Check an adapter against a base model; reads every tensor's values once."""
    matches = tuple(match_of(one, base) for one in adapter.tensors)
    values = {one.name: values_of(one) for one in adapter.tensors}
    seen = Seen(matches, adapter, base, values)
    cases = [Case(one.tensor.name, one.key, one.found, base) for one in matches]
    return Report(
        matches,
        tuple(worst_first([found for rule in RULES for found in rule(seen)])),
        tuple(outcomes(cases)),
    )
