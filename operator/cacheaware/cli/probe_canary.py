"""`cacheaware probe canary`: whether a running engine answers as a healthy one did."""

import asyncio
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli.config_files import printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json
from cacheaware.cli.probe import BaselineOption, SaveOption, ended, plain, probe, show

if TYPE_CHECKING:
    from cacheaware.doctor.findings import Finding
    from cacheaware_sidecar.canary.ask import Asked
    from cacheaware_sidecar.canary.baseline import Baseline
    from cacheaware_sidecar.canary.compare import Comparison
    from cacheaware_sidecar.engine_client import EngineClient
    from cacheaware_sidecar.settings import Settings

BESIDE_WORDS = (16, 200)
"""Of a prompt that runs beside the canary: from and to."""
BESIDE_TOKENS = 32
HEAD_START_S = 0.05
"""So that what runs beside is in the batch when the canary comes."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """One run, and how many other requests were sent beside it."""

    beside: int
    asked: "Asked"


@probe.command(
    epilog="Example: cacheaware probe canary --engine http://127.0.0.1:8000 --save healthy.json"
)
def canary(  # noqa: PLR0917 - typer reads options from parameters
    engine: Annotated[
        str, typer.Option("--engine", metavar="URL", help="The engine.", show_default=False)
    ],
    baseline: BaselineOption = None,
    save: SaveOption = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Its name; else the first that is served.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="A text file as canary, for a new baseline.")
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=4, max=16, help="Runs of a baseline.")
    ] = 8,
    beside: Annotated[
        int,
        typer.Option(
            "--beside", min=0, max=32, help="Requests sent along with every second run: noise."
        ),
    ] = 3,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the bearer token that the engine asks for.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM file of the authority of its certificate.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one answer.")] = 30.0,
    output: OutputOption = Format.TABLE,
) -> int:
    """Ask a running engine a fixed prompt and compare log probabilities with a healthy engine's.

    Greedy, through its OpenAI API, without torch. The sidecar does the same by schedule. Exit code
    1: three runs on end have drifted beyond what the baseline's own repeats explain.
    """
    if not 0 < timeout <= 3600:
        raise BadInputError(f"--timeout is {timeout}; allowed: more than 0, up to 3600 seconds")
    if prompt is not None and baseline is not None:
        raise BadInputError("--prompt goes without --baseline, which has its own")
    healthy = None if baseline is None else stored(baseline)
    settings = reached(engine, token_file, ca_file)
    text = None if prompt is None else text_of(prompt)
    count = repeats if save is not None or healthy is None else confirming()
    runs = asyncio.run(asked(settings, healthy, text, model, count, beside, timeout))
    own = of_runs(runs, text, healthy)
    if save is not None:
        keep(save, own)
    compared = [held(healthy or own, one, baseline) for one in runs]
    against = healthy is not None
    told = findings(engine, compared) if against or compared[-1].broken else []
    if output is Format.JSON:
        print_json(plain(answer(own, runs, compared, told, against=against)))
    else:
        tell(own, runs, compared, told)
    return ended(told)


def confirming() -> int:
    """Runs that a drift must be seen in."""
    from cacheaware_sidecar.canary.compare import CONFIRM

    return CONFIRM


def stored(name: str) -> "Baseline":
    """The baseline in a file.

    Raises:
        BadInputError: it can't be read as one.
    """
    from cacheaware.cli.inputs import content_of
    from cacheaware_sidecar.canary.baseline_json import LARGEST, BaselineError, from_text

    where = f"--baseline {printable(name)}"
    try:
        content = content_of(name, LARGEST)
        if len(content) > LARGEST:
            raise BadInputError(f"{where}: more than {LARGEST:,} bytes")
        return from_text(content.decode())
    except OSError as error:
        raise BadInputError(f"{where}: can't be read: {error.strerror or error}") from error
    except (BaselineError, ValueError) as error:
        raise BadInputError(f"{where}: {error}") from error


def text_of(name: str) -> str:
    """The prompt in a file.

    Raises:
        BadInputError: it can't be read, or is too long.
    """
    from cacheaware_sidecar.canary.baseline_json import LONGEST_PROMPT

    where = f"--prompt {printable(name)}"
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadInputError(f"{where}: can't be read: {error}") from error
    if not 0 < len(text) <= LONGEST_PROMPT:
        raise BadInputError(
            f"{where}: has {len(text):,} characters; allowed: 1 to {LONGEST_PROMPT:,}"
        )
    return text


def reached(url: str, token_file: Path | None, ca_file: Path | None) -> "Settings":
    """How to reach the engine, in the sidecar's words.

    Raises:
        BadInputError: the URL or a file can't be used.
    """
    from cacheaware.cli.scrape import authorization
    from cacheaware_sidecar.settings import Settings, base_path, server_url, split_url

    try:
        path = split_url(url).path.rstrip("/").removesuffix("/v1")
        host = server_url().parse(url.removesuffix(split_url(url).path))
        base = base_path().parse(path) if path else None
    except ValueError:
        raise BadInputError(
            f"--engine is {printable(url)!r}: allowed are http://HOST[:PORT] and https://, with a"
            " path before /v1 if need be"
        ) from None
    authorization(token_file)
    return Settings(
        engine_url=host,
        engine_base_path=base,
        api_key_file=None if token_file is None else str(token_file),
        ca_file=None if ca_file is None else str(ca_file),
    )


async def asked(  # noqa: PLR0917 - the parts of one question
    settings: "Settings",
    healthy: "Baseline | None",
    text: str | None,
    model: str | None,
    count: int,
    beside: int,
    timeout_s: float,
) -> list[Repeat]:
    """The runs, one after another; every second one with others in the batch.

    Raises:
        BadInputError: the engine can't be asked this.
    """
    from cacheaware_sidecar.canary.ask import Question, UnansweredError, ask
    from cacheaware_sidecar.canary.completion import PROMPT, NoLogprobsError, Way
    from cacheaware_sidecar.engine_client import EngineClient
    from cacheaware_sidecar.settings import SettingsError

    try:
        client = EngineClient(settings)
    except SettingsError as error:
        raise BadInputError(str(error).replace("CACHEAWARE_CA_FILE", "--ca-file")) from error
    question = Question(
        prompt=healthy.prompt if healthy else text or PROMPT,
        ways=(healthy.way,) if healthy else tuple(Way),
        model=model,
        preferred=healthy.identity.model if healthy else None,
        engine=await kind_of(client),
    )
    runs: list[Repeat] = []
    try:
        for number in range(count):
            others = beside * (number % 2)
            tasks = [
                asyncio.create_task(company(client, runs[0].asked, timeout_s))
                for _ in range(others)
            ]
            if tasks:
                await asyncio.sleep(HEAD_START_S)
            runs.append(Repeat(others, await ask(client, question, timeout_s=timeout_s)))
            await asyncio.gather(*tasks)
    except (NoLogprobsError, UnansweredError) as error:
        raise BadInputError(f"--engine {printable(settings.engine_url)}: {error}") from error
    finally:
        await client.close()
    return runs


async def company(client: "EngineClient", first: "Asked", timeout_s: float) -> None:
    """One request of random words beside the canary; what comes of it doesn't matter."""
    from cacheaware_sidecar import prompts
    from cacheaware_sidecar.canary.completion import request_body

    dice = random.Random()  # noqa: S311 - words, no secret
    words = prompts.text(dice, dice.randint(*BESIDE_WORDS))
    asked = {**request_body(words, first.way, first.identity.model), "max_tokens": BESIDE_TOKENS}
    await client.ask(first.way.path, asked, timeout_s)


