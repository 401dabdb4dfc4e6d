"""A hash of the code that decides a run: stored results are of use as long as it stays the same.

Comments and docstrings decide nothing and are left out. Our own policy is decided by the operator's
and the sidecar's code, too; peers are not, so that their runs outlive a change of ours.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import cacheaware
import cacheaware_sidecar
import cacheaware_sim

SIM = Path(cacheaware_sim.__file__).parent
OPERATOR = Path(cacheaware.__file__).parent
SIDECAR = Path(cacheaware_sidecar.__file__).parent
OUR_POLICY = SIM / "policies" / "ours.py"
TUNED = SIM / "policies" / "tuned.py"
"""Settings are part of a result's name anyway."""
_SIMULATED = ("bounds", "fleet", "policies", "traces")
_MODEL = (
    "bound", "coasting", "decode_batch", "engine", "engine_config", "first_shapes", "histogram",
    "iteration", "kv_manager", "kv_pool", "profiles", "request", "run_result", "run_spec", "sample",
    "simulate", "stats", "step_result", "termination", "virtual_time",
)  # fmt: skip
_OURS_OPERATOR = ("decide", "observe")
_OURS_SIDECAR = ("engines", "kv")


def peers_sources() -> tuple[Path, ...]:
    """What decides a run of any policy."""
    packages = (path for name in _SIMULATED for path in (SIM / name).rglob("*.py"))
    modules = (SIM / f"{name}.py" for name in _MODEL)
    return tuple(sorted({*packages, *modules} - {OUR_POLICY, TUNED}))


def our_sources() -> tuple[Path, ...]:
    """What decides a run of ours beside that."""
    operator = (path for name in _OURS_OPERATOR for path in (OPERATOR / name).rglob("*.py"))
    sidecar = (path for name in _OURS_SIDECAR for path in (SIDECAR / name).rglob("*.py"))
    singles = (OPERATOR / "names.py", OPERATOR / "pods.py", *SIDECAR.glob("*.py"), OUR_POLICY)
    return tuple(sorted({*operator, *sidecar, *singles}))


@cache
def sources_hash(*, ours: bool) -> str:
    """Of the code that decides a run of our policy, or of any other."""
    return code_hash((*peers_sources(), *(our_sources() if ours else ())))


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
