"""Two pages that somebody named: whether they are two looks at one engine.

A live pod is one by its name. Of pages nobody knows: those of two pods with the same engine and
model look like an engine that began anew.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cacheaware_sidecar.engines import EngineSample, restarted
from cacheaware_sidecar.engines.detect import FINDER
from cacheaware_sidecar.engines.exposition import read_series
from cacheaware_sidecar.health import WARNING, Looks, Symptom, look

WHOSE: Final = (
    "model_name", "model", "engine", "dp_rank", "pod", "pod_name", "kubernetes_pod_name",
    "instance", "namespace", "node", "hostname",
)  # fmt: skip
"""Labels that a restart does not change; the last ones are written by who collects the pages."""
WORK: Final = ("requests", "prompt_tokens", "generation_tokens", "prefix_queries")
"""Counters that grow with each request, so that after a restart all are small."""


FIX_OTHER: Final = (
    "give two pages of the same pod, the earlier one first; `cacheaware doctor pod/NAME` looks"
    " twice at one"
)
FIX_UNCLEAR: Final = (
    "`kubectl get pod` counts restarts: where it shows one, `kubectl logs --previous` says why;"
    f" else {FIX_OTHER}"
)


def compared(earlier: bytes, later: bytes, seconds: float | None) -> tuple[Looks, Symptom | None]:
    """Both pages as two looks; the later alone, and why, where they may be of two engines.

    Pages of different kinds of engines stay together: their rule tells of them.
    """
    first, newest = look(earlier), look(later)
    if first.sample.engine != newest.sample.engine:
        return Looks(newest, first, seconds), None
    doubt = doubt_of(first.sample, newest.sample, labels(earlier), labels(later))
    return (Looks(newest, first, seconds), None) if doubt is None else (Looks(newest), doubt)


def doubt_of(
    old: EngineSample, new: EngineSample, whose: dict[str, set[str]], whose_new: dict[str, set[str]]
) -> Symptom | None:
    """What speaks against one engine; None where nothing does."""
    seen = next(_proofs(old, new, whose, whose_new), None)
    if seen is not None:
        message = f"the two pages are not of one engine: {seen}; the later was judged by itself"
        return Symptom("two-engines", WARNING, message, FIX_OTHER)
    if (order := _wrong_order(old, new)) is not None:
        message = f"the two pages are in the wrong order: {order}; the later was judged by itself"
        return Symptom("two-engines", WARNING, message, FIX_OTHER)
    if _is_one_process(old, new) or not (restarted(old, new) or _other_settings(old, new)):
        return None
    if (ways := _two_ways(old, new)) is not None:
        message = (
            f"the two pages are hardly of one engine: {ways}, and after a restart all begin at 0;"
            " the later was judged by itself"
        )
        return Symptom("two-engines", WARNING, message, FIX_OTHER)
    message = (
        f"{_anew(old, new)}: the engine began anew between the pages, or they are of two pods with"
        " the same engine and model; the pages don't tell which, and the later was judged by itself"
    )
    return Symptom("restart-or-two-engines", WARNING, message, FIX_UNCLEAR)


def labels(page: bytes) -> dict[str, set[str]]:
    """The values of `WHOSE` on a page, by label."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for rest in (line for lines in FINDER.find(page).values() for line in lines):
        told = (read_series(rest) or ({}, 0.0))[0]
        for name in WHOSE:
            if told.get(name):
                found[name].add(told[name])
    return dict(found)


def _proofs(
    old: EngineSample, new: EngineSample, whose: dict[str, set[str]], whose_new: dict[str, set[str]]
) -> Iterator[str]:
    for name in WHOSE:
        was, is_ = whose.get(name, set()), whose_new.get(name, set())
        if was and is_ and not was & is_:
            yield f"{name} is {_values(was)} on the earlier, {_values(is_)} on the later"
    later = _started_later_s(old, new)
    if later is not None and later < 0:
        yield (
            f"the process of the later started {-later:,.0f} s before that of the earlier (or they"
            " are named in the wrong order)"
        )


def _values(values: set[str]) -> str:
    return ", ".join(ascii(one[:80]) for one in sorted(values)[:3])


def _is_one_process(old: EngineSample, new: EngineSample) -> bool:
    return _started_later_s(old, new) == 0


def _wrong_order(old: EngineSample, new: EngineSample) -> str | None:
    """Two or more counters of work that fell in one process, and none that grew."""
    if not _is_one_process(old, new) or {old.engines, new.engines} - {None, 1}:
        return None
    known = _work(old, new)
    fell = [_moved(name, *pair) for name, pair in known.items() if pair[1] < pair[0]]
    if len(fell) < 2 or any(is_ > was for was, is_ in known.values()):
        return None
    return f"the process is the same, and {fell[0]}"


def _started_later_s(old: EngineSample, new: EngineSample) -> float | None:
    """By how many seconds; None where either does not tell its start."""
    if old.started_at is None or new.started_at is None:
        return None
    return new.started_at - old.started_at


def _other_settings(old: EngineSample, new: EngineSample) -> list[str]:
    """Settings that differ: an engine that runs does not change them."""
    return [
        f"{name.replace('_', ' ')} {getattr(old, name)} became {getattr(new, name)}"
        for name in ("block_size", "kv_dtype", "engines")
        if None not in (getattr(old, name), getattr(new, name))
        and getattr(old, name) != getattr(new, name)
    ]


def _two_ways(old: EngineSample, new: EngineSample) -> str | None:
    """One counter that fell and one that grew; None where none did either."""
    known = _work(old, new)
    fell = next((_moved(name, *pair) for name, pair in known.items() if pair[1] < pair[0]), None)
    grew = next(
        (_moved(name, *pair) for name, pair in known.items() if pair[1] > pair[0] > 0), None
    )
    return None if fell is None or grew is None else f"{fell} while {grew}"


def _work(old: EngineSample, new: EngineSample) -> dict[str, tuple[float, float]]:
    """The counters of work that both pages tell."""
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in WORK}
    return {name: pair for name, pair in pairs.items() if None not in pair}


def _moved(name: str, was: float, is_: float) -> str:
    verb = "fell" if is_ < was else "grew"
    return f"{name.replace('_', ' ')} {verb} from {was:,.0f} to {is_:,.0f}"


def _anew(old: EngineSample, new: EngineSample) -> str:
    """What looks like a beginning."""
    if settings := _other_settings(old, new):
        return ", ".join(settings)
    later = _started_later_s(old, new)
    return "counters fell" if later is None else f"its process started {later:,.0f} s later"
