"""The sidecar's security context: all that the Pod Security Standard `restricted` asks for."""

from typing import Any

USER = 65532
"""Of the sidecar's image. Its folder is an emptyDir, which every user may write."""


def security_context() -> dict[str, Any]:
    """In full, so that it holds whatever the pod's own says."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
