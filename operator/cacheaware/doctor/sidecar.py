"""Our sidecar in a pod template: where it stands and what it is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from cacheaware import names
from cacheaware.workload.engine import image_name
from cacheaware.workload.template import Workload
from cacheaware_sidecar.settings import PREFIX, Settings, SettingsError, load, variable

IMAGE = "cacheaware/sidecar"
LIVENESS, READINESS = "/livez", "/readyz"


class Place(StrEnum):
    """Where a container stands in a pod."""

    NATIVE = "native sidecar"
    INIT = "init container"
    BESIDE = "container"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The sidecar's container."""

    container: Any
    place: Place
    settings: Settings | None
    """What it would read from its environment; None where it would refuse that."""
    trouble: str | None
    """Why it would refuse."""
    untold: frozenset[str]
    """Settings whose value the manifest does not show: from a Secret, a ConfigMap, a field."""

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container.get("name", ""))

    def setting(self, name: str) -> Any:
        """What it is told; None where that is unset or can't be known."""
        known = self.settings is not None and name not in self.untold
        return getattr(self.settings, name) if known else None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.setting("port") or names.SIDECAR_PORT)

    @property
    def shared_dir(self) -> str | None:
        """Where it expects the shared folder."""
        folder = self.setting("shared_dir")
        return None if folder is None else str(folder)

    @property
    def warms_up(self) -> bool:
        """Whether the pod is Ready only after its warm-up, as far as is known."""
        return self.setting("warmup") is not False


def sidecar_of(workload: Workload) -> Sidecar | None:
    """The sidecar, wherever it stands; None where there is none."""
    return next((sidecar_in(one, place) for one, place in placed(workload) if is_ours(one)), None)


def placed(workload: Workload) -> Iterator[tuple[Any, Place]]:
    """All containers with their place."""
    for one in workload.init_containers:
        native = one.get("restartPolicy") == "Always"
        yield one, Place.NATIVE if native else Place.INIT
    for one in workload.containers:
        yield one, Place.BESIDE


def is_ours(container: Any) -> bool:
    """Whether a container is the sidecar: by its image, its port's name or its own name."""
    ports = container.get("ports") or ()
    return (
        image_name(container).endswith(IMAGE)
        or any(port.get("name") == names.SIDECAR_PORT_NAME for port in ports)
        or container.get("name") == "cacheaware"
    )


def sidecar_in(container: Any, place: Place) -> Sidecar:
    """The sidecar with its settings as far as the manifest shows them."""
    shown = dict(literals(container))
    told = frozenset(f.name for f in fields(Settings) if shown.get(variable(f.name)) is not None)
    given = {one.get("name") for one in container.get("env") or ()}
    hidden = [f.name for f in fields(Settings) if variable(f.name) in given]
    open_ended = [f.name for f in fields(Settings)] if container.get("envFrom") else []
    untold = frozenset([*hidden, *open_ended]) - told
    values = {name: value for name, value in shown.items() if value is not None}
    try:
        return Sidecar(container, place, load(values), None, untold)
    except SettingsError as error:
        return Sidecar(container, place, None, str(error), untold)


def literals(container: Any) -> Iterator[tuple[str, str | None]]:
    """Our variables; None for a value that the manifest does not show."""
    for one in container.get("env") or ():
        name, value = str(one.get("name", "")), one.get("value")
        if name.startswith(PREFIX):
            shown = "valueFrom" not in one and "$(" not in str(value or "")
            yield name, str(value or "") if shown else None


def mounts_of(container: Any) -> Mapping[str, str]:
    """The volume at each mount path."""
    mounts = container.get("volumeMounts") or ()
    return {str(one.get("mountPath", "")).rstrip("/"): str(one.get("name", "")) for one in mounts}
