"""What bears on the replicas besides the pods: the hour, GPUs, nodes, other writers, callers."""

from msgspec import Struct


class Floor(Struct, frozen=True):
    """The highest floor of the schedules that hold at this moment."""

    replicas: int
    told: str
    """The schedule in a few words."""
    begins_s: float = 0.0
    """Until its time comes: pods are ordered ahead, so that they serve by then."""


class Fit(Struct, frozen=True):
    """How many replicas the nodes have room for, as far as that was found out."""

    replicas: int
    again_s: float
    """Until more are tried."""


class Contested(Struct, frozen=True):
    """Somebody else who writes the replicas back each time that we write them."""

    manager: str
    """Its field manager; empty where that is not known."""
    again_s: float = 0.0
    """Until we write once more; 0: we may."""

    @property
    def who(self) -> str:
        """The other writer as a noun."""
        return f"field manager {self.manager}" if self.manager else "another writer"

    @property
    def told(self) -> str:
        """What goes on, and what ends it."""
        return (
            f"{self.who} set the replicas back each time that they were written: leave"
            " spec.replicas out of its manifest, or let it ignore /spec/replicas"
        )


class Reading(Struct, frozen=True):
    """The activation signal."""

    value: float | None = None
    """None: it could not be read."""
    detail: str = ""
    """Why not."""


class Wake(Struct, frozen=True):
    """What decides between no replica and one."""

    reading: Reading
    quiet_s: float | None = None
    """How long signal and pods have been known to be quiet; None while they are not."""
    asleep: bool = False
    """The target has no replicas because we took the last one; else somebody paused it."""


class Circumstances(Struct, frozen=True, kw_only=True):
    """All of these, each None where there is nothing of it."""

    scheduled: Floor | None = None
    gpus_per_replica: int | None = None
    """Of one pod, or of a whole group; None where the template names none."""
    fit: Fit | None = None
    contested: Contested | None = None
    wake: Wake | None = None
    """None unless the target may go to 0 replicas."""
