"""A handle on the real cluster: kubectl and Helm against it, failing with what they said."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 600


@dataclass(frozen=True)
class RealCluster:
    """A cluster that is up and has the three images.

    Attributes:
        way: how it was made, "kind" or "source".
        kubeconfig: the administrator's.
        kubectl_program: the kubectl that fits it.
        helm_program: Helm 3.17 or later.
    """

    way: str
    kubeconfig: Path
    kubectl_program: Path
    helm_program: Path

    def kubectl(self, *args: str, input: str | None = None) -> str:  # noqa: A002  as in subprocess
        """Runs kubectl and returns its stdout; CalledProcessError holds its stderr."""
        return self._run(self.kubectl_program, args, input)

    def helm(self, *args: str) -> str:
        """Runs Helm and returns its stdout; CalledProcessError holds its stderr."""
        return self._run(self.helm_program, args, None)

    def apply(self, manifest: str) -> str:
        """Applies YAML."""
        return self.kubectl("apply", "-f", "-", input=manifest)

    def _run(self, program: Path, args: tuple[str, ...], text: str | None) -> str:
        argv = [str(program), "--kubeconfig", str(self.kubeconfig), *args]
        done = subprocess.run(
            argv, input=text or "", capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            print(done.stdout, done.stderr)  # pytest shows it beside the failure
        done.check_returncode()
        return done.stdout
