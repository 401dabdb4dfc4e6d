"""`cacheaware simulate bench`: all policies on all workloads, and the page about it."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table
from cacheaware_sim.cli_options import brings, clear_errors
from cacheaware_sim.cli_run import progress

if TYPE_CHECKING:
    from cacheaware_sim.bench.matrix import Case, Wanted
    from cacheaware_sim.bench.results import Table
    from cacheaware_sim.bench.store import Store

EXTRAS = "sim,plot,bench"
DATA = Path("../shared/data")
FOLDER = Path("build/bench")
RECORDED = Path("tests/simulator/bench/front.json")
TOLD_S = 60.0
"""Where no terminal shows a bar, a line so often."""


def bench(
    *,
    part: Annotated[
        str | None,
        typer.Option(help="quick, standard or full", show_default="standard; of reports all"),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="a workload, e.g. conv or r1-day; may be repeated")
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option(help="cacheaware, constant, oracle, bound or a peer; may be repeated"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="how many", show_default="5, of quick 2")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="processes", show_default="one a core")
    ] = None,
    data: Annotated[
        Path, typer.Option(envvar="CACHEAWARE_DATA", help="the folder that holds traces/")
    ] = DATA,
    results: Annotated[Path, typer.Option(help="where results are kept")] = FOLDER,
    report: Annotated[
        Path | None,
        typer.Option(help="run nothing; write this page (.md) and its pictures from what is kept"),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="run the peers' tuning instead; say what is best")
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="with --part quick: write where ours stands")
    ] = False,
    recorded: Annotated[
        Path, typer.Option(help="with --part quick: where ours stood, to be compared with")
    ] = RECORDED,
    output: OutputOption = Format.TABLE,
) -> None:
    """All policies on all workloads. What was interrupted goes on where it stopped.

    Exit code 1 if a run failed, or if with --part quick ours fell behind by more than noise.
    """
    with clear_errors(EXTRAS):
        from cacheaware_sim.bench.matrix import Wanted
        from cacheaware_sim.bench.store import Store

        wanted = Wanted(
            part=part or ("full" if report else "standard"),
            only=tuple(only or ()),
            policies=tuple(policies or ()),
            seeds=seeds,
        )
        store = Store(results, data)
        if record and wanted.part != "quick":
            raise BadInputError(f"--record with part {wanted.part}: must be with --part quick")
        if report is not None:
            write_report(wanted, store, report)
        elif tune:
            tuned(wanted, store, workers, output)
        elif wanted.part == "quick":
            quick(wanted, store, workers, output, recorded, record=record)
        else:
            measured(wanted, store, workers, output)


def measured(wanted: "Wanted", store: "Store", workers: int | None, output: Format) -> None:
    """Run a part and show it."""
    from cacheaware_sim.bench.matrix import cases

    wanted_cases = cases(wanted)
    failed = run_cases(wanted_cases, store, workers)
    show(wanted_cases, store, output)
    if failed:
        raise typer.Exit(1)


def run_cases(some: "Sequence[Case]", store: "Store", workers: int | None) -> bool:
    """Run what is not kept yet; each failure is one line. True: there were some."""
    from cacheaware_sim.bench.runner import run_all

    check_traces(some, store)
    check_extras(some)
    try:
        with told(len(some)) as on_done:
            failures = run_all(some, store, workers=workers, on_done=on_done)
    except KeyboardInterrupt:
        typer.echo("cacheaware: interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    for failure in failures:
        typer.echo(f"cacheaware: {failure}", err=True)
    return bool(failures)


def check_traces(some: "Sequence[Case]", store: "Store") -> None:
    """Refuse before the runs what none of them could read."""
    for load in dict.fromkeys(case.workload for case in some):
        if not load.generated and not load.path(store.data).is_file():
            raise BadInputError(
                f"--data {store.data}: must hold traces/{load.trace} "
                f"(--only prefill-heavy and --part quick need no files)"
            )


def check_extras(some: "Sequence[Case]") -> None:
    """The same for libraries."""
    from cacheaware_sim.bench.matrix import BOUND

    if any(case.policy == BOUND for case in some) and find_spec("scipy") is None:
        raise BadInputError(f"scipy is not installed; {brings(EXTRAS)}")


@contextmanager
def told(total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; elsewhere a line a minute."""
    began = last = time.monotonic()
    with progress(f"{total} runs") as bar:

        def on_done(done: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if bar is not None:
                bar(done / total)
            elif now - last >= TOLD_S:
                last = now
                minutes = (now - began) / 60
                typer.echo(f"{done} of {total} runs, {minutes:.0f} min", err=True)

        yield on_done


def show(some: "Sequence[Case]", store: "Store", output: Format) -> None:
    """Print where each policy stands, workload by workload."""
    from cacheaware_sim.bench.results import tables_of

    rows = [row for table in tables_of(some, store) for row in standing(table)]
    if output is Format.JSON:
        print_json(rows)
        return
    columns = ("WORKLOAD", "POLICY", "SEEDS", "ATTAINED %", "+-", "GPU-HOURS", "OFF THE FRONT %")
    print_table(columns, [[row[key] for key in list(row)[: len(columns)]] for row in rows])


def standing(table: "Table") -> list[dict[str, Any]]:
    """One entry a policy, the best attainment first."""
    from cacheaware_sim.bench.fronts import right_of_front

    entries = []
    for row in sorted(table.rows, key=lambda one: -one.point.attainment):
        right = None if row.is_constant else right_of_front(row.point, table.front)
        entries.append(
            {
                "workload": table.workload.name,
                "policy": row.name,
                "seeds": len(row.results),
                "attainment_percent": round(row.point.attainment, 3),
                "attainment_deviation": _rounded(row.attainment_spread, 3),
                "gpu_hours": round(row.point.gpu_hours, 4),
                "right_of_front_percent": _rounded(right, 2),
                "setting": table.setting.title,
            }
        )
    return entries


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def tuned(wanted: "Wanted", store: "Store", workers: int | None, output: Format) -> None:
    """Run the grids, and say which setting of each peer is best."""
    from cacheaware_sim.bench.choices import choices
    from cacheaware_sim.bench.tuning import tuning_cases

    failed = run_cases(tuning_cases(wanted.policies), store, workers)
    found = choices(store, wanted.policies)
    entries = [
        {
            "policy": one.policy,
            "number": one.number,
            "settings": str(one.settings),
            "is_tuned": one.is_tuned,
            "attainment_percent": [item.attainment_percent for item in one.outcomes],
            "gpu_hours": [item.gpu_hours for item in one.outcomes],
            "tried": one.tried,
        }
        for one in found
    ]
    if output is Format.JSON:
        print_json(entries)
    else:
        columns = ("POLICY", "NO.", "ATTAINED %", "GPU-HOURS", "IS TUNED", "SETTINGS")
        keys = ("policy", "number", "attainment_percent", "gpu_hours", "is_tuned", "settings")
        print_table(columns, [[entry[key] for key in keys] for entry in entries])
    if failed:
        raise typer.Exit(1)


def quick(
    wanted: "Wanted",
    store: "Store",
    workers: int | None,
    output: Format,
    recorded: Path,
    *,
    record: bool,
) -> None:
    """Run the quick part, and compare ours with what is recorded, or record it."""
    from dataclasses import replace

    from cacheaware_sim.bench.matrix import CONSTANT, OURS, SEEDS, cases
    from cacheaware_sim.bench.workloads import QUICK

    files = all(load.path(store.data).is_file() for load in QUICK)
    if not files:
        if record:
            raise BadInputError(f"--data {store.data}: must hold Azure's traces for --record")
        typer.echo(f"{store.data} has no traces of Azure's: generated ones instead", err=True)
    if record:
        wanted = replace(
            wanted, policies=(OURS, CONSTANT), seeds=SEEDS if wanted.seeds is None else wanted.seeds
        )
    past = None if record else read_recorded(recorded)
    some = cases(wanted, files=files)
    if record:
        some = (*some, *cases(wanted, files=False))
    failed = run_cases(some, store, workers)
    show(some, store, output)
    if failed:
        raise typer.Exit(1)
    if past is None:
        write_recorded(recorded, some, store)
    elif fell_behind(past, some, store):
        raise typer.Exit(1)


def read_recorded(path: Path) -> dict[str, Any]:
    """The file of recorded positions."""
    try:
        stored = json.loads(path.read_text())
        workloads = stored["workloads"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInputError(
            f"--recorded {path}: must be a file that --record has written ({error})"
        ) from error
    return dict(workloads)


def write_recorded(path: Path, some: "Sequence[Case]", store: "Store") -> None:
    """Write where ours stands."""
    from cacheaware_sim.bench.recorded import position_of
    from cacheaware_sim.bench.results import tables_of

    positions = {
        table.workload.name: position_of(table).as_json() for table in tables_of(some, store)
    }
    path.write_text(json.dumps({"workloads": positions}, indent=1) + "\n")


def fell_behind(past: dict[str, Any], some: "Sequence[Case]", store: "Store") -> bool:
    """Compare; each workload on which ours fell behind is one line."""
    from cacheaware_sim.bench.recorded import behind, position_from, position_of
    from cacheaware_sim.bench.results import tables_of
    from cacheaware_sim.bench.workloads import QUICK, QUICK_GENERATED

    like = {ours.name: real.name for ours, real in zip(QUICK_GENERATED, QUICK, strict=True)}
    lines = []
    for table in tables_of(some, store):
        name = table.workload.name
        names = (name, like.get(name, name))
        if not past.keys() >= set(names):
            raise BadInputError(f"{name}: must be recorded first, with --part quick --record")
        try:
            recorded, spread = (position_from(past[one]) for one in names)
        except (KeyError, TypeError, ValueError):
            raise BadInputError(f"{name}: must be as --part quick --record writes it") from None
        lines.append(behind(name, position_of(table), recorded, spread))
    for line in filter(None, lines):
        typer.echo(f"cacheaware: {line}", err=True)
    return any(lines)


def write_report(wanted: "Wanted", store: "Store", path: Path) -> None:
    """Write the page and its pictures."""
    from cacheaware_sim.bench.choices import choices
    from cacheaware_sim.bench.findings import findings
    from cacheaware_sim.bench.pictures import draw_front
    from cacheaware_sim.bench.report import page

    if path.suffix != ".md" or not path.parent.is_dir():
        raise BadInputError(f"--report {path}: must end with .md, in a directory that exists")
    if find_spec("matplotlib") is None:
        raise BadInputError(f"matplotlib is not installed; {brings(EXTRAS)}")
    found = findings(wanted, store, choices(store), pictures=path.stem)
    if not found.tables:
        raise BadInputError(f"--results {store.folder}: must hold results; none is there")
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    for table in found.main:
        draw_front(table, folder / f"{table.workload.name}.png")
    path.write_text(page(found))
    typer.echo(f"{path}, {len(found.main)} pictures", file=sys.stdout)
