"""The usual state of a sidecar, read for a tenth of what the careful reader costs.

Every pod is read every few seconds, and most of that is checking types. Here msgspec checks them
as it decodes, against types that are made from the contract's own dataclasses: what it gives is
what `state_json` would give, field by field. A state with anything unusual in it, a number out of
its range as much as a wrong type, is left to that careful reader: it knows what is unknown, what
is an error, and why.
"""

import math
from collections.abc import Hashable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from operator import lt
from typing import Annotated, Any, Literal, cast, get_args, get_type_hints

import msgspec
from msgspec.structs import asdict

from cacheaware_sidecar.engines import Histogram
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import SCHEMA, DrainState, Latency, PodState
from cacheaware_sidecar.state_json import INFINITY, LARGEST, RATIOS

Number = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""From there on an integer and a float are not the same."""
NEITHER = DrainState()
"""Cordon nor drain."""


class Buckets(msgspec.Struct, gc=False):
    """A histogram as it is written."""

    count: Number
    sum: Number
    buckets: tuple[tuple[float | Literal["+Inf"], Number], ...] = ()


class FirstToken(msgspec.Struct, gc=False):
    """Of the latencies, the one that is read."""

    ttft_s: Buckets | None = None


def checked(name: str, hint: Any) -> Any:
    """The type of a dataclass' field, with what is allowed."""
    if is_dataclass(hint):
        return FirstToken if hint is Latency else part(cast("Hashable", hint))
    if options := get_args(hint):
        inner = checked(name, options[0])
        return tuple[inner, ...] if options[-1] is ... else inner | None  # type: ignore[valid-type]
    return {int: Whole, float: Ratio if name in RATIOS else Number}.get(hint, hint)


@cache
def part(kind: Any, **others: Any) -> Any:
    """A type with the fields of a dataclass that are checked as they are decoded.

    Args:
        kind: the dataclass.
        others: types of fields that are not what they are there; they may not be missing.
    """
    hints = get_type_hints(kind)
    needed, optional = [*others.items()], []
    for one in fields(kind):
        if one.name in others:
            continue
        found = checked(one.name, hints[one.name])
        if one.default is not MISSING:
            optional.append((one.name, found, one.default))
        elif one.default_factory is not MISSING:
            optional.append((one.name, found, msgspec.field(default_factory=found)))
        else:
            needed.append((one.name, found))
    return msgspec.defstruct(kind.__name__, [*needed, *optional], gc=False)


NO_DRAIN = part(DrainState)()
NO_LATENCY = Latency()


def decoder(**others: Any) -> msgspec.json.Decoder[Any]:
    """A decoder of states."""
    schema = Annotated[int, msgspec.Meta(ge=1, le=SCHEMA)]
    return msgspec.json.Decoder(part(PodState, schema=schema, phase=Phase, **others))


WITH_LATENCY = decoder()
WITHOUT = decoder(latency=msgspec.Raw)


def plain_state(content: bytes, *, latency: bool = True) -> PodState | None:
    """A state as it was answered.

    Args:
        content: JSON.
        latency: Whether the time to the first token is wanted: it is most of a state. The other
            two latencies are always left out.

    Returns:
        What has the fields of a `PodState`; None where the careful reader has to look.
    """
    try:
        if latency:
            state = WITH_LATENCY.decode(content)
            state.latency.ttft_s = histogram(state.latency.ttft_s)
        else:
            state = WITHOUT.decode(content)
            state.latency = NO_LATENCY
    except (msgspec.MsgspecError, TypeError, RecursionError):
        return None
    state.drain = NEITHER if state.drain == NO_DRAIN else DrainState(**asdict(state.drain))
    return cast("PodState", state)


def histogram(found: Buckets | None) -> Histogram | None:
    """A histogram as the contract has it.

    Raises:
        TypeError: its bounds don't rise to the last, or another than that is infinite.
    """
    if found is None:
        return None
    buckets = found.buckets
    if buckets and buckets[-1][0] == INFINITY:
        buckets = (*buckets[:-1], (math.inf, buckets[-1][1]))
    bounds = [bound for bound, _ in buckets]
    if not all(map(lt, bounds, bounds[1:])):
        raise TypeError("bounds that don't rise")
    return Histogram(found.count, found.sum, cast("tuple[tuple[float, float], ...]", buckets))
