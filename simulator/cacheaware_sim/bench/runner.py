"""Many runs at once, each stored as it ends; what is stored already is not run again."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheaware_sim.bench.matrix import BOUND, Case
from cacheaware_sim.bench.store import Store
from cacheaware_sim.bench.tuning import settings_of
from cacheaware_sim.run_spec import SpecError
from cacheaware_sim.traces.trace import TraceError

BREAKS = 3
"""So often a killed worker is replaced; then something is wrong with the machine."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that brought nothing."""

    case: Case
    message: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.case.label}: {self.message}"


def result_of(case: Case, data: Path) -> dict[str, Any]:
    """One run, here and now.

    Raises:
        SpecError: The run can't be.
        TraceError: Its trace can't be read.
    """
    spec = case.spec(data)
    if case.policy == BOUND:
        from cacheaware_sim.bound import bound_of  # noqa: PLC0415 - scipy, an extra

        return bound_of(spec, min_replicas=spec.min_replicas).as_json()
    from cacheaware_sim.simulate import run  # noqa: PLC0415 - in the workers

    return run(spec, settings=settings_of(case.policy, case.variant)).as_json()


def stored(case: Case, store: Store, path: Path) -> str | None:
    """Run and store at that path; what went wrong, in one line. In a worker."""
    try:
        if store.path(case) != path:
            return "the code or the trace changed while the bench ran; run it again"
        store.write(case, result_of(case, store.data))
    except (SpecError, TraceError, OSError) as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a defect of one policy must not end the others' runs
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def run_all(
    cases: Sequence[Case],
    store: Store,
    *,
    workers: int | None = None,
    on_done: Callable[[int, int], None],
) -> tuple[Failure, ...]:
    """Run what is not stored yet, in this order, and say what failed.

    Args:
        cases: The runs.
        store: Where results are and go.
        workers: Processes; None: one a core.
        on_done: Told how many of how many runs are stored or failed.
    """
    left = store.missing(cases)
    done = len(cases) - len(left)
    on_done(done, len(cases))
    failures: dict[Case, Failure] = {}
    for _ in range(BREAKS):
        for case, message in _some(left, store, workers or os.cpu_count() or 1):
            done += 1
            if message is not None:
                failures[case] = Failure(case, message)
            on_done(done, len(cases))
        left = [case for case in store.missing(left) if case not in failures]
        if not left:
            break
    killed = [Failure(case, "its process was killed, or another of its pool") for case in left]
    return (*failures.values(), *killed)


def _some(cases: Sequence[Case], store: Store, workers: int) -> Iterator[tuple[Case, str | None]]:
    """The runs that come to an end, as they do; a killed worker ends them all."""
    # a fork would copy the threads' locks of the progress bar
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_end_with_parent) as pool:
        futures = {pool.submit(stored, case, store, store.path(case)): case for case in cases}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            return
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """In a worker: end at once at Ctrl-C, and when the program that started it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
