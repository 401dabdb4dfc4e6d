"""What pods' objects and sidecars tell about their starts: stages that are over, and the present.

The API's times are whole seconds of its own clock; only differences between them are used. The
sidecar tells how long the engine took to warm up, which the API can't.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from cacheaware.decide.cold_start import ColdStart, Stage, Starting, with_start
from cacheaware.decide.learned import Learned
from cacheaware.observe.memory import PodMemory
from cacheaware.pods import PodRecord
from cacheaware_sidecar.phase import Phase

NODES_KEPT = 50


def learned_from(
    learned: Learned, records: Iterable[PodRecord], memories: dict[str, PodMemory]
) -> tuple[Learned, tuple[ColdStart, ...]]:
    """Take in the pods that have begun to serve since the round before.

    A pod whose containers have restarted, or that was serving already when it was first seen by a
    sidecar that doesn't tell its warm-up, teaches nothing: its times are not those of a start.

    Returns:
        What is known now, and the starts that are new.
    """
    records = list(records)
    fresh: list[ColdStart] = []
    counted = learned.counted & {record.uid for record in records}
    nodes = dict.fromkeys(learned.nodes)
    for record in records:
        if not record.ready or record.uid in counted:
            continue
        counted |= {record.uid}
        if record.node is not None:
            nodes.pop(record.node, None)
            nodes[record.node] = None
        if (start := cold_start_of(record, memories.get(record.uid, PodMemory()))) is not None:
            fresh.append(start)
    starts = learned.starts
    for start in fresh:
        starts = with_start(starts, start)
    now = replace(
        learned,
        starts=starts,
        nodes=tuple(nodes)[-NODES_KEPT:],
        counted=counted,
    )
    return now, tuple(fresh)


def cold_start_of(record: PodRecord, memory: PodMemory) -> ColdStart | None:
    """The stages of a pod that serves; None where one of them is not known."""
    scheduled, started, ready = record.scheduled_at, record.started_at, record.ready_since
    if not scheduled or not started or not ready or record.restarts:
        return None
    warm = 0.0
    if memory.sidecar:
        if memory.start.warming_s is None:
            return None
        warm = min(memory.start.warming_s, max(0.0, ready - started))
    return ColdStart(
        schedule=max(0.0, scheduled - record.created),
        pull=max(0.0, started - scheduled),
        load=max(0.0, ready - started - warm),
        warm=warm,
    )


def starting_of(
    record: PodRecord, memory: PodMemory, learned: Learned, *, now: float, wall: float
) -> Starting | None:
    """Where a pod that has not served stands; None for one that has.

    Args:
        record: the pod's object.
        memory: its past, this round's look included.
        learned: on which nodes pods of this workload have served.
        now: the operator's monotonic clock.
        wall: seconds since the epoch, against the API's times.
    """
    if memory.served or record.ready:
        return None
    known = record.node is None or record.node in learned.nodes
    stage, age_s = stage_of(record, memory, now=now, wall=wall)
    return Starting(stage, max(0.0, age_s), new_node=not known, budget_s=record.startup_budget_s)


def stage_of(
    record: PodRecord, memory: PodMemory, *, now: float, wall: float
) -> tuple[Stage, float]:
    """What a starting pod waits for, and for how long it has."""
    if record.scheduled_at is None:
        return Stage.SCHEDULE, wall - record.created
    if record.started_at is None:
        return Stage.PULL, wall - record.scheduled_at
    if memory.phase is Phase.WARMING:
        return Stage.WARM, now - memory.phase_at
    return Stage.LOAD, wall - record.started_at
