"""`cacheaware explain NAME`: why the scaler did that, from its status, in plain words."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cacheaware.cli import app
from cacheaware.cli.cluster import (
    ContextOption,
    NamespaceOption,
    namespace_of,
    read_scaler,
    with_cluster,
)
from cacheaware.cli.output import Format, OutputOption, cell, print_json, print_table
from cacheaware.names import Conditions, Reasons

WELL = {
    Conditions.READY: "True",
    Conditions.TARGET_RESOLVED: "True",
    Conditions.METRICS_AVAILABLE: "True",
    Conditions.SCALING_ACTIVE: "True",
    Conditions.ABLE_TO_SCALE: "True",
    Conditions.CONFLICTED: "False",
    Conditions.SCHEMA_OUTDATED: "False",
    Conditions.CACHE_UNHEALTHY: "False",
}
"""The status in which a condition is no news; ScalingLimited is told by the limits themselves."""


@app.command(epilog="Example: cacheaware explain chat -n demo")
def explain(
    name: Annotated[str, typer.Argument(help="Name of the CacheAwareScaler.")],
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say what a CacheAwareScaler wants, why, on which numbers, and what limited it.

    Exit code 1: it is not Ready.
    """
    space = namespace or namespace_of(context)
    body = with_cluster(lambda kube: read_scaler(kube, space, name), context)
    found = story(body)
    if output is Format.JSON:
        print_json(found)
    else:
        show(found, datetime.now(UTC))
    raise typer.Exit(0 if found["ready"] == "True" else 1)


def story(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a CacheAwareScaler's object tells, under stable keys."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    decisions = list(status.get("decisions") or ())
    conditions = list(status.get("conditions") or ())
    ready: Mapping[str, Any] = next(
        (one for one in conditions if one["type"] == Conditions.READY), {}
    )
    holds = decisions and status.get("currentReplicas") is not None  # else: the last round had none
    newest = decisions[0] if holds else {}
    target = spec.get("scaleTargetRef") or {}
    return {
        "namespace": meta["namespace"],
        "name": meta["name"],
        "target": {"kind": target.get("kind"), "name": target.get("name")},
        "mode": spec.get("mode", "Advise"),
        "minReplicas": spec.get("minReplicas"),
        "maxReplicas": spec.get("maxReplicas"),
        "upToDate": status.get("observedGeneration") == meta.get("generation"),
        "ready": ready.get("status"),
        "current": status.get("currentReplicas"),
        "desired": status.get("desiredReplicas"),
        "serving": status.get("servingReplicas"),
        "starting": status.get("startingReplicas"),
        "cordoned": status.get("cordonedReplicas"),
        "observation": status.get("observation"),
        "lastScaleTime": status.get("lastScaleTime"),
        "reason": newest.get("reason") or ready.get("reason"),
        "message": newest.get("message") or ready.get("message"),
        "raw": newest.get("raw"),
        "terms": [term(one) for one in newest.get("terms") or ()],
        "limitedBy": list(newest.get("limitedBy") or ()),
        "victims": list(newest.get("victims") or ()),
        "notWell": [one for one in conditions if unwell(one)],
        "decisions": decisions,
    }


def unwell(condition: Mapping[str, Any]) -> bool:
    """Whether a condition is news; that Advise does not write is none."""
    well = WELL.get(condition["type"], condition["status"])
    return bool(condition["status"] != well and condition["reason"] != Reasons.ADVISED)


def term(one: Mapping[str, Any]) -> dict[str, Any]:
    """A signal's part with its arithmetic written out."""
    demand, carries = float(one["demand"]), float(one["perReplica"])
    quotient = demand / carries if carries else math.nan
    sum_ = f"{cell(demand)} / {cell(carries)} = {quotient:.2f} -> {one['replicas']}"
    return {**one, "arithmetic": sum_ if carries else f"{cell(demand)} {one['unit']}"}


def show(found: Mapping[str, Any], now: datetime) -> None:
    """The story for people."""
    target = found["target"]
    bounds = f"{cell(found['minReplicas'])}..{cell(found['maxReplicas'])} replicas"
    print(
        f"{found['namespace']}/{found['name']}: {target['kind']} {target['name']},"
        f" mode {found['mode']}, {bounds}"
    )
    if found["ready"] is None:
        print("No operator has looked at it yet: is one running, and does it serve this namespace?")
        return
    if not found["upToDate"]:
        print("The status is about an older spec.")
    print()
    print(headline(found, now))
    if found["message"]:
        print(f"  {found['message']}")
    show_terms(found["terms"])
    if found["limitedBy"]:
        print(f"\nLimited by {', '.join(found['limitedBy'])}.")
    for victim in found["victims"]:
        print(f"Gives up {victim['pod']}: {victim['reason']}")
    show_not_well(found["notWell"])
    show_decisions(found["decisions"], now)


def headline(found: Mapping[str, Any], now: datetime) -> str:
    """Current, desired, pods and when; only the reason where the target wasn't read."""
    if found["current"] is None:
        return f"decides nothing  {found['reason'] or ''}"
    wants = f"{cell(found['current'])} -> {cell(found['desired'])}"
    if found["current"] == found["desired"]:
        wants = f"stays at {cell(found['current'])}"
    pods = f"{cell(found['serving'])} serving, {cell(found['starting'])} starting"
    pods += f", {cell(found['cordoned'])} cordoned" if found["cordoned"] else ""
    when = f", {ago(found['decisions'][0]['time'], now)} ago" if found["decisions"] else ""
    return f"{wants}  {found['reason'] or ''}  ({pods}{when})"


def show_terms(terms: Sequence[Mapping[str, Any]]) -> None:
    """The signals, each with its arithmetic."""
    if not terms:
        return
    print(
        "\nEach signal asks for demand / what one replica may carry, rounded up; the most counts:"
    )
    rows = [
        (one["signal"], one["unit"], one["arithmetic"], one["replicas"], one.get("note") or "")
        for one in terms
    ]
    print_table(("SIGNAL", "UNIT", "ARITHMETIC", "REPLICAS", "NOTE"), rows)


def show_not_well(conditions: Sequence[Mapping[str, Any]]) -> None:
    """Conditions that are not as they should be; Ready only sums the others up."""
    parts = [one for one in conditions if one["type"] != Conditions.READY]
    if parts:
        print("\nNot well:")
    for one in parts:
        print(f"  {one['type']} is {one['status']}: {one['reason']}: {one.get('message', '')}")


def show_decisions(decisions: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """The last decisions, newest first."""
    if not decisions:
        return
    print("\nLast decisions:")
    rows = [
        (ago(one["time"], now), f"{one['from']} -> {one['to']}", one["reason"], one["message"])
        for one in decisions
    ]
    print_table(("AGO", "REPLICAS", "REASON", "WHY"), rows)


def ago(time: str, now: datetime) -> str:
    """How long ago an API time was, as kubectl tells it."""
    seconds = max(0, int((now - datetime.fromisoformat(time)).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
