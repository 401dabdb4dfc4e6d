"""How commands reach a cluster: the kubeconfig's current context, or the pod's service account."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cacheaware import names
from cacheaware.cli.errors import BadInputError

if TYPE_CHECKING:
    from cacheaware.kube import Kube

T = TypeVar("T")
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
        raise BadInputError(
            f"{error.name} is missing: commands that read a cluster need"
            " pip install 'cacheaware[operator]'"
        ) from error

    async def run() -> T:
        kube = Kube(lambda: load_credentials(context))
        try:
            return await work(kube)
        except KubeError as error:
            raise BadInputError(f"the cluster answered: {error}") from error
        finally:
            await kube.close()

    return asyncio.run(run())


def namespace_of(context: str | None) -> str:
    """The namespace of a context of the kubeconfig; `default` where it names none."""
    from kubernetes.aio.config import ConfigException, list_kube_config_contexts

    try:
        contexts, active = list_kube_config_contexts()
    except (ConfigException, OSError):
        return "default"
    chosen = next((one for one in contexts if one["name"] == context), active)
    return str((chosen.get("context") or {}).get("namespace") or "default")


def scalers_path(namespace: str | None) -> str:
    """Where CacheAwareScalers are listed; None: in all namespaces."""
    space = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{names.API_VERSION}{space}/{names.PLURAL}"


async def read_scaler(kube: "Kube", namespace: str, name: str) -> dict[str, Any]:
    """One CacheAwareScaler.

    Raises:
        BadInputError: there is none of this name.
        KubeError: the API failed.
    """
    from cacheaware.kube import KubeError

    try:
        return await kube.get(f"{scalers_path(namespace)}/{name}")
    except KubeError as error:
        if error.status == 404:
            raise BadInputError(f"no {names.KIND} {name!r} in namespace {namespace!r}") from None
        raise


async def list_scalers(kube: "Kube", namespace: str | None) -> list[dict[str, Any]]:
    """All CacheAwareScalers of a namespace, or of all."""
    found: list[dict[str, Any]] = []
    async for page in kube.pages(scalers_path(namespace)):
        found += page.get("items") or ()
    return found
