"""The engine among a pod's containers: which one it is, its command-line flags, its port."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from cacheaware.workload.command import argv_of, is_program, program, script_of, words_of
from cacheaware.workload.shape import misfit
from cacheaware.workload.template import Workload
from cacheaware.workload.variables import env_of, expanded, known_values

IMAGES: dict[str, tuple[str, ...]] = {
    "vllm": ("vllm", "cacheaware/mock-engine", "llm-d-inference-sim", "llm-d-cuda"),
    "sglang": ("sglang",),
    "tgi": ("text-generation-inference",),
    "trtllm": ("tensorrt-llm", "tensorrt_llm", "trtllm"),
    "triton-trtllm": ("tritonserver",),
    "llamacpp": ("llama.cpp", "llama-cpp", "llama-server"),
    "lmdeploy": ("lmdeploy",),
}
"""By engine: what its images have in their names."""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "vllm": ("vllm", "cacheaware_sim"),
    "sglang": ("sglang",),
    "tgi": ("text-generation-launcher", "text-generation-server"),
    "trtllm": ("trtllm-serve", "tensorrt_llm"),
    "triton-trtllm": ("tritonserver",),
    "llamacpp": ("llama-server", "llama_cpp"),
    "lmdeploy": ("lmdeploy",),
}
"""By engine: the program or Python package that its command runs."""
HELPERS = re.compile(r"router|proxy|gateway|sidecar|exporter|routing|\bepp\b")
"""In an image's name: it belongs to an engine's project and serves no model."""
OTHER_VERSIONS = re.compile(r"lmcache|llm-d|mock-engine|production-stack")
"""In an image's name: its tag is not the engine's version."""
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
PORT_FLAGS = ("port", "server-port", "http-port")
"""`--server-port` is LMDeploy's, `--http-port` Triton's."""
PORT_VARIABLES = {"tgi": "PORT", "llamacpp": "LLAMA_ARG_PORT"}
"""Engines that take their port from a variable where no flag tells it."""
DIGITS = re.compile(r"[0-9]{1,9}")
ALIASES = {
    "tp": "tensor-parallel-size",
    "tp-size": "tensor-parallel-size",
    "tensor-parallel": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "pp-size": "pipeline-parallel-size",
}
"""Other spellings of flags, vLLM's short ones and SGLang's."""
TAG = re.compile(r":v?(\d+(?:\.\d+)+[-.\w]*)(?:@|$)")


@dataclass(frozen=True, slots=True)
class Engine:
    """The container that serves the model."""

    container: Any
    kind: str | None
    """vllm, sglang, tgi, trtllm, triton-trtllm, llamacpp, lmdeploy; None: not recognised."""
    version: str | None
    """From the image's tag; None where it names none, or another project's."""
    flags: dict[str, str]
    """Command-line flags without their dashes; a switch has the value ""."""
    port: int

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container.get("name", ""))

    def number(self, flag: str) -> float | None:
        """A flag's value as a number from 0 on; None where it is not given or is none."""
        try:
            value = float(self.flags[flag])
        except (KeyError, ValueError):
            return None
        return value if isfinite(value) and value >= 0 else None

    def before(self, *release: int) -> bool | None:
        """Whether the version is older than a release, such as (0, 18); None where unknown."""
        if self.version is None:
            return None
        own = [int(part) for part in re.findall(r"^\d+|(?<=\.)\d+", self.version)]
        return tuple(own[: len(release)]) < release


def serves(workload: Workload, name: str | None = None) -> bool:
    """Whether a workload among several is an engine's: by its container's name, or by itself.

    A malformed one counts, so that it is told as such.
    """
    if misfit(workload.body):
        return True
    if name is not None:
        return any(one.get("name") == name for one in workload.containers)
    return any(kind_of(one) or takes_gpu(one) for one in workload.containers)


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
    return Engine(container, kind, version_of(container, kind), flags, port_of(container))


def kind_of(container: Any) -> str | None:
    """Which engine a container runs; None where nothing tells.

    Its command counts first: images of one project run other things, too.
    """
    words = words_of(container)
    words = [program(word) for word in words[:1]] + words[1:]
    programs = (
        kind for kind, marks in PROGRAMS.items() if any(is_program(w, marks) for w in words)
    )
    return next(programs, None) or next(image_kinds(image_name(container)), None)


