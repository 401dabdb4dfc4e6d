"""What engines' pages show, as findings: each engine by itself, and one against the others.

The rules about one engine are the sidecar's (`cacheaware_sidecar.health`), which asks them too.
"""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Final

from cacheaware.doctor.findings import Finding, Severity, worst_first
from cacheaware_sidecar.health import Looks, examine
from cacheaware_sidecar.health.looks import mean

SLOWER: Final = 1.5
ENOUGH_PEERS: Final = 2
"""With one other nobody can say which of the two is the odd one."""
ENOUGH_TOKENS: Final = 20
FULL, HALF = 0.9, 0.5
QUEUE, TIMES = 8, 4


def health(looks: Mapping[str, Looks]) -> list[Finding]:
    """Findings about these engines, by subject, the worst first."""
    own = [
        Finding(one.id, Severity(one.severity), subject, one.message, one.fix)
        for subject, each in looks.items()
        for one in examine(each)
    ]
    return worst_first([*own, *among(looks)])


def among(looks: Mapping[str, Looks]) -> Iterator[Finding]:
    """The one that is worse off than the others; a mean over all would hide it."""
    for subject, one in looks.items():
        others = [each for name, each in looks.items() if name != subject]
        for said, fix in ((slower(one, others), SLOW_FIX), (burdened(one, others), BALANCE_FIX)):
            if said:
                yield Finding("pod-sick", Severity.WARNING, subject, said, fix)


SLOW_FIX: Final = (
    "look at this pod's node: clocks and temperature of its GPU (`nvidia-smi -q -d PERFORMANCE`),"
    " a neighbour on it, its links; delete the pod to have it elsewhere"
)
BALANCE_FIX: Final = (
    "look at the balance of the router (sticky sessions, one hot prefix), then at this pod's node"
)


def slower(one: Looks, others: list[Looks]) -> str:
    """How much longer a token takes here than on the others; empty where it does not."""
    own, usual = token_s(one), [seconds for each in others if (seconds := token_s(each))]
    if own is None or len(usual) < ENOUGH_PEERS or own < SLOWER * median(usual):
        return ""
    return f"a token takes {own * 1e3:.0f} ms here and {median(usual) * 1e3:.0f} ms on the others"


def token_s(looks: Looks) -> float | None:
    """Mean seconds of an output token; None of too few."""
    found = looks.between("tpot")
    return mean(found) if found and found.count >= ENOUGH_TOKENS else None


def burdened(one: Looks, others: list[Looks]) -> str:
    """Why this engine is full or has a queue while the others have room; empty where it has not."""
    usage = [each.sample.usage_max for each in others if each.sample.usage_max is not None]
    if len(usage) >= ENOUGH_PEERS and (one.sample.usage_max or 0.0) >= FULL >= HALF > median(usage):
        return f"its KV cache is {one.sample.usage_max:.0%} full, the others' {median(usage):.0%}"
    waiting = [each.sample.waiting for each in others if each.sample.waiting is not None]
    own = one.sample.waiting or 0.0
    if len(waiting) >= ENOUGH_PEERS and own >= QUEUE and own >= TIMES * (median(waiting) + 1):
        return f"{own:g} requests wait here, {median(waiting):g} on the others"
    return ""
