"""Where a redirect may lead: to the same server, nowhere else.

A page that redirects elsewhere would make whoever scrapes it fetch any address inside the
cluster, and carry its credentials there.
"""

from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

MAX_REDIRECTS: Final = 3
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class RedirectError(Exception):
    """One line: where the redirect leads, and why it is not followed."""


def follow(url: str, location: str) -> str:
    """Where a redirect leads.

    Args:
        url: What was asked for.
        location: The Location header as it came; relative ones are allowed.

    Returns:
        The next URL, on the same scheme, host and port.

    Raises:
        RedirectError: It leads elsewhere, or is no URL.
    """
    if not location.strip():
        raise RedirectError("redirected without saying where to")
    here = urlsplit(url)
    try:
        there = urlsplit(urljoin(url, location))
        same = _origin(here) == _origin(there) and "@" not in there.netloc.removeprefix(here.netloc)
    except ValueError:
        raise RedirectError("redirected to something that is no URL") from None
    if not same:
        raise RedirectError(f"redirected away to {_shown(there)}, which is not followed")
    return urlunsplit((here.scheme, here.netloc, there.path, there.query, ""))


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    port = DEFAULT_PORTS.get(url.scheme) if url.port is None else url.port
    return url.scheme, url.hostname, port


def _shown(url: SplitResult) -> str:
    """The target without what may be secret in it."""
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
