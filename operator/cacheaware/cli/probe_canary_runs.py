"""How `cacheaware probe canary` asks an engine: in turn, every second time with company."""

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path

from cacheaware.cli.config_files import printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.scrape import authorization
from cacheaware_sidecar import prompts
from cacheaware_sidecar.canary.ask import Asked, Question, UnansweredError, ask
from cacheaware_sidecar.canary.baseline import Baseline
from cacheaware_sidecar.canary.completion import PROMPT, NoLogprobsError, Way, request_body
from cacheaware_sidecar.engine_client import EngineClient
from cacheaware_sidecar.engines import scan
from cacheaware_sidecar.fetch import FetchError
from cacheaware_sidecar.settings import Settings, SettingsError, base_path, server_url, split_url

BESIDE_WORDS = (16, 200)
"""Of a prompt that runs beside the canary: from and to."""
BESIDE_TOKENS = 32
HEAD_START_S = 0.05
"""So that what runs beside is in the batch when the canary comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What to ask, and how often."""

    healthy: Baseline | None
    prompt: str | None
    """The user's own; None for the usual one."""
    model: str | None
    """Its name; None for the baseline's or the first that is served."""
    count: int
    beside: int
    """Requests sent along with every second run."""
    timeout_s: float

    @property
    def text(self) -> str:
        """The prompt."""
        return self.healthy.prompt if self.healthy else self.prompt or PROMPT

    def question(self, engine: str | None) -> Question:
        """What the engine, of this kind, is asked."""
        return Question(
            prompt=self.text,
            ways=(self.healthy.way,) if self.healthy else tuple(Way),
            model=self.model,
            preferred=self.healthy.identity.model if self.healthy else None,
            engine=engine,
        )


@dataclass(frozen=True, slots=True)
class Repeat:
    """One run, and how many other requests were sent beside it."""

    beside: int
    asked: Asked


def engine_settings(url: str, token_file: Path | None, ca_file: Path | None) -> Settings:
    """How to reach the engine, in the sidecar's words.

    Raises:
        BadInputError: the URL or a file can't be used.
    """
    try:
        path = split_url(url).path.rstrip("/").removesuffix("/v1")
        host = server_url().parse(url.removesuffix(split_url(url).path))
        base = base_path().parse(path) if path else None
    except ValueError:
        raise BadInputError(
            f"--engine is {printable(url)!r}: allowed are http://HOST[:PORT] and https://, with a"
            " path before /v1 if need be"
        ) from None
    authorization(token_file)  # refuses a bad token before the sidecar's code meets it
    return Settings(
        engine_url=host,
        engine_base_path=base,
        api_key_file=None if token_file is None else str(token_file),
        ca_file=None if ca_file is None else str(ca_file),
    )


async def ask_in_turn(settings: Settings, asking: Asking) -> list[Repeat]:
    """The runs, one after another; every second one with others in the batch.

    Raises:
        BadInputError: the engine can't be asked this.
    """
    try:
        client = EngineClient(settings)
    except SettingsError as error:
        raise BadInputError(str(error).replace("CACHEAWARE_CA_FILE", "--ca-file")) from error
    runs: list[Repeat] = []
    try:
        question = asking.question(await kind_of(client))
        for number in range(asking.count):
            beside = asking.beside * (number % 2)
            others = [
                asyncio.create_task(keep_company(client, runs[0].asked, asking.timeout_s))
                for _ in range(beside)
            ]
            if others:
                await asyncio.sleep(HEAD_START_S)
            runs.append(Repeat(beside, await ask(client, question, timeout_s=asking.timeout_s)))
            await asyncio.gather(*others)
    except (NoLogprobsError, UnansweredError) as error:
        raise BadInputError(f"--engine {printable(settings.engine_url)}: {error}") from error
    finally:
        await client.close()
    return runs


async def keep_company(client: EngineClient, first: Asked, timeout_s: float) -> None:
    """One request of random words beside the canary; what comes of it doesn't matter."""
    dice = random.Random()  # noqa: S311 - words, no secret
    words = prompts.text(dice, dice.randint(*BESIDE_WORDS))
    body = request_body(words, first.way, first.identity.model) | {"max_tokens": BESIDE_TOKENS}
    await client.ask(first.way.path, body, timeout_s)


async def kind_of(client: EngineClient) -> str | None:
    """The engine's kind by its metrics page; None where there is none."""
    try:
        return scan((await client.pages())[0]).engine
    except FetchError:
        return None