async def kind_of(client: "EngineClient") -> str | None:
    """The engine's kind by its metrics page; None where there is none."""
    from cacheaware_sidecar.engines import scan
    from cacheaware_sidecar.fetch import FetchError

    try:
        return scan((await client.pages())[0]).engine
    except FetchError:
        return None


def of_runs(runs: list[Repeat], text: str | None, healthy: "Baseline | None") -> "Baseline":
    """The runs as a baseline of their own."""
    from cacheaware_sidecar.canary.baseline import Baseline
    from cacheaware_sidecar.canary.completion import PROMPT
    from cacheaware_sidecar.canary.logit_step import step_of

    first = runs[0].asked
    return Baseline(
        identity=first.identity,
        prompt=healthy.prompt if healthy else text or PROMPT,
        way=first.way,
        runs=tuple(one.asked.run for one in runs),
        step=step_of(first.run),
    )


def held(healthy: "Baseline", one: Repeat, name: str | None) -> "Comparison":
    """A run against the baseline.

    Raises:
        BadInputError: they are not of one thing.
    """
    from cacheaware_sidecar.canary.baseline import NotComparableError, check_identity
    from cacheaware_sidecar.canary.compare import compare

    where = "--engine" if name is None else f"--baseline {printable(name)}"
    try:
        check_identity(healthy.identity, one.asked.identity)
        return compare(healthy, one.asked.run)
    except NotComparableError as error:
        raise BadInputError(f"{where}: not comparable: {error}") from error


