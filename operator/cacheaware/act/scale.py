"""Writing replicas: through the scale subresource, on the version that this round read."""

from cacheaware.kube import Kube


async def write_replicas(kube: Kube, path: str, replicas: int, resource_version: str) -> None:
    """Ask the target for a number of replicas.

    Args:
        kube: the API.
        path: of the scale subresource.
        replicas: the new number.
        resource_version: what was read; any write that came between refuses ours.

    Raises:
        KubeError: 409 where the target changed since it was read: the round is done anew.
    """
    body = {"metadata": {"resourceVersion": resource_version}, "spec": {"replicas": replicas}}
    await kube.patch(path, body)
