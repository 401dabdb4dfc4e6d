"""`cacheaware run`: the operator."""

import typer

from cacheaware.cli import app
from cacheaware.cli.errors import BadInputError


@app.command(epilog="Example: CACHEAWARE_LOG_FORMAT=json cacheaware run")
def run() -> None:
    """Run the operator; its settings are CACHEAWARE_ environment variables."""
    try:
        import uvloop

        from cacheaware.controller.app import main
    except ModuleNotFoundError as error:
        raise BadInputError(
            f"{error.name} is missing: the operator needs pip install 'cacheaware[operator]'"
        ) from error
    from cacheaware.settings import SettingError, from_environment
    from cacheaware.telemetry import set_up_logging

    try:
        settings = from_environment()
    except SettingError as error:
        raise BadInputError(str(error)) from error
    set_up_logging(settings.log_format, settings.log_level)
    raise typer.Exit(uvloop.run(main(settings)))
