"""Workloads to inject, made of a few words, and short ways to the parts of the result."""

import copy
from typing import Any

import pytest

from cacheaware.inject.injection import injected
from cacheaware.inject.options import Options
from cacheaware.inject.pod import LeftAloneError
from cacheaware.workload.template import workload_of

FOLDER = "/var/run/cacheaware"
SCRIPT = {"exec": {"command": ["python3", "-I", "-S", f"{FOLDER}/wait.py"]}}


def engine(**fields: Any) -> dict[str, Any]:
    return {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.18.0",
        "args": ["--model", "m"],
        **fields,
    }


def deployment(*containers: Any, meta: Any = None, **spec: Any) -> dict[str, Any]:
    pod = {"containers": list(containers) or [engine()], **spec}
    labels = {"labels": {"app": "chat"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {
            "selector": {"matchLabels": {"app": "chat"}},
            "template": {"metadata": {**labels, **(meta or {})}, "spec": pod},
        },
    }


def group(size: int | None = 2, leader: bool = True, **fields: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [engine()]}}
    both = {"leaderTemplate": template, "workerTemplate": copy.deepcopy(template)}
    if not leader:
        del both["leaderTemplate"]
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "group"},
        "spec": {"leaderWorkerTemplate": {**both, **({"size": size} if size else {})}, **fields},
    }


class Result:
    """An injected workload, and short ways to its parts."""

    def __init__(self, body: Any, **options: Any) -> None:
        outcome = injected(body, Options(**options))
        self.body, self.notes = outcome.body, outcome.notes
        self.workload = workload_of(self.body)
        self.spec = self.workload.template["spec"]
        self.sidecar = self.workload.init_containers[-1]
        self.env = {
            one["name"].removeprefix("CACHEAWARE_"): one.get("value", one.get("valueFrom"))
            for one in self.sidecar["env"]
        }
        self.engine = next(one for one in self.spec["containers"] if one["name"] == "engine")
        self.volumes = {one["name"]: one for one in self.spec["volumes"]}
        self.mounts = {one["name"]: one for one in self.sidecar["volumeMounts"]}


def refusal(body: Any, **options: Any) -> str:
    with pytest.raises(LeftAloneError) as refused:
        injected(body, Options(**options))
    return str(refused.value)
