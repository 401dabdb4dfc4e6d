"""How a control call ended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended."""

    status: int
    """Of the answer; 0: there was none."""
    why: str = ""
    """Why it was not accepted: a few words for people."""

    @property
    def accepted(self) -> bool:
        """The sidecar has done it."""
        return self.status == 200

    @property
    def word(self) -> str:
        """For metrics."""
        return "accepted" if self.accepted else "refused" if self.status else "unreachable"
