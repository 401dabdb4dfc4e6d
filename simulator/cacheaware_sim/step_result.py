"""What a driver has to know about an iteration."""

from cacheaware_sim.request import Request


class StepResult:
    """What the iteration that ended has brought, and how long the next one takes."""

    __slots__ = ("aborted", "duration_s", "finished", "first_tokens", "preempted")

    def __init__(self) -> None:
        self.duration_s: float | None = None
        """Seconds until `step` is to be called again; None when there is nothing to do."""
        self.first_tokens: list[Request] = []
        """Requests whose first token came out (again, after a preemption)."""
        self.finished: list[Request] = []
        self.aborted: list[Request] = []
        """Requests that a shutdown has cut."""
        self.preempted: list[Request] = []
        """Requests that lost their blocks to older ones."""
