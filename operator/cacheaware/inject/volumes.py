"""The shared folder, the token and the key: volumes of the pod and their mounts."""

from typing import Any

from cacheaware.inject.api_key import key_secret, key_volume
from cacheaware.inject.model_files import model_mount
from cacheaware.inject.pod import (
    KEY,
    KEY_DIR,
    NAME,
    SHARED_DIR,
    TOKEN,
    TOKEN_DIR,
    LeftAloneError,
    Pod,
)
from cacheaware.inject.token import needs_token, token_volume

SHARED_SIZE = "16Mi"
"""It holds a script, a socket and a few lines of state."""


def volumes_for(pod: Pod) -> list[dict[str, Any]]:
    """The volumes to add."""
    found: list[dict[str, Any]] = [{"name": NAME, "emptyDir": {"sizeLimit": SHARED_SIZE}}]
    if needs_token(pod):
        found.append(token_volume())
    if secret := key_secret(pod):
        found.append(key_volume(secret))
    return found


def sidecar_mounts(pod: Pod) -> list[dict[str, Any]]:
    """What the sidecar mounts.

    Raises:
        LeftAloneError: a volume that was asked for is not there.
    """
    found: list[dict[str, Any]] = [{"name": NAME, "mountPath": SHARED_DIR}]
    if needs_token(pod):
        found.append({"name": TOKEN, "mountPath": TOKEN_DIR, "readOnly": True})
    if key_secret(pod):
        found.append({"name": KEY, "mountPath": KEY_DIR, "readOnly": True})
    asked = pod.options.mounts or {}
    model = model_mount(pod)
    if model is not None and model[1]["mountPath"] not in asked.values():
        found.append(model[1])
    return [*found, *(asked_mount(pod, name, path) for name, path in asked.items())]


def asked_mount(pod: Pod, name: str, path: str) -> dict[str, Any]:
    """A mount that was asked for.

    Raises:
        LeftAloneError: the pod has no such volume.
    """
    there = [str(one.get("name")) for one in pod.spec.get("volumes") or ()]
    if name not in there:
        raise LeftAloneError(
            f"--mount names the volume {name!r}: the pod has {', '.join(there) or 'none'}"
        )
    return {"name": name, "mountPath": path, "readOnly": True}


def add_volumes(pod: Pod) -> None:
    """Put the volumes into the pod, and the shared folder into the engine's container.

    Raises:
        LeftAloneError: a name or a path is taken.
    """
    wanted = volumes_for(pod)
    taken = {one.get("name") for one in pod.spec.get("volumes") or ()}
    if clash := sorted({one["name"] for one in wanted} & taken):
        raise LeftAloneError(f"the pod has a volume {clash[0]} of its own: rename it")
    mounts = pod.record.child(pod.container, "volumeMounts", list)
    if any(str(one.get("mountPath", "")).rstrip("/") == SHARED_DIR for one in mounts):
        raise LeftAloneError(f"{pod.engine.name} has a mount of its own at {SHARED_DIR}: move it")
    mounts.append({"name": NAME, "mountPath": SHARED_DIR})
    pod.record.child(pod.spec, "volumes", list).extend(wanted)
