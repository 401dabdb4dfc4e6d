"""`cacheaware model pages`: what a page of KV cache costs, from config.json alone."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cacheaware.cli import model
from cacheaware.cli.config_files import Document, documents, parsed, printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table
from cacheaware_sidecar.kv import ConfigError, Geometry, Parallel, check_options, geometry
from cacheaware_sidecar.kv.arithmetic import arithmetic


@dataclass(frozen=True, slots=True)
class Serving:
    """How the model is served: what the options say."""

    parallel: Parallel
    kv_dtype: str
    block_size: int | None


@model.command(epilog="Example: cacheaware model pages config.json --tp 2")
def pages(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="config.json files, folders that hold them, or - for standard input.",
            show_default=False,
        ),
    ],
    *,
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline parallel size.")] = 1,
    dcp: Annotated[int, typer.Option("--dcp", help="Decode context parallel size.")] = 1,
    kv_dtype: Annotated[
        str, typer.Option("--kv-dtype", help="As the engine's --kv-cache-dtype.")
    ] = "auto",
    block_size: Annotated[
        int | None, typer.Option("--block-size", help="Tokens per block (16; hybrids raise it).")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Show what the KV cache of a model costs: bytes per token, page, block and request.

    Figures are per rank; those of the whole pod are marked. Exit code 2 if a file is bad.
    """
    serving = _serving(tp, pp, dcp, kv_dtype, block_size)
    answers, problems = _answers(files, serving)
    for problem in problems:
        print(f"cacheaware: {problem}", file=sys.stderr)
    if output is Format.JSON:
        print_json([as_json(name, sized) for name, sized in answers])
    elif answers:
        print_table(("file", "model", "how it comes about"), _rows(answers))
    return 2 if problems else 0


def _serving(tp: int, pp: int, dcp: int, kv_dtype: str, block_size: int | None) -> Serving:
    """The options, refused where no model could be served with them."""
    try:
        check_options(kv_dtype, block_size)
        return Serving(Parallel(tp, pp, dcp), kv_dtype, block_size)
    except ConfigError as error:
        raise BadInputError(str(error)) from error


def _answers(files: list[str], serving: Serving) -> tuple[list[tuple[str, Geometry]], list[str]]:
    """The good files with their geometry, and one line for each bad one."""
    answers: list[tuple[str, Geometry]] = []
    problems: list[str] = []
    for found in documents(files):
        try:
            answers.append((found.shown, _sized(found, serving)))
        except (BadInputError, ConfigError) as error:
            problems.append(f"{found.shown}: {error}")
    return answers, problems


def _sized(found: Document, serving: Serving) -> Geometry:
    return geometry(parsed(found), serving.parallel, serving.kv_dtype, serving.block_size)


def as_json(name: str, sized: Geometry) -> dict[str, Any]:
    """One object of the JSON output; its keys are stable."""
    return {
        "file": name,
        "model_type": sized.model_type and printable(sized.model_type),
        "architecture": "known" if sized.known else "unknown",
        "scope": sized.scope,
        "layers": sized.layers,
        "heads": sized.heads,
        "kv_heads": sized.kv_heads,
        "head_dim": sized.head_dim,
        "kv_dtype": sized.kv_dtype,
        "block_size": sized.block_size,
        "bytes_per_token_all_layers": sized.bytes_per_token_all_layers,
        "bytes_per_token_growing": sized.bytes_per_token_growing,
        "bytes_per_token_reserved": sized.bytes_per_token_reserved,
        "bytes_per_token_declared": sized.declared_bytes_per_token,
        "window_capped_bytes_per_sequence": sized.window_capped_bytes_per_sequence,
        "state_bytes_per_sequence": sized.state_bytes_per_sequence,
        "cross_bytes_per_sequence": sized.cross_bytes_per_sequence,
        "page_bytes": sized.page_bytes,
        "largest_page_bytes": sized.largest_page_bytes,
        "bytes_per_block": sized.bytes_per_block,
        "groups": _groups(sized),
        "layer_kinds": _layer_kinds(sized),
        "pod_bytes_per_token_all_layers": sized.pod_bytes_per_token_all_layers,
        "pod_bytes_per_token_growing": sized.pod_bytes_per_token_growing,
        "pod_bytes_per_token_reserved": sized.pod_bytes_per_token_reserved,
        "pod_window_capped_bytes_per_sequence": sized.pod_window_capped_bytes_per_sequence,
        "pod_state_bytes_per_sequence": sized.pod_state_bytes_per_sequence,
        "pod_bytes_per_block": sized.pod_bytes_per_block,
        "arithmetic": arithmetic(sized),
        "warnings": sized.warnings,
    }


def _groups(sized: Geometry) -> list[dict[str, Any]] | None:
    if sized.groups is None:
        return None
    return [
        {
            "kind": group.kind,
            "layers": len(group.layers),
            "block_size": group.block_size,
            "window": group.window,
        }
        for group in sized.groups
    ]


def _layer_kinds(sized: Geometry) -> dict[str, int]:
    return dict(Counter(str(layer.kind) for layer in sized.layer_list))


def _rows(answers: list[tuple[str, Geometry]]) -> Iterator[tuple[str, str, str]]:
    """One row per line of arithmetic; file and model stand at the first."""
    for name, sized in answers:
        notes = (f"note: {warning}" for warning in sized.warnings)
        lines = (*arithmetic(sized), *notes)
        for at, line in enumerate(lines):
            yield (name, printable(sized.model_type or "-"), line) if at == 0 else ("", "", line)
