"""`cacheaware scrape`: what a metrics page says about an engine, as the sidecar would read it."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from cacheaware.cli import app
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json
from cacheaware.cli.scrape_view import print_reports, report_of
from cacheaware_sidecar.engines import ENGINES, EngineSample, scan
from cacheaware_sidecar.kv import ConfigError, Geometry, Parallel, geometry

LARGEST_FILE = 64 * 1024 * 1024
LIKE_AN_ADDRESS = re.compile(r"[\w.\-\[\]:]+:\d+(/.*)?")


@app.command(epilog="Example: cacheaware scrape metrics.prom --config config.json")
def scrape(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="URL|FILE|-...", help="Metrics pages; - is stdin.", show_default=False
        ),
    ],
    *,
    config: Annotated[
        Path | None, typer.Option(help="The model's config.json; makes tokens into bytes.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help=f"Read only this engine's names: auto, {', '.join(ENGINES)}.")
    ] = "auto",
    tp: Annotated[int, typer.Option(help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline parallel size.")] = 1,
    dcp: Annotated[int, typer.Option(help="Decode context parallel size.")] = 1,
    kv_dtype: Annotated[
        str, typer.Option(help="KV cache dtype; auto takes what the page tells, else the config.")
    ] = "auto",
    timeout: Annotated[float, typer.Option(help="Seconds for a whole page.")] = 5.0,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the bearer token that the server asks for.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Read metrics pages of inference engines: load, KV cache, counters, and what is wrong.

    JSON is one object for one page (null if it can't be read) and a list for several. Exit
    code 1: a page of no known engine.
    """
    check(engine, timeout)
    size = Sizing(config, (tp, pp, dcp), kv_dtype)
    headers = authorization(token_file)
    reports, failed = [], False
    for source in sources:
        try:
            page = read(source, timeout, headers)
        except BadInputError as error:
            failed = True
            print(f"cacheaware: {error}", file=sys.stderr)
            continue
        sample = scan(page, engine)
        reports.append(report_of(source, sample, *size.of(sample)))
    show(reports, output, several=len(sources) > 1)
    unsupported = any(report["engine"] is None for report in reports)
    raise typer.Exit(2 if failed else int(unsupported))


def check(engine: str, timeout: float) -> None:
    """Refuse options that can't be right."""
    if engine not in {"auto", *ENGINES}:
        raise BadInputError(f"--engine is {engine!r}; allowed: auto, {', '.join(ENGINES)}")
    if not 0 < timeout <= 3600:
        raise BadInputError(f"--timeout is {timeout}; allowed: more than 0, up to 3600 seconds")


def show(reports: list[dict[str, Any]], output: Format, *, several: bool) -> None:
    """Print what could be read; in JSON one page that could not is null."""
    if output is Format.TABLE:
        print_reports(reports)
    elif several:
        print_json(reports)
    else:
        print_json(reports[0] if reports else None)


class Sizing:
    """Makes the geometry for a page: its block size and dtype decide."""

    def __init__(self, config: Path | None, sizes: tuple[int, int, int], kv_dtype: str) -> None:
        self._config = None if config is None else read_config(config)
        self._kv_dtype = kv_dtype
        try:
            self._parallel = Parallel(*sizes)
            self._geometry(None, kv_dtype)
        except ConfigError as error:
            raise BadInputError(str(error) if config is None else f"{config}: {error}") from error

    def of(self, sample: EngineSample) -> tuple[Geometry | None, tuple[str, ...]]:
        """The geometry at the page's block size, and what to know about it."""
        dtype = self._kv_dtype if self._kv_dtype != "auto" else sample.kv_dtype or "auto"
        try:
            sized = self._geometry(sample.block_size, dtype)
        except ConfigError as error:
            return None, (f"bytes are unknown: {error}",)
        if sized is None:
            return None, ()
        reason = (f"bytes are unknown: {sized.unknown_reason}",) if sized.unknown_reason else ()
        return sized, (*reason, *(f"config: {line}" for line in sized.warnings))

    def _geometry(self, block_size: int | None, dtype: str) -> Geometry | None:
        if self._config is None:
            return None
        return geometry(self._config, self._parallel, dtype, block_size)


def read_config(path: Path) -> dict[str, Any]:
    """A model's config.json."""
    try:
        config = json.loads(read_file(path))
    except RecursionError as error:
        raise BadInputError(f"--config {path}: nested too deeply") from error
    except ValueError as error:
        raise BadInputError(f"--config {path}: not JSON: {error}") from error
    if not isinstance(config, dict):
        raise BadInputError(f"--config {path}: a JSON object is allowed")
    return config


def authorization(token_file: Path | None) -> dict[str, str]:
    """The header that carries the token; no message ever shows it."""
    if token_file is None:
        return {}
    token = read_file(token_file).decode(errors="replace").strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise BadInputError(f"--token-file {token_file}: one line of printable ASCII is allowed")
    return {"Authorization": f"Bearer {token}"}


def read(source: str, timeout_s: float, headers: dict[str, str]) -> bytes:
    """A page from wherever it is."""
    if source == "-":
        return capped(sys.stdin.buffer, "stdin")
    if not source:
        raise BadInputError("a source is empty: allowed are URLs, files and -")
    if source.startswith(("http://", "https://")):
        return asyncio.run(fetch(source, timeout_s, headers))
    if "://" in source or (LIKE_AN_ADDRESS.fullmatch(source) and not Path(source).exists()):
        raise BadInputError(f"{source}: a URL begins with http:// or https://")
    return read_file(Path(source))


def read_file(path: Path) -> bytes:
    """A file's content, up to 64 MiB."""
    try:
        with path.open("rb") as file:
            return capped(file, str(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInputError(f"{path}: {reason}") from error


def capped(file: BinaryIO, name: str) -> bytes:
    """All of a file, or a refusal: half a page would be misread."""
    content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise BadInputError(f"{name}: more than {LARGEST_FILE:,} bytes")
    return content


async def fetch(url: str, timeout_s: float, headers: dict[str, str]) -> bytes:
    """A page from a server; /metrics where the URL has no path. Proxies are not used."""
    import httpx

    from cacheaware_sidecar.fetch import FetchError, fetch_page

    try:
        parsed = httpx.URL(url)
        if parsed.port is not None and not 0 < parsed.port < 65536:
            raise BadInputError(f"the URL's port is {parsed.port}: allowed are 1 to 65535")
        target = str(parsed.copy_with(path="/metrics") if parsed.path == "/" else parsed)
        async with httpx.AsyncClient(trust_env=False) as client:
            return await fetch_page(client, target, timeout_s=timeout_s, headers=headers)
    except FetchError as error:
        raise BadInputError(str(error)) from error
    except (httpx.InvalidURL, ValueError) as error:
        raise BadInputError(f"a URL of {len(url)} characters is not valid: {error}") from error
