"""`cacheaware probe`: what happens inside a model, against what was healthy."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cacheaware.cli import app
from cacheaware.cli.config_files import documents, parsed, printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table

if TYPE_CHECKING:
    from cacheaware.doctor.findings import Finding
    from cacheaware.model.baselines import Measured

T = TypeVar("T")

LARGEST_BASELINE = 64 * 1024 * 1024
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
        from cacheaware.cli.inputs import content_of
        from cacheaware.model.baselines import BaselineError, from_text

        if self.read is None:
            return None
        where = f"--baseline {printable(self.read)}"
        try:
            return from_text(content_of(self.read, LARGEST_BASELINE).decode())
        except OSError as error:
            raise BadInputError(f"{where}: can't be read: {error.strerror or error}") from error
        except (BaselineError, ValueError) as error:
            raise BadInputError(f"{where}: {error}") from error

    def keep(self, run: "Measured") -> None:
        """Write the run where --save says; a file that is there is not replaced.

        Raises:
            BadInputError: there is one, or it can't be written.
        """
        from cacheaware.model.baselines import as_text

        if self.save is None:
            return
        try:
            with Path(self.save).open("x", encoding="utf-8") as file:
                file.write(as_text(run))
        except OSError as error:
            raise BadInputError(
                f"--save {printable(self.save)}: can't be written: {error.strerror or error}"
            ) from error


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


@probe.command(
    epilog="Example: cacheaware probe attention ./my-model --tokens 256 --save healthy.json"
)
def attention(  # noqa: PLR0917 - typer reads options from parameters
    folder: ModelArgument,
    tokens: TokensOption = 1024,
    band: Annotated[
        str, typer.Option("--band", help="Keys before a row that count, or whole.")
    ] = "16",
    prompt: PromptOption = None,
    baseline: BaselineOption = None,
    save: SaveOption = None,
    adapter: Annotated[
        str | None,
        typer.Option("--adapter", help="A LoRA: does it change anything on this model?"),
    ] = None,
    expect_drift: Annotated[
        bool,
        typer.Option("--expect-drift", help="The baseline is the base model's: none is a fault."),
    ] = False,
    tolerance: ToleranceOption = 0.02,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    output: OutputOption = Format.TABLE,
) -> int:
    """Measure the entropy of attention, head by head, and its drift from a healthy run.

    0 looks at one key, 1 at all alike. Exit code 1: heads drifted beyond the tolerance, a value is
    no number, or a LoRA changes nothing.
    """
    width = band_of(band)
    files = Baseline(baseline, save)
    healthy = files.healthy()

    def run() -> tuple[Any, list["Finding"]]:
        from cacheaware.model.probes.attention import probe as measure
        from cacheaware.model.probes.attention import said

        model, canary = opened(folder, tokens, prompt, device, dtype)
        found = guarded(lambda: measure(model, canary, width))
        told = guarded(lambda: said(found, healthy, tolerance, expect_drift=expect_drift))
        if adapter is not None:
            told += adapter_said(model, canary, adapter)
        return found, told

    def table(found: Any, told: list["Finding"]) -> None:
        rows = [(one.layer, one.head, one.mean, one.p05, one.p50, one.p95) for one in found.heads]
        typer.echo(
            f"attn_entropy_p95 {found.attn_entropy_p95:.4f} over {len(rows)} heads,"
            f" {found.length} tokens, band {found.band or 'whole'}\n"
        )
        show(("layer", "head", "mean", "p05", "p50", "p95"), rows, told)

    return measured(run, files, output, table)


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


@probe.command(epilog="Example: cacheaware probe norms ./my-model --tokens 256")
def norms(  # noqa: PLR0917 - typer reads options from parameters
    folder: ModelArgument,
    tokens: TokensOption = 256,
    prompt: PromptOption = None,
    baseline: BaselineOption = None,
    save: SaveOption = None,
    tolerance: ToleranceOption = 0.01,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    output: OutputOption = Format.TABLE,
) -> int:
    """Look at the gains of all norms and at the canary's logits, and their drift.

    Exit code 1: drift beyond the tolerance, or a value that is no number.
    """
    files = Baseline(baseline, save)
    healthy = files.healthy()

    def run() -> tuple[Any, list["Finding"]]:
        from cacheaware.model.probes.norms import probe as measure
        from cacheaware.model.probes.norms import said

        model, canary = opened(folder, tokens, prompt, device, dtype)
        found = measure(model, canary)
        return found, guarded(lambda: said(found, healthy, tolerance))

    def table(found: Any, told: list["Finding"]) -> None:
        rows = [(one.name, one.mean, one.rms, one.largest, one.outliers) for one in found.norms]
        show(("norm", "mean", "rms", "largest", "outliers"), rows, told)

    return measured(run, files, output, table)


@probe.command(epilog="Example: cacheaware probe precision ./my-model --tokens 256")
def precision(  # noqa: PLR0917 - typer reads options from parameters
    folder: ModelArgument,
    tokens: TokensOption = 256,
    prompt: PromptOption = None,
    baseline: BaselineOption = None,
    save: SaveOption = None,
    tolerance: ToleranceOption = 0.01,
    device: DeviceOption = "cpu",
    output: OutputOption = Format.TABLE,
) -> int:
    """Find epsilons, variances and activations that FP16 or BF16 can't hold, on a canary.

    The pass runs in float32. Exit code 1: something overflows or underflows.
    """
    files = Baseline(baseline, save)
    healthy = files.healthy()

    def run() -> tuple[Any, list["Finding"]]:
        from cacheaware.model.probes.precision import probe as measure
        from cacheaware.model.probes.precision import said

        model, canary = opened(folder, tokens, prompt, device, "float32")
        found = measure(model, canary)
        return found, guarded(lambda: said(found, healthy, tolerance))

    def table(found: Any, told: list["Finding"]) -> None:
        ordered = sorted(found.activations, key=lambda one: -one.largest)
        rows = [
            (
                one.name,
                one.largest,
                one.over["float16"],
                one.under["float16"],
                one.under["bfloat16"],
            )
            for one in ordered
        ]
        show(("module", "largest", "FP16 Inf", "FP16 zero", "BF16 zero"), rows, told)

    return measured(run, files, output, table)


@probe.command(epilog="Example: cacheaware probe rope ./my-model/config.json --tokens 4096")
def rope(  # noqa: PLR0917 - typer reads options from parameters
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="config.json.", show_default=False)
    ],
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, max=2**40, help="Length; else the trained one."),
    ] = None,
    layer_type: Annotated[
        str, typer.Option("--layer-type", help="Which table, where there are several.")
    ] = "",
    against: Annotated[
        str | None,
        typer.Option("--against", help="The JSON of another host or pod to compare with."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Compare this device's tables too; needs torch."),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Compute the rotary tables in float64, hash them, and compare hosts, pods and devices.

    Exit code 1: another host's hashes differ.
    """
    from cacheaware.model.rope import RopeError, hashes, rope_of, settings_of

    (found, *more) = documents([config])
    if more:
        raise BadInputError(f"{printable(config)}: allowed is one config.json")
    try:
        text = an_object(parsed(found))
        turned = rope_of(text, tokens, layer_type)
        length = settings_of(text, tokens, layer_type).length
    except (BadInputError, RopeError) as error:
        raise BadInputError(f"{found.shown}: {error}") from error
    own = hashes(turned, length)
    told: list[Finding] = []
    if against is not None:
        other = hashes_in(against, length, own)
        told = differing(own, other, printable(against))
    gaps = asked(lambda: device_gaps(turned, length, device)) if device else []
    if output is Format.JSON:
        print_json(
            {
                "kind": turned.kind,
                "pairs": len(turned.frequencies),
                "scale": turned.scale,
                "sections": list(turned.sections),
                "tokens": length,
                "hashes": own,
                "paths": gaps,
                "findings": [asdict(one) for one in told],
            }
        )
        return ended(told)
    typer.echo(
        f"{turned.kind}: {len(turned.frequencies)} pairs, scale {turned.scale:.6g},"
        f" {length:,} tokens\n"
    )
    print_table(("of", "sha256"), own.items())
    if gaps:
        typer.echo()
        print_table(tuple(gaps[0]), [tuple(one.values()) for one in gaps])
    show((), [], told)
    return ended(told)


