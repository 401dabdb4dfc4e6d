"""`cacheaware probe norms`: gains of norms and logits, and their drift."""

from typing import TYPE_CHECKING, Any

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
