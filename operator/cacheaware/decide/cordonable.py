"""Which pods can be cordoned, and what keeps the others from it."""

from collections.abc import Iterable

from cacheaware.decide.fleet import PodView
from cacheaware.decide.memory import Memory
from cacheaware.decide.supply import Pod, Supply
from cacheaware.decide.victims import BY_COST, BY_ORDINAL, young
from cacheaware_sidecar.phase import Phase


def candidates(supply: Supply) -> list[Pod]:
    """Pods that serve or sleep, in the endpoints or not: their sidecars take a cordon."""
    pods = supply.serving + supply.away + supply.sleeping
    return [pod for pod in pods if pod.view.phase is Phase.SERVING]


def fits(pod: Pod, cold_start_s: float) -> bool:
    """Whether a pod is one that could be given up at all."""
    return pod.load is not None and not young(pod.view, cold_start_s)


def obstacle(view: PodView, kind: str, memory: Memory) -> str | None:
    """Why a pod can't be cordoned, in a few words; None: it can."""
    if not view.sidecar:
        return "no sidecar"
    if kind not in BY_COST | BY_ORDINAL:
        return f"a {kind} can't be told which pod to take"
    if view.guarded_by is not None or view.no_cordon is not None:
        return view.guarded_by or view.no_cordon
    reason = memory.barred(view.uid)
    return None if reason is None else f"{reason} when last tried"


def obstacles(pods: Iterable[Pod], kind: str, memory: Memory) -> str:
    """Why none of these pods can be cordoned: each reason once."""
    found = {obstacle(pod.view, kind, memory) for pod in pods}
    return "; ".join(sorted(why for why in found if why))
