"""Starts the components and ends them by their own process ids.

A record holds the process id and the kernel's start time of it, so that a number that was given to
another program since is never taken for ours.
"""

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError

STATE, START_TIME = 0, 19
"""Positions in /proc/PID/stat behind the command's closing bracket (fields 3 and 22)."""
LOG_LINES = 12


@dataclass(frozen=True)
class Records:
    """The process records and logs of one cluster, as files of its folder."""

    folder: Path

    def start(self, name: str, argv: list[str]) -> None:
        """Starts a program in a session of its own, its output in a log."""
        for part in ("pids", "log"):
            (self.folder / part).mkdir(exist_ok=True)
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        pid = os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log(name)), create, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        (self.folder / "pids" / name).write_text(f"{pid} {start_time(pid) or 0}")

    def log(self, name: str) -> Path:
        """Where a component's output goes."""
        return self.folder / "log" / f"{name}.log"

    def alive(self, name: str) -> int | None:
        """The component's process id while it runs."""
        try:
            pid, started = map(int, (self.folder / "pids" / name).read_text().split())
        except (FileNotFoundError, ValueError):
            return None
        return pid if start_time(pid) == started else None

    def running(self) -> dict[str, int]:
        """Every recorded component that runs."""
        names = [file.name for file in sorted((self.folder / "pids").glob("*"))]
        return {name: pid for name in names if (pid := self.alive(name)) is not None}

    def check(self, name: str) -> None:
        """Raises ClusterError with the end of its log if a component is dead."""
        if self.alive(name) is not None:
            return
        lines = self.log(name).read_text(errors="replace").splitlines()[-LOG_LINES:]
        raise ClusterError(f"{name} died; the end of {self.log(name)}:\n" + "\n".join(lines))


def start_time(pid: int) -> int | None:
    """When a process began, in clock ticks since the boot; None if it's gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[STATE] in {"Z", "X"} else int(fields[START_TIME])


def end(pids: Iterable[int], *, within_s: float = 10) -> None:
    """Kills processes and waits until they are gone.

    Nothing of theirs is kept, so they get no time to tidy up; and the API server, which takes
    seconds to stop, can't be met by its successor on the same port.

    Raises:
        ClusterError: some live on (a process in an uninterruptible state).
    """
    waiting = {pid: started for pid in pids if (started := start_time(pid)) is not None}
    waiting.pop(os.getpid(), None)
    for pid in waiting:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + within_s
    while waiting := {pid: t for pid, t in waiting.items() if start_time(pid) == t}:
        if time.monotonic() > deadline:
            raise ClusterError(f"processes that can't be killed: {sorted(waiting)}")
        time.sleep(0.02)
