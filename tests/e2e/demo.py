"""`make demo`: the main job on a real cluster, told as it happens; ends by itself.

Installs the chart, applies mock engines with sidecars and a CacheAwareScaler, puts load on them,
and shows what the caches hold, what was decided and why. About four minutes.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from tests.cluster import choice, images, programs
from tests.cluster.errors import ClusterError
from tests.e2e.real_cluster import RealCluster
from tests.e2e.release import Release
from tests.e2e.workload import Fleet, documents

from cacheaware import names
from cacheaware.cli.top import bar

NAMESPACE = "cacheaware-demo"
LOAD_SECONDS = 60
FRAME_SECONDS = 5.0
CACHEAWARE = Path(sys.executable).with_name("cacheaware")
CONSOLE = Console(record=True, width=156, highlight=False, markup=False, soft_wrap=True)
STYLES = {"ScaledUp": "bright_green", "ScaledDown": "bright_cyan"}
FONT_FACES = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def main() -> int:
    """Run the demo; 1 where no cluster can be made or the story did not happen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--svg", type=Path, help="save what is told as a picture")
    picture = parser.parse_args().svg
    code = demonstrate()
    if picture:
        record(picture)
    return code


def demonstrate() -> int:
    """A cluster, the images, the story, and the cluster away again if it was made for this."""
    try:
        made = choice.choose()
        was_up = made.status()["up"]
        tell("A cluster: found one." if was_up else "A cluster: making one.")
        kubeconfig = made.up()
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    try:
        tell("Images of operator, sidecar and mock engine, from this checkout.")
        images.load(made, images.build_all())
        cluster = RealCluster(made.way, kubeconfig, programs.kubectl(), programs.helm())
        return show(cluster)
    except subprocess.CalledProcessError as error:  # what it said is printed already
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        if not was_up:
            made.down()


def show(cluster: RealCluster) -> int:
    """Install, tell the story, and leave nothing behind; 1 where an operator runs already."""
    if there := operators(cluster):
        print(
            f"demo: an operator runs in namespace {there[0]}, and the demo brings its own:"
            " `helm uninstall` that one first",
            file=sys.stderr,
        )
        return 1
    release = Release(cluster)
    tell("helm install cacheaware charts/cacheaware")
    try:
        release.install(**crds(cluster))
        cluster.kubectl("create", "namespace", NAMESPACE)
        story = Story(Fleet(cluster, NAMESPACE), kubeconfig=cluster.kubeconfig)
        return 0 if told(story) else 1
    finally:
        cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=90s")
        release.uninstall()


def operators(cluster: RealCluster) -> list[str]:
    """Namespaces in which an operator is installed."""
    labels = "app.kubernetes.io/name=cacheaware,app.kubernetes.io/component=operator"
    found = json.loads(cluster.kubectl("get", "deployments", "-A", "-l", labels, "-o", "json"))
    return [one["metadata"]["namespace"] for one in found["items"]]


def crds(cluster: RealCluster) -> dict[str, str]:
    """Chart values: a definition that is there stays as it is; one of our own goes with us."""
    crd = f"{names.PLURAL}.{names.GROUP}"
    there = cluster.kubectl("get", "crds", crd, "--ignore-not-found", "-o", "name")
    return {"crds__install": "false"} if there else {"crds__keep": "false"}


def told(story: "Story") -> bool:
    """The five acts; whether each came true."""
    fleet = story.fleet
    tell("kubectl apply -f manifests/kind/mock-engine.yaml -f manifests/kind/scaler.yaml")
    for path in ("kind/mock-engine.yaml", "kind/scaler.yaml"):
        fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(documents(path)))
    tell("The pod loads, then warms up with a long prompt; only then is it Ready.")
    acts = [story.until(lambda: fleet.ready() >= 1, 60)]
    tell(f"Load for {LOAD_SECONDS} s: 24 clients. Each pod: KV in use, requests running + waiting.")
    fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(load()))
    acts.append(story.until(lambda: fleet.replicas() > 1, 45))
    tell("It has grown. The new pods start, warm up, and take their share.")
    acts.append(story.until(lambda: ended(fleet), LOAD_SECONDS + 30))
    tell("The load has ended. After the window, idle pods go one by one.")
    acts.append(story.until(lambda: fleet.replicas() == 1, 150))
    tell("cacheaware explain mock")
    say(story.cacheaware("explain", fleet.name))
    return all(acts)


