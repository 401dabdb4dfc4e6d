"""The Go programs that the cluster is made of, with their versions: the one place to raise them."""

import re
import shutil
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.go_toolchain import Program, built
from tests.cluster.shell import run

_KUBERNETES = "v1.35.4"
_STAMP = (
    f"k8s.io/component-base/version.gitVersion={_KUBERNETES}",
    "k8s.io/component-base/version.gitMajor=1",
    "k8s.io/component-base/version.gitMinor=35",
)
OLDEST_HELM = (3, 17)
OLDEST_KUBECTL = (1, 34)
"""One minor version below the cluster's: more skew is not supported."""

HYPERKUBE = Program("hyperkube", _KUBERNETES, "hyperkube", variables=_STAMP)
KUBECTL = Program(
    "kubectl", _KUBERNETES, "hyperkube", "k8s.io/kubernetes/cmd/kubectl", variables=_STAMP
)
COREDNS = Program("coredns", "v1.14.3", "coredns")
PAUSE = Program("pause", "1", "pause")
KIND = Program("kind", "v0.33.0", "kind", "sigs.k8s.io/kind")
HELM = Program(
    "helm",
    "v4.3.1",
    "helm",
    "helm.sh/helm/v4/cmd/helm",
    variables=("helm.sh/helm/v4/internal/version.version=v4.3.1",),
)


def kubectl() -> Path:
    """kubectl: the one on PATH if it is not older than the cluster allows, else built."""
    found = _found("kubectl")
    return found if found and _kubectl_version(found) >= OLDEST_KUBECTL else built(KUBECTL)


def kind() -> Path:
    """kind: the one on PATH, else built."""
    return _found("kind") or built(KIND)


def helm() -> Path:
    """Helm: the one on PATH if it is 3.17 or later, else built."""
    found = _found("helm")
    return found if found and _helm_version(found) >= OLDEST_HELM else built(HELM)


def _found(name: str) -> Path | None:
    path = shutil.which(name)
    return Path(path) if path else None


def _helm_version(helm: Path) -> tuple[int, int]:
    return _version(helm, "version", "--template", "{{.Version}}")


def _kubectl_version(kubectl: Path) -> tuple[int, int]:
    return _version(kubectl, "version", "--client", "--output=yaml")


def _version(*argv: str | Path) -> tuple[int, int]:
    """The first version in what a program says; (0, 0) if it says none."""
    try:
        text = run(*argv)
    except ClusterError:
        return (0, 0)
    match = re.search(r"\bv(\d+)\.(\d+)\.", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
