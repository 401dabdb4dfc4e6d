"""Asks the API server whether the operator's service account may do what the operator does.

`helm test` runs it in the operator's own image; standard library only. One line per check, exit
code 1 when one fails. The questions come as JSON in ACCESS: `[{"namespace": "", "rules": [...]}]`,
rules as in a Role; an empty namespace means all of them.
"""

import http.client
import json
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SCALERS = "/apis/cacheaware.dev/v1alpha1"

BUSY = (429, 503)
"""For some seconds after the CRD was installed the API server answers so: its storage starts."""
TRIES = 20

Call = Callable[..., tuple[int, dict[str, Any]]]


def api(path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """One request as the pod's service account: the HTTP status and the answer's JSON."""
    connection = http.client.HTTPSConnection(
        os.environ["KUBERNETES_SERVICE_HOST"],
        int(os.environ["KUBERNETES_SERVICE_PORT"]),
        timeout=10,
        context=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")),
    )
    token = (ACCOUNT / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"{}")


def patient(call: Call, sleep: Callable[[float], None] = time.sleep) -> Call:
    """The same call, made again each second while the API server says that it is busy."""

    def patiently(path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        for _ in range(TRIES):
            status, answer = call(path, body)
            if status not in BUSY:
                break
            sleep(1)
        return status, answer

    return patiently


def questions(scopes: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """The resourceAttributes of a SelfSubjectAccessReview for all that the rules say."""
    for scope in scopes:
        for rule in scope["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        for verb in rule["verbs"]:
                            yield attributes(scope["namespace"], group, resource, name, verb)


def attributes(namespace: str, group: str, resource: str, name: str, verb: str) -> dict[str, str]:
    """One question; `pods/proxy` is the subresource proxy of pods."""
    resource, _, subresource = resource.partition("/")
    return {
        "namespace": namespace,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "name": name,
        "verb": verb,
    }


def sentence(asked: dict[str, str]) -> str:
    """What a question asks, in words."""
    what = ".".join(filter(None, (asked["resource"], asked["group"])))
    what = f"{what}/{asked['subresource']}" if asked["subresource"] else what
    words = (asked["verb"], what, asked["name"], "in", asked["namespace"] or "all namespaces")
    return " ".join(filter(None, words))


def allowed(asked: dict[str, str], call: Call) -> bool:
    """Whether the API server says yes."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return call(REVIEWS, review)[1].get("status", {}).get("allowed") is True


def checks(scopes: list[dict[str, Any]], call: Call) -> Iterator[tuple[bool, str]]:
    """(well, what was checked): the kind is served and readable, then every verb."""
    for namespace in dict.fromkeys(s["namespace"] for s in scopes if s.get("scalers")):
        path = f"/namespaces/{namespace}" if namespace else ""
        status, _ = call(f"{SCALERS}{path}/cacheawarescalers")
        yield status == http.client.OK, f"read the CacheAwareScalers: HTTP {status}"
    for asked in questions(scopes):
        yield allowed(asked, call), sentence(asked)


def main(call: Call) -> int:
    """Run and print all checks; the exit code."""
    failed = 0
    for well, what in checks(json.loads(os.environ["ACCESS"]), call):
        failed += not well
        sys.stdout.write(f"{'ok     ' if well else 'MISSING'} {what}\n")
    sys.stdout.write(f"{failed} checks failed\n" if failed else "all checks passed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(patient(api)))
