"""All rules asked about one workload."""

from collections.abc import Callable, Iterator

from cacheaware.doctor.capacity import capacity
from cacheaware.doctor.contradictions import contradictions
from cacheaware.doctor.control import control
from cacheaware.doctor.disruption import budget, node_autoscaler, node_shutdown, spot, vertical
from cacheaware.doctor.findings import Finding, worst_first
from cacheaware.doctor.leaderworkerset import leaderworkerset
from cacheaware.doctor.longest import drain_length
from cacheaware.doctor.placement import placement
from cacheaware.doctor.probes import probes
from cacheaware.doctor.request_path import request_path
from cacheaware.doctor.rollout import rollout
from cacheaware.doctor.shutdown import active_deadline, shutdown
from cacheaware.doctor.signal import signal_reach
from cacheaware.doctor.subject import Subject
from cacheaware.doctor.unknowns import unknowns

RULES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    shutdown, drain_length, signal_reach, active_deadline, probes, placement, control,
    contradictions, request_path, capacity, rollout, leaderworkerset, budget, node_autoscaler,
    node_shutdown, spot, vertical, unknowns,
)  # fmt: skip


def examine(subject: Subject) -> list[Finding]:
    """Everything that is wrong with a workload, the worst first."""
    return worst_first(finding for rule in RULES for finding in rule(subject))
