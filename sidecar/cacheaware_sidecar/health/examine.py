"""All rules asked about one engine."""

from collections.abc import Callable, Iterator

from cacheaware_sidecar.health.blocks import fragmented, oversized
from cacheaware_sidecar.health.cache import hits_collapsed, tier_full
from cacheaware_sidecar.health.integrity import (
    began_anew,
    corrupted,
    corruption_not_measured,
    fell_alone,
    not_a_ratio,
    rejected,
    stalled,
    two_engines,
    unknown,
)
from cacheaware_sidecar.health.looks import Looks
from cacheaware_sidecar.health.pressure import fills, near_full, preempted, queued
from cacheaware_sidecar.health.ranks import sick_rank
from cacheaware_sidecar.health.symptom import ERROR, INFO, WARNING, Symptom

RULES: tuple[Callable[[Looks], Iterator[Symptom]], ...] = (
    corrupted, corruption_not_measured, stalled, rejected, near_full, preempted, queued, fills,
    sick_rank, began_anew, fell_alone, hits_collapsed, not_a_ratio, fragmented, oversized,
    tier_full, unknown,
)  # fmt: skip
_ORDER = (ERROR, WARNING, INFO)


def examine(looks: Looks) -> list[Symptom]:
    """Everything that the looks show, the worst first."""
    found = (symptom for rule in RULES for symptom in rule(looks.comparable))
    return sorted([*two_engines(looks), *found], key=lambda one: _ORDER.index(one.severity))
