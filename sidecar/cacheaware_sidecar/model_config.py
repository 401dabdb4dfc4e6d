"""The model's config.json: from a file, or when opted in from a URL, with growing pauses.

Without it bytes are unknown and all else goes on, so nothing here is fatal: each way to fail is a
reason of its own, and the next try comes later each time.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import httpx

from cacheaware_sidecar.fetch import shown
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.small_files import read_small, read_token

LARGEST: Final = 4 * 1024 * 1024
TIMEOUT_S: Final = 20.0
LOOK_AGAIN_S: Final = 60.0
"""A file that was read is read anew so often: a ConfigMap may change."""
LONGEST_PAUSE_S: Final = 3600.0
BUSY_S: Final = 60.0
"""A hub that says 429 is left alone at least so long."""
JITTER: Final = 0.2


class Reason(StrEnum):
    """Why there is no configuration."""

    MISSING_FILE = "MissingFile"
    UNREADABLE_FILE = "UnreadableFile"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    BUSY = "TooManyRequests"
    SERVER_ERROR = "ServerError"
    UNEXPECTED = "UnexpectedStatus"
    NO_JSON = "NotJson"
    TOO_LARGE = "TooLarge"
    TIMEOUT = "Timeout"
    UNREACHABLE = "Unreachable"


PASSING: Final = {Reason.MISSING_FILE, Reason.SERVER_ERROR, Reason.TIMEOUT, Reason.UNREACHABLE}
"""What may be over in seconds; for all else somebody has to change something."""
WORDS: Final = {
    401: (Reason.UNAUTHORIZED, "wants a token: set CACHEAWARE_CONFIG_TOKEN_FILE"),
    403: (Reason.FORBIDDEN, "does not let this token in: the model may be gated"),
    404: (Reason.NOT_FOUND, "does not have it"),
    429: (Reason.BUSY, "asks us to come later"),
}


class ConfigUnavailableError(Exception):
    """No configuration this time."""

    def __init__(self, reason: Reason, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long to wait after the n-th failure in a row."""

    failures: int = 0

    def after(self, error: ConfigUnavailableError, dice: float) -> float:
        """Seconds until the next try: doubled each time, spread by up to a fifth.

        Args:
            error: What went wrong.
            dice: A random number from 0 to 1, so that a fleet does not come back all at once.
        """
        first = 5.0 if error.reason in PASSING else BUSY_S
        pause = min(first * 2.0 ** min(self.failures, 20), LONGEST_PAUSE_S)
        return max(pause, error.retry_after_s or 0.0) * (1.0 + JITTER * dice)


async def load(settings: Settings, transport: httpx.AsyncBaseTransport | None) -> dict[str, Any]:
    """The configuration from where the settings say.

    Raises:
        ConfigUnavailableError: it can't be had now.
    """
    if settings.config_file:
        return parse(_read_file(Path(settings.config_file)), settings.config_file)
    url = settings.config_url or ""
    token_file = settings.config_token_file
    token = read_token(Path(token_file) if token_file else None)
    return parse(await _download(url, token, transport), shown(url))


def parse(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object in these bytes.

    Raises:
        ConfigUnavailableError: it is something else, such as a login page.
    """
    try:
        config = json.loads(data)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        kind = "a web page" if data.lstrip()[:1] == b"<" else "no JSON object"
        raise ConfigUnavailableError(Reason.NO_JSON, f"{where} is {kind}")
    return config


def _read_file(path: Path) -> bytes:
    try:
        return read_small(path / "config.json" if path.is_dir() else path, LARGEST)
    except FileNotFoundError:
        raise ConfigUnavailableError(Reason.MISSING_FILE, f"{path} does not exist") from None
    except OSError as error:
        text = error.strerror or "it is too large"
        raise ConfigUnavailableError(Reason.UNREADABLE_FILE, f"{path}: {text}") from None


async def _download(
    url: str, token: str | None, transport: httpx.AsyncBaseTransport | None
) -> bytes:
    """One GET. httpx takes the token off where a redirect leads to another host."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    where = shown(url)
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(follow_redirects=True, max_redirects=5, transport=transport) as web,
            web.stream("GET", url, headers=headers) as response,
        ):
            return await _body(response, where)
    except (TimeoutError, httpx.TimeoutException):
        text = f"{where} did not answer within {TIMEOUT_S:g} s"
        raise ConfigUnavailableError(Reason.TIMEOUT, text) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ExceptionGroup) as error:
        text = f"{where} can't be reached ({type(error).__name__})"
        raise ConfigUnavailableError(Reason.UNREACHABLE, text) from None


async def _body(response: httpx.Response, where: str) -> bytes:
    status = response.status_code
    if status != 200:
        reason, words = WORDS.get(status, (Reason.UNEXPECTED, "can't be used"))
        if status >= 500:
            reason, words = Reason.SERVER_ERROR, "has a problem"
        text = f"{where} answers {status}: it {words}"
        raise ConfigUnavailableError(reason, text, retry_after(response.headers))
    data = b""
    async for part in response.aiter_bytes(65536):
        data += part
        if len(data) > LARGEST:
            text = f"{where} is larger than {LARGEST} bytes"
            raise ConfigUnavailableError(Reason.TOO_LARGE, text)
    return data


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks us to wait, at most a day.

    A date is compared with the server's own `Date`, not with our clock.
    """
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return min(float(text), 86400.0)
    try:
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return min(max((until - now).total_seconds(), 0.0), 86400.0)
    except (ValueError, TypeError):
        return None
