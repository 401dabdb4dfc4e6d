"""The page's tables below its summary: each workload, other settings, tuning, traces, costs."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass

from cacheaware_sim.bench.fronts import Point, gpu_hours_at, right_of_front
from cacheaware_sim.bench.judge import Verdict, verdict
from cacheaware_sim.bench.markdown import UNKNOWN, listed, number, percent, seconds, table
from cacheaware_sim.bench.matrix import MAIN, OURS
from cacheaware_sim.bench.results import Result, Row, Table
from cacheaware_sim.bench.telling import against, attainment
from cacheaware_sim.bench.tuning import BUDGET, TRAIN, Choice
from cacheaware_sim.policies.registry import PEERS
from cacheaware_sim.profiles import COEFFICIENTS, PROFILES, profile_name


def workload(one: Table, pictures: str) -> Iterator[str]:
    """The section of a workload."""
    load = one.workload
    yield f"## {load.title[0].upper()}{load.title[1:]}"
    copies = f", each request {load.scale:g} times" if load.scale != 1 else ""
    yield (
        f"A request is good with its first token within {load.slo_ttft_ms / 1e3:g} s and "
        f"{load.slo_tpot_ms:g} ms per further token. Seconds {load.from_s:g} to {load.to_s:g} of "
        f"the trace{copies}; the router is {load.router}."
    )
    if pictures:
        yield f"![Attainment over GPU-hours on {load.name}]({pictures}/{load.name}.png)"
    yield _levels(one)
    yield _rows(one)


def _levels(one: Table) -> str:
    """What an attainment costs: the front, the oracle, the bound."""
    oracle = {item["oracle"]["target_attainment_percent"]: item for item in one.oracle}
    rows = [
        (
            f"{level:g} %",
            number(gpu_hours_at(one.front, level)),
            _oracle(oracle.get(level)),
            _cheapest(one.peers, level),
        )
        for level in one.workload.levels
    ]
    bound = None if one.bound is None else one.bound["gpu_hours"]
    columns = ("GPU-hours for", "constant N", "oracle", "cheapest peer that reaches it")
    return table(columns, rows) + (
        f"\n\nLower bound for all requests in time: {number(bound)} GPU-hours."
    )


def _oracle(result: Result | None) -> str:
    if result is None:
        return UNKNOWN
    shown = number(result["gpu_hours"])
    return shown if result["oracle"]["reached"] else f"not reached ({shown})"


def _cheapest(peers: Sequence[Row], level: float) -> str:
    able = [row for row in peers if row.point.attainment >= level]
    if not able:
        return "none"
    best = min(able, key=lambda row: row.point.gpu_hours)
    return f"{number(best.point.gpu_hours)} ({best.name})"


def _rows(one: Table) -> str:
    columns = (
        "policy", "attained, %", "GPU-hours", "TTFT p50, s", "TTFT p99, s", "TPOT p99, ms", "lost",
        "events", "flaps", "against the front",
    )  # fmt: skip
    ordered = sorted(one.rows, key=lambda row: -row.point.attainment)
    return table(columns, (_cells(row, one.front) for row in ordered))


def _cells(row: Row, front: Sequence[Point]) -> tuple[str, ...]:
    return (
        f"**{row.name}**" if row.policy == OURS else row.name,
        attainment(row),
        number(row.point.gpu_hours),
        seconds(row.mean_or_none("ttft_ms", "p50")),
        seconds(row.mean_or_none("ttft_ms", "p99")),
        number(row.mean_or_none("tpot_ms", "p99"), 0),
        number(row.mean("lost"), 0),
        number(row.mean("scale_events"), 0),
        number(row.mean("flaps"), 0),
        "the front" if row.is_constant else percent(right_of_front(row.point, front)),
    )


def band(some: Sequence[Table], main: Sequence[Table]) -> Iterator[str]:
    """The section of all other settings."""
    yield "## Whether it holds elsewhere"
    if not some:
        yield "Not run; `make bench-full` does: other coefficients, cold starts, models and GPUs."
        return
    yield (
        "A win that turns inside the band of coefficients is none. Fewer seeds than above; every "
        "line compares runs of its own setting alone."
    )
    columns = (
        "setting", "workload", "attained, %", "GPU-hours", "against the front",
        "GPU-hours / best peer's", "as in the main setting",
    )  # fmt: skip
    judged = ((one, verdict(one)) for one in some)
    yield table(columns, (_line(one, found, main) for one, found in judged if found is not None))


def _line(one: Table, found: Verdict, main: Sequence[Table]) -> tuple[str, ...]:
    return (
        one.setting.title,
        one.workload.name,
        attainment(found.ours),
        number(found.ours.point.gpu_hours),
        percent(found.right_percent),
        against(found),
        _turned(one, found, main),
    )


def _turned(one: Table, found: Verdict, main: Sequence[Table]) -> str:
    there = next((verdict(other) for other in main if other.workload == one.workload), None)
    if there is None or there.ratio is None or found.ratio is None:
        return UNKNOWN
    same = (there.ratio.value < 1) == (found.ratio.value < 1)
    return "yes" if same else "**no, it turns**"


def tuning(choices: Sequence[Choice]) -> Iterator[str]:
    """The section of the peers' tuning."""
    targets = listed([f"{target:g} % on {load.name}" for load, target in TRAIN])
    yield "## The peers' tuning"
    yield (
        f"Each peer had at most {BUDGET} settings, its default among them, on the train split (the "
        f"first 20 minutes of both of Azure's traces). Targets: {targets}. The tuned variant is "
        "the cheapest setting that reaches both; where none does, the one that misses by the "
        "fewest points. It is one setting for all workloads, as ours are its defaults: what is "
        "dear on one trace was needed on the other."
    )
    if not choices:
        yield "The runs of the tuning are not stored; `make bench-tune` does them."
        return
    loads = (f"{load.name}: % at GPU-hours" for load, _ in TRAIN)
    rows = [
        (
            one.policy,
            *(f"{item.attainment_percent:.2f} at {item.gpu_hours:.2f}" for item in one.outcomes),
            str(one.tried),
            _changed(one) + ("" if one.is_tuned else " (**not** what the tuned variant has)"),
        )
        for one in choices
    ]
    yield table(("peer", *loads, "tried", "setting, where it is not the default"), rows)


