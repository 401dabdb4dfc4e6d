"""What the rules say: an id that stays, how bad it is, why with numbers, and what to change."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Requests are lost, or the pod never serves."""
    WARNING = "warning"
    """It holds on a good day."""
    INFO = "info"
    """Good to know, or not known."""


ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's answer."""

    id: str
    severity: Severity
    subject: str
    """The workload, as kubectl names it: `deployment/chat`."""
    message: str
    """What is wrong and why, with the numbers."""
    fix: str
    """The exact change to make; empty where there is nothing to change."""


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Errors, then warnings, then the rest; within, in the order they were found."""
    return sorted(findings, key=lambda one: ORDER.index(one.severity))


def at_least(findings: Iterable[Finding], severity: Severity) -> list[Finding]:
    """The findings that are as bad as this or worse."""
    return [one for one in findings if ORDER.index(one.severity) <= ORDER.index(severity)]
