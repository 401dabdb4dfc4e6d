"""A canary's baseline in a file that the user names; it is never written."""

from pathlib import Path

from cacheaware_sidecar.canary.baseline import Baseline
from cacheaware_sidecar.canary.baseline_json import LARGEST, BaselineError, from_text
from cacheaware_sidecar.small_files import read_small


class BaselineFile:
    """The file as it is now; parsed anew only where it has changed, for a ConfigMap may."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parsed: tuple[bytes, Baseline] | None = None

    def read(self) -> Baseline:
        """The baseline in it.

        Raises:
            BaselineError: It can't be read as one.
        """
        try:
            data = read_small(self._path, LARGEST)
            if self._parsed is None or self._parsed[0] != data:
                self._parsed = data, from_text(data.decode())
        except OSError as error:
            raise BaselineError(f"{self._path} can't be read: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise BaselineError(f"{self._path}: it is no text; allowed: UTF-8") from None
        except BaselineError as error:
            raise BaselineError(f"{self._path}: {error}") from None
        return self._parsed[1]
