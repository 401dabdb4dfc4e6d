"""A token for the sidecar alone, where the pod mounts none.

With it the sidecar reads the cluster's published keys, to check who calls; it may do nothing else.
"""

from typing import Any

from cacheaware.inject.pod import TOKEN, Pod

LIFETIME_S = 3600
ROOT_CA = "kube-root-ca.crt"
"""The ConfigMap with the API server's authority, which every namespace has."""


def needs_token(pod: Pod) -> bool:
    """Whether the pod mounts no token, as far as its template tells, or one was asked for."""
    automount = pod.spec.get("automountServiceAccountToken")
    return bool(pod.options.project_token) or automount is False


def token_volume() -> dict[str, Any]:
    """The volume with the token and the authority of the API server."""
    return {
        "name": TOKEN,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": LIFETIME_S}},
                {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]
        },
    }
