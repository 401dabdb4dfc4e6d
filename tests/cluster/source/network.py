"""The cluster's own network namespace and the cable to it.

The bridge, the forwarding switch and every iptables rule of kube-proxy and of the CNI plugins live
inside the namespace, so that the machine's own are not touched and removing it removes them all.
The machine gets one link and two routes. Pods reach each other, the Services, the API server and
the machine; not the internet, because nothing translates their addresses outside.
"""

from pathlib import Path

from tests.cluster.shell import run, succeeds
from tests.cluster.source.plan import Plan

BRIDGE = "cni0"
UPLINK = "uplink"


def inside(plan: Plan, *argv: str | Path) -> list[str]:
    """The command line that runs a program in the namespace, all else being the machine's.

    `ip netns exec` would mount a new /sys and so hide the cgroups.
    """
    return ["nsenter", f"--net={plan.namespace}", *map(str, argv)]


def create(plan: Plan) -> None:
    """The namespace, the cable, the bridge and the routes."""
    run("ip", "netns", "add", plan.name)
    run(
        *("ip", "link", "add", plan.host_link, "type", "veth"),
        *("peer", "name", UPLINK, "netns", plan.name),
    )
    run("ip", "-batch", "-", stdin=_machine_side(plan))
    run(*inside(plan, "ip", "-batch", "-"), stdin=_cluster_side(plan))
    run(*inside(plan, "sysctl", "-qw", "net.ipv4.ip_forward=1"))


def remove(plan: Plan) -> None:
    """The cable with its routes, then the namespace; harmless where they are gone."""
    if succeeds("ip", "link", "show", plan.host_link):
        run("ip", "link", "del", plan.host_link)
    if plan.namespace.exists():
        run("ip", "netns", "del", plan.name)


def processes(plan: Plan) -> list[int]:
    """The processes that live in the namespace."""
    try:
        wanted = plan.namespace.stat()
    except FileNotFoundError:
        return []
    return [pid for pid in _pids() if _lives_in(pid, wanted.st_dev, wanted.st_ino)]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _lives_in(pid: int, device: int, inode: int) -> bool:
    try:
        own = Path(f"/proc/{pid}/ns/net").stat()
    except OSError:
        return False
    return (own.st_dev, own.st_ino) == (device, inode)


def _machine_side(plan: Plan) -> str:
    return f"""\
addr add {plan.host_address}/30 dev {plan.host_link}
link set {plan.host_link} up
route add {plan.pods} via {plan.uplink_address}
route add {plan.services} via {plan.uplink_address}
"""


def _cluster_side(plan: Plan) -> str:
    return f"""\
link set lo up
addr add {plan.uplink_address}/30 dev {UPLINK}
link set {UPLINK} up
route add default via {plan.host_address}
link add {BRIDGE} type bridge
addr add {plan.node_address}/24 dev {BRIDGE}
link set {BRIDGE} up
"""
