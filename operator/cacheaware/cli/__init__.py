"""The command line: one file per command, gathered here.

Exit codes: 0 well, 1 findings, 2 bad input or usage. Errors are one line on stderr.
"""

import pkgutil
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from io import TextIOWrapper

import typer

from cacheaware.cli.errors import BadInputError
from cacheaware_sidecar.kv.errors import shown

UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="cacheaware",
    help="Scales LLM workloads on Kubernetes by what their KV caches hold.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
model = typer.Typer(help="What a model's config.json says about memory.", no_args_is_help=True)
app.add_typer(model, name="model")

ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


@cache
def command_line() -> Callable[..., object]:
    """All commands, of this package and of others (entry points `cacheaware.commands`).

    A command's file is light: what it needs it imports when it is called.
    """
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    for entry in entry_points(group="cacheaware.commands"):
        register_extension(entry, app)
    return typer.main.get_command(app)


def register_extension(entry: EntryPoint, app: typer.Typer) -> None:
    """Add another package's commands; where it isn't installed, one that says what to install."""
    try:
        entry.load()(app)
    except ModuleNotFoundError as error:
        missing = error.name

        @app.command(entry.name, context_settings=ANY_ARGUMENTS, hidden=True)
        def absent() -> None:
            raise BadInputError(
                f"{entry.name}: {missing} is not installed; pip install 'cacheaware[sim]' brings it"
            )


def told(error: Exception) -> str:
    """What went wrong; a usage error names the option in its long form only, and no value.

    What is missing comes with the command's example, which has all that it needs.
    """
    long_form: Callable[[], str] = getattr(error, "format_message", error.__str__)
    refused = getattr(error.__cause__, "errors", None)
    given = f" (given: {shown(refused()[0]['input'])})" if callable(refused) else ""
    return f"{long_form()}{given}{example_of(error)}"


def example_of(error: Exception) -> str:
    """The example of the command that lacks an option or an argument; else nothing."""
    if type(error).__name__ != "MissingParameter":
        return ""
    epilog = getattr(getattr(getattr(error, "ctx", None), "command", None), "epilog", None) or ""
    return f" {epilog}" if epilog.startswith("Example: ") else ""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code.

    Output is UTF-8 whatever the locale, as manifests and JSON are.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = command_line()(args=args, standalone_mode=False)
    except (BadInputError, UsageError) as error:
        if message := " ".join(told(error).split()):
            print(f"cacheaware: {message}", file=sys.stderr)
        code = 2
    except typer.Abort:
        code = 130
    except OSError as error:  # a full disk, a port that is taken: what no command can mend
        print(f"cacheaware: {error}", file=sys.stderr)
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
