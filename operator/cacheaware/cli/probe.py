"""`cacheaware probe`: the group, and what its commands share: options, baselines, output."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cacheaware.cli import app
from cacheaware.cli.config_files import printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, print_json, print_table, text_width

if TYPE_CHECKING:
    from cacheaware.doctor.findings import Finding
    from cacheaware.model.baselines import Measured

T = TypeVar("T")

LARGEST_BASELINE = 64 * 1024 * 1024
LARGEST_PROMPT = 16 * 1024 * 1024
MOST_ROWS = 12
"""Of a table for people; JSON has all."""

probe = typer.Typer(
    help="What happens inside a model, against what was healthy (extra: probe).",
    no_args_is_help=True,
)
app.add_typer(probe, name="probe")

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER", help="A checkpoint: config.json and safetensors.", show_default=False
    ),
]
TokensOption = Annotated[int, typer.Option("--tokens", min=2, help="Length of the canary.")]
PromptOption = Annotated[
    str | None,
    typer.Option(
        "--prompt", help="A text file as canary, by the folder's tokeniser; else by rule."
    ),
]
BaselineOption = Annotated[
    str | None, typer.Option("--baseline", help="A healthy run to compare with, from --save.")
]
SaveOption = Annotated[str | None, typer.Option("--save", help="Keep this run as a baseline.")]
DeviceOption = Annotated[str, typer.Option("--device", help="As torch names it.")]
DtypeOption = Annotated[str, typer.Option("--dtype", help="float32, bfloat16 or float16.")]
ToleranceOption = Annotated[
    float, typer.Option("--tolerance", min=0, help="Drift up to which nothing is said.")
]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Where a baseline is read from and kept."""

    read: str | None
    save: str | None

    def healthy(self) -> "Measured | None":
        """The healthy run; None where none was named.

        Raises:
            BadInputError: it can't be read as one.
        """
        from cacheaware.model.baselines import BaselineError, from_text

        if self.read is None:
            return None
        text = text_of("--baseline", self.read, LARGEST_BASELINE)
        try:
            return from_text(text)
        except (BaselineError, ValueError) as error:
            raise BadInputError(f"--baseline {printable(self.read)}: {error}") from error

    def keep(self, run: "Measured") -> None:
        """Write the run where --save says; a file that is there is not replaced.

        Raises:
            BadInputError: there is one, or it can't be written.
        """
        from cacheaware.model.baselines import as_text

        if self.save is not None:
            save_new(self.save, as_text(run))


def text_of(option: str, name: str, most: int) -> str:
    """The text of a file that an option names; `most` bytes.

    Raises:
        BadInputError: it can't be read, is larger, or is no text.
    """
    from cacheaware.cli.inputs import content_of

    where = f"{option} {printable(name)}"
    try:
        content = content_of(name, most)
        if len(content) > most:
            raise BadInputError(f"{where}: more than {most:,} bytes, the most that is allowed")
        return content.decode()
    except OSError as error:
        raise BadInputError(f"{where}: can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInputError(f"{where}: can't be read: {error}") from error


def save_new(name: str, text: str) -> None:
    """Write what --save keeps; a file that is there is not replaced.

    Raises:
        BadInputError: there is one, or it can't be written.
    """
    try:
        with Path(name).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        where = f"--save {printable(name)}"
        raise BadInputError(f"{where}: can't be written: {error.strerror or error}") from error


def asked(call: Callable[[], T]) -> T:
    """What a probe says.

    Raises:
        BadInputError: torch is missing, or the model, the adapter or the baseline can't be used.
    """
    try:
        return call()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"torch", "transformers", "safetensors"}:
            raise
        raise BadInputError(
            f"{error.name} is not installed; pip install 'cacheaware[probe]' brings it"
        ) from error


def measured(
    run: Callable[[], tuple[Any, list["Finding"]]],
    files: Baseline,
    output: Format,
    table: Callable[[Any, list["Finding"]], None],
) -> int:
    """Run a probe, keep what it found and tell it; the exit code."""
    found, told = asked(run)
    files.keep(found.measured())
    if output is Format.JSON:
        print_json(plain({**asdict(found), "findings": [asdict(one) for one in told]}))
    else:
        table(found, told)
    return ended(told)


def opened(folder: str, tokens: int, prompt: str | None, device: str, dtype: str) -> Any:
    """The model and its canary.

    Raises:
        BadInputError: the folder or the text can't be used.
    """
    from cacheaware.model.probes.loaded import canary, load, text_canary

    path = Path(folder)
    if not path.is_dir():
        raise BadInputError(f"{printable(folder)}: allowed is the folder of a checkpoint")
    model = guarded(lambda: load(path, dtype, device))
    if prompt is None:
        return model, canary(model, tokens)
    text = text_of("--prompt", prompt, LARGEST_PROMPT)
    return model, guarded(lambda: text_canary(model, path, text, tokens))


def guarded(call: Callable[[], T]) -> T:
    """What a probe says.

    Raises:
        BadInputError: for what it can't work with.
    """
    from cacheaware.model.baselines import BaselineError
    from cacheaware.model.lora.tensors import LoraFileError
    from cacheaware.model.probes.loaded import ProbeError

    try:
        return call()
    except BaselineError as error:
        raise BadInputError(f"--baseline: {error}") from error
    except (ProbeError, LoraFileError) as error:
        raise BadInputError(printable(str(error))) from error


def plain(value: Any) -> Any:
    """A value for JSON, which has no NaN and no Inf: those are null."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def show(titles: tuple[str, ...], rows: list[Any], told: list["Finding"]) -> None:
    """A table and the findings."""
    from cacheaware.cli.doctor_view import lines

    if rows:
        print_table(titles, rows[:MOST_ROWS])
        if len(rows) > MOST_ROWS:
            typer.echo(f"... {len(rows) - MOST_ROWS} more with -o json")
    if told:
        typer.echo()
    for line in lines(told, text_width()):
        typer.echo(printable(line))


def ended(told: list["Finding"]) -> int:
    """The exit code."""
    from cacheaware.doctor.findings import Severity

    return 1 if any(one.severity is not Severity.INFO for one in told) else 0
