"""`cacheaware model audit`: what is wrong with a model's config.json, before it is launched."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli import model
from cacheaware.cli.config_files import Document, documents, parsed
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.inputs import STDIN
from cacheaware.cli.output import Format, OutputOption, print_json, text_width

if TYPE_CHECKING:
    from cacheaware.doctor.findings import Finding
    from cacheaware.model.audit.view import Serving

Audited = tuple[str, list["Finding"]]
"""A file's name, and what is wrong with it."""

MODELOPT: str = "hf_quant_config.json"
"""Where ModelOpt's older exports keep what they did to the weights, beside config.json."""
MOST_RANKS = 4096
LONGEST = 10**9
LEAST_SHARE = 0.001
"""Tens of MB of a GPU: no engine starts below."""


class Engine(StrEnum):
    """The value of --engine."""

    VLLM = "vllm"
    OTHER = "other"


class Threshold(StrEnum):
    """The value of --fail-on."""

    WARNING = "warning"
    ERROR = "error"


@model.command()
def audit(  # noqa: PLR0917 - typer reads options from parameters
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG...",
            help="config.json files, folders that hold them, or - for standard input.",
            show_default=False,
        ),
    ],
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="GPUs to check against: h100,l40s,mi300x.")
    ] = None,
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel size.")] = 1,
    ep: Annotated[int, typer.Option("--ep", help="Expert parallel size.")] = 1,
    max_model_len: Annotated[
        int | None, typer.Option(help="Tokens of the longest request; else the file's.")
    ] = None,
    gpu_memory_utilization: Annotated[
        float, typer.Option(help="The engine's share of a GPU's memory.")
    ] = 0.92,
    engine: Annotated[
        Engine, typer.Option(help="other: leave out what only vLLM refuses.")
    ] = Engine.VLLM,
    fail_on: Annotated[
        Threshold, typer.Option(help="Exit code 1 from this severity on.")
    ] = Threshold.ERROR,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check a model's structure: heads, RoPE, norms, dtypes, quantisation, experts, what fits.

    No weights, GPU or network are needed. Exit code 1: there are findings of the severity of
    --fail-on or worse; 2: a file is bad.

    Example: cacheaware model audit config.json --gpu h100,l40s --tp 2
    """
    from cacheaware.doctor.findings import Severity, at_least
    from cacheaware.model.audit.view import Serving

    check_sizes(tp, ep, max_model_len, gpu_memory_utilization)
    serving = Serving(
        gpus=gpus_named(gpu),
        tensor=tp,
        experts=ep,
        max_model_len=max_model_len,
        utilization=gpu_memory_utilization,
        vllm=engine is Engine.VLLM,
    )
    audited, problems = audit_all(files, serving)
    for problem in problems:
        print(f"cacheaware: {problem}", file=sys.stderr)
    show(audited, output)
    bad = at_least((one for _, found in audited for one in found), Severity(fail_on.value))
    raise typer.Exit(2 if problems else 1 if bad else 0)


def check_sizes(tp: int, ep: int, max_model_len: int | None, utilization: float) -> None:
    """Refuse sizes that no engine can be started with.

    Raises:
        BadInputError: One line with the option, its value and what is allowed.
    """
    from cacheaware_sidecar.kv import ConfigError
    from cacheaware_sidecar.kv.fields import whole

    try:
        whole("--tp", tp, 1, MOST_RANKS)
        whole("--ep", ep, 1, MOST_RANKS)
        whole("--max-model-len", 1 if max_model_len is None else max_model_len, 1, LONGEST)
    except ConfigError as error:
        raise BadInputError(str(error)) from error
    if not LEAST_SHARE <= utilization <= 1:
        raise BadInputError(
            f"--gpu-memory-utilization is {utilization:g}: allowed are {LEAST_SHARE:g}..1"
        )


def gpus_named(text: str | None) -> tuple[Any, ...]:
    """The GPUs of a list with commas; none without the option.

    Raises:
        BadInputError: a name that the table does not have, or an empty one.
    """
    from cacheaware.model.gpus import UnknownGpuError, gpu_named

    if text is None:
        return ()
    try:
        return tuple(gpu_named(name.strip()) for name in text.split(","))
    except UnknownGpuError as error:
        raise BadInputError(f"--{error}") from error


def audit_all(files: list[str], serving: "Serving") -> tuple[list[Audited], list[str]]:
    """The good files with their findings, and one line for each bad one."""
    from cacheaware.model.audit.examine import audit as findings_of
    from cacheaware_sidecar.kv import ConfigError

    audited: list[Audited] = []
    problems: list[str] = []
    for found in documents(files):
        try:
            audited.append((found.shown, findings_of(found.shown, config_of(found), serving)))
        except (BadInputError, ConfigError) as error:
            problems.append(f"{found.shown}: {error}")
    return audited, problems


def config_of(document: Document) -> Any:
    """The config, with the quantisation that an older ModelOpt export tells beside it.

    Raises:
        BadInputError: It, or the file beside it, can't be read or is no JSON.
    """
    config = parsed(document)
    beside = Path(document.name).parent / MODELOPT
    if (
        document.name == STDIN
        or not isinstance(config, Mapping)
        or config.get("quantization_config")
        or not beside.is_file()
    ):
        return config
    told = parsed(Document(str(beside)))
    section = told.get("quantization") if isinstance(told, Mapping) else None
    if not isinstance(section, Mapping):
        raise BadInputError(f"{MODELOPT} beside it has no object `quantization`")
    return {**config, "quantization_config": {"quant_method": "modelopt", **section}}


def show(audited: list[Audited], output: Format) -> None:
    """All findings, by file."""
    if output is Format.JSON:
        print_json({"findings": [asdict(one) for _, found in audited for one in found]})
        return
    from cacheaware.cli.doctor_view import lines, summary

    width = text_width()
    for place, (name, found) in enumerate(audited):
        if place:
            typer.echo()
        typer.echo(f"{name}: {summary(found)}")
        for line in lines(found, width):
            typer.echo(line)
