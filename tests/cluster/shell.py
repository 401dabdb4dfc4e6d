"""Runs other programs; a failing one becomes one error that holds the end of what it said."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.errors import ClusterError

TAIL_LINES = 15


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout stays the answer."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def run(
    *argv: str | Path,
    stdin: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 900,
) -> str:
    """Runs a program to its end and returns its stdout.

    Args:
        argv: the program and its arguments.
        stdin: text for its standard input; nothing by default.
        cwd: where it runs.
        env: variables added to ours.
        timeout_s: after this many seconds it is killed.

    Raises:
        ClusterError: it can't be found, ran too long or exited with another code than 0.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input="" if stdin is None else stdin,
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{words[0]}: not found") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{_brief(words)}: no end after {timeout_s:.0f} s") from error
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-TAIL_LINES:])
        raise ClusterError(f"{_brief(words)}: exit {done.returncode}\n{tail}")
    return done.stdout


def succeeds(*argv: str | Path, timeout_s: float = 30) -> bool:
    """Whether a program is there and exits with 0."""
    try:
        run(*argv, timeout_s=timeout_s)
    except ClusterError:
        return False
    return True


def _brief(words: list[str]) -> str:
    return " ".join(words[:6]) + (" …" if len(words) > 6 else "")
