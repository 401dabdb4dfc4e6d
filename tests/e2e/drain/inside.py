"""What is done inside a pod: signals to its processes, calls to its own sidecar."""

import json
from typing import Any

from tests.e2e.workload import Fleet

SIGNAL = """
import os, signal, sys, time
def pids():
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline") as file:
                if "cacheaware-sidecar" in file.read() and int(entry) != os.getpid():
                    yield int(entry)
        except OSError:
            pass
"""
KILL = SIGNAL + "for pid in list(pids()): os.kill(pid, signal.SIGKILL); print(pid)"
THROTTLE = (
    SIGNAL
    + """
end = time.monotonic() + float(sys.argv[1])
(pid,) = list(pids())
while time.monotonic() < end:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.095)
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.005)
"""
)
CALL = """
import json, sys, time, urllib.request
path, body, token = sys.argv[1:]
request = urllib.request.Request("http://127.0.0.1:9440" + path, body.encode(), method="POST")
request.add_header("Authorization", "Bearer " + token)
answer = json.load(urllib.request.urlopen(request, timeout=10))
print(json.dumps({"at": time.time(), "answer": answer}))
"""


def shares_processes(spec: dict[str, Any]) -> None:
    """Let the containers of a pod see each other's processes: the sidecar isn't number 1 then,
    which no signal from within would end."""
    spec["shareProcessNamespace"] = True


def python(fleet: Fleet, pod: str, code: str, *args: str) -> str:
    """Run a program in the engine's container."""
    return fleet.kubectl("exec", pod, "-c", "engine", "--", "python3", "-c", code, *args)


def kill_sidecar(fleet: Fleet, pod: str) -> None:
    """SIGKILL, as the OOM killer does it."""
    assert python(fleet, pod, KILL).split(), "there was a sidecar to kill"


def throttle_sidecar(fleet: Fleet, pod: str, seconds: float) -> None:
    """Let it run 5 ms of each 100 ms, as a CPU limit of 50m does (the kernel's own period)."""
    python(fleet, pod, THROTTLE, f"{seconds:g}")


def control(fleet: Fleet, pod: dict[str, Any], path: str, **body: Any) -> dict[str, Any]:
    """A control call with a token of the operator's account; `at` is when it was answered."""
    audience = f"cacheaware.dev/pod/{pod['metadata']['uid']}"
    token = fleet.cluster.kubectl(
        *("-n", "cacheaware-system", "create", "token", "cacheaware"), f"--audience={audience}"
    )
    name = pod["metadata"]["name"]
    return json.loads(python(fleet, name, CALL, path, json.dumps(body), token.strip()))
