"""`cacheaware record`: what a live scaler's rounds see, into a file that `replay` reads."""

import asyncio
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli import app
from cacheaware.cli.cluster import (
    ContextOption,
    NamespaceOption,
    namespace_of,
    read_scaler,
    with_cluster,
)
from cacheaware.cli.errors import BadInputError

if TYPE_CHECKING:
    from cacheaware.kube import Kube
    from cacheaware.observe.podcache import PodCache
    from cacheaware.recording.capture import Capture
    from cacheaware.recording.files import Writer
    from cacheaware.recording.lines import Header, Round

LEAST_BYTES = 64 * 1024
MOST_BYTES = 64 * 1024 * 1024
DAY_S = 86_400.0
LONGEST_S = 366 * DAY_S
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a recording lasts, how often it looks, and what it may take."""

    seconds: float
    interval: float
    size: int


@app.command(epilog="Example: cacheaware record chat -n demo -o chat.jsonl --for 2 --interval 1")
def record(  # noqa: PLR0917 - typer reads options from parameters
    name: Annotated[str, typer.Argument(help="Name of the CacheAwareScaler.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="A new file; one that ends in .gz is packed.")
    ],
    namespace: NamespaceOption = None,
    seconds: Annotated[
        float, typer.Option("--for", help="Seconds to record; by default a day.")
    ] = DAY_S,
    max_bytes: Annotated[
        int, typer.Option(help="The most that the file may take; by default 64 MiB.")
    ] = MOST_BYTES,
    interval: Annotated[float, typer.Option(help="Seconds from round to round.")] = 5.0,
    context: ContextOption = None,
) -> None:
    """Record what a scaler sees of its pods, round by round, until a time, a size or Ctrl-C.

    Nothing in the cluster is written. Pods are asked through the API server: that needs `get` on
    `pods/proxy`. The file holds no names, addresses or times of day. One that is cut short can be
    read up to there.
    """
    check(seconds, max_bytes, interval)
    if output.exists():
        raise BadInputError(f"--output {output}: is there already; a new file is allowed")
    space = namespace or namespace_of(context)

    async def work(kube: "Kube") -> None:
        from cacheaware.observe.podcache import PodCache

        body = await read_scaler(kube, space, name)
        pods = PodCache(kube)
        try:
            capture = capture_of(kube, body, pods, interval)
            await into(output, capture, body, Bounds(seconds, interval, max_bytes))
        finally:
            await pods.close()

    with_cluster(work, context)


def check(seconds: float, max_bytes: int, interval: float) -> None:
    """Refuse options that can't be right."""
    if not 0 < seconds <= LONGEST_S:
        raise BadInputError(f"--for is {seconds:g}; allowed: more than 0, up to a year of seconds")
    if max_bytes < LEAST_BYTES:
        raise BadInputError(f"--max-bytes is {max_bytes}; allowed: {LEAST_BYTES} or more")
    if not 1 <= interval <= 300:
        raise BadInputError(f"--interval is {interval:g}; allowed: 1 to 300 seconds")


async def into(output: Path, capture: "Capture", body: Mapping[str, Any], bounds: Bounds) -> None:
    """Record into a new file; it is made once there is a first round."""
    from cacheaware.recording.files import Writer

    header, first = await beginning(capture, body)
    try:
        file = output.open("xb")
    except OSError as error:
        raise BadInputError(f"--output {output}: {error.strerror}") from error
    with file:
        print(f"recording into {output}; Ctrl-C ends it", file=sys.stderr)
        writer = Writer(file, packed=output.suffix == ".gz", most=bounds.size)
        told = await rounds_into(writer, capture, header, first, bounds)
        writer.close()
    print(f"{output}: {told}, {writer.size:,} bytes", file=sys.stderr)


def capture_of(
    kube: "Kube", body: Mapping[str, Any], pods: "PodCache", interval: float
) -> "Capture":
    """What looks at the scaler's pods.

    Raises:
        BadInputError: its spec can't be used.
    """
    from cacheaware.controller.registry import scaler_record
    from cacheaware.recording.capture import Capture

    scaler = scaler_record(body)
    if scaler.ref is None:
        raise BadInputError(f"{scaler}: {scaler.invalid}")
    if scaler.access.secret is not None:
        print(
            "cacheaware: engine.authorizationSecretRef: the API server passes no key on to pods;"
            " pages that want one are recorded as MetricsUnauthorized",
            file=sys.stderr,
        )
    return Capture(kube=kube, scaler=scaler, ref=scaler.ref, pods=pods, round_seconds=interval)


async def beginning(capture: "Capture", body: Mapping[str, Any]) -> "tuple[Header, Round]":
    """The header and the first round.

    Raises:
        BadInputError: there is nothing to record.
        KubeError: the API failed.
    """
    from cacheaware.observe.target import TargetError

    try:
        header = await capture.header(body)
        if (fault := await capture.listed()) is not None:
            raise BadInputError(f"the pods can't be listed: {fault}")
        return header, await capture.round()
    except TargetError as error:
        raise BadInputError(str(error)) from error


async def rounds_into(
    writer: "Writer", capture: "Capture", header: "Header", first: "Round", bounds: Bounds
) -> str:
    """Write rounds until it is enough; returns what there is, in words.

    A round in which the API fails is left out.
    """
    from cacheaware.kube import KubeError
    from cacheaware.observe.target import TargetError
    from cacheaware.recording.lines import written

    stop = stopped_by_signals()
    begun = capture.clock()
    count, missed, why = 1, 0, "its time is over"
    if not (writer.write(written(header)) and writer.write(written(first))):
        return "not even one round has room in --max-bytes"
    turn = 1
    while turn * bounds.interval < bounds.seconds:
        wait = begun + turn * bounds.interval - capture.clock()
        if await happens_within(stop, wait):
            why = "stopped"
            break
        # Turns that have passed meanwhile are not made up for: the API would be asked in a rush.
        turn = 1 + max(turn, int((capture.clock() - begun) / bounds.interval))
        try:
            line = written(await capture.round())
        except (KubeError, TargetError) as error:
            missed += 1
            if missed == 1:
                print(f"cacheaware: a round is left out: {error}", file=sys.stderr)
            continue
        if not writer.write(line):
            why = "--max-bytes is reached"
            break
        count += 1
    left_out = f", {missed} left out" if missed else ""
    return f"{count} rounds{left_out} in {capture.clock() - begun:.0f} s ({why})"


def stopped_by_signals() -> asyncio.Event:
    """What Ctrl-C and SIGTERM set from now on."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():  # others get no signals
        for one in SIGNALS:
            loop.add_signal_handler(one, stop.set)
    return stop


async def happens_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, for so long."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return False
    return True
