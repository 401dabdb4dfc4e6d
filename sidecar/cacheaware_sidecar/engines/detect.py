"""Which engine a page is of: the one whose names are on it."""

from cacheaware_sidecar.engines.dialect import Dialect
from cacheaware_sidecar.engines.exposition import Finder, Found
from cacheaware_sidecar.engines.generic import GENERIC
from cacheaware_sidecar.engines.llamacpp import LLAMACPP
from cacheaware_sidecar.engines.lmdeploy import LMDEPLOY
from cacheaware_sidecar.engines.sglang import SGLANG
from cacheaware_sidecar.engines.tgi import TGI
from cacheaware_sidecar.engines.trtllm import TRITON_TRTLLM, TRTLLM
from cacheaware_sidecar.engines.vllm import INFERENCE_SIM, RAY, VLLM, is_imitation

DIALECTS = (VLLM, *RAY, SGLANG, TRTLLM, TRITON_TRTLLM, TGI, LLAMACPP, LMDEPLOY, GENERIC)
ENGINES = tuple(dict.fromkeys(dialect.engine for dialect in (*DIALECTS, INFERENCE_SIM)))
"""What an engine may be called."""
AUTO = "auto"

_NAMES = tuple((dialect, dialect.names()) for dialect in DIALECTS)
_WANTED = frozenset[bytes]().union(
    *(names for _, names in _NAMES),
    *(dialect.started for dialect in DIALECTS),
    *(dialect.awake.names for dialect in DIALECTS if dialect.awake),
)
FINDER = Finder(_WANTED)
"""Finds every name that any engine's table reads."""


def detect(found: Found, engine: str = AUTO) -> tuple[Dialect | None, tuple[str, ...]]:
    """The dialect of a page, or None, and what is odd about it, one line each.

    Args:
        found: The series of all wanted names.
        engine: One of `ENGINES`, or "auto" to go by the names on the page.
    """
    if engine not in (AUTO, *ENGINES):
        return None, (f"engine {engine!r} is not one of {AUTO}, {', '.join(ENGINES)}",)
    candidates = [dialect for dialect, names in _NAMES if not names.isdisjoint(found)]
    if engine == AUTO:
        return _most_specific(found, candidates)
    asked = "vllm" if engine == INFERENCE_SIM.engine else engine
    dialect = next((each for each in candidates if each.engine == asked), None)
    if dialect is None:
        looked_for = tuple(each for each in DIALECTS if each.engine == asked)
        return None, (_unsupported(engine, looked_for),)
    return (INFERENCE_SIM if engine == INFERENCE_SIM.engine else dialect), ()


def _most_specific(
    found: Found, candidates: list[Dialect]
) -> tuple[Dialect | None, tuple[str, ...]]:
    """The first candidate; the generic names may stand beside an engine's own."""
    if not candidates:
        return None, (_unsupported("a supported engine", DIALECTS),)
    first, *others = candidates
    also = sorted({each.engine for each in others if each is not GENERIC} - {first.engine})
    odd = tuple(f"also on the page and not read: names of {engine}" for engine in also)
    return (INFERENCE_SIM if first is VLLM and is_imitation(found) else first), odd


def _unsupported(whose: str, looked_for: tuple[Dialect, ...]) -> str:
    names = ", ".join(each.running[0].names[0].decode() for each in looked_for)
    return f"UnsupportedEngine: no metric of {whose} is on the page, such as {names}"
