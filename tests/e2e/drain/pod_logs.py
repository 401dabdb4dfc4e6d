"""The logs of pods that are gone when somebody wants to know why a request was lost."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.workload import Fleet


@contextmanager
def followed(fleet: Fleet, folder: Path) -> Iterator[None]:
    """Write the log of each container of the fleet's pods to a file while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    over = threading.Event()
    readers: dict[str, subprocess.Popen[bytes]] = {}
    thread = threading.Thread(target=_follow, args=(fleet, folder, over, readers))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for reader in readers.values():
            reader.terminate()
            reader.wait()


def _follow(
    fleet: Fleet, folder: Path, over: threading.Event, readers: dict[str, subprocess.Popen[bytes]]
) -> None:
    while not over.wait(1.0):
        for pod in fleet.get("pods", "-l", f"app={fleet.name}")["items"]:
            for status in containers(pod):
                key = f"{pod['metadata']['name']}.{status['name']}.{status['restartCount']}"
                if key not in readers and "running" in status["state"]:
                    readers[key] = _reader(fleet, folder / f"{key}.log", pod, status["name"])


def containers(pod: dict[str, dict[str, list[dict[str, object]]]]) -> list[dict[str, object]]:
    """The states of all containers of a pod."""
    status = pod["status"]
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]


def _reader(fleet: Fleet, file: Path, pod: dict, container: str) -> subprocess.Popen[bytes]:
    argv = [
        *(str(fleet.cluster.kubectl_program), "--kubeconfig", str(fleet.cluster.kubeconfig)),
        *("-n", fleet.namespace, "logs", "-f", "--timestamps", pod["metadata"]["name"]),
        *("-c", container),
    ]
    with file.open("wb") as out:
        return subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL)
