"""`cacheaware probe precision`: what FP16 and BF16 can't hold."""

from typing import TYPE_CHECKING, Any

from cacheaware.cli.output import Format, OutputOption
from cacheaware.cli.probe import (
    Baseline,
    BaselineOption,
    DeviceOption,
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
