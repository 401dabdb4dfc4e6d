"""`cacheaware model walk`: one step of a request through a model, module by module."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli import model
from cacheaware.cli.config_files import documents, parsed
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption

if TYPE_CHECKING:
    from cacheaware.model.training import Ring
    from cacheaware.model.work import Step

OPTIONS = {
    "gpu": "--gpu", "prompt": "--prompt", "context": "--context", "batch": "--batch",
    "phase": "--phase", "tensor parallel": "--tp", "pipeline parallel": "--pp",
    "weights": "--weights", "KV dtype": "--kv-dtype", "dp": "--dp",
    "train-bandwidth": "--train-bandwidth",
}  # fmt: skip
"""What a refusal calls the value of an option."""
EXAMPLE = "cacheaware model walk config.json --gpu h100 --prompt 2048"


@model.command(epilog=f"Example: {EXAMPLE}")
def walk(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="A config.json, the folder that holds it, or - for standard input.",
            show_default=False,
        ),
    ],
    *,
    gpu: Annotated[str, typer.Option("--gpu", help="The GPU: h100, l40s, mi300x, ...")],
    prompt: Annotated[
        int | None,
        typer.Option("--prompt", help="Tokens of a prompt (2,048, or all positions if fewer)."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", help="Tokens in the cache (prefill: 0; decode: the prompt)."),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", help="Sequences in the step.")] = 1,
    phase: Annotated[
        str, typer.Option("--phase", help="prefill (the prompt) or decode (a token of each).")
    ] = "prefill",
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline parallel size.")] = 1,
    weights: Annotated[
        str,
        typer.Option("--weights", help="auto (as the file says), bf16, fp16, fp8, int8, int4, ..."),
    ] = "auto",
    kv_dtype: Annotated[
        str, typer.Option("--kv-dtype", help="As the engine's --kv-cache-dtype.")
    ] = "auto",
    dp: Annotated[
        int | None, typer.Option("--dp", help="Training: data-parallel ranks.", min=1)
    ] = None,
    train_bandwidth: Annotated[
        float | None,
        typer.Option("--train-bandwidth", help="Training: GB/s of one rank in one direction."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Also draw the roofline into this file, replacing it."),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Walk one step of a request through a model: what it computes, moves and waits for.

    Times are those of the roofline, the least that the GPU's peaks allow: real ones are longer.
    """
    from cacheaware.cli.walk_view import Answer, show
    from cacheaware.model.architecture import UnknownArchitectureError
    from cacheaware.model.gpus import UnknownGpuError, gpu_named
    from cacheaware.model.training import training
    from cacheaware.model.walk import Served
    from cacheaware.model.walk import walk as walked
    from cacheaware_sidecar.kv import ConfigError, Parallel

    check_plot(plot)
    name, content = one_config(config)
    try:
        served = Served(gpu_named(gpu), Parallel(tp, pp), kv_dtype, weights)
        step = step_of(content, phase, prompt=prompt, context=context, batch=batch)
        found = walked(content, step, served)
        ring = ring_of(dp, train_bandwidth)
        trained = training(found.model, ring) if ring else None
    except UnknownArchitectureError as error:
        print(f"cacheaware: warning: {name}: {error}", file=sys.stderr)
        show(Answer(name, None, None, str(error)), output)
        return 0
    except (ConfigError, UnknownGpuError) as error:
        raise BadInputError(by_option(name, str(error))) from error
    if plot is not None:
        from cacheaware.model.roofline_plot import draw

        draw(found, plot)
    show(Answer(name, found, trained, None), output)
    return 0


def by_option(name: str, line: str) -> str:
    """A refusal that names the option it is about, or else the file, if there is one."""
    field, is_, rest = line.partition(" is ")
    if field in OPTIONS:
        return f"{OPTIONS[field]}{is_}{rest}"
    return f"{name}: {line}" if name else line


def check_plot(plot: Path | None) -> None:
    """Refuse a picture that can't be drawn before anything is computed."""
    if plot is None:
        return
    if find_spec("matplotlib") is None:
        raise BadInputError(
            f"--plot {plot}: matplotlib is not installed; pip install 'cacheaware[plot]' brings it"
        )
    if plot.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise BadInputError(f"--plot {plot}: allowed are names that end with .png, .svg or .pdf")
    if plot.is_dir() or not plot.parent.is_dir():
        raise BadInputError(f"--plot {plot}: allowed are files in a directory that exists")


def one_config(argument: str) -> tuple[str, Any]:
    """The one file that is meant, and its JSON."""
    found = list(documents([argument]))
    if len(found) != 1:
        raise BadInputError(f"{argument} holds {len(found)} files: name one config.json")
    try:
        return found[0].shown, parsed(found[0])
    except BadInputError as error:
        raise BadInputError(f"{found[0].shown}: {error}") from error


def step_of(
    content: Any, phase: str, *, prompt: int | None, context: int | None, batch: int
) -> "Step":
    """The step that the options describe."""
    from cacheaware.model.work import Phase, Step
    from cacheaware_sidecar.kv.errors import refusal
    from cacheaware_sidecar.kv.model import read_model

    if phase not in set(Phase):
        raise refusal("phase", phase, f"allowed are {' and '.join(Phase)}")
    if prompt is None:
        prompt = min(2048, read_model(content).positions or 2048)
    if phase == Phase.DECODE:
        return Step(Phase.DECODE, 1, prompt if context is None else context, batch)
    return Step(Phase.PREFILL, prompt, context or 0, batch)


def ring_of(dp: int | None, bandwidth: float | None) -> "Ring | None":
    """The ranks of a training run; both options or none."""
    from cacheaware.model.training import Ring

    if dp is None and bandwidth is None:
        return None
    if dp is None or bandwidth is None:
        raise BadInputError("--dp and --train-bandwidth belong together: give both")
    return Ring(dp, bandwidth)
