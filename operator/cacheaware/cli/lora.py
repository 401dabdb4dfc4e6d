"""`cacheaware lora`: does an adapter bind to its base model, and a copy that does."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli import app
from cacheaware.cli.config_files import Document, documents, parsed, printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table, text_width

if TYPE_CHECKING:
    from cacheaware.model.lora.adapter import Adapter
    from cacheaware.model.lora.base_model import Base
    from cacheaware.model.lora.check import Report
    from cacheaware.model.lora.fix import Fixed

lora = typer.Typer(help="Whether a LoRA adapter binds to its base model.", no_args_is_help=True)
app.add_typer(lora, name="lora")

AdapterArgument = Annotated[
    str,
    typer.Argument(
        metavar="ADAPTER",
        help="The adapter's folder, or its file of tensors (safetensors or torch).",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    str,
    typer.Option(
        "--config", help="The base model's config.json, or the folder that holds it.",
        show_default=False,
    ),
]  # fmt: skip


@lora.command(
    epilog="Example: cacheaware lora check ./my-adapter --config ./llama-3-8b/config.json"
)
def check(
    adapter: AdapterArgument, config: ConfigOption, output: OutputOption = Format.TABLE
) -> int:
    """Match every tensor of an adapter against the base model's modules.

    Nothing of a torch file is executed. Exit code 1: a tensor doesn't bind as it is, or something
    else is wrong with the adapter.
    """
    from cacheaware.model.lora.check import check as checked

    base = base_at(config)
    read = adapter_at(adapter)
    report = checked(read, base)
    if output is Format.JSON:
        print_json(as_json(report, read))
    else:
        show(report)
    return 0 if report.well else 1


@lora.command(
    epilog="Example: cacheaware lora fix ./my-adapter --config ./llama-3-8b --out ./fixed"
)
def fix(
    adapter: AdapterArgument,
    config: ConfigOption,
    out: Annotated[
        str, typer.Option("--out", help="A new folder for the copy.", show_default=False)
    ],
    output: OutputOption = Format.TABLE,
) -> int:
    """Write a copy with the keys that every engine binds, and check that copy.

    The input is never written to. Exit code 1: a tensor was left out, or something is still wrong
    with the copy.
    """
    from cacheaware.model.lora.check import check as checked
    from cacheaware.model.lora.fix import fixed, write
    from cacheaware.model.lora.tensors import LoraFileError

    base = base_at(config)
    read = adapter_at(adapter)
    target = new_folder(out, Path(adapter), read.weights)
    try:
        made = fixed(read, base)
        write(made, target)
    except LoraFileError as error:
        raise BadInputError(printable(str(error))) from error
    except OSError as error:
        raise BadInputError(
            f"--out is {printable(out)!r}: can't be written: {error.strerror or error}"
        ) from error
    proof = adapter_at(out)
    report = checked(proof, base)
    if output is Format.JSON:
        print_json({**as_json(report, proof), "leftOut": [list(one) for one in made.left_out]})
    else:
        show_copy(made, proof, report)
    return 0 if report.well and not made.left_out else 1


def new_folder(out: str, named: Path, weights: Path) -> Path:
    """The folder for the copy, which is never the input's.

    Where the input is a folder, all below it belongs to it: a copy there would be loaded or
    uploaded along with it. Where it is a file, its folder is only where the file lies. The input's
    folder is the one as named and, behind links, the one where the tensors lie.

    Raises:
        BadInputError: it is, or no folder can be there.
    """
    told = f"--out is {printable(out)!r}"
    if not out or "\0" in out:
        raise BadInputError(f"{told}: allowed is the name of a new folder")
    target = Path(out)
    try:
        real = target.resolve()
        inputs = {weights.parent.resolve(), weights.resolve().parent}
        if real in inputs:
            raise BadInputError(f"{told}, the input's own folder: allowed is a new folder")
        if named.is_dir() and not inputs.isdisjoint(real.parents):
            raise BadInputError(
                f"{told}, below the input's folder and so a part of it:"
                " allowed is a new folder outside of it"
            )
        if target.is_symlink() and not target.exists():
            raise BadInputError(f"{told}, a link to nothing: allowed is a new folder")
        above = next(one for one in real.parents if os.path.lexists(one))
        if not above.is_dir():
            raise BadInputError(f"{told}, below a file: allowed is a new folder")
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInputError(f"{told}: can't be a folder: {why}") from error
    return target


def base_at(name: str) -> "Base":
    """The base model's modules.

    Raises:
        BadInputError: the file is bad, or its architecture isn't known.
    """
    from cacheaware.model.architecture import UnknownArchitectureError
    from cacheaware.model.lora.base_model import base_of
    from cacheaware_sidecar.kv import ConfigError

    found: list[Document] = list(documents([name]))
    if len(found) != 1:
        raise BadInputError(f"--config is {printable(name)!r}: allowed is one config.json")
    try:
        return base_of(parsed(found[0]))
    except (BadInputError, ConfigError, UnknownArchitectureError) as error:
        raise BadInputError(f"--config {found[0].shown}: {error}") from error


def adapter_at(name: str) -> "Adapter":
    """The adapter.

    Raises:
        BadInputError: it can't be read as one.
    """
    from cacheaware.model.lora.adapter import read_adapter
    from cacheaware.model.lora.tensors import LoraFileError

    if "\0" in name:
        raise BadInputError(f"ADAPTER is {printable(name)!r}: allowed is a folder's or file's name")
    try:
        return read_adapter(Path(name))
    except LoraFileError as error:
        raise BadInputError(f"{printable(name)}: {printable(str(error))}") from error
    except OSError as error:
        raise BadInputError(
            f"{printable(name)}: can't be read: {error.strerror or error}"
        ) from error


def as_json(report: "Report", adapter: "Adapter") -> dict[str, Any]:
    """The JSON output; its keys are stable."""
    from cacheaware.model.lora.base_model import Found

    return {
        "adapter": printable(str(adapter.weights)),
        "tensors": [
            {
                "key": printable(one.tensor.name),
                "dtype": one.tensor.dtype,
                "shape": list(one.tensor.shape),
                "style": one.key and str(one.key.style),
                "part": one.key and str(one.key.part),
                "modules": [module.name for module in one.found.modules]
                if isinstance(one.found, Found)
                else [],
                "binds": one.binds,
                "why": None if one.binds or isinstance(one.found, Found) else one.found,
            }
            for one in report.matches
        ],
        "engines": [asdict(one) for one in report.engines],
        "findings": [asdict(one) for one in report.findings],
    }


def show(report: "Report") -> None:
    """The report as a person reads it."""
    from cacheaware.cli.doctor_view import lines

    binds = sum(one.binds for one in report.matches)
    typer.echo(f"{len(report.matches)} tensors, {binds} under the key that PEFT writes\n")
    rows = [
        (one.engine, one.binds, one.refused, one.dropped, one.unsure, printable(one.reason))
        for one in report.engines
    ]
    print_table(("engine", "binds", "refused", "dropped", "unsure", "first reason"), rows)
    if report.findings:
        typer.echo()
    for line in lines(list(report.findings), text_width()):
        typer.echo(printable(line))


def show_copy(made: "Fixed", proof: "Adapter", report: "Report") -> None:
    """What was written, what was left out, and what the check of the copy says."""
    typer.echo(f"{printable(str(proof.weights))}: {len(made.placed)} tensors written")
    for name, why in made.left_out:
        print(f"cacheaware: left out {printable(name)}: {printable(why)}", file=sys.stderr)
    typer.echo("the copy, checked:")
    show(report)
