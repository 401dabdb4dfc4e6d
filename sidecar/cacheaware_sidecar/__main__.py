"""`cacheaware-sidecar`: runs the sidecar, or waits for an empty engine from a preStop hook."""

import argparse
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from cacheaware_sidecar import settings as settings_module
from cacheaware_sidecar.settings import Settings, SettingsError

BAD_INPUT = 2
FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="cacheaware-sidecar",
        description="Watches, warms up and drains the LLM engine of its pod. Settings are"
        " environment variables CACHEAWARE_...",
    )
    parser.add_argument(
        "command",
        nargs="?",
        default="run",
        choices=["run", "drain"],
        help="run (the default): be the sidecar; drain: begin the final drain and wait, for a"
        " preStop hook",
    )
    parser.add_argument("--version", action="store_true", help="print the release and end")
    parsed = parser.parse_args(arguments)
    if parsed.version:
        return _print_version()
    command = parsed.command
    try:
        settings = settings_module.load(os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201 - before there are settings there is no log
        return BAD_INPUT
    return _drain(settings) if command == "drain" else _run(settings)


def _print_version() -> int:
    from cacheaware_sidecar.version import version  # noqa: PLC0415 - the hook does without

    print(f"cacheaware-sidecar {version()}")  # noqa: T201 - what was asked for
    return 0


def _drain(settings: Settings) -> int:
    from cacheaware_sidecar import wait  # noqa: PLC0415 - run needs no hook, the hook no run

    return wait.main(Path(settings.shared_dir))


def _run(settings: Settings) -> int:
    # The first process of a container ignores a signal that it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # httpx's own command line would load click, rich and pygments: 10 MB for nothing.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # None: not to be found
    import asyncio  # noqa: PLC0415 - the hook does without

    from cacheaware_sidecar import logs  # noqa: PLC0415 - only after the line above
    from cacheaware_sidecar.app import App  # noqa: PLC0415 - as above

    logs.set_up(settings.log_format)
    log = logging.getLogger("cacheaware_sidecar")
    for name in settings_module.unknown_variables(os.environ):
        log.warning("%s is no setting of this sidecar and is not used", name)
    try:
        _install(settings)
        app = App(settings)
        gc.collect()
        gc.freeze()
        asyncio.run(app.run())
    except SettingsError as error:
        log.error("%s", error)  # noqa: TRY400 - one line says it all
        return BAD_INPUT
    except OSError as error:
        log.error("can't start: %s", error)  # noqa: TRY400 - one line says it all
        return FAILED
    return 0


def _install(settings: Settings) -> None:
    from cacheaware_sidecar.install import install_hook  # noqa: PLC0415 - only to run

    try:
        install_hook(settings)
    except OSError as error:
        raise SettingsError(
            f"CACHEAWARE_SHARED_DIR: {settings.shared_dir!r} can't be used ({error.strerror});"
            " allowed: a folder that the sidecar may write"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
