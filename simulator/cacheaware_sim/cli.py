"""`cacheaware simulate ...`: the commands that the simulator adds to the command line."""

import typer

from cacheaware.cli.errors import BadInputError
from cacheaware_sim.__main__ import NEEDS_EXTRA
from cacheaware_sim.__main__ import serve as serve_engine
from cacheaware_sim.settings import SettingError

simulate = typer.Typer(help="A mock engine, and load for it.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group (entry point `cacheaware.commands`)."""
    app.add_typer(simulate, name="simulate")


@simulate.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """A mock engine: vLLM's API and metrics page over a model of an engine."""
    try:
        serve_engine(context.args)
    except SettingError as error:
        raise BadInputError(str(error)) from error
    except ModuleNotFoundError as error:
        raise BadInputError(NEEDS_EXTRA) from error