def differing(own: dict[str, str], other: dict[str, Any], name: str) -> list["Finding"]:
    """What differs between two hosts; the last bit of float64 is their libm's, and no fault."""
    from cacheaware.doctor.findings import Finding, Severity

    unlike = [one for one in own if other.get(one) != own[one]]
    if not unlike:
        return []
    if unlike == ["float64"]:
        text = "only float64 differs: the last bit of sines is each libm's own"
        return [Finding("rope-libm", Severity.INFO, name, text, "")]
    first = unlike[0]
    text = (
        f"{', '.join(unlike)} differ; {first}: {own[first][:16]} here,"
        f" {str(other.get(first))[:16]} there"
    )
    fix = "compare config.json, --max-model-len and --hf-overrides of both"
    return [Finding("rope-differs", Severity.ERROR, name, text, fix)]


def an_object(value: Any) -> dict[str, Any]:
    """A JSON object.

    Raises:
        BadInputError: it is something else.
    """
    if not isinstance(value, dict):
        raise BadInputError("is no JSON object")
    return value


def device_gaps(turned: Any, length: int, device: str) -> list[dict[str, Any]]:
    """How far a device's tables are from the reference."""
    import torch

    from cacheaware.model.probes.rope_device import compared, on_device

    told = []
    for word, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        try:
            table = on_device(turned, length, device, dtype)
        except (RuntimeError, AssertionError) as error:
            raise BadInputError(f"--device is {device!r}: {str(error).splitlines()[0]}") from error
        told += [asdict(one) for one in compared(f"{device} {word}", turned, length, table)]
    return told


