"""The NetworkPolicy that lets the operator reach the sidecar."""

from typing import Any

from cacheaware.doctor.sidecar import sidecar_of
from cacheaware.inject.options import ACCOUNT
from cacheaware.inject.record import record_of
from cacheaware.workload.template import LWS, LWS_NAME, workload_of

OPERATOR = {"app.kubernetes.io/name": "cacheaware", "app.kubernetes.io/component": "operator"}
"""Labels that the chart gives the operator's pods."""


def network_policy(body: Any) -> dict[str, Any] | None:
    """The policy for a workload with the sidecar; None for one without.

    It selects the workload's pods, so where no other policy does, it isolates them: whoever uses
    the engine then needs a policy as well.
    """
    workload, record = workload_of(body), record_of(body)
    sidecar = sidecar_of(workload) if workload else None
    if workload is None or sidecar is None:
        return None
    account = (record.options if record else {}).get("operator_account") or ACCOUNT
    meta = {"name": f"{workload.name}-cacheaware"}
    operator = {
        "namespaceSelector": {
            "matchLabels": {"kubernetes.io/metadata.name": account.split(":")[2]}
        },
        "podSelector": {"matchLabels": dict(OPERATOR)},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {**meta, **({"namespace": workload.namespace} if workload.namespace else {})},
        "spec": {
            "podSelector": selector(body, workload.name),
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [operator], "ports": [{"port": sidecar.port, "protocol": "TCP"}]}],
        },
    }


def selector(body: Any, name: str) -> Any:
    """What selects the workload's pods."""
    if body.get("kind") == LWS:
        return {"matchLabels": {LWS_NAME: name}}
    return (body.get("spec") or {}).get("selector") or {}
