"""Options and errors of the commands that look at a trace on a model and a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cacheaware.cli.errors import BadInputError

TraceOption = Annotated[Path, typer.Option(help="a file; or a generator, e.g. azure-conv-like")]
FormatOption = Annotated[
    str, typer.Option("--format", help="azure, mooncake, servegen, wva, request-log; auto looks")
]
ModelOption = Annotated[str, typer.Option(help="with --gpu and --tp: the profile")]
GpuOption = Annotated[str, typer.Option(help="l40s, a100, h100, h200, ...")]
TpOption = Annotated[int, typer.Option(help="GPUs per pod (tensor parallel)")]
CoefficientsOption = Annotated[
    str, typer.Option(help="recommended: c0 + 8 %, a1 + 20 %; raw, slow-prefill, slow-decode")
]
ColdStartOption = Annotated[float, typer.Option(help="mean seconds from ordered to serving")]
ScaleOption = Annotated[float, typer.Option(help="each request so often, within 2 s")]
JitterOption = Annotated[
    float, typer.Option(help="at scale 1, each request up to so many seconds later")
]
TtftOption = Annotated[float, typer.Option(help="target: time to the first token")]
TpotOption = Annotated[float, typer.Option(help="target: time per further token")]
FromOption = Annotated[float, typer.Option("--from", help="second of the trace to begin at")]
ToOption = Annotated[
    float, typer.Option("--to", help="second to end before", show_default="the end")
]
PrefixCachingOption = Annotated[
    str, typer.Option(help="on, off, or auto: on where prompts of the trace share blocks")
]


@contextmanager
def clear_errors(extras: str) -> Iterator[None]:
    """Options and traces that can't be used, and extras that are missing, become one line."""
    try:
        from cacheaware_sim.run_spec import SpecError
        from cacheaware_sim.traces.trace import TraceError
    except ModuleNotFoundError as error:
        raise missing(error, extras) from error
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing(error, extras) from error
    except SpecError as error:
        raise BadInputError(f"--{error}") from error
    except TraceError as error:
        raise BadInputError(str(error)) from error


def missing(error: ModuleNotFoundError, extras: str) -> BadInputError:
    """What brings a library that is not there."""
    return BadInputError(f"{error.name} is not installed; {brings(extras)}")


def brings(extras: str) -> str:
    """How to install extras."""
    return f"pip install 'cacheaware[{extras}]' brings it"
