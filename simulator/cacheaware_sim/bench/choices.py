"""The outcome of the tuning, from stored results."""

from collections.abc import Sequence
from itertools import groupby

from cacheaware_sim.bench.store import Store
from cacheaware_sim.bench.tuning import TRAIN, Choice, Outcome, best, tuning_cases


def choices(store: Store, policies: Sequence[str] = ()) -> tuple[Choice, ...]:
    """The best setting of each peer; a setting counts where all its workloads are stored."""
    found: dict[str, dict[int, list[Outcome]]] = {}
    for (policy, variant), some in groupby(
        tuning_cases(policies), key=lambda case: (case.policy, case.variant)
    ):
        for case in some:
            if (result := store.read(case)) is not None:
                outcome = Outcome(result["attainment_percent"], result["gpu_hours"])
                found.setdefault(policy, {}).setdefault(int(variant), []).append(outcome)
    whole = {
        policy: {n: tuple(some) for n, some in by_number.items() if len(some) == len(TRAIN)}
        for policy, by_number in found.items()
    }
    return tuple(best(policy, outcomes) for policy, outcomes in whole.items() if outcomes)