def hashes_in(name: str, length: int, needed: Iterable[str]) -> dict[str, str]:
    """The hashes in the JSON of another host.

    Raises:
        BadInputError: some are missing, or they are of a table of another length.
    """
    from cacheaware.cli.probe_files import checked_table

    (found, *more) = documents([name])
    where = f"--against {found.shown}"
    if more:
        raise BadInputError(f"--against {printable(name)}: allowed is one file")
    try:
        told = an_object(parsed(found))
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error
    if not isinstance(told.get("hashes"), dict):
        raise BadInputError(f"{where}: allowed is the JSON of probe rope -o json")
    tokens, hashes = checked_table(told, where, needed)
    if tokens != length:
        raise BadInputError(
            f"{where}: tokens is {tokens} there, {length} here: allowed are tables of one length"
        )
    return hashes


def band_of(text: str) -> int | None:
    """Keys before a row; None for whole rows.

    Raises:
        BadInputError: it is neither.
    """
    if text == "whole":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise BadInputError(f"--band is {text!r}: allowed are whole numbers from 1 on, and whole")
    return int(text)


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
    try:
        text = Path(prompt).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadInputError(f"--prompt {printable(prompt)}: can't be read: {error}") from error
    return model, guarded(lambda: text_canary(model, path, text, tokens))


def guarded(call: Callable[[], T]) -> T:
    """What a probe says.

    Raises:
        BadInputError: for what it can't work with.
    """
    from cacheaware.model.baselines import BaselineError
    from cacheaware.model.lora_tensors import LoraFileError
    from cacheaware.model.probes.loaded import ProbeError

    try:
        return call()
    except BaselineError as error:
        raise BadInputError(f"--baseline: {error}") from error
    except (ProbeError, LoraFileError) as error:
        raise BadInputError(printable(str(error))) from error


def adapter_said(model: Any, canary: Any, name: str) -> list["Finding"]:
    """Whether an adapter changes the model's logits."""
    from cacheaware.model.probes.adapter import said

    try:
        return guarded(lambda: said(model, canary, Path(name)))
    except OSError as error:
        raise BadInputError(
            f"--adapter {printable(name)}: can't be read: {error.strerror or error}"
        ) from error


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
    from cacheaware.cli.doctor_view import WIDTH, lines

    if rows:
        print_table(titles, rows[:MOST_ROWS])
        if len(rows) > MOST_ROWS:
            typer.echo(f"... {len(rows) - MOST_ROWS} more with -o json")
    if told:
        typer.echo()
    for line in lines(told, WIDTH):
        typer.echo(printable(line))


def ended(told: list["Finding"]) -> int:
    """The exit code."""
    from cacheaware.doctor.findings import Severity

    return 1 if any(one.severity is not Severity.INFO for one in told) else 0
