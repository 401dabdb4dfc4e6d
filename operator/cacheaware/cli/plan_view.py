"""How a plan is shown: tables within 100 columns and the scaler as YAML, or JSON."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from io import StringIO
from typing import Any

import typer

from cacheaware.cli.config_files import printable
from cacheaware.cli.doctor_view import lines
from cacheaware.cli.output import Format, print_json, print_table, text_width
from cacheaware.doctor.findings import Finding
from cacheaware.model.engine_memory import GIB
from cacheaware.model.engine_speed import DECODE_SHARE, PREFILL_SHARE
from cacheaware.model.estimates import Estimate
from cacheaware.model.plan import Candidate, Plan
from cacheaware.model.plan_findings import counted
from cacheaware.model.plan_reasons import reasons
from cacheaware.model.plan_scaler import engine_options, name_of, scaler

_NO_PLAIN_TEXT = re.compile(r"\d|(?:y|n|yes|no|on|off|true|false|null)$")
"""Names that YAML 1.1, which kubectl reads, may take for something else than text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the command found; without a plan the reason why."""

    file: str
    plan: Plan | None
    findings: tuple[Finding, ...]
    unknown: str | None


def show(answer: Answer, output: Format) -> None:
    """Print it."""
    if output is Format.JSON:
        print_json(as_json(answer))
    elif answer.plan is not None:
        show_plan(answer, answer.plan)


def show_plan(answer: Answer, made: Plan) -> None:
    """Head, sizes, memory, reasons, load, findings, scaler."""
    for line in head(answer, made):
        say(line)
    say("")
    tokens = f"of {made.wish.load.tokens:,} tokens"
    print_table(
        ("TP", "weights", "KV pool", "tokens", "max len", "of max len", tokens),
        (size_row(one, made.chosen) for one in made.candidates),
    )
    say("")
    print_table(
        ("TP", "requests/s", "for each GPU", "TTFT p90", "TPOT", "limit"),
        (speed_row(one, made.chosen) for one in made.candidates),
    )
    for tensor, reason in made.refused:
        say(f"TP {tensor} can't be: {reason}")
    if made.chosen is not None:
        show_chosen(made, made.chosen)
    for line in load_lines(made):
        say(line)
    if answer.findings:
        say("")
        for line in lines(list(answer.findings), text_width()):
            typer.echo(line)
    if text := yaml_of(answer, made):
        say("")
        typer.echo(text, nl=False)


def show_chosen(made: Plan, chosen: Candidate) -> None:
    """The memory of a rank, and why these options."""
    say("")
    print_table(("a rank's memory", "GiB", "from ... to", "how"), memory_rows(made, chosen))
    say("")
    for choice, value, why in reasons(made, chosen):
        say(f"{choice} {value}: {why}")


def head(answer: Answer, made: Plan) -> Iterator[str]:
    """The model, the GPU and the load."""
    gpu, load = made.wish.gpu, made.wish.load
    yield (
        f"{answer.file}: {printable(made.model.model_type or made.model.layout)} on {gpu.name} "
        f"({gpu.memory_gib:g} GB, {gpu.bandwidth_gb_s:,.0f} GB/s; {gpu.source})"
    )
    targets = [
        f"{name} {value * 1000:g} ms"
        for name, value in (("TTFT", load.ttft_s), ("TPOT", load.tpot_s))
        if value is not None
    ]
    yield (
        f"load: {load.rate:g} requests/s, {made.wish.peak:g} at the peak (--peak), "
        f"{load.prompt:,} + {load.output:,} tokens; targets: {', '.join(targets) or 'none'}"
    )


def size_row(one: Candidate, chosen: Candidate | None) -> tuple[Any, ...]:
    """What one tensor-parallel size holds; figures of the cache are the expected ones."""
    pool = one.pool
    return (
        _ranks(one, chosen),
        f"{one.memory.weights / GIB:.1f} GiB",
        f"{pool.bytes.expected / GIB:.1f} GiB",
        None if pool.tokens is None else int(pool.tokens.expected),
        one.longest,
        _times(pool.at_longest),
        _times(pool.at_expected),
    )


def speed_row(one: Candidate, chosen: Candidate | None) -> tuple[Any, ...]:
    """What one replica of that size carries, and what keeps it from more."""
    at = one.point
    limit = at.limit.value if at else f"misses {one.slow.value}" if one.slow else "does not fit"
    return (
        _ranks(one, chosen),
        at and at.rate,
        at and one.rate_per_gpu,
        at and f"{at.ttft_s * 1000:,.0f} ms",
        at and f"{at.tpot_s * 1000:,.1f} ms",
        limit,
    )


def _ranks(one: Candidate, chosen: Candidate | None) -> str:
    return f"{one.tensor}{' *' if chosen is not None and one.tensor == chosen.tensor else ''}"


def _times(held: Estimate) -> str:
    value = held.expected
    return f"{value:.1f}x" if value < 10 else f"{value:,.0f}x"


def memory_rows(made: Plan, chosen: Candidate) -> Iterator[tuple[str, str, str, str]]:
    """How the pool comes about."""
    memory, engine = chosen.memory, made.scheduler
    run = (
        f"profile run of {engine.batched_tokens:,} tokens, logits of {engine.sequences:,} requests"
    )
    told = (
        ("visible", memory.visible, "what the driver shows, from engines' logs"),
        ("budget", memory.budget, f"x {made.wish.utilization:g} (--gpu-memory-utilization)"),
        ("- weights", Estimate(*(float(memory.weights),) * 3), _weights_how(made)),
        ("- activations", memory.activations, run),
        ("- other", memory.other, "libraries, NCCL, CUDA graphs: engines' logs"),
        ("= KV pool", memory.pool, _pool_how(chosen)),
    )  # fmt: skip
    for name, value, how in told:
        span = "" if value.low == value.high else f"{_gib(value.low)} ... {_gib(value.high)}"
        yield name, _gib(value.expected), span, how


def _weights_how(made: Plan) -> str:
    stored = sorted({made.precision.weights(one) for one in made.model.linears()})
    return f"every parameter as stored: {', '.join(stored)}"


def _pool_how(chosen: Candidate) -> str:
    blocks, size = chosen.pool.blocks, chosen.kept.bytes_per_block
    if blocks is None or not size:
        return "the engine's grouping of layers is not known: no blocks"
    return f"{int(blocks.expected):,} blocks of {chosen.kept.block_size} tokens, {size:,} B each"


def _gib(count: float) -> str:
    return f"{count / GIB:,.2f}"


def load_lines(made: Plan) -> Iterator[str]:
    """Replicas, where the load presses, and the burst."""
    chosen, replicas = made.chosen, made.replicas
    if chosen is None or replicas is None or chosen.point is None or chosen.rate is None:
        return
    point, need, work = chosen.point, replicas.need, replicas.at_work
    yield ""
    yield (
        f"replicas: {replicas.now} now ({_span(replicas.now_span)}), {replicas.peak} at the peak "
        f"({_span(replicas.peak_span)}); one replica ({chosen.tensor} GPU"
        f"{'s' * (chosen.tensor > 1)}) carries {point.rate:.3g} requests/s "
        f"({chosen.rate.low:.3g} to {chosen.rate.high:.3g}) with {point.batch} at a time"
    )
    yield (
        f"at {made.wish.load.rate:g} requests/s: TTFT {work.ttft_s * 1000:,.0f} ms (p90), TPOT "
        f"{work.tpot_s * 1000:,.1f} ms, {work.batch} at a time on each; in replicas prefill asks "
        f"for {need.prefill:.2g}, the KV cache for {need.kv:.2g} (each filled to 80 %), all "
        f"together for {need.together:.2g}"
    )
    yield (
        f"speed: roofline / {PREFILL_SHARE.expected:g} for prefill ({PREFILL_SHARE.low:g} to "
        f"{PREFILL_SHARE.high:g}), / {DECODE_SHARE.expected:g} for decode ({DECODE_SHARE.low:g} to "
        f"{DECODE_SHARE.high:g}): the shares that real engines reach with dense 16-bit models; "
        f"cached prefixes not counted"
    )
    full = replicas.full_in_s
    yield (
        f"burst: at {made.wish.peak:g} requests/s the cache of {counted(replicas.now)} is "
        f"{'never full' if full is None else f'full after {full:.0f} s'}"
    )
    yield f"engine: vllm serve MODEL {' '.join(engine_options(made))}"


def _span(counts: tuple[int, int | None]) -> str:
    least, most = counts
    return f"{least} to {'no number of them' if most is None else most}"


def yaml_of(answer: Answer, made: Plan) -> str:
    """The scaler as YAML; empty where nothing serves the load."""
    found = scaler(made, name_of(answer.file, made.model.model_type))
    if found is None:
        return ""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    name = found["metadata"]["name"]
    if _NO_PLAIN_TEXT.match(name):
        quoted = DoubleQuotedScalarString(name)
        found["metadata"]["name"] = found["spec"]["scaleTargetRef"]["name"] = quoted
    text = StringIO()
    writer = YAML()
    writer.default_flow_style = False
    writer.dump(found, text)
    return text.getvalue()


def say(text: str) -> None:
    """A line, wrapped."""
    typer.echo("\n".join(textwrap.wrap(text, text_width(), break_on_hyphens=False)) if text else "")


def as_json(answer: Answer) -> dict[str, Any]:
    """The whole answer; its keys are stable, unknown is null."""
    made = answer.plan
    body: dict[str, Any] = {"file": answer.file, "unknown": answer.unknown}
    if made is None:
        return {**body, "findings": []}
    wish, chosen = made.wish, made.chosen
    return {
        **body,
        "model_type": made.model.model_type,
        "gpu": {
            "name": wish.gpu.name,
            "source": wish.gpu.source,
            "confirmed": wish.gpu.confirmed,
        },
        "load": {**asdict(wish.load), "peak": wish.peak},
        "gpu_memory_utilization": wish.utilization,
        "sizes": [size_json(one) for one in made.candidates],
        "refused": [{"tensor": tensor, "reason": reason} for tensor, reason in made.refused],
        "tensor_parallel": chosen and chosen.tensor,
        "reasons": [
            {"choice": choice, "value": value, "why": why}
            for choice, value, why in (reasons(made, chosen) if chosen else ())
        ],
        "replicas": made.replicas and asdict(made.replicas),
        "engine_options": list(engine_options(made)),
        "scaler": scaler(made, name_of(answer.file, made.model.model_type)),
        "findings": [asdict(one) for one in answer.findings],
    }


def size_json(one: Candidate) -> dict[str, Any]:
    """One tensor-parallel size; bytes are those of a rank."""
    memory, pool = one.memory, one.pool
    return {
        "tensor": one.tensor,
        "fits": one.fits,
        "kv_dtype": one.kept.kv_dtype,
        "block_size": one.kept.block_size,
        "max_model_len": one.longest,
        "visible_bytes": asdict(memory.visible),
        "weight_bytes": memory.weights,
        "activation_bytes": asdict(memory.activations),
        "other_bytes": asdict(memory.other),
        "pool_bytes": asdict(pool.bytes),
        "blocks": pool.blocks and asdict(pool.blocks),
        "tokens": pool.tokens and asdict(pool.tokens),
        "requests_at_max_model_len": asdict(pool.at_longest),
        "requests_at_expected": asdict(pool.at_expected),
        "requests_per_s": one.rate and asdict(one.rate),
        "at_work": one.point and asdict(one.point),
        "misses": one.slow,
    }
