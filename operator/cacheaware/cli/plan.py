"""`cacheaware model plan`: what a model needs on a GPU, before anything is bought or started."""

import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cacheaware.cli import model
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format

if TYPE_CHECKING:
    from cacheaware.model.plan import Wish

EXAMPLE = "cacheaware model plan config.json --gpu h100 --rate 8 --prompt 1500 --output 300"
PEAK = 2.0
"""Of the rate, where no peak is told: traces of chats have 1.8 times their mean in ten seconds."""
MOST_GPUS = 100_000
LONGEST_MS = 600_000
"""Of `timeToFirstTokenMs` in the CacheAwareScaler's schema."""
FASTEST = 1_000_000


@model.command(epilog=f"Example: {EXAMPLE}")
def plan(
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
    rate: Annotated[float, typer.Option("--rate", help="Requests a second, over all replicas.")],
    prompt: Annotated[int, typer.Option("--prompt", help="Tokens of a prompt, on average.")],
    output_tokens: Annotated[
        int, typer.Option("--output", help="Generated tokens of a request, on average.")
    ],
    peak: Annotated[
        float | None, typer.Option("--peak", help="Requests a second at the peak (twice the rate).")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", help="GPUs that there are.")] = None,
    ttft: Annotated[
        float | None, typer.Option("--ttft", help="Target: ms to the first token, for 90 %.")
    ] = None,
    tpot: Annotated[
        float | None, typer.Option("--tpot", help="Target: ms per output token.")
    ] = None,
    kv_dtype: Annotated[
        str, typer.Option("--kv-dtype", help="As the engine's --kv-cache-dtype.")
    ] = "auto",
    weights: Annotated[
        str,
        typer.Option("--weights", help="auto (as the file says), bf16, fp16, fp8, int8, int4, ..."),
    ] = "auto",
    max_model_len: Annotated[
        int | None, typer.Option("--max-model-len", help="The longest request, in tokens.")
    ] = None,
    gpu_memory_utilization: Annotated[
        float,
        typer.Option(
            "--gpu-memory-utilization", help="The engine's share of memory (0.9 before vLLM 0.21)."
        ),
    ] = 0.92,
    output: Annotated[
        Format, typer.Option("-o", help="A table for people or JSON for programs.")
    ] = Format.TABLE,
) -> int:
    """Plan a model: what fits, how many replicas a load needs, and the scaler to start with.

    Estimates show their span. Exit code 1 where it does not fit or a target can't be met.
    """
    from cacheaware.cli.plan_view import Answer, show
    from cacheaware.cli.walk import by_option, one_config
    from cacheaware.model.architecture import UnknownArchitectureError
    from cacheaware.model.gpus import UnknownGpuError
    from cacheaware.model.plan import plan as planned
    from cacheaware.model.plan_findings import findings_of
    from cacheaware_sidecar.kv import ConfigError

    try:
        wish = wished(
            (gpu, count), (rate, peak), (prompt, output_tokens), (ttft, tpot),
            (kv_dtype, weights, max_model_len, gpu_memory_utilization),
        )  # fmt: skip
    except (ConfigError, UnknownGpuError) as error:
        raise BadInputError(by_option("", str(error))) from error
    name, content = one_config(config)
    try:
        made = planned(content, wish)
        found = findings_of(content, made, name)
    except UnknownArchitectureError as error:
        print(f"cacheaware: warning: {name}: {error}", file=sys.stderr)
        show(Answer(name, None, (), str(error)), output)
        return 0
    except ConfigError as error:
        raise BadInputError(f"{name}: {error}") from error
    show(Answer(name, made, tuple(found), None), output)
    return 1 if any(one.severity == "error" for one in found) else 0


def wished(
    gpus: tuple[str, int | None],
    rates: tuple[float, float | None],
    lengths: tuple[int, int],
    targets: tuple[float | None, float | None],
    engine: tuple[str, str, int | None, float],
) -> "Wish":
    """The options, refused where they can't be."""
    from cacheaware.model.gpus import gpu_named
    from cacheaware.model.plan import Wish
    from cacheaware.model.precision import check_weights
    from cacheaware.model.serving_load import Load
    from cacheaware_sidecar.kv import check_options
    from cacheaware_sidecar.kv.fields import whole

    rate = positive("--rate", rates[0], FASTEST)
    peak = PEAK * rate if rates[1] is None else positive("--peak", rates[1], PEAK * FASTEST)
    if peak < rate:
        raise BadInputError(f"--peak is {peak:.15g}: allowed is --rate ({rate:.15g}) or more")
    ttft, tpot = (
        None if told is None else positive(option, told, LONGEST_MS) / 1000
        for option, told in zip(("--ttft", "--tpot"), targets, strict=True)
    )
    kv_dtype, weights, max_model_len, utilization = engine
    check_options(kv_dtype, None)
    check_weights(weights)
    return Wish(
        gpu=gpu_named(gpus[0]),
        load=Load(
            rate,
            whole("--prompt", lengths[0], 1, 10**8),
            whole("--output", lengths[1], 1, 10**8),
            ttft,
            tpot,
        ),
        peak=peak,
        count=None if gpus[1] is None else whole("--count", gpus[1], 1, MOST_GPUS),
        kv_dtype=kv_dtype,
        weights=weights,
        max_model_len=(
            None if max_model_len is None else whole("--max-model-len", max_model_len, 1, 10**9)
        ),
        utilization=positive("--gpu-memory-utilization", utilization, 1),
    )


def positive(option: str, value: float, most: float) -> float:
    """A number above zero, at most `most`."""
    if not (math.isfinite(value) and 0 < value <= most):
        raise BadInputError(
            f"{option} is {value:.15g}: allowed are numbers above 0, up to {most:,.15g}"
        )
    return value
