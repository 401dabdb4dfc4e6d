"""The engine among a pod's containers: which one it is, its command-line flags, its port."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cacheaware.workload.command import is_program, program, words_of
from cacheaware.workload.template import Workload

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
        """A flag's value as a number; None where it is not given or is none."""
        try:
            return float(self.flags[flag])
        except (KeyError, ValueError):
            return None

    def before(self, *release: int) -> bool | None:
        """Whether the version is older than a release, such as (0, 18); None where unknown."""
        if self.version is None:
            return None
        own = [int(part) for part in re.findall(r"^\d+|(?<=\.)\d+", self.version)]
        return tuple(own[: len(release)]) < release


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
    named = {name: str(count) for name, count in asked.items() if is_accelerator(name)}
    return {name: int(count) for name, count in named.items() if count.isdigit() and int(count)}


def is_accelerator(resource: str) -> bool:
    """Whether a resource is a GPU or the like: `nvidia.com/gpu`, `google.com/tpu`, MIG slices."""
    return (
        resource.endswith(("/gpu", "/tpu", "/neuron")) or "/mig-" in resource or "gpu." in resource
    )


def flags_of(container: Any) -> dict[str, str]:
    """`--flag value`, `--flag=value` and `--switch` of the command; underscores as dashes."""
    words = words_of(container)
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
    """Where the engine listens: its flag, else a port that its container names, else its habit."""
    flags = flags_of(container)
    told = [flags[name] for name in PORT_FLAGS if flags.get(name, "").isdigit()]
    if told:
        return int(told[0])
    ports = [one for one in container.get("ports") or () if one.get("containerPort")]
    named = [one for one in ports if one.get("name") in {"http", "api", "metrics"}]
    if ports:
        return int((named or ports)[0]["containerPort"])
    return PORTS.get(kind_of(container) or "", 8000)
