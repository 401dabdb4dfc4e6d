"""The pod template that is being changed, and what the parts of inject know of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cacheaware.inject.options import ACCOUNT, Options
from cacheaware.inject.record import Record
from cacheaware.workload.engine import Engine
from cacheaware.workload.template import Workload

SHARED_DIR = "/var/run/cacheaware"
TOKEN_DIR = "/var/run/secrets/cacheaware"  # noqa: S105 - a folder
KEY_DIR = "/var/run/secrets/cacheaware-api-key"
NAME = "cacheaware"
"""Of the container and of the shared volume."""
TOKEN, KEY = f"{NAME}-token", f"{NAME}-api-key"
VOLUMES = (NAME, TOKEN, KEY)
"""All volumes that inject makes."""


class LeftAloneError(Exception):
    """A workload that can't be changed, and why; one line."""


@dataclass(slots=True)
class Pod:
    """A workload's own copy while parts are put into it."""

    workload: Workload
    engine: Engine
    options: Options
    record: Record
    notes: list[str] = field(default_factory=list)
    """What was left alone, one line each."""
    floor: int | None = None
    """Shortest drain, where a hook that is replaced slept longer than ours would."""

    @property
    def spec(self) -> Any:
        """The pod's spec, to be changed."""
        return self.workload.template["spec"]

    @property
    def container(self) -> Any:
        """The engine's container, to be changed."""
        return self.engine.container

    @property
    def account(self) -> str:
        """The operator's ServiceAccount."""
        return self.options.operator_account or ACCOUNT

    def others(self) -> Iterator[Any]:
        """All containers but the engine's."""
        for one in [*self.workload.init_containers, *self.workload.containers]:
            if one is not self.engine.container:
                yield one
