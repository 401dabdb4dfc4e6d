"""`cacheaware probe attention`: the entropy of attention, and its drift."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli.config_files import printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption
from cacheaware.cli.probe import (
    Baseline,
    BaselineOption,
    DeviceOption,
    DtypeOption,
    ModelArgument,
    PromptOption,
    SaveOption,
    TokensOption,
    ToleranceOption,
    guarded,
    measured,
    opened,
    probe,
    show,
)

if TYPE_CHECKING:
    from cacheaware.doctor.findings import Finding


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


def adapter_said(model: Any, canary: Any, name: str) -> list["Finding"]:
    """Whether an adapter changes the model's logits."""
    from cacheaware.model.probes.adapter import said

    try:
        return guarded(lambda: said(model, canary, Path(name)))
    except OSError as error:
        raise BadInputError(
            f"--adapter {printable(name)}: can't be read: {error.strerror or error}"
        ) from error