def image_kinds(image: str) -> Iterator[str]:
    """The engines whose mark is in an image's name; none for helpers of their projects."""
    if HELPERS.search(image.rpartition("/")[2]):
        return iter(())
    return (kind for kind, marks in IMAGES.items() if any(mark in image for mark in marks))


def image_name(container: Any) -> str:
    """Registry, path and name of the image, without tag and digest, in lower case."""
    image = str(container.get("image") or "").lower().partition("@")[0]
    path, slash, last = image.rpartition("/")
    return path + slash + last.partition(":")[0]


def version_of(container: Any, kind: str | None) -> str | None:
    """The engine's version by the tag of the engine's own image."""
    image = image_name(container)
    marks = IMAGES.get(kind or "", ())
    own = any(mark in image for mark in marks) and not OTHER_VERSIONS.search(image)
    found = TAG.search(str(container.get("image") or "")) if own else None
    return found[1] if found else None


def takes_gpu(container: Any) -> bool:
    """Whether a container asks for an accelerator."""
    return bool(accelerators(container))


def accelerators(container: Any) -> dict[str, int]:
    """Accelerators that a container asks for, by resource name."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    named = {str(name): str(count) for name, count in asked.items() if is_accelerator(str(name))}
    return {
        name: int(count) for name, count in named.items() if DIGITS.fullmatch(count) and int(count)
    }


def is_accelerator(resource: str) -> bool:
    """Whether a resource is a GPU or the like: `nvidia.com/gpu`, `google.com/tpu`, MIG slices."""
    return (
        resource.endswith(("/gpu", "/tpu", "/neuron")) or "/mig-" in resource or "gpu." in resource
    )


def flags_of(container: Any) -> dict[str, str]:
    """`--flag value`, `--flag=value` and `--switch` of the command; underscores as dashes.

    Variables whose value the manifest shows are replaced by it.
    """
    known = known_values(container, script_of(argv_of(container)))
    open_ended = bool(container.get("envFrom"))
    words = [expanded(word, known, open_ended) for word in words_of(container)]
    pairs = (pair(word, words[place + 1 :]) for place, word in enumerate(words))
    found = dict(pair for pair in pairs if pair)
    return {ALIASES.get(name, name): value for name, value in found.items()}


def pair(word: str, rest: Sequence[str]) -> tuple[str, str] | None:
    """A flag and its value; None for a word that is no flag."""
    if not word.startswith("-") or not word.strip("-") or is_number(word):
        return None
    name, equals, value = word.lstrip("-").partition("=")
    if not equals and rest and (not rest[0].startswith("-") or is_number(rest[0])):
        value = rest[0]
    return name.replace("_", "-"), value


def is_number(text: str) -> bool:
    """Whether a word is a number, which may begin with a dash."""
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


def port_of(container: Any) -> int:
    """Where the engine listens.

    Its flag tells, else its variable, else a port that its container names, else its habit.
    """
    told = [one for one in told_ports(container) if DIGITS.fullmatch(one)]
    if told:
        return int(told[0])
    ports = [one for one in container.get("ports") or () if one.get("containerPort")]
    named = [one for one in ports if one.get("name") in {"http", "api", "metrics"}]
    if ports:
        return int((named or ports)[0]["containerPort"])
    return PORTS.get(kind_of(container) or "", 8000)


def told_ports(container: Any) -> list[str]:
    """What flags and variables say of the engine's port, numbers or not, the strongest first."""
    flags, variables = flags_of(container), env_of(container)
    by_variable = variables.get(PORT_VARIABLES.get(kind_of(container) or "", ""))
    return [
        *(flags[name] for name in PORT_FLAGS if name in flags),
        *([by_variable] if by_variable else []),
    ]


def hides_port(container: Any) -> bool:
    """Whether the engine is told a port that the manifest shows nowhere."""
    told = told_ports(container)
    named = any(one.get("containerPort") for one in container.get("ports") or ())
    return bool(told) and not named and not any(map(DIGITS.fullmatch, told))
