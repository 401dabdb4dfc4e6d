"""The sidecar's container, and what of it a user may have changed by hand."""

from importlib import metadata
from typing import Any

from cacheaware.inject.environment import Told, environment
from cacheaware.inject.options import REPOSITORY
from cacheaware.inject.pod import NAME, Pod
from cacheaware.inject.probes import probes_for
from cacheaware.inject.record import Record
from cacheaware.inject.resources import SHAPES, resources_for
from cacheaware.inject.security import security_context
from cacheaware.inject.volumes import sidecar_mounts
from cacheaware.names import SIDECAR_PORT_NAME


def container(pod: Pod, told: Told) -> dict[str, Any]:
    """A native sidecar: it starts before the engine and gets SIGTERM after it."""
    resources = resources_for(pod.workload)
    return {
        "name": NAME,
        "image": pod.options.image or default_image(),
        "restartPolicy": "Always",
        "env": environment(pod, told),
        "ports": [{"name": SIDECAR_PORT_NAME, "containerPort": told.port}],
        **probes_for(pod),
        "securityContext": security_context(),
        **({"resources": resources} if resources else {}),
        "volumeMounts": sidecar_mounts(pod),
    }


def default_image() -> str:
    """The sidecar of this release."""
    return f"{REPOSITORY}:{metadata.version('cacheaware')}"


def with_own(made: dict[str, Any], there: Any, record: Record) -> dict[str, Any]:
    """The container with what a user has put into the one that is there.

    More variables, mounts and fields stay, and resources that inject does not write.
    """
    names = {one["name"] for one in made["env"]} | set(record.env)
    paths = {one["mountPath"] for one in made["volumeMounts"]} | set(record.mounts)
    more = {key: value for key, value in there.items() if key not in {*made, "livenessProbe"}}
    env = [one for one in there.get("env") or () if one.get("name") not in names]
    mounts = [one for one in there.get("volumeMounts") or () if one.get("mountPath") not in paths]
    result = {
        **made,
        **{key: value for key, value in more.items() if key != "resources"},
        "env": [*made["env"], *env],
        "volumeMounts": [*made["volumeMounts"], *mounts],
    }
    if there.get("resources") not in SHAPES:
        result["resources"] = there["resources"]
    return result
