"""What a rule says: an id that stays, how bad it is, why with numbers, and what to do."""

from dataclasses import dataclass
from typing import Final

ERROR: Final = "error"
"""Requests are lost, answered wrongly, or wait for minutes."""
WARNING: Final = "warning"
"""It costs speed, or soon will."""
INFO: Final = "info"
"""Good to know, or not known."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that a page shows."""

    id: str
    severity: str
    message: str
    """What is wrong and why, with the numbers."""
    fix: str = ""
    """What to do; empty where there is nothing to do."""
