"""The CacheAwareScaler to start with."""

import re
from pathlib import PurePath
from typing import Any, Final

from cacheaware.model.plan import Plan
from cacheaware.names import API_VERSION, KIND

_LONGEST = 53
"""Room for what workloads append to their names."""

_AT_MOST: Final = 2
"""Times the peak: where memory is nearly full the cautious end of the span has no bound."""
MOST_REPLICAS: Final = 10_000
"""What the CacheAwareScaler's schema allows."""


def name_of(path: str, model_type: str | None) -> str:
    """A Kubernetes name from that of the file, its folder, or the model's type."""
    file = PurePath(path)
    told = file.parent.name if file.name == "config.json" else file.stem
    told = told.rpartition("__")[2]
    plain = re.sub(r"[^a-z0-9]+", "-", told.lower()).strip("-")[:_LONGEST].strip("-")
    return plain or re.sub(r"[^a-z0-9]+", "-", (model_type or "").lower()).strip("-") or "model"


def engine_options(made: Plan) -> tuple[str, ...]:
    """Options of vLLM that the plan rests on."""
    chosen = made.chosen
    if chosen is None:
        return ()
    told = [
        f"--tensor-parallel-size {chosen.tensor}",
        f"--max-model-len {chosen.longest}",
        f"--gpu-memory-utilization {made.wish.utilization:g}",
    ]
    if made.wish.kv_dtype != "auto":
        told.append(f"--kv-cache-dtype {made.wish.kv_dtype}")
    return tuple(told)


def scaler(made: Plan, name: str) -> dict[str, Any] | None:
    """The object, in mode Advise; None where nothing serves the load."""
    chosen, replicas = made.chosen, made.replicas
    if chosen is None or replicas is None:
        return None
    count = made.wish.count
    cautious = min(replicas.peak_span[1] or 0, _AT_MOST * replicas.peak)
    most = min(max(replicas.peak + 1, cautious), MOST_REPLICAS)
    if count is not None:
        most = max(1, min(most, count // chosen.tensor))
    now = min(replicas.now, most)
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "mode": "Advise",
        "minReplicas": now,
        "maxReplicas": most,
        "targets": _targets(made),
    }
    if spare := min(replicas.spare, most - now):
        spec["warmPool"] = spare
    if count is not None:
        spec["maxGpus"] = count
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def _targets(made: Plan) -> dict[str, int]:
    told = {"kvUtilizationPercent": 80}
    if made.wish.load.ttft_s is not None:
        told["timeToFirstTokenMs"] = max(1, round(made.wish.load.ttft_s * 1000))
    return told
