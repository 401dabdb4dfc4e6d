"""Exact counts of parameters: total, active per token, by role."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cacheaware.model.architecture import Architecture
from cacheaware.model.modules import Role


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many parameters a model has.

    Attributes:
        total: All of them; a tied head counts once, as transformers counts.
        active: Those that one token goes through: of experts the chosen ones, of tables one row.
        by_role: `total` by what they do.
    """

    total: int
    active: int
    by_role: Mapping[Role, int]


def count_parameters(model: Architecture) -> Parameters:
    """The counts of a model's text part."""
    by_role: Counter[Role] = Counter()
    for module in model.modules():
        by_role[module.role] += module.parameters
    active = sum(module.active_parameters for module in model.modules())
    return Parameters(by_role.total(), active, dict(by_role))
