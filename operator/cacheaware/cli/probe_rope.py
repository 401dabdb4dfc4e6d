"""`cacheaware probe rope`: rotary tables of hosts, pods and devices, compared."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli.config_files import documents, parsed, printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table
from cacheaware.cli.probe import asked, ended, probe, show

if TYPE_CHECKING:
    from cacheaware.doctor.findings import Finding


@probe.command(epilog="Example: cacheaware probe rope ./my-model/config.json --tokens 4096")
def rope(  # noqa: PLR0917 - typer reads options from parameters
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="config.json.", show_default=False)
    ],
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, max=2**40, help="Length; else the trained one."),
    ] = None,
    layer_type: Annotated[
        str, typer.Option("--layer-type", help="Which table, where there are several.")
    ] = "",
    against: Annotated[
        str | None,
        typer.Option("--against", help="The JSON of another host or pod to compare with."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Compare this device's tables too; needs torch."),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Compute the rotary tables in float64, hash them, and compare hosts, pods and devices.

    Exit code 1: another host's hashes differ.
    """
    from cacheaware.model.rope import RopeError, hashes, rope_of, settings_of

    (found, *more) = documents([config])
    if more:
        raise BadInputError(f"{printable(config)}: allowed is one config.json")
    try:
        text = an_object(parsed(found))
        turned = rope_of(text, tokens, layer_type)
        length = settings_of(text, tokens, layer_type).length
    except (BadInputError, RopeError) as error:
        raise BadInputError(f"{found.shown}: {error}") from error
    own = hashes(turned, length)
    told: list[Finding] = []
    if against is not None:
        other = hashes_in(against, length, own)
        told = differing(own, other, printable(against))
    gaps = asked(lambda: device_gaps(turned, length, device)) if device else []
    if output is Format.JSON:
        print_json(
            {
                "kind": turned.kind,
                "pairs": len(turned.frequencies),
                "scale": turned.scale,
                "sections": list(turned.sections),
                "tokens": length,
                "hashes": own,
                "paths": gaps,
                "findings": [asdict(one) for one in told],
            }
        )
        return ended(told)
    typer.echo(
        f"{turned.kind}: {len(turned.frequencies)} pairs, scale {turned.scale:.6g},"
        f" {length:,} tokens\n"
    )
    print_table(("of", "sha256"), own.items())
    if gaps:
        typer.echo()
        print_table(tuple(gaps[0]), [tuple(one.values()) for one in gaps])
    show((), [], told)
    return ended(told)


def differing(own: dict[str, str], other: dict[str, Any], name: str) -> list["Finding"]:
    """What differs between two hosts; the last bit of float64 is their libm's, and no fault."""
    from cacheaware.doctor.findings import Finding, Severity

    unlike = [one for one in own if other.get(one) != own[one]]
    if not unlike:
        return []
    if unlike == ["float64"]:
        text = "only float64 differs: the last bit of sines is each libm's own"
        return [Finding("rope-libm", Severity.INFO, name, text, "")]
    first = unlike[0]
    text = (
        f"{', '.join(unlike)} differ; {first}: {own[first][:16]} here,"
        f" {str(other.get(first))[:16]} there"
    )
    fix = "compare config.json, --max-model-len and --hf-overrides of both"
    return [Finding("rope-differs", Severity.ERROR, name, text, fix)]


def an_object(value: Any) -> dict[str, Any]:
    """A JSON object.

    Raises:
        BadInputError: it is something else.
    """
    if not isinstance(value, dict):
        raise BadInputError("is no JSON object")
    return value


def device_gaps(turned: Any, length: int, device: str) -> list[dict[str, Any]]:
    """How far a device's tables are from the reference."""
    import torch

    from cacheaware.model.probes.rope_device import compared, on_device

    told = []
    for word, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        try:
            table = on_device(turned, length, device, dtype)
        except (RuntimeError, AssertionError) as error:
            raise BadInputError(f"--device is {device!r}: {str(error).splitlines()[0]}") from error
        told += [asdict(one) for one in compared(f"{device} {word}", turned, length, table)]
    return told


def hashes_in(name: str, length: int, needed: Iterable[str]) -> dict[str, str]:
    """The hashes in the JSON of another host.

    Raises:
        BadInputError: some are missing, or they are of a table of another length.
    """
    from cacheaware.cli.probe_files import checked_table

    (found, *more) = documents([name])
    where = f"--against {found.shown}"
    if more:
        raise BadInputError(f"--against {printable(name)}: allowed is one file")
    try:
        told = an_object(parsed(found))
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error
    if not isinstance(told.get("hashes"), dict):
        raise BadInputError(f"{where}: allowed is the JSON of probe rope -o json")
    tokens, hashes = checked_table(told, where, needed)
    if tokens != length:
        raise BadInputError(
            f"{where}: tokens is {tokens} there, {length} here: allowed are tables of one length"
        )
    return hashes
