"""The model's config.json: where the model lies on a volume, the sidecar reads it there."""

from collections.abc import Iterator
from typing import Any

from cacheaware.inject.pod import Pod
from cacheaware.workload.command import words_of

FLAGS = ("model", "model-path", "model-id")
ONE_FILE = (".gguf", ".bin")
"""Models that are one file and have no config.json."""


def model_folder(pod: Pod) -> str | None:
    """The model's folder on a volume of the engine; None where the model is named otherwise."""
    found = model_mount(pod)
    return None if found is None else found[0]


def model_mount(pod: Pod) -> tuple[str, dict[str, Any]] | None:
    """The model's folder, and the engine's mount that holds it, for the sidecar to read."""
    told = pod.options.env or {}
    if {"CACHEAWARE_CONFIG_FILE", "CACHEAWARE_CONFIG_URL"} & set(told):
        return None
    folder = next(folders(pod), None)
    mounts = [one for one in pod.container.get("volumeMounts") or () if holds(one, folder)]
    if folder is None or not mounts:
        return None
    nearest = max(mounts, key=lambda one: len(str(one["mountPath"])))
    kept = {key: nearest[key] for key in ("name", "mountPath", "subPath") if key in nearest}
    return folder, {**kept, "readOnly": True}


def folders(pod: Pod) -> Iterator[str]:
    """Absolute paths that the command names as the model."""
    words = words_of(pod.container)
    served = words[words.index("serve") + 1 :][:1] if "serve" in words else words[:1]
    named = [pod.engine.flags.get(flag, "") for flag in FLAGS]
    return (one for one in [*named, *served] if one.startswith("/") and not one.endswith(ONE_FILE))


def holds(mount: Any, folder: str | None) -> bool:
    """Whether a folder lies on a mount."""
    path = str(mount.get("mountPath", "")).rstrip("/")
    return bool(path) and f"{folder}/".startswith(f"{path}/") and "subPathExpr" not in mount
