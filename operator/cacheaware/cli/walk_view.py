"""How a walk is shown: tables within 100 columns, and JSON with stable keys."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from cacheaware.cli.config_files import printable
from cacheaware.cli.output import Format, print_json, print_table, text_width
from cacheaware.model.training import Training
from cacheaware.model.units import byte_size
from cacheaware.model.walk import Row, Walk
from cacheaware.model.work import Phase

SHAPE = 36
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Answer:
    """What the command found; without a walk the reason why."""

    file: str
    walk: Walk | None
    training: Training | None
    unknown: str | None


def show(answer: Answer, output: Format) -> None:
    """Print it."""
    if output is Format.JSON:
        print_json(as_json(answer))
    elif answer.walk is not None:
        show_walk(answer.walk)
        if answer.training is not None:
            show_training(answer.training)


def show_walk(found: Walk) -> None:
    """Head, rows, times, exchanges, optimisations, notes."""
    for line in head(found):
        say(line)
    say("")
    columns = ("module", "layers", "shape on a rank, one layer", "params", "FLOPs", "bytes")
    print_table(columns, (_size_row(row) for row in found.rows))
    say("")
    timed = ("module", "FLOP/B", "bound", "ms", "share", "KV read", "KV written")
    print_table(timed, (_time_row(row) for row in found.rows))
    if found.collectives:
        say("")
        columns = ("exchange", "after", "times", "each rank sends", "ms", "share")
        print_table(columns, _exchange_rows(found))
    say("")
    for line in total(found):
        say(line)
    say("")
    say("What acts on it:")
    for names, texts in _by_remedies(found):
        say(f"{names}: {texts}", "  ")
    for note in found.notes:
        say(f"note: {note}")


def say(line: str, indent: str = "") -> None:
    """Print a line, wrapped to the width."""
    typer.echo(
        textwrap.fill(
            line,
            text_width(),
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_on_hyphens=False,
        )
    )


def head(found: Walk) -> Iterator[str]:
    """What runs where."""
    counts, gpu, step = found.parameters, found.gpu, found.step
    name = printable(found.model.model_type or found.model.layout)
    mean = "on average " if found.kept.parallel.pipeline > 1 else ""
    yield (
        f"{name}: {parameters(counts.total)} parameters, {parameters(counts.active)} for a token; "
        f"{len(found.model.layers)} layers; weights {found.weight_bytes / GIB:.1f} GiB a rank "
        f"{mean}({found.kept.parallel}); KV {found.kept.kv_dtype}"
    )
    dtypes = sorted({row.operation.dtype for row in found.rows}, key=lambda one: gpu.tflops[one])
    roofs = ", ".join(
        f"{gpu.tflops[one]:g} TFLOPS {one} (ridge {gpu.ridge(one):.0f})" for one in dtypes
    )
    yield (
        f"{gpu.name}: {roofs} FLOPs/byte; {gpu.bandwidth_gb_s:,g} GB/s memory, "
        f"{gpu.link_gb_s:g} GB/s link; {gpu.source}"
    )
    what = f"{step.new:,} tokens each" if step.phase is Phase.PREFILL else "one token each"
    yield f"{step.phase}: {step.batch:,} x {what}, {step.context:,} cached"


def total(found: Walk) -> Iterator[str]:
    """The whole step."""
    stages = found.kept.parallel.pipeline
    where = "On each rank" if stages == 1 else f"Summed over a rank of each of {stages} stages:"
    yield (
        f"Step: {found.seconds * 1e3:,.3g} ms row by row, no less than "
        f"{found.least_seconds * 1e3:,.3g} ms if all of it overlaps; {found.tokens_per_s:,.0f} "
        f"tokens/s, {found.bound}-bound. {where} {short(found.flops)} FLOPs, "
        f"{byte_size(found.moved)} moved, KV {byte_size(found.kv_read)} read and "
        f"{byte_size(found.kv_written)} written."
    )
    yield (
        "A roofline flatters: kernels reach 40 to 90 % of the peaks, and launches, scheduling and "
        "sampling come on top."
    )


def _size_row(row: Row) -> tuple[Any, ...]:
    one = row.operation
    return (
        one.name,
        row.times,
        textwrap.fill(one.shape, SHAPE),
        parameters(one.parameters) if one.parameters else None,
        short(one.flops),
        byte_size(one.moved),
    )


def _time_row(row: Row) -> tuple[Any, ...]:
    one = row.operation
    return (
        one.name,
        f"{one.intensity:,.3g}" if one.intensity < 1000 else f"{one.intensity:,.0f}",
        row.bound,
        milliseconds(row.seconds),
        f"{row.share:.1%}",
        byte_size(row.times * one.kv_read) if one.kv_read else None,
        byte_size(row.times * one.kv_written) if one.kv_written else None,
    )


def milliseconds(seconds: float) -> str:
    """Milliseconds to a microsecond."""
    return f"{seconds * 1e3:,.3f}"


def _exchange_rows(found: Walk) -> Iterator[tuple[Any, ...]]:
    for one in found.collectives:
        yield (
            one.name,
            one.when,
            one.count,
            byte_size(one.volume),
            milliseconds(one.total_s),
            f"{one.total_s / found.seconds:.1%}",
        )


def _by_remedies(found: Walk) -> Iterator[tuple[str, str]]:
    """Rows on which the same acts are named together, the longest first."""
    joined: dict[str, list[Row]] = {}
    for row in found.rows:
        joined.setdefault("; ".join(one.text for one in row.remedies), []).append(row)
    for texts, rows in sorted(joined.items(), key=lambda one: -sum(r.share for r in one[1])):
        yield ", ".join(dict.fromkeys(row.operation.name for row in rows)), texts


def show_training(found: Training) -> None:
    """Gradients, buckets, ZeRO."""
    ring = found.ring
    say("")
    say(
        f"Training: gradients of 2 bytes over {ring.ranks} ranks, {ring.bandwidth_gb_s:g} GB/s "
        f"each way"
    )
    columns = ("layer", "layers", "gradients of one", "each rank sends", "ms")
    print_table(
        columns,
        (
            (
                one.kind,
                one.layers,
                byte_size(one.payload),
                byte_size(one.volume),
                milliseconds(one.seconds),
            )
            for one in found.gradients
        ),
    )
    say(
        f"All-reduce of {byte_size(found.payload)} in {len(found.buckets):,} buckets: "
        f"{found.seconds:,.3g} s a step, to hide behind the backward pass; the largest bucket "
        f"({byte_size(max(found.buckets))}) needs {found.slowest_s * 1e3:,.3g} ms."
    )
    say(
        f"Timeout of this process group: at least {found.least_timeout_s:,.3g} s by bandwidth, and "
        f"the longest wait for a rank on top (checkpoint, data, first compile); PyTorch's default "
        f"for NCCL is 600 s."
    )
    stages = ", ".join(
        f"stage {stage} {size / GIB:,.1f} GiB" for stage, size in enumerate(found.zero_bytes)
    )
    say(f"ZeRO, mixed precision with Adam, a rank (activations not counted): {stages}.")
    if found.sparse:
        say(
            "note: with expert parallelism the gradients of experts cross only the ranks that hold "
            "the same experts"
        )


def short(count: float) -> str:
    """A count in thousands, millions, ...: 8.03G."""
    value = float(count)
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 1000:
            return f"{value:.0f}" if unit == "" else f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:,.3g}P"


def parameters(count: int) -> str:
    """The same as people say it of parameters: 8.03B."""
    return short(count).replace("G", "B")


def as_json(answer: Answer) -> dict[str, Any]:
    """The JSON object; its keys are stable."""
    found = answer.walk
    if found is None:
        return {"file": answer.file, "architecture": "unknown", "reason": answer.unknown}
    return {
        "file": answer.file,
        "architecture": "known",
        "model_type": found.model.model_type,
        "phase": found.step.phase,
        "batch": found.step.batch,
        "new_tokens": found.step.new,
        "cached_tokens": found.step.context,
        "gpu": {
            "name": found.gpu.name,
            "bandwidth_gb_s": found.gpu.bandwidth_gb_s,
            "tflops": dict(found.gpu.tflops),
            "link_gb_s": found.gpu.link_gb_s,
            "memory_gib": found.gpu.memory_gib,
            "source": found.gpu.source,
            "confirmed": found.gpu.confirmed,
        },
        "tensor_parallel": found.kept.parallel.tensor,
        "pipeline_parallel": found.kept.parallel.pipeline,
        "kv_dtype": found.kept.kv_dtype,
        "parameters": {
            "total": found.parameters.total,
            "active_per_token": found.parameters.active,
            "by_role": {str(role): count for role, count in found.parameters.by_role.items()},
        },
        "weight_bytes_per_rank": found.weight_bytes,
        "rows": [_row_json(row) for row in found.rows],
        "collectives": [
            {
                "name": one.name,
                "after": one.when,
                "times": one.count,
                "payload_bytes": one.payload,
                "sent_bytes": one.volume,
                "seconds": one.total_s,
            }
            for one in found.collectives
        ],
        "step": {
            "seconds": found.seconds,
            "least_seconds": found.least_seconds,
            "tokens_per_s": found.tokens_per_s,
            "bound": found.bound,
            "summed_over_stages": found.kept.parallel.pipeline,
            "flops": found.flops,
            "bytes": found.moved,
            "kv_read_bytes": found.kv_read,
            "kv_written_bytes": found.kv_written,
        },
        "training": _training_json(answer.training) if answer.training else None,
        "notes": list(found.notes),
    }


def _row_json(row: Row) -> dict[str, Any]:
    """Figures of one layer on one rank; `seconds` and `share` are of all layers."""
    one = row.operation
    return {
        "module": one.name,
        "part": one.part,
        "layers": row.times,
        "shape": one.shape,
        "dtype": one.dtype,
        "weights": one.stored,
        "parameters": one.parameters,
        "flops": one.flops,
        "weight_bytes": one.weight_bytes,
        "activation_bytes": one.activation_bytes,
        "kv_read_bytes": one.kv_read,
        "kv_written_bytes": one.kv_written,
        "intensity": one.intensity,
        "bound": row.bound,
        "seconds": row.seconds,
        "share": row.share,
        "optimisations": [{"id": remedy.id, "text": remedy.text} for remedy in row.remedies],
    }


def _training_json(found: Training) -> dict[str, Any]:
    return {
        "ranks": found.ring.ranks,
        "bandwidth_gb_s": found.ring.bandwidth_gb_s,
        "gradients": [
            {
                "layer": one.kind,
                "layers": one.layers,
                "payload_bytes": one.payload,
                "sent_bytes": one.volume,
                "seconds": one.seconds,
            }
            for one in found.gradients
        ],
        "buckets": len(found.buckets),
        "largest_bucket_bytes": max(found.buckets),
        "largest_bucket_seconds": found.slowest_s,
        "all_reduce_seconds": found.seconds,
        "least_timeout_s": found.least_timeout_s,
        "zero_bytes_per_rank": list(found.zero_bytes),
    }
