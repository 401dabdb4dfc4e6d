"""A hash of the code that decides a run: stored results are of use as long as it stays the same.

Comments and docstrings decide nothing and are left out. Our own policy is decided by the operator's
and the sidecar's code, too, and the oracle by that of the bounds; peers are not, but for what reads
an engine's metrics, so that their runs outlive a change of those.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import cacheaware
import cacheaware_sidecar
import cacheaware_sim
from cacheaware_sim.bench.matrix import BOUND, ORACLE, OURS

SIM = Path(cacheaware_sim.__file__).parent
OPERATOR = Path(cacheaware.__file__).parent
SIDECAR = Path(cacheaware_sidecar.__file__).parent
OUR_POLICY = frozenset((SIM / "policies" / "ours.py", SIM / "policies" / "warmed.py"))
TUNED = SIM / "policies" / "tuned.py"
"""Settings are part of a result's name anyway."""
_SIMULATED = ("fleet", "policies", "traces")
_MODEL = (
    "coasting", "decode_batch", "engine", "engine_config", "first_shapes", "histogram",
    "iteration", "kv_manager", "kv_pool", "profiles", "request", "run_result", "run_spec", "sample",
    "simulate", "stats", "step_result", "termination", "virtual_time",
)  # fmt: skip
_OURS_OPERATOR = ("decide", "observe")
_OURS_SIDECAR = ("engines", "health", "kv")


def peers_sources() -> tuple[Path, ...]:
    """What decides a run of any policy: the simulator, and what a sample of an engine is."""
    packages = (path for name in _SIMULATED for path in (SIM / name).rglob("*.py"))
    modules = (SIM / f"{name}.py" for name in _MODEL)
    samples = ((SIDECAR / "engines").rglob("*.py"), (SIDECAR / "phase.py",))
    found = {*packages, *modules, *(path for some in samples for path in some)}
    return tuple(sorted(found - {*OUR_POLICY, TUNED}))


def bounds_sources() -> tuple[Path, ...]:
    """What decides the oracle and the lower bound beside that."""
    return (SIM / "bound.py", *sorted((SIM / "bounds").rglob("*.py")))


def our_sources() -> tuple[Path, ...]:
    """What decides a run of ours beside that."""
    operator = (path for name in _OURS_OPERATOR for path in (OPERATOR / name).rglob("*.py"))
    sidecar = (path for name in _OURS_SIDECAR for path in (SIDECAR / name).rglob("*.py"))
    singles = (OPERATOR / "names.py", OPERATOR / "pods.py", *SIDECAR.glob("*.py"), *OUR_POLICY)
    return tuple(sorted({*operator, *sidecar, *singles}))


@cache
def sources_hash(policy: str) -> str:
    """Of the code that decides a run of a policy."""
    own = {OURS: our_sources, ORACLE: bounds_sources, BOUND: bounds_sources}.get(policy, tuple)
    return code_hash((*peers_sources(), *own()))


def code_hash(paths: Iterable[Path]) -> str:
    """Of what files do, in this order; not of what they are called or say."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(_code(path.read_text()).encode())
    return digest.hexdigest()


def _code(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [one for one in body if not _is_prose(one)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_prose(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
