"""`cacheaware inject`: puts the sidecar into manifests, and takes it out again."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from cacheaware.cli import app
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.inputs import STDIN
from cacheaware.cli.manifest_files import shown, text_of
from cacheaware.inject.options import (
    HookForm,
    OptionError,
    Options,
    checked_account,
    checked_env,
    checked_mounts,
)
from cacheaware.workload.engine import serves
from cacheaware.workload.template import Workload

ISOLATES = (
    "# Selects the pods: where no other policy does, it isolates them, and whoever uses the\n"
    "# engine needs a policy, too.\n"
)


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with each file."""

    options: Options
    remove: bool
    write: bool
    policy: bool


@app.command(epilog="Example: cacheaware inject -f chat.yaml")
def inject(  # noqa: PLR0917 - typer reads options from parameters
    files: Annotated[
        list[str],
        typer.Option(
            "-f", "--filename", help="A manifest; - is standard input.", show_default=False
        ),
    ],
    write: Annotated[
        bool, typer.Option("-i", "--write", help="Change the files instead of printing them.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take everything out again that inject put in.")
    ] = False,
    image: Annotated[
        str | None, typer.Option(help="The sidecar's image; else that of this release.")
    ] = None,
    container: Annotated[
        str | None, typer.Option(help="The engine's container, if it can't be told.")
    ] = None,
    operator_account: Annotated[
        str | None,
        typer.Option(help="Whose calls are taken: system:serviceaccount:NAMESPACE:NAME."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The sidecar's port; else a free one.")
    ] = None,
    grace: Annotated[
        int | None,
        typer.Option(min=1, max=86400, help="The grace period in seconds; else enough to drain."),
    ] = None,
    hook: Annotated[
        HookForm | None,
        typer.Option(help="How the engine's preStop hook waits: a script, or a request."),
    ] = None,
    replace_hook: Annotated[
        bool | None,
        typer.Option("--replace-hook/--keep-hook", help="Replace a preStop hook of your own."),
    ] = None,
    gate_engine: Annotated[
        bool | None,
        typer.Option(
            "--gate-engine/--no-gate-engine",
            help="Let the engine's own readinessProbe ask the sidecar.",
        ),
    ] = None,
    mesh: Annotated[
        bool | None,
        typer.Option(
            "--mesh/--no-mesh", help="Whether Istio takes the pods in; else by their labels."
        ),
    ] = None,
    project_token: Annotated[
        bool | None,
        typer.Option(
            "--project-token/--no-project-token",
            help="Project a token for the sidecar, where the ServiceAccount mounts none.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(help="A setting of the sidecar, NAME=VALUE; repeatable.")
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option(help="A volume of the pod for the sidecar, VOLUME:/PATH; repeatable."),
    ] = None,
    network_policy: Annotated[
        bool,
        typer.Option("--network-policy", help="Print the NetworkPolicy that lets the operator in."),
    ] = False,
) -> int:
    """Add the sidecar, its probes, the drain hook and the grace period to workloads.

    Prints the manifest; comments and order stay, and a second run changes nothing. Options that
    are not given keep the value of an earlier run. Exit code 2: a file is bad, or a workload in it
    was left alone.
    """
    if write and (STDIN in files or network_policy):
        raise BadInputError("--write changes files: it goes with -f FILE, without --network-policy")
    try:
        options = Options(
            image=image,
            container=container,
            operator_account=operator_account and checked_account(operator_account),
            port=port,
            grace=grace,
            hook=hook and hook.value,
            replace_hook=replace_hook,
            gate_engine=gate_engine,
            mesh=mesh,
            project_token=project_token,
            env=checked_env(env) if env else None,
            mounts=checked_mounts(mount) if mount else None,
        )
    except OptionError as error:
        raise BadInputError(str(error)) from error
    job = Job(options, remove, write, network_policy)
    results = [answer(name, job) for name in files]
    printed = [text for text, _ in results if text]
    sys.stdout.write(joined(printed))
    return 2 if any(failed for _, failed in results) else 0


def answer(name: str, job: Job) -> tuple[str, bool]:
    """What to print for a file, and whether something in it went wrong; that is said at once."""
    try:
        text, failed = worked(name, job)
    except BadInputError as error:
        tell(f"{shown(name)}: {error}")
        return "", True
    return text, failed


def worked(name: str, job: Job) -> tuple[str, bool]:
    """A file changed as the job says.

    Raises:
        BadInputError: it can't be read or written, or is no manifest of a workload.
    """
    from cacheaware.inject.manifest import changed, workloads_in
    from cacheaware.inject.yaml_nodes import ManifestTextError

    text = text_of(name)
    try:
        meant = chosen(workloads_in(text), job)
        result = changed(text, change_for(job), meant)
    except ManifestTextError as error:
        raise BadInputError(str(error)) from error
    for line in [*result.failed, *result.notes]:
        tell(line)
    if job.policy:
        return policies(result.workloads), bool(result.failed)
    if not job.write:
        return result.text, bool(result.failed)
    if result.text != text:
        save(Path(name), result.text)
    return "", bool(result.failed)


def change_for(job: Job) -> Callable[[Any], tuple[Any, tuple[str, ...]]]:
    """What happens to each workload."""
    from cacheaware.inject.injection import injected
    from cacheaware.inject.removal import removed

    def change(body: Any) -> tuple[Any, tuple[str, ...]]:
        if job.remove:
            return removed(body), ()
        outcome = injected(body, job.options)
        return outcome.body, outcome.notes

    return change


def chosen(workloads: list[Workload], job: Job) -> Callable[[Workload], bool]:
    """Which workloads of a file are meant; those that serve no model are told and left alone.

    The sidecar is taken out of all that have it.

    Raises:
        BadInputError: there is none.
    """
    if not workloads:
        raise BadInputError(
            "holds no workload: allowed are Deployment, StatefulSet and LeaderWorkerSet"
        )
    every = job.remove or len(workloads) == 1
    meant = [one for one in workloads if every or serves(one, job.options.container)]
    if not meant:
        raise BadInputError("no workload in it is known to be an engine's: name its --container")
    for one in workloads:
        if one not in meant:
            tell(f"{one}: left alone: no engine is known in it; --container names one")
    return lambda workload: any(same_object(workload, one) for one in meant)


def same_object(one: Workload, other: Workload) -> bool:
    """Whether two workloads are the same object."""
    return (one.kind, one.namespace, one.name) == (other.kind, other.namespace, other.name)


def policies(workloads: list[Any]) -> str:
    """NetworkPolicies as YAML."""
    from cacheaware.inject.network_policy import network_policy
    from cacheaware.inject.yaml_render import Layout

    found = [policy for one in workloads if (policy := network_policy(one))]
    return "---\n".join(ISOLATES + Layout().block(one, 0) + "\n" for one in found)


def joined(texts: list[str]) -> str:
    """Several texts as one; a single one keeps every byte."""
    ended = [text if text.endswith("\n") else f"{text}\n" for text in texts[:-1]] + texts[-1:]
    return "".join(
        text if place == 0 or text.startswith("---") else f"---\n{text}"
        for place, text in enumerate(ended)
    )


def save(path: Path, text: str) -> None:
    """Write a file anew, whole or not at all.

    Raises:
        BadInputError: it can't be written.
    """
    try:
        beside = path.with_name(f".{path.name}.cacheaware")
        beside.write_bytes(text.encode())
        beside.chmod(path.stat().st_mode & 0o7777)
        beside.replace(path.resolve())
    except OSError as error:
        raise BadInputError(f"can't be written: {error.strerror or error}") from error


def tell(line: str) -> None:
    """One line on stderr."""
    print(f"cacheaware: {' '.join(line.split())}", file=sys.stderr)
