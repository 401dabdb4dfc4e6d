"""A real one-node Kubernetes from its components, for a Linux machine without a container engine.

Everything runs in one network namespace and one cgroup and keeps its files in one folder, so that
taking it down is the same after a crash as after a clean run: end what lives in the namespace and
the cgroup, unmount, delete.
"""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import image_archive, packages
from tests.cluster.cache import fingerprint
from tests.cluster.errors import ClusterError
from tests.cluster.go_toolchain import built
from tests.cluster.programs import COREDNS, HYPERKUBE, KUBECTL, PAUSE
from tests.cluster.shell import run, say
from tests.cluster.source import api, cgroups, components, configs, mounts, network, pki, slots
from tests.cluster.source import plan as plan_module
from tests.cluster.source.plan import Plan
from tests.cluster.source.processes import Records, end

HYPERKUBE_NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
)


def obstacles() -> list[str]:
    """Why this machine can't run a cluster from source; empty where it can."""
    found = list[str]()
    if sys.platform != "linux":
        found.append(f"Linux (this is {sys.platform})")
    elif os.geteuid() != 0:
        found.append("root")
    elif not shutil.which("apt-get"):
        found += [f"{need.what}" for need in packages.missing(packages.FOR_NODE)]
    if sys.platform == "linux" and not cgroups.hierarchies():
        found.append("a mounted cgroup hierarchy")
    return found


@dataclass(frozen=True)
class SourceCluster:
    """The cluster of one checkout.

    Attributes:
        checkout: the folder it belongs to.
    """

    checkout: Path
    way: str = field(default="source", init=False)

    def up(self) -> Path:
        """Brings the cluster up, or finds it up; returns the kubeconfig."""
        with slots.one_at_a_time():
            plan = slots.choose(self.checkout)
            if self._serves(plan):
                return plan.kubeconfig
            packages.ensure(packages.FOR_NODE)
            binaries = _binaries()
            _remove(plan)
            slots.take(plan, self.checkout)
            try:
                _start(plan, binaries)
            except BaseException:
                say(f"start failed; its logs stay in {plan.state}/log until the next start")
                _stop(plan)
                raise
            (plan.state / "fingerprint").write_text(_fingerprint())
            return plan.kubeconfig

    def down(self) -> None:
        """Removes the cluster, whatever state it is in; harmless where there is none."""
        with slots.one_at_a_time():
            if plan := slots.held(self.checkout):
                _remove(plan)

    def load(self, archives: dict[str, Path]) -> None:
        """Puts images, each an archive in Docker's format, into the cluster's containerd."""
        plan = self._plan()
        for image, archive in archives.items():
            say(f"loading {image}")
            _import(plan, archive)

    def kubeconfig(self) -> Path:
        """The kubeconfig of the running cluster.

        Raises:
            ClusterError: none runs.
        """
        return self._plan().kubeconfig

    def status(self) -> dict[str, object]:
        """Whether it serves, where it is, and its processes."""
        plan = slots.held(self.checkout)
        if plan is None:
            return {"way": self.way, "up": False}
        return {
            "way": self.way,
            "up": self._serves(plan),
            "kubeconfig": str(plan.kubeconfig),
            "node_address": plan.node_address,
            "state": str(plan.state),
            "processes": Records(plan.state).running(),
        }

    def identity(self) -> str:
        """A word that another start of the cluster doesn't share."""
        plan = self._plan()
        return fingerprint([plan.kubeconfig])

    def _plan(self) -> Plan:
        plan = slots.held(self.checkout)
        if plan is None or not self._serves(plan):
            raise ClusterError("no cluster is up; `make cluster-up` makes one")
        return plan

    def _serves(self, plan: Plan) -> bool:
        """Up, of these sources, and with every component alive."""
        if slots.owner(plan) != self.checkout or not _same_sources(plan):
            return False
        names = {part.name for part in (*components.first(plan), *components.second(plan))}
        alive = Records(plan.state).running()
        return names <= set(alive) and api.server_ready(plan) and api.node_ready(plan)


def _binaries() -> dict[str, Path]:
    hyperkube = built(HYPERKUBE)
    links = dict.fromkeys(HYPERKUBE_NAMES, hyperkube)
    return {**links, "kubectl": built(KUBECTL), "coredns": built(COREDNS)}


def _start(plan: Plan, binaries: dict[str, Path]) -> None:
    say(f"starting {HYPERKUBE.version} in {plan.state}")
    for name, target in binaries.items():
        link = plan.state / "bin" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
    network.create(plan)
    cgroups.create(plan)
    pki.create(plan)
    configs.write(plan)
    records = Records(plan.state)
    for component in components.first(plan):
        _launch(plan, records, component)
    _wait(plan, records, "the API server answers", lambda: api.server_ready(plan))
    for component in components.second(plan):
        _launch(plan, records, component)
    pause = image_archive.single_binary(configs.PAUSE_IMAGE, built(PAUSE), plan.state / "pause.tar")
    _import(plan, pause)
    _wait(plan, records, "the node is Ready", lambda: api.node_ready(plan))
    _wait(plan, records, "the default account exists", lambda: api.accounts_ready(plan))
    _wait(plan, records, "names resolve", lambda: api.names_ready(plan))


def _launch(plan: Plan, records: Records, component: components.Component) -> None:
    program = plan.state / "bin" / component.name if component.built else component.name
    records.start(component.name, network.inside(plan, program, *component.arguments))


def _wait(plan: Plan, records: Records, what: str, ready: Callable[[], bool]) -> None:
    def check() -> None:
        for file in (plan.state / "pids").iterdir():
            records.check(file.name)

    api.wait(what, ready, check=check)


def _import(plan: Plan, archive: Path) -> None:
    run("ctr", "-a", plan.containerd_socket, "-n", "k8s.io", "images", "import", archive)


def _stop(plan: Plan) -> None:
    """Ends the components (the kubelet would start pods anew), then the pods and their shims."""
    end(Records(plan.state).running().values())
    end(cgroups.processes(plan))
    end(network.processes(plan))
    network.remove(plan)
    cgroups.remove(plan)


def _remove(plan: Plan) -> None:
    _stop(plan)
    mounts.remove_links_into(plan.state, Path("/var/log/containers"))
    mounts.remove_files_about(plan.state, Path("/var/lib/cni/results"))
    mounts.remove_tree(plan.state)


def _fingerprint() -> str:
    """Of all that shapes a running cluster: one of another shape is made anew."""
    shaping = (cgroups, components, configs, network, pki, plan_module)
    sources = [Path(str(module.__file__)) for module in shaping]
    return fingerprint(sources, *(str(program.path) for program in (HYPERKUBE, COREDNS, PAUSE)))


def _same_sources(plan: Plan) -> bool:
    try:
        return (plan.state / "fingerprint").read_text() == _fingerprint()
    except FileNotFoundError:
        return False
