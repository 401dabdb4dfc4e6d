"""`cacheaware crd`: the CustomResourceDefinition, for `kubectl apply -f -`."""

from typing import Annotated, Any

import typer

from cacheaware.cli import app
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, print_json

NEEDS = "crd needs the extra `operator`: pip install 'cacheaware[operator]'"


@app.command(epilog="Example: cacheaware crd -o json")
def crd(
    output: Annotated[
        Format | None, typer.Option("-o", "--output", help="json; without it, YAML.")
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print the reference in Markdown instead.")
    ] = False,
) -> None:
    """Print the CustomResourceDefinition of the CacheAwareScaler."""
    try:
        from cacheaware.api import crd as made
        from cacheaware.api.reference import reference as page
    except ImportError as error:
        raise BadInputError(NEEDS) from error
    if reference:
        typer.echo(page(), nl=False)
    elif output is Format.JSON:
        print_json(made.crd())
    else:
        typer.echo(as_yaml(made.crd()), nl=False)


def as_yaml(value: Any) -> str:
    """YAML as it is committed: keys in their order, long lines folded."""
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, width=100, allow_unicode=True))