def _changed(choice: Choice) -> str:
    """What differs from the default."""
    default = PEERS[choice.policy].default
    found = [
        f"{field.name} = {_short(getattr(choice.settings, field.name))}"
        for field in fields(default)
        if getattr(choice.settings, field.name) != getattr(default, field.name)
    ]
    return "; ".join(found) or "the default"


def _short(value: object) -> str:
    """Settings in few words: of dataclasses their values alone."""
    if isinstance(value, tuple):
        return ", ".join(_short(one) for one in value)
    if is_dataclass(value):
        values = ", ".join(_short(getattr(value, field.name)) for field in fields(value))
        return f"({values})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def traces(some: Sequence[Table]) -> str:
    """The traces and their hashes."""
    rows = []
    for load in dict.fromkeys(one.workload for one in some):
        results = (
            result
            for one in some
            if one.workload == load
            for row in one.rows
            for result in row.results
        )
        hashes = sorted({one for result in results if (one := result["trace_sha256"])})
        rows.append((load.title, f"`{load.trace}`", listed([f"`{one}`" for one in hashes])))
    return table(("workload", "file, or generator", "SHA-256"), rows)


def coefficients(some: Sequence[Table]) -> str:
    """The profiles, with the source of their coefficients."""
    settings = [MAIN, *(one.setting for one in some)]
    names = dict.fromkeys(profile_name(one.model, one.gpu, one.tp) for one in settings)
    rows = []
    for name in names:
        profile = PROFILES[name]
        costs = [f"{getattr(profile.cost, field.name):g}" for field in fields(profile.cost)]
        rows.append((name, *costs, f"{profile.num_blocks * profile.block_size:,}"))
    columns = (
        "profile", "c0, ms", "c1, ms/seq", "c2, ms/ktok", "a1, ms/ktok", "a2, ms/Mtok²",
        "KV, tokens",
    )  # fmt: skip
    used = dict.fromkeys(one.coefficients for one in settings)
    return (
        "Least-squares fits of the kernel times in AIConfigurator 0.12.0's tables (vLLM 0.24, "
        "bf16). An iteration takes c0 + c1·B + c2·C/1000 + Σ (a1·p/1000 + a2·((s+p)² − s²)/10⁶) ms "  # noqa: RUF001
        "with B decoding requests, C tokens in their caches, and chunks of p tokens after s. Sums "
        "of kernel times are optimistic, so `recommended` raises them; the ends of the band are "
        "prefill half as dear again, and decode contexts as dear as BLIS (inference-sim) has them. "
        f"Factors: {'; '.join(map(_factors, used))}.\n\n{table(columns, rows)}"
    )


def _factors(name: str) -> str:
    factors = (f"{coefficient} x {by:g}" for coefficient, by in COEFFICIENTS[name].items())
    return f"`{name}` {', '.join(factors) or 'as they are'}"
