"""A policy on the command line: a CacheAwareScaler's file, and single fields of its spec."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args

import typer

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.manifest_files import shown, text_of
from cacheaware.names import KIND

FileOption = Annotated[
    str | None,
    typer.Option(
        "-f", "--filename", help="A CacheAwareScaler's manifest to decide by; - is standard input."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A field of the spec, such as targets.kvUtilizationPercent=70; repeatable."
    ),
]


def spec_of(name: str) -> dict[str, Any]:
    """The spec of the one CacheAwareScaler in a manifest, with what the API server would fill in.

    Raises:
        BadInputError: it can't be read, has none or several, or a field that there isn't.
    """
    from cacheaware.doctor.manifests import ManifestError, documents_of
    from cacheaware.recording.histories import BEHAVIOR

    try:
        scalers = [one for one in documents_of(text_of(name)) if one.get("kind") == KIND]
    except (BadInputError, ManifestError) as error:
        raise BadInputError(f"{shown(name)}: {error}") from error
    if len(scalers) != 1:
        raise BadInputError(f"{shown(name)}: holds {len(scalers)} of {KIND}; allowed: one")
    spec = scalers[0].get("spec")
    if not isinstance(spec, Mapping):
        raise BadInputError(f"{shown(name)}: spec is {spec!r}; allowed: an object")
    if (wrong := unknown_field(spec)) is not None:
        raise BadInputError(f"{shown(name)}: {wrong}")
    found: dict[str, Any] = merged({"behavior": BEHAVIOR}, spec)
    return found


def changed(spec: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """A spec with fields set, each by `path.to.field=value`.

    Raises:
        BadInputError: there is no such field, or no value.
    """
    found: dict[str, Any] = json.loads(json.dumps(spec))
    for setting in settings:
        path, separator, text = setting.partition("=")
        if not separator:
            raise BadInputError(f"--set {setting}: allowed is path.to.field=value")
        one: Any = value_of(text)
        for name in reversed(path.split(".")):
            one = {name: one}
        if (wrong := unknown_field(one)) is not None:
            raise BadInputError(f"--set {setting}: {wrong}")
        found = merged(found, one)
    return found


def value_of(text: str) -> Any:
    """A value: JSON, else a word."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def merged(old: Any, new: Any) -> Any:
    """Objects one into the other; anything else takes the old one's place."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    both = {name: merged(old[name], new[name]) for name in old.keys() & new.keys()}
    return {**old, **new, **both}


def unknown_field(spec: Mapping[str, Any]) -> str | None:
    """The first field of a spec that the schema does not have, and what it has instead."""
    from cacheaware.api.spec import ScalerSpec

    return unknown_in(spec, ScalerSpec, "spec")


def unknown_in(value: Any, model: Any, path: str) -> str | None:
    """The first field of a value that a model does not have."""
    if not isinstance(value, Mapping):
        return None
    known = {str(field.alias or name): field for name, field in model.model_fields.items()}
    for name, inner in value.items():
        if name not in known:
            return f"{path} has no field {name}; allowed: {', '.join(sorted(known))}"
        part = model_in(known[name].annotation)
        if part is not None and (wrong := unknown_in(inner, part, f"{path}.{name}")) is not None:
            return wrong
    return None


def model_in(annotation: Any) -> Any:
    """The model that a field holds; None of a field that holds none."""
    options = [annotation, *get_args(annotation)]
    return next((one for one in options if hasattr(one, "model_fields")), None)
