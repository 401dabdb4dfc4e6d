"""Rules about what the cache gives: prefixes found again, and the tier behind it."""

from collections.abc import Iterator
from typing import Final

from cacheaware_sidecar.engines.rates import ratio
from cacheaware_sidecar.health.looks import Looks
from cacheaware_sidecar.health.symptom import INFO, WARNING, Symptom

USED_TO: Final = 0.3
"""A ratio of hits from which on it is worth something."""
ENOUGH_TOKENS: Final = 1000
"""Before and between the looks; a ratio of fewer is chance."""
TIER_FULL: Final = 0.95


def hits_collapsed(looks: Looks) -> Iterator[Symptom]:
    """Prefixes that were found and are no longer: since the start against between the looks."""
    if looks.before is None or looks.restarted:
        return
    old = looks.before.sample
    used_to, asked = ratio(old.prefix_hits, old.prefix_queries), looks.grown("prefix_queries")
    found = ratio(looks.grown("prefix_hits"), asked)
    if asked is None:
        used_to, found, asked = old.prefix_hit_ratio, looks.sample.prefix_hit_ratio, ENOUGH_TOKENS
    elif (old.prefix_queries or 0.0) < ENOUGH_TOKENS:
        return
    if used_to is None or found is None or used_to < USED_TO or asked < ENOUGH_TOKENS:
        return
    if found > used_to / 2:
        return
    yield Symptom(
        "prefix-hits-collapsed",
        WARNING,
        f"{found:.0%} of the prompt tokens were found in the prefix cache between the looks, where"
        f" {used_to:.0%} were before",
        "look for a changed system prompt or template, a router that no longer sends a prefix to"
        " the same pod, or a cache so full that prefixes are evicted before they return",
    )


def tier_full(looks: Looks) -> Iterator[Symptom]:
    """The tier in the host's memory: full is how a cache should be."""
    share = looks.signs.offload_usage
    if share is not None and share >= TIER_FULL:
        yield Symptom(
            "offload-tier-full",
            INFO,
            f"the KV tier in host memory is {share:.0%} full: no alarm, a cache is full when it"
            " is warm; what counts is how often it hits",
        )
