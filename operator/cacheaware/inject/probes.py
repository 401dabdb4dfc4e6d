"""Probes of the sidecar, and of an engine whose readiness others read in its own status.

No probe names a host (the Pod Security Standards forbid it), and none is a startupProbe: the engine
would start after it, and the sidecar waits for the engine.
"""

from typing import Any

from cacheaware.doctor.leaderworkerset import RECREATE
from cacheaware.doctor.sidecar import LIVENESS, READINESS
from cacheaware.inject.pod import Pod
from cacheaware.names import SIDECAR_PORT_NAME
from cacheaware.workload.template import LWS


def readiness_probe(port: int | str) -> dict[str, Any]:
    """Out of the endpoints within three seconds, and not for one late answer."""
    return {
        "httpGet": {"path": READINESS, "port": port},
        "periodSeconds": 1,
        "timeoutSeconds": 2,
        "failureThreshold": 3,
    }


def probes_for(pod: Pod) -> dict[str, Any]:
    """The sidecar's probes by name."""
    found = {"readinessProbe": readiness_probe(SIDECAR_PORT_NAME)}
    if not recreates_group(pod):
        found["livenessProbe"] = {
            "httpGet": {"path": LIVENESS, "port": SIDECAR_PORT_NAME},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        }
    return found


def recreates_group(pod: Pod) -> bool:
    """Whether a restart of any container ends a whole group: then nothing may restart ours."""
    if pod.workload.kind != LWS:
        return False
    return bool(pod.workload.group.get("restartPolicy", RECREATE) == RECREATE)


def gate_engine(pod: Pod, port: int) -> None:
    """Let the engine's own readiness ask the sidecar, for routers that read container statuses.

    The containers of a pod share their address, so the engine's probe reaches the sidecar's port.
    The sidecar is ready only while the engine is healthy, so nothing is lost.
    """
    if pod.options.gate_engine:
        probe = readiness_probe(port)
        pod.record.put("readinessProbe", pod.container, "readinessProbe", probe, "lifecycle")
