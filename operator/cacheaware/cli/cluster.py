"""How commands reach a cluster: the kubeconfig's current context, or the pod's service account."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cacheaware import names
from cacheaware.cli.errors import BadInputError
from cacheaware.paths import scalers_path

if TYPE_CHECKING:
    from cacheaware.kube import Kube, KubeError

T = TypeVar("T")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Object names; other text in a path would ask for another object."""
NamespaceOption = Annotated[
    str | None,
    typer.Option("-n", "--namespace", help="Namespace; by default that of the current context."),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig to use.")
]


def with_cluster(work: "Callable[[Kube], Awaitable[T]]", context: str | None) -> T:
    """Run something against the cluster.

    Raises:
        BadInputError: the cluster can't be reached or refused, in one line.
    """
    try:
        from cacheaware.kube import Kube, KubeError, load_credentials
    except ModuleNotFoundError as error:
        raise not_here(error) from error

    async def run() -> T:
        kube = Kube(lambda: load_credentials(context))
        try:
            return await work(kube)
        except KubeError as error:
            raise BadInputError(trouble(error)) from error
        finally:
            await kube.close()

    return asyncio.run(run())


def not_here(error: ModuleNotFoundError) -> BadInputError:
    """What to install where only the base is."""
    return BadInputError(
        f"{error.name} is missing: commands that read a cluster need"
        " pip install 'cacheaware[operator]'"
    )


def trouble(error: "KubeError") -> str:
    """What kept a command from its answer."""
    if error.status:
        return f"the cluster answered: {error}"
    if error.reason == "NoCredentials":
        return f"no way to a cluster: {error.message}"
    return f"the cluster was not reached: {error.message or error.reason}"


def namespace_of(context: str | None) -> str:
    """The namespace of a context of the kubeconfig; `default` where it names none.

    Raises:
        BadInputError: the Kubernetes client is not installed.
    """
    try:
        from kubernetes.aio.config import list_kube_config_contexts
    except ModuleNotFoundError as error:
        raise not_here(error) from error

    logging.getLogger("kubernetes").setLevel(logging.ERROR)  # we tell ourselves what is missing
    try:
        contexts, active = list_kube_config_contexts()
    except Exception:  # noqa: BLE001 - a file that can't be used is told when the cluster is asked
        return "default"
    chosen = next((one for one in contexts if one["name"] == context), active)
    return str((chosen.get("context") or {}).get("namespace") or "default")


def checked_namespace(namespace: str) -> str:
    """A namespace.

    Raises:
        BadInputError: no namespace has this name.
    """
    if not NAME.fullmatch(namespace):
        raise BadInputError(
            f"the namespace is {namespace!r}: allowed are lowercase letters, digits and -"
        )
    return namespace


async def read_scaler(kube: "Kube", namespace: str, name: str) -> dict[str, Any]:
    """One CacheAwareScaler.

    Raises:
        BadInputError: there is none of this name.
        KubeError: the API failed.
    """
    from cacheaware.kube import KubeError

    if not NAME.fullmatch(name):
        raise BadInputError(f"the name is {name!r}: allowed are lowercase letters, digits, - and .")
    try:
        return await kube.get(f"{scalers_path(checked_namespace(namespace))}/{name}")
    except KubeError as error:
        if error.reason == "NotFound":
            raise BadInputError(f"no {names.KIND} {name!r} in namespace {namespace!r}") from None
        raise not_installed(error) from None


async def list_scalers(kube: "Kube", namespace: str | None) -> list[dict[str, Any]]:
    """All CacheAwareScalers of a namespace, or of all."""
    from cacheaware.kube import KubeError

    path = scalers_path(namespace if namespace is None else checked_namespace(namespace))
    found: list[dict[str, Any]] = []
    try:
        async for page in kube.pages(path):
            found += page.get("items") or ()
    except KubeError as error:
        raise not_installed(error) from None
    return found


def not_installed(error: "KubeError") -> Exception:
    """The same error; a 404 for the whole kind means that its definition is missing."""
    if error.status != 404:
        return error
    return BadInputError(
        f"the cluster does not know {names.KIND}: install the chart, or run"
        " `cacheaware crd | kubectl apply -f -`"
    )