def keep(name: str, own: "Baseline") -> None:
    """Write a baseline; a file that is there is not replaced.

    Raises:
        BadInputError: there is one, it can't be written, or the runs are none of a healthy model.
    """
    from cacheaware_sidecar.canary.baseline_json import as_text
    from cacheaware_sidecar.canary.compare import is_broken

    where = f"--save {printable(name)}"
    if any(map(is_broken, own.runs)):
        raise BadInputError(f"{where}: a log probability is no number: this is no healthy model")
    try:
        with Path(name).open("x", encoding="utf-8") as file:
            file.write(as_text(own))
    except OSError as error:
        raise BadInputError(f"{where}: can't be written: {error.strerror or error}") from error


def findings(subject: str, compared: list["Comparison"]) -> list["Finding"]:
    """What the last runs come to."""
    from cacheaware.doctor.findings import Finding, Severity
    from cacheaware_sidecar.canary.finding import drift

    on_end = 0
    for one in compared:
        on_end = on_end + 1 if one.drifted else 0
    found = drift(compared[-1], on_end)
    if found is None:
        return []
    return [Finding(found.id, Severity(found.severity), subject, found.message, found.fix)]


def answer(
    own: "Baseline",
    runs: list[Repeat],
    compared: list["Comparison"],
    told: list["Finding"],
    *,
    against: bool,
) -> dict[str, Any]:
    """The JSON object; `drifted` is null without a baseline."""
    return {
        **asdict(own.identity),
        "way": own.way.value,
        "step": own.step,
        "prompt_tokens": len(own.runs[0].prompt),
        "answer_tokens": len(own.runs[0].answer),
        "runs": [
            {
                "beside": run.beside,
                "tokens": one.tokens,
                "difference_nats": one.mean,
                "tolerance_nats": one.tolerance,
                "largest_nats": one.largest,
                "changed_ratio": one.changed,
                "first_changed": one.first_changed,
                "drifted": one.drifted,
            }
            for run, one in zip(runs, compared, strict=True)
        ],
        "drifted": bool(told) if against else None,
        "findings": [asdict(one) for one in told],
    }


def tell(
    own: "Baseline", runs: list[Repeat], compared: list["Comparison"], told: list["Finding"]
) -> None:
    """The same for people."""
    first, identity = own.runs[0], own.identity
    engine = " ".join(part for part in (identity.engine, identity.version) if part) or "unknown"
    typer.echo(
        printable(
            f"{identity.model or 'unknown model'} on {engine}, asked by {own.way}:"
            f" {len(first.prompt)} tokens of the prompt and {len(first.answer)} of the answer"
        )
        + "\n"
    )
    titles = ("run", "beside", "tokens", "difference", "tolerance", "largest", "changed", "drifted")
    rows = [
        (
            number,
            run.beside,
            one.tokens,
            one.mean,
            one.tolerance,
            one.largest,
            one.changed,
            "yes" if one.drifted else "no",
        )
        for number, (run, one) in enumerate(zip(runs, compared, strict=True), 1)
    ]
    show(titles, rows, told)
