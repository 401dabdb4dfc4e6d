"""A port for the sidecar that nobody else in the pod has."""

from cacheaware.doctor.placement import NODE_PORTS
from cacheaware.inject.pod import LeftAloneError, Pod
from cacheaware.names import SIDECAR_PORT

CANDIDATES = range(SIDECAR_PORT, SIDECAR_PORT + 100)


def port_for(pod: Pod) -> int:
    """The port that was asked for, else the first that is free.

    Raises:
        LeftAloneError: another container has it.
    """
    taken = ports_taken(pod)
    wanted = pod.options.port
    if wanted is None:
        return next(port for port in CANDIDATES if port not in taken)
    if wanted in taken:
        raise LeftAloneError(
            f"--port is {wanted}: that port is taken in this pod; allowed are free ones"
        )
    return wanted


def ports_taken(pod: Pod) -> set[int]:
    """Ports of the pod's containers; under host networking those that nodes use, too."""
    every = [pod.container, *pod.others()]
    told = [port for one in every for port in one.get("ports") or ()]
    numbers = {port.get(key) for port in told for key in ("containerPort", "hostPort")}
    node = NODE_PORTS if pod.spec.get("hostNetwork") else frozenset()
    return {*(int(one) for one in numbers if one), pod.engine.port, *node}
