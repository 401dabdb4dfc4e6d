"""Workloads to examine, made of a few words; what a test does not name is as inject makes it."""

import copy
from enum import Enum
from typing import Any

from cacheaware.doctor.facts import Facts
from cacheaware.doctor.subject import Subject
from cacheaware.workload.engine import engine_of
from cacheaware.workload.template import workload_of

FOLDER = "/var/run/cacheaware"
SCRIPT_HOOK = {"exec": {"command": ["python3", "-I", "-S", f"{FOLDER}/wait.py"]}}
HTTP_HOOK = {"httpGet": {"path": "/drain/wait", "port": 9440}}
ACCOUNT = "system:serviceaccount:cacheaware-system:cacheaware"
MOUNT = {"name": "cacheaware", "mountPath": FOLDER}
LABELS = {"app": "chat"}


class Mark(Enum):
    """What stands where a field is to be left out."""

    ABSENT = "absent"


ABSENT: Any = Mark.ABSENT


def sleep(seconds: float) -> dict[str, Any]:
    return {"sleep": {"seconds": seconds}}


def without(body: dict[str, Any]) -> dict[str, Any]:
    """A body without what is marked absent."""
    return {key: value for key, value in body.items() if value is not ABSENT}


def engine(hook: Any = SCRIPT_HOOK, image: str = "vllm/vllm-openai:v0.18.0", **rest: Any) -> Any:
    return without(
        {
            "name": "engine",
            "image": image,
            "ports": [{"name": "http", "containerPort": 8000}],
            "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
            "lifecycle": ABSENT if hook is None else {"preStop": hook},
            "volumeMounts": [MOUNT],
            **rest,
        }
    )


def sidecar(grace: int | None = 180, env: dict[str, Any] | None = None, **rest: Any) -> Any:
    told = {"OPERATOR_ACCOUNT": ACCOUNT, "GRACE_SECONDS": grace and str(grace), **(env or {})}
    given = [
        {"name": f"CACHEAWARE_{name}", **(value if isinstance(value, dict) else {"value": value})}
        for name, value in told.items()
        if value is not None
    ]
    probe = {
        "httpGet": {"path": "/readyz", "port": 9440},
        "periodSeconds": 1,
        "timeoutSeconds": 2,
        "failureThreshold": 3,
    }
    return without(
        {
            "name": "cacheaware",
            "image": "docker.io/cacheaware/sidecar:dev",
            "restartPolicy": "Always",
            "env": given,
            "ports": [{"name": "cacheaware", "containerPort": 9440}],
            "readinessProbe": probe,
            "volumeMounts": [MOUNT],
            **rest,
        }
    )


def body(
    *containers: Any,
    kind: str = "Deployment",
    grace: int | None = 180,
    side: Any = ABSENT,
    pod: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A workload's manifest; `side` is the sidecar, None for none."""
    side = sidecar(grace) if side is ABSENT else side
    pod_spec = without(
        {
            "terminationGracePeriodSeconds": ABSENT if grace is None else grace,
            "initContainers": [side] if side else ABSENT,
            "containers": list(containers) or [engine()],
            "volumes": [{"name": "cacheaware", "emptyDir": {}}],
            **(pod or {}),
        }
    )
    template = {"metadata": {"labels": LABELS, **(meta or {})}, "spec": pod_spec}
    group, where = "apps/v1", {"template": template, "selector": {"matchLabels": LABELS}}
    if kind == "LeaderWorkerSet":
        group = "leaderworkerset.x-k8s.io/v1"
        where = {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": template,
                 "workerTemplate": {"spec": {"containers": [engine(hook=None)]}},
                 **spec.pop("group", {})}}  # fmt: skip
    named = {"name": "chat", "namespace": "demo"}
    spec = {"replicas": 1, **spec}
    return {"apiVersion": group, "kind": kind, "metadata": named, "spec": {**spec, **where}}


def plain(*containers: Any, grace: int | None = 180, **rest: Any) -> dict[str, Any]:
    """A workload without our sidecar."""
    return body(*containers, grace=grace, side=None, **rest)


def subject(manifest: dict[str, Any], **facts: Any) -> Subject:
    workload = workload_of(copy.deepcopy(manifest))
    assert workload is not None
    found = engine_of(workload, "engine")
    assert found is not None
    return Subject(workload, found, Facts(**facts))


def said(rule: Any, manifest: dict[str, Any], **facts: Any) -> list[tuple[str, str]]:
    """What a rule finds: (severity, id)."""
    return [(one.severity.value, one.id) for one in rule(subject(manifest, **facts))]


def one(rule: Any, manifest: dict[str, Any], **facts: Any) -> Any:
    """The one finding of a rule."""
    (found,) = rule(subject(manifest, **facts))
    return found
