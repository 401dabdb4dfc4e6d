"""What engines do at SIGTERM: read in their sources, and seen on real ones."""

from dataclasses import dataclass

from cacheaware.workload.engine import Engine
from cacheaware.workload.variables import env_of

VLLM_FLAG = "shutdown-timeout"
VLLM_SINCE = (0, 18)
"""The first vLLM with --shutdown-timeout; its default 0 aborts what runs."""
TGI_FLAG = "graceful-termination-timeout"
TGI_DEFAULT_S = 90.0


@dataclass(frozen=True, slots=True)
class Habit:
    """Whether requests in flight survive SIGTERM."""

    finishes: bool | None
    """None: not known."""
    limit_s: float | None = None
    """How long they are given; None: no limit but the grace period, or not known."""
    why: str = ""


def habit_of(engine: Engine) -> Habit:
    """The habit of an engine with these flags and this version."""
    if engine.kind == "vllm":
        return vllm(engine)
    if engine.kind == "sglang":
        return sglang(engine)
    if engine.kind == "tgi":
        limit = engine.number(TGI_FLAG)
        return Habit(True, TGI_DEFAULT_S if limit is None else limit, f"--{TGI_FLAG}")
    if engine.kind == "llamacpp":
        return Habit(False, why="llama.cpp ends at once")
    return Habit(None, why=f"what {engine.kind or 'this engine'} does at SIGTERM is not known")


def vllm(engine: Engine) -> Habit:
    """Aborts, unless told to finish by a flag that it has since 0.18."""
    if engine.before(*VLLM_SINCE):
        return Habit(False, why=f"vLLM {engine.version} has no --{VLLM_FLAG}")
    given = engine.flags.get(VLLM_FLAG)
    limit = engine.number(VLLM_FLAG)
    if given is not None and limit is None:
        return Habit(None, why=f"the value of --{VLLM_FLAG} is not in the manifest")
    if given is None and "config" in engine.flags:
        return Habit(None, why=f"--{VLLM_FLAG} may be in the file of --config")
    if limit:
        return Habit(True, limit, f"--{VLLM_FLAG}")
    return Habit(False, why=f"vLLM's --{VLLM_FLAG} is 0, its default")


def sglang(engine: Engine) -> Habit:
    """Waits for all requests without a limit, unless forced."""
    if env_of(engine.container).get("SGL_FORCE_SHUTDOWN", "").lower() in {"1", "true", "yes"}:
        return Habit(False, why="SGL_FORCE_SHUTDOWN is set")
    return Habit(True, why="SGLang waits for all requests")
