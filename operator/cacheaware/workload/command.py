"""A container's command as words: what a shell's script says is read like a line typed there."""

import re
import shlex
from collections.abc import Iterable
from typing import Any

SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
LAUNCHERS = frozenset({"tini", "dumb-init", "env", "nice", "stdbuf", "numactl"})
"""Programs that become, or pass signals to, the command behind them."""
SCRIPT_FLAG = re.compile(r"-[a-z]*c[a-z]*")
SEVERAL = re.compile(r"[;&|\n]")
"""Between commands of a script."""
QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
COMMENT = re.compile(r"(^|\s)#.*", re.MULTILINE)
DESCRIPTORS = re.compile(r"[0-9]*[<>]&[0-9-]+|&>>?")
"""Redirections that hold a `&`."""
EXEC = re.compile(r"(?:^|[\s;&|(])exec[ \t]+(?![0-9]*[<>])[^\s;&|][^;&|\n]*(\|(?!\|))?")
"""A program put in the shell's place; the group is there where it is only a part of a pipe."""
TRAP = re.compile(r"(?:^|[\s;&|(])trap\s")


def argv_of(container: Any) -> list[str]:
    """Command and arguments as the process gets them."""
    parts = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [str(part) for part in parts]


def words_of(container: Any) -> list[str]:
    """Command and arguments as words; a shell's script is taken apart."""
    words = argv_of(container)
    script = script_of(words)
    if script is None:
        return words
    return [part for word in words for part in (split(word) if word == script else [word])]


def script_of(argv: list[str]) -> str | None:
    """The script of `sh -c SCRIPT`, launchers before it allowed; None where no shell is run."""
    rest = list(argv)
    while rest and (program(rest[0]) in LAUNCHERS or rest[0].startswith("-") or "=" in rest[0]):
        del rest[0]
    if not rest or program(rest[0]) not in SHELLS:
        return None
    flags = [at for at, word in enumerate(rest) if SCRIPT_FLAG.fullmatch(word)]
    return rest[flags[0] + 1] if flags and flags[0] + 1 < len(rest) else None


def has_exec(script: str) -> bool:
    """Whether a script hands its process over to a command; in a pipe the shell stays."""
    return any(found[1] is None for found in EXEC.finditer(bare(script)))


def has_trap(script: str) -> bool:
    """Whether a script handles signals itself."""
    return TRAP.search(bare(script)) is not None


def has_several(script: str) -> bool:
    """Whether a script is more than one simple command."""
    return SEVERAL.search(bare(script)) is not None


def bare(script: str) -> str:
    """A script's commands without what they quote, comments and empty ends.

    >>> bare("vllm serve m --x 'a;b' 2>&1 # c; d")
    "vllm serve m --x ''"
    """
    text = COMMENT.sub("", QUOTED.sub("''", joined(script)))
    return DESCRIPTORS.sub(" ", text).strip("; \t\r\n")


def joined(script: str) -> str:
    """A script with its continued lines in one."""
    return re.sub(r"\\\r?\n", " ", script).strip()


def split(line: str) -> list[str]:
    """The words of a shell line, as far as it can be read."""
    try:
        return shlex.split(joined(line), comments=True)
    except ValueError:
        return line.split()


def program(word: str) -> str:
    """A program's name without its folder."""
    return word.rpartition("/")[2]


def is_program(word: str, names: Iterable[str]) -> bool:
    """Whether a word runs one of these: the program itself, or a module of the package.

    A path counts only below a folder `bin`: others are models and data.
    """
    return any(
        word == name or word.endswith(f"/bin/{name}") or word.startswith(f"{name}.")
        for name in names
    )
