"""The rule about one sick engine among the data-parallel ones of a pod."""

from collections.abc import Iterator
from statistics import median
from typing import Final

from cacheaware_sidecar.health.looks import Looks
from cacheaware_sidecar.health.signs import RankLoad
from cacheaware_sidecar.health.symptom import WARNING, Symptom

FULL: Final = 0.9
"""Usage of the sick engine, 0..1, at the least."""
HALF: Final = 0.5
"""Median usage of the others, 0..1, at the most."""
QUEUE: Final = 8
"""Requests that wait at the sick engine, at the least."""
TIMES: Final = 4
"""So many times what waits at the others, their median and one."""


def sick_rank(looks: Looks) -> Iterator[Symptom]:
    """An engine that is full or has a queue while the others have room; sums would hide it."""
    ranks = looks.signs.ranks
    for one in ranks:
        others = [each for each in ranks if each is not one]
        if said := _fuller(one, others) or _longer_queue(one, others):
            yield Symptom(
                "rank-sick",
                WARNING,
                f"engine {one.name} of {len(ranks)}: {said}",
                "look at the balance between the engines (sticky sessions, one long prompt), then"
                " at the GPU of this one",
            )


def _fuller(one: RankLoad, others: list[RankLoad]) -> str:
    known = [each.usage for each in others if each.usage is not None]
    if one.usage is None or not known or one.usage < FULL or median(known) > HALF:
        return ""
    return f"its KV cache is {one.usage:.0%} full, those of the others {median(known):.0%}"


def _longer_queue(one: RankLoad, others: list[RankLoad]) -> str:
    known = [each.waiting for each in others if each.waiting is not None]
    if one.waiting is None or not known or one.waiting < QUEUE:
        return ""
    usual = median(known)
    return "" if one.waiting < TIMES * (usual + 1) else f"{one.waiting:g} wait, {usual:g} elsewhere"
