"""`cacheaware doctor`: timings of a workload that lose requests, before they do."""

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli import app
from cacheaware.cli.cluster import (
    NAME,
    ContextOption,
    NamespaceOption,
    checked_namespace,
    namespace_of,
    with_cluster,
)
from cacheaware.cli.doctor_health import (
    Examined,
    Pages,
    check,
    examined_pages,
    examined_pod,
    examined_workload,
    pod_named,
)
from cacheaware.cli.doctor_view import show
from cacheaware.cli.errors import BadInputError, attempt
from cacheaware.cli.manifest_files import shown, text_of
from cacheaware.cli.output import Format, OutputOption
from cacheaware.cli.probe_files import stored
from cacheaware.doctor.facts import Facts, NodeGpus
from cacheaware.doctor.findings import Finding, Severity, at_least
from cacheaware.doctor.subject import Subject
from cacheaware.workload.engine import engine_of, serves
from cacheaware.workload.shape import misfit
from cacheaware.workload.template import LWS, Workload, workload_of

if TYPE_CHECKING:
    from cacheaware.kube import Kube

KINDS = {
    "deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
    "statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
    "leaderworkerset": LWS, "leaderworkersets": LWS, "lws": LWS,
}  # fmt: skip
"""What kubectl calls them; a group behind a dot is allowed."""
WRONG_TYPES = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)
"""How an object beside the workload shows whose fields have other types than Kubernetes' own."""

Told = tuple[Subject, list[Finding]]
Look = Callable[[], Subject]


class FailOn(StrEnum):
    """The value of --fail-on."""

    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Given:
    """Facts told by hand; they win over what was measured."""

    load_s: float | None
    longest_request_s: float | None
    nodes: tuple[NodeGpus, ...] | None

    def over(self, facts: Facts) -> Facts:
        """The facts with these in place of their own."""
        if self.load_s is not None:
            facts = replace(facts, load_s=self.load_s)
        if self.longest_request_s is not None:
            facts = replace(
                facts,
                longest_request_s=self.longest_request_s, longest_is_bound=False, requests=None,
            )  # fmt: skip
        return facts if self.nodes is None else replace(facts, nodes=self.nodes)


