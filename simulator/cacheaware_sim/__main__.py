"""`python -m cacheaware_sim serve ...`: the mock engine without the rest of the command line."""

import signal
import sys
from collections.abc import Sequence

NEEDS_EXTRA = "the simulator needs aiohttp: pip install 'cacheaware[sim]'"


def serve(arguments: Sequence[str]) -> None:
    """Run the mock engine.

    Raises:
        cacheaware_sim.settings.SettingError: A setting makes no sense.
        ModuleNotFoundError: The extra `sim` is not installed.
    """
    from cacheaware_sim import settings  # noqa: PLC0415 - light until it is known what is wanted

    parsed = settings.parse(arguments)
    from cacheaware_sim import serve as process  # noqa: PLC0415 - needs the extra

    process.run(parsed)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 for bad input."""
    from cacheaware_sim.settings import SettingError  # noqa: PLC0415 - as above

    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] != ["serve"]:
        return _refuse("usage: python -m cacheaware_sim serve [--help]")
    try:
        serve(given[1:])
    except SettingError as error:
        return _refuse(str(error))
    except ModuleNotFoundError:
        return _refuse(NEEDS_EXTRA)
    return 0


def _refuse(line: str) -> int:
    sys.stderr.write(f"cacheaware: {line}\n")
    return 2


if __name__ == "__main__":
    # The first process of a container ignores a signal that it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.exit(main())
