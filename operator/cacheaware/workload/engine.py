"""The engine among a pod's containers: which one it is, its command-line flags, its port."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cacheaware.workload.template import Workload

MARKS: dict[str, tuple[str, ...]] = {
    "vllm": ("vllm", "cacheaware/mock-engine", "cacheaware_sim", "llm-d-inference-sim"),
    "sglang": ("sglang", "lmsysorg"),
    "tgi": ("text-generation-inference", "text-generation-launcher"),
    "trtllm": ("trtllm-serve", "tensorrt_llm", "tensorrt-llm"),
    "triton-trtllm": ("tritonserver",),
    "llamacpp": ("llama-server", "llama.cpp", "llama-cpp"),
    "lmdeploy": ("lmdeploy", "openmmlab"),
}
"""By engine: words in an image's name or in a command that give it away."""
PORTS: dict[str, int] = {
    "vllm": 8000,
    "sglang": 30000,
    "tgi": 80,
    "trtllm": 8000,
    "triton-trtllm": 8000,
    "llamacpp": 8080,
    "lmdeploy": 23333,
}
"""Where engines listen unless told otherwise (engines' own defaults)."""
TAG = re.compile(r":v?(\d+(?:\.\d+)+[-.\w]*)(?:@|$)")
SHELLS = frozenset({"sh", "bash", "ash", "dash"})


@dataclass(frozen=True, slots=True)
class Engine:
    """The container that serves the model."""

    container: Any
    kind: str | None
    """vllm, sglang, tgi, trtllm, triton-trtllm, llamacpp, lmdeploy; None: not recognised."""
    version: str | None
    """From the image's tag; None where it names none."""
    flags: dict[str, str]
    """Command-line flags without their dashes; a switch has the value ""."""
    port: int

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container.get("name", ""))

    def number(self, flag: str) -> float | None:
        """A flag's value as a number; None where it is not given or is none."""
        try:
            return float(self.flags[flag])
        except (KeyError, ValueError):
            return None


def engine_of(workload: Workload, name: str | None = None) -> Engine | None:
    """The engine's container: the one of this name, else the one that gives itself away.

    A single container is the engine whatever it is; among several, one that takes a GPU is
    preferred. None where no container or several could be meant: the caller must be told a name.
    """
    containers = workload.containers
    if name is not None:
        chosen = [one for one in containers if one.get("name") == name]
    else:
        chosen = [one for one in containers if kind_of(one)]
        chosen = [one for one in chosen or containers if takes_gpu(one)] or chosen or containers
    return engine_in(chosen[0]) if len(chosen) == 1 else None


def engine_in(container: Any) -> Engine:
    """A container seen as an engine."""
    kind, flags = kind_of(container), flags_of(container)
    found = TAG.search(str(container.get("image", "")))
    return Engine(container, kind, found[1] if found else None, flags, port_of(container))


def kind_of(container: Any) -> str | None:
    """Which engine a container runs; None where nothing tells."""
    said = " ".join([str(container.get("image", "")), *words_of(container)]).lower()
    return next((kind for kind, marks in MARKS.items() if any(m in said for m in marks)), None)


def takes_gpu(container: Any) -> bool:
    """Whether a container asks for an accelerator."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return any(name.endswith(("/gpu", "/tpu")) or "gpu." in name for name in asked)


def words_of(container: Any) -> list[str]:
    """Command and arguments as words; a shell's script is taken apart like a line typed there."""
    words = [
        str(word) for word in [*(container.get("command") or ()), *(container.get("args") or ())]
    ]
    if words and words[0].rpartition("/")[2] in SHELLS:
        return [part for word in words[1:] for part in split(word)]
    return words


def split(line: str) -> list[str]:
    """The words of a shell line, as far as it can be read."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def flags_of(container: Any) -> dict[str, str]:
    """`--flag value`, `--flag=value` and `--switch` of the command; underscores as dashes."""
    words = words_of(container)
    pairs = (pair(word, words[place + 1 :]) for place, word in enumerate(words))
    return dict(found for found in pairs if found)


def pair(word: str, rest: Sequence[str]) -> tuple[str, str] | None:
    """A flag and its value; None for a word that is no flag."""
    if not word.startswith("-") or not word.strip("-"):
        return None
    name, equals, value = word.lstrip("-").partition("=")
    if not equals and rest and (not rest[0].startswith("-") or is_number(rest[0])):
        value = rest[0]
    return name.replace("_", "-"), value


def is_number(text: str) -> bool:
    """Whether a word is a number, which may begin with a dash."""
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


def port_of(container: Any) -> int:
    """Where the engine listens: its flag, else a port that its container names, else its habit."""
    flag = flags_of(container).get("port", "")
    if flag.isdigit():
        return int(flag)
    ports = [one for one in container.get("ports") or () if one.get("containerPort")]
    named = [one for one in ports if one.get("name") in {"http", "api", "metrics"}]
    if ports:
        return int((named or ports)[0]["containerPort"])
    return PORTS.get(kind_of(container) or "", 8000)