@app.command()
def doctor(  # noqa: PLR0917 - typer reads options from parameters
    workloads: Annotated[
        list[str] | None,
        typer.Argument(help="deployment/NAME, statefulset/NAME, leaderworkerset/NAME, pod/NAME."),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", help="A manifest; - is standard input."),
    ] = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    container: Annotated[
        str | None, typer.Option("--container", help="The engine's container, if it can't be told.")
    ] = None,
    load_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="How long the engine takes to load; else measured."),
    ] = None,
    longest_request_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="The longest request (p99.9); else measured."),
    ] = None,
    node_gpus: Annotated[
        list[str] | None,
        typer.Option(help="GPUs of a node, ALLOCATABLE[:USED]; once for each node."),
    ] = None,
    page: Annotated[
        list[str] | None,
        typer.Option(help="An engine's metrics page: file, URL or -; once for each pod."),
    ] = None,
    page_after: Annotated[
        list[str] | None,
        typer.Option(help="The same page some seconds later; rates need two looks."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds between the two looks; 10 for live pods.")
    ] = None,
    attention: Annotated[
        Path | None, typer.Option(help="What `cacheaware probe attention -o json` wrote.")
    ] = None,
    rope: Annotated[
        list[Path] | None,
        typer.Option(help="What `cacheaware probe rope -o json` wrote, once for each pod."),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit code 1 from this severity on.")
    ] = FailOn.ERROR,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check a workload for timings, probes, hooks and settings that lose requests.

    A manifest is checked without a cluster, unless --context names one. An engine's pages show
    the health of its KV cache, and why slow requests are slow. Exit code 1: there are findings of
    the severity of --fail-on or worse.

    Example: cacheaware doctor --page before.prom --page-after after.prom --seconds 60
    """
    if not workloads and not files and not page and not page_after:
        raise BadInputError(
            "nothing to look at: name deployment/NAME, a manifest with -f FILE, or an engine's"
            " metrics page with --page FILE"
        )
    pages = Pages(tuple(page or ()), tuple(page_after or ()), seconds, attention, tuple(rope or ()))
    check(pages, is_live=bool(workloads))
    pages = replace(pages, stored=stored(attention, pages.rope))
    named = [name for name in workloads or () if pod_named(name) is None]
    given = Given(load_seconds, longest_request_seconds, nodes_given(node_gpus))
    looks: list[Callable[[], list[Look]]] = [
        *(lambda name=name: live(name, namespace, context, container) for name in named),
        *(lambda name=name: written(name, namespace, context, container) for name in files or ()),
    ]
    told, failed = gather(looks, given)
    read = {str(subject.workload) for subject, _ in told}
    engines, missed = engines_of(workloads or (), read, (namespace, context), pages)
    show(told, output, engines if engines or workloads or pages.first else None)
    failed = failed or missed or pages.stored.failed
    found = [
        *(finding for _, each in told for finding in each),
        *(finding for engine in engines for finding in engine.findings),
    ]
    bad = at_least(found, Severity(fail_on.value))
    raise typer.Exit(2 if failed else 1 if bad else 0)


def engines_of(
    workloads: Sequence[str],
    found: Container[str],
    where: tuple[str | None, str | None],
    pages: Pages,
) -> tuple[list[Examined], bool]:
    """The engines of all pages and live pods, and whether some could not be looked at.

    Args:
        workloads: as they were named.
        found: those that were read, as `deployment/chat`; others have been told as bad input.
        where: namespace and context.
        pages: what else was named.
    """
    told, failed = examined_pages(pages)
    asked: list[Callable[[], list[Examined]]] = []
    for name in workloads:
        if (own := pod_named(name)) is not None:
            asked.append(partial(examined_pod, own, *where, pages))
        elif found_as(name) in found:
            kind, own = reference(name)
            asked.append(partial(examined_workload, kind, own, *where, pages))
    answers = [attempt(one) for one in asked]
    told += [one for each in answers for one in each or ()]
    if found_by_probes := pages.stored.findings:
        told.append(Examined("stored probes", None, found_by_probes, is_engine=False))
    return told, failed or None in answers


def found_as(name: str) -> str | None:
    """How a workload is called in findings; None of a name that is none."""
    try:
        kind, own = reference(name)
    except BadInputError:
        return None
    return f"{kind.lower()}/{own}"


def gather(looks: list[Callable[[], list[Look]]], given: Given) -> tuple[list[Told], bool]:
    """What all inputs hold; a bad one, or a bad workload in one, does not hold back the others."""
    opened = [attempt(look) for look in looks]
    told = [attempt(partial(examined, one, given)) for found in opened for one in found or ()]
    return [one for one in told if one], None in opened or None in told


def examined(look: Look, given: Given) -> Told:
    """A workload and the findings about it.

    Raises:
        BadInputError: its engine can't be told, or an object around it is malformed.
    """
    from cacheaware.doctor.examine import examine

    subject = look()
    subject = replace(subject, facts=given.over(subject.facts))
    try:
        return subject, examine(subject)
    except WRONG_TYPES as error:
        raise BadInputError(
            f"{subject.workload}: a field of an object beside it has the wrong type;"
            " `kubectl apply --dry-run=server` says which"
        ) from error


def nodes_given(texts: list[str] | None) -> tuple[NodeGpus, ...] | None:
    """The nodes that were told by hand.

    Raises:
        BadInputError: not two numbers.
    """
    if not texts:
        return None
    return tuple(node_given(place, text) for place, text in enumerate(texts, 1))


def node_given(place: int, text: str) -> NodeGpus:
    """One node's GPUs.

    Raises:
        BadInputError: not two numbers.
    """
    found = re.fullmatch(r"(\d{1,6})(?::(\d{1,6}))?", text)
    if found is None:
        raise BadInputError(f"--node-gpus is {text!r}: allowed is ALLOCATABLE[:USED], such as 8:6")
    return NodeGpus(f"node {place}", int(found[1]), int(found[2] or 0))


def live(
    name: str, namespace: str | None, context: str | None, container: str | None
) -> list[Look]:
    """A workload of the cluster.

    Raises:
        BadInputError: its name is none, it does not exist, or its engine can't be told.
    """
    kind, own = reference(name)
    space = checked_namespace(namespace or namespace_of(context))

    async def read(kube: "Kube") -> Subject:
        from cacheaware.doctor.observe import read_facts, read_workload

        workload = await read_workload(kube, kind, space, own)
        if workload is None:
            raise BadInputError(f"no {kind} {own!r} in namespace {space!r}")
        return subject_of(workload, container, await read_facts(kube, workload, space))

    return [lambda: with_cluster(read, context)]


def reference(text: str) -> tuple[str, str]:
    """Kind and name of `deploy/chat` or `deployment.apps/chat`.

    Raises:
        BadInputError: it is neither.
    """
    kind, _, name = text.partition("/")
    found = KINDS.get(kind.partition(".")[0].lower())
    if found is None or not NAME.fullmatch(name):
        raise BadInputError(
            f"the workload is {text!r}: allowed are deployment/NAME, statefulset/NAME,"
            " leaderworkerset/NAME and pod/NAME"
        )
    return found, name


def written(
    name: str, namespace: str | None, context: str | None, container: str | None
) -> list[Look]:
    """The workloads of a manifest, with the cluster's facts where a context is named.

    Raises:
        BadInputError: it can't be read, or holds no workload.
    """
    from cacheaware.doctor.manifests import ManifestError, documents_of, facts_around

    where = shown(name)
    try:
        documents = documents_of(text_of(name).removeprefix("\ufeff"))
        found = [workload for one in documents if (workload := workload_of(one))]
        serving = [one for one in found if len(found) == 1 or serves(one, container)]
    except (ManifestError, BadInputError) as error:
        raise BadInputError(f"{where}: {error}") from error
    if not serving and found and container:
        raise BadInputError(f"{where}: no workload in it has a container {container!r}")
    if not serving:
        raise BadInputError(
            f"{where}: holds no workload with an engine: allowed are Deployment, StatefulSet and"
            " LeaderWorkerSet"
        )
    around = facts_around(documents)

    def look(one: Workload) -> Look:
        return lambda: subject_of(one, container, with_context(one, around, namespace, context))

    return [look(one) for one in serving]


def with_context(
    workload: Workload, around: Facts, namespace: str | None, context: str | None
) -> Facts:
    """The facts of the file; those of the cluster too where a context was named."""
    if context is None:
        return around
    space = checked_namespace(namespace or workload.namespace or namespace_of(context))

    async def read(kube: "Kube") -> Facts:
        from cacheaware.doctor.observe import read_facts

        return await read_facts(kube, workload, space)

    return joined(with_cluster(read, context), around)


def joined(cluster: Facts, file: Facts) -> Facts:
    """The cluster's facts and the objects of the file, which replace those of the same name."""

    def both(old: tuple[Any, ...] | None, new: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if new is None:
            return old
        names = {(one.get("metadata") or {}).get("name") for one in new}
        kept = [one for one in old or () if (one.get("metadata") or {}).get("name") not in names]
        return (*kept, *new)

    return replace(
        cluster,
        budgets=both(cluster.budgets, file.budgets),
        horizontal=both(cluster.horizontal, file.horizontal),
        vertical=both(cluster.vertical, file.vertical),
        scalers=both(cluster.scalers, file.scalers),
    )


def subject_of(workload: Workload, container: str | None, facts: Facts) -> Subject:
    """A workload with its engine.

    Raises:
        BadInputError: it is malformed, or which container is the engine can't be told.
    """
    if wrong := misfit(workload.body):
        raise BadInputError(f"{workload}: {wrong}")
    engine = engine_of(workload, container)
    if engine is not None:
        return Subject(workload, engine, facts)
    there = ", ".join(str(one.get("name")) for one in workload.containers) or "none"
    if container is None:
        raise BadInputError(
            f"{workload}: which container is the engine can't be told; --container names one of"
            f" {there}"
        )
    raise BadInputError(f"{workload}: the container is {container!r}: allowed are {there}")
