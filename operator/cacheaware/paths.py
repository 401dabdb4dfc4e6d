"""Where objects of ours are in the API."""

from cacheaware import names


def scalers_path(namespace: str | None) -> str:
    """The CacheAwareScalers of a namespace; None: of all."""
    space = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{names.API_VERSION}{space}/{names.PLURAL}"


def leases_path(namespace: str) -> str:
    """The Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def lease_path(namespace: str) -> str:
    """The Lease of the installation in a namespace."""
    return f"{leases_path(namespace)}/{names.LEASE}"