def ended(fleet: Fleet) -> bool:
    """Whether the load is over."""
    return bool(fleet.get("job", "mock-load")["status"].get("completionTime"))


def load() -> list[dict[str, Any]]:
    """The load of the manifests, shorter."""
    (job,) = documents("kind/load.yaml")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["args"] = [
        f"--duration={LOAD_SECONDS}" if arg.startswith("--duration") else arg
        for arg in container["args"]
    ]
    return [job]


@dataclass(slots=True)
class Story:
    """Watches a fleet and prints a frame every few seconds and each decision once."""

    fleet: Fleet
    kubeconfig: Path
    began: float = field(default_factory=time.monotonic)
    framed: float = 0.0
    seen: set[str] = field(default_factory=set)
    shown: str = ""

    def until(self, done: Callable[[], bool], within: float) -> bool:
        """Show frames until `done`; whether it came true in time."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            self.decisions()
            if time.monotonic() - self.framed >= FRAME_SECONDS:
                self.frame()
            if done():
                self.frame()
                return True
            time.sleep(1.0)
        say(f"  that did not happen within {within:g} s")
        return False

    def decisions(self) -> None:
        """Print what was decided since the last look."""
        for entry in reversed(self.fleet.status().get("decisions") or []):
            key = entry["time"] + entry["reason"]
            if key not in self.seen:
                self.seen.add(key)
                style = STYLES.get(entry["reason"], "yellow")
                say(f"{self.clock()}  {entry['reason']}: {entry['message']}", style)

    def frame(self) -> None:
        """Print the pods and what their caches hold, unless nothing has changed."""
        self.framed = time.monotonic()
        pods = json.loads(self.cacheaware("top", self.fleet.name, "-o", "json"))
        line = "  ".join(f"{short(pod):30}" for pod in pods)
        if line != self.shown:
            self.shown = line
            say(f"{self.clock()}    {line.rstrip()}")

    def clock(self) -> str:
        """Time since the start."""
        seconds = int(time.monotonic() - self.began)
        return f"{seconds // 60}:{seconds % 60:02}"

    def cacheaware(self, *args: str) -> str:
        """The product's own command line against this cluster."""
        done = subprocess.run(
            [str(CACHEAWARE), *args, "-n", self.fleet.namespace],
            env={"KUBECONFIG": str(self.kubeconfig), "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout or "[]"


def short(pod: dict[str, Any]) -> str:
    """A pod in few characters: KV bar and running + waiting, or the phase if it doesn't serve."""
    name = pod["pod"].rpartition("-")[2]
    if pod["phase"] != "serving":
        return f"{name} {pod['phase'] or 'starting'}"
    return f"{name} {bar(pod['usage']) or '?'} {known(pod['running'])}+{known(pod['waiting'])}"


def known(value: float | None) -> str:
    """A number, or a question mark where it is unknown."""
    return "?" if value is None else f"{value:g}"


def tell(line: str) -> None:
    """A heading of the story."""
    say(f"\n== {line}", "bold")


def say(line: str, style: str | None = None) -> None:
    """A line of the story."""
    CONSOLE.print(line, style=style)


def record(path: Path) -> None:
    """Save what was told as a picture."""
    svg = CONSOLE.export_svg(title="make demo")
    path.write_text(FONT_FACES.sub("", svg))


if __name__ == "__main__":
    sys.exit(main())
