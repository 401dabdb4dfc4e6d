"""A page that may want a key from a Secret."""

import time
from collections.abc import Callable

from cacheaware.decide.fleet import Unknown
from cacheaware.observe.poll import Answer, Poller
from cacheaware.observe.secrets import SecretError, SecretRef, Secrets


class KeyedPages:
    """Fetches pages with the key that their Secret holds."""

    def __init__(
        self, poller: Poller, secrets: Secrets, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._poller = poller
        self._secrets = secrets
        self._clock = clock

    async def fetch(self, url: str, max_bytes: int, ref: SecretRef | None) -> Answer:
        """The page, or why there is none; never raises."""
        if ref is None:
            return await self._poller.fetch(url, max_bytes)
        try:
            return await self._with_key(url, max_bytes, ref)
        except SecretError as error:
            return Answer(self._clock(), unknown=Unknown.UNAUTHORIZED, detail=str(error))

    async def _with_key(self, url: str, max_bytes: int, ref: SecretRef) -> Answer:
        """Ask with the key; when it is refused, read the Secret again and ask once more."""
        key = await self._secrets.bearer(ref)
        answer = await self._poller.fetch(url, max_bytes, key)
        if answer.unknown is not Unknown.UNAUTHORIZED:
            return answer
        if (newer := await self._secrets.bearer(ref, again=True)) == key:
            return answer
        return await self._poller.fetch(url, max_bytes, newer)
