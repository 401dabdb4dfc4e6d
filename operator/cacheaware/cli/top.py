"""`cacheaware top`: all scalers at a glance, or the pods of one."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli import app
from cacheaware.cli.cluster import (
    ContextOption,
    NamespaceOption,
    list_scalers,
    namespace_of,
    read_scaler,
    with_cluster,
)
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.explain import ago, story
from cacheaware.cli.output import Format, OutputOption, cell, console, print_json, print_table

if TYPE_CHECKING:
    from cacheaware.kube import Kube
    from cacheaware.pods import PodRecord

WATCH_SECONDS = 2.0
BAR = 8
KV_SIGNALS = ("kv-tokens", "kv-usage")


@app.command(epilog="Example: cacheaware top -n demo")
def top(  # noqa: PLR0917 - typer reads options from parameters
    name: Annotated[
        str | None, typer.Argument(help="A CacheAwareScaler: show its pods instead.")
    ] = None,
    namespace: NamespaceOption = None,
    everywhere: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Scalers of all namespaces.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again.")] = False,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what scalers see and want; with a name, what each of its pods holds.

    Scalers tell what they saw when they last wrote their status; pods are asked now, by their
    sidecars.
    """
    if everywhere and (name or namespace):
        raise BadInputError("--all-namespaces goes with neither a name nor --namespace")
    space = None if everywhere else namespace or namespace_of(context)

    async def look(kube: "Kube") -> None:
        while True:
            if name is not None and space is not None:
                show_pods(await pods_of(kube, space, name), output, clear=watch)
            else:
                found = await list_scalers(kube, space)
                show_scalers(found, output, everywhere=everywhere, clear=watch)
            if not watch:
                return
            await asyncio.sleep(WATCH_SECONDS)

    with_cluster(look, context)


def show_scalers(
    bodies: list[dict[str, Any]], output: Format, *, everywhere: bool, clear: bool
) -> None:
    """One line for each scaler, with its namespace where there are several."""
    found = [scaler_line(body) for body in bodies]
    if output is Format.JSON:
        print_json(found)
        return
    if clear:
        console().clear()
    columns = (
        "NAMESPACE", "NAME", "TARGET", "MODE", "KV DEMAND", "PENDING", "SERVING", "STARTING",
        "CORDONED", "REPLICAS", "REASON", "SEEN",
    )  # fmt: skip
    now = datetime.now(UTC)
    rows = [
        (
            one["namespace"], one["name"], one["target"].rpartition("/")[2], one["mode"],
            bar(one["kvDemand"]), one["pending"], one["serving"], one["starting"],
            one["cordoned"], replicas(one), one["reason"],
            one["time"] and f"{ago(one['time'], now)} ago",
        )
        for one in found
    ]  # fmt: skip
    first = 0 if everywhere else 1
    print_table(columns[first:], [row[first:] for row in rows])


def scaler_line(body: Mapping[str, Any]) -> dict[str, Any]:
    """A scaler's numbers under stable keys.

    `kvDemand` is demand over the capacity that serves; `time` is when the operator wrote them.
    """
    found = story(body)
    terms = {one["signal"]: one for one in found["terms"]}
    kv = next((terms[signal] for signal in KV_SIGNALS if signal in terms), None)
    percent = ((body.get("spec") or {}).get("targets") or {}).get("kvUtilizationPercent", 80)
    return {
        "namespace": found["namespace"],
        "name": found["name"],
        "target": f"{found['target']['kind']}/{found['target']['name']}",
        "mode": found["mode"],
        "kvDemand": share(kv, found["serving"], percent),
        "pending": terms["pending"]["demand"] if "pending" in terms else None,
        "serving": found["serving"],
        "starting": found["starting"],
        "cordoned": found["cordoned"],
        "current": found["current"],
        "desired": found["desired"],
        "reason": found["reason"],
        "time": found["decisions"][0]["time"] if found["decisions"] else None,
    }


def replicas(line: Mapping[str, Any]) -> str | None:
    """Replicas and those wanted."""
    return None if line["current"] is None else f"{line['current']} -> {cell(line['desired'])}"


def share(kv: Mapping[str, Any] | None, serving: int | None, percent: int) -> float | None:
    """Demand over the whole capacity of the pods that serve; `perReplica` is that at target."""
    if kv is None or not serving or not kv["perReplica"]:
        return None
    whole = float(kv["perReplica"]) * serving * 100 / percent
    return round(float(kv["demand"]) / whole, 4)


def bar(value: float | None) -> str | None:
    """A bar with its percent; demand may be more than there is."""
    if value is None:
        return None
    full = min(BAR, round(value * BAR))
    return f"{'█' * full}{'░' * (BAR - full)} {value:4.0%}"


async def pods_of(kube: "Kube", namespace: str, name: str) -> list[dict[str, Any]]:
    """A scaler's pods, each asked for its state through the API server.

    Raises:
        BadInputError: the target can't be read.
        KubeError: the API failed.
    """
    from cacheaware.observe.target import TargetError, TargetRef, Targets
    from cacheaware.pods import pod_record

    ref = (await read_scaler(kube, namespace, name))["spec"]["scaleTargetRef"]
    try:
        target = await Targets(kube).read(
            TargetRef(namespace, ref["apiVersion"], ref["kind"], ref["name"])
        )
    except TargetError as error:
        raise BadInputError(str(error)) from error
    records: list[PodRecord] = []
    async for page in kube.pages(f"/api/v1/namespaces/{namespace}/pods"):
        records += map(pod_record, page.get("items") or ())
    chosen = [one for one in records if target.selector.matches(one.labels) and not one.finished]
    return list(await asyncio.gather(*(pod_line(kube, one) for one in chosen)))


async def pod_line(kube: "Kube", record: "PodRecord") -> dict[str, Any]:
    """A pod's numbers; `problem` says why there are none."""
    from cacheaware.kube import KubeError

    line: dict[str, Any] = {
        "pod": record.name,
        "node": record.node,
        "ready": record.ready,
        "ageSeconds": round(max(0.0, time.time() - record.created)),
        "problem": None,
    }
    if record.sidecar_port is None:
        return {**line, **pod_numbers({}), "problem": record.stuck or "no sidecar"}
    pod = f"/api/v1/namespaces/{record.namespace}/pods/{record.name}:{record.sidecar_port}"
    try:
        return {**line, **pod_numbers(await kube.get(f"{pod}/proxy/v1/state"))}
    except KubeError as error:
        return {
            **line,
            **pod_numbers({}),
            "problem": record.stuck or f"{error.status} {error.reason}",
        }


def pod_numbers(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a pod's state tells; null where it does not."""
    kv = state.get("kv") or {}
    return {
        "phase": state.get("phase"),
        "usage": kv.get("usage"),
        "usedTokens": kv.get("used_tokens"),
        "capacityTokens": kv.get("capacity_tokens"),
        "running": state.get("running"),
        "waiting": state.get("waiting"),
        "problems": list(state.get("problems") or ()),
    }


def show_pods(found: list[dict[str, Any]], output: Format, *, clear: bool) -> None:
    """One line for each pod."""
    if output is Format.JSON:
        print_json(found)
        return
    if clear:
        console().clear()
    columns = ("POD", "PHASE", "KV", "TOKENS", "CAPACITY", "RUNNING", "WAITING", "PROBLEM")
    rows = [
        (
            one["pod"], one["phase"], bar(one["usage"]), one["usedTokens"], one["capacityTokens"],
            one["running"], one["waiting"],
            one["problem"] or "; ".join(one["problems"]) or None,
        )
        for one in found
    ]  # fmt: skip
    print_table(columns, rows)
