"""The few questions to the API server that say whether the cluster is up."""

import json
import ssl
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from tests.cluster.errors import ClusterError
from tests.cluster.source.plan import NODE, Plan

TIMEOUT_S = 3


def get(plan: Plan, path: str) -> bytes | None:
    """The answer of the API server as the administrator gets it; None if there is none."""
    try:
        context = ssl.create_default_context(cafile=str(plan.state / "pki" / "ca.crt"))
        token = _token(plan)
        request = urllib.request.Request(plan.api_url + path)
        request.add_header("Authorization", f"Bearer {token}")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read()
    except (OSError, ValueError):
        return None
    return body


def server_ready(plan: Plan) -> bool:
    """Whether the API server serves, with everything it does at its start done."""
    return get(plan, "/readyz") == b"ok"


def node_ready(plan: Plan) -> bool:
    """Whether the kubelet says that pods can run."""
    node = _object(plan, f"/api/v1/nodes/{NODE}")
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def accounts_ready(plan: Plan) -> bool:
    """Whether the controllers have made the account that a pod without one gets."""
    return bool(_object(plan, "/api/v1/namespaces/default/serviceaccounts/default"))


def names_ready(plan: Plan) -> bool:
    """Whether the name server has read the cluster's Services."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{plan.node_address}:8181/ready", timeout=TIMEOUT_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait(
    what: str, ready: Callable[[], bool], *, check: Callable[[], None], within_s: float = 90
) -> None:
    """Waits until something is so.

    Args:
        what: for the message.
        ready: asked ten times a second.
        check: raises if waiting longer is in vain.
        within_s: how long.

    Raises:
        ClusterError: it isn't so in time.
    """
    deadline = time.monotonic() + within_s
    while not ready():
        check()
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not so after {within_s:.0f} s")
        time.sleep(0.1)


def _token(plan: Plan) -> str:
    rows = (plan.state / "tokens.csv").read_text().splitlines()
    return next(row.split(",")[0] for row in rows if row.split(",")[1] == "admin")


def _object(plan: Plan, path: str) -> dict[str, Any]:
    body = get(plan, path)
    parsed: dict[str, Any] = json.loads(body) if body else {}
    return parsed
