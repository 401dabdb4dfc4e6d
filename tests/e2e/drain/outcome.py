"""What became of the requests of a run, kept in a file so that a table can be made of many runs."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.drain.scenarios import Scenario

FILE = Path(__file__).parents[3] / "build" / "drain.jsonl"


@dataclass(frozen=True)
class Outcome:
    """Counts of one client in one run."""

    scenario: str
    system: bool
    habit: str
    client: str
    sent: int
    ok: int
    failed: dict[str, int]
    not_sent: int = 0
    longest_s: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Requests without a whole answer."""
        return self.sent - self.ok

    @property
    def key(self) -> tuple[str, str, str, bool]:
        """What a later run of the same replaces."""
        return self.scenario, self.habit, self.client, self.system


def outcome(
    *,
    scenario: str,
    system: bool,
    habit: str,
    client: str,
    results: list[dict[str, Any]],
    facts: dict[str, Any],
) -> Outcome:
    """The results of a client's load generators as one."""
    failed: Counter[str] = Counter()
    for result in results:
        failed.update(result["failed"])
    longest = [result["e2e_s"]["max"] for result in results if result["e2e_s"]]
    return Outcome(
        scenario=scenario,
        system=system,
        habit=habit,
        client=client,
        sent=sum(result["sent"] for result in results),
        ok=sum(result["ok"] for result in results),
        failed=dict(failed),
        not_sent=sum(result["not_sent"] for result in results),
        longest_s=max(longest, default=None),
        facts=facts,
    )


def keep(found: Outcome, file: Path = FILE) -> None:
    """Add an outcome to the file."""
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(asdict(found)) + "\n")


def kept(file: Path = FILE) -> list[Outcome]:
    """The outcomes in the file; of several runs of the same the last."""
    if not file.exists():
        return []
    found = [Outcome(**json.loads(line)) for line in file.read_text().splitlines()]
    return list({one.key: one for one in found}.values())


HEAD = ("scenario", "at SIGTERM", "client", "with: sent", "lost", "without: sent", "lost", "how")


def rows(outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """A row per scenario, habit and client: with the system and without it, side by side."""
    pairs: dict[tuple[str, str, str], dict[bool, Outcome]] = {}
    for one in outcomes:
        pairs.setdefault((one.scenario, one.habit, one.client), {})[one.system] = one
    order = [str(scenario) for scenario in Scenario]
    ordered = sorted(pairs, key=lambda key: (order.index(key[0]), *key[1:]))
    return [(*key, *_half(pairs[key].get(True)), *_plain(pairs[key].get(False))) for key in ordered]


def _half(one: Outcome | None) -> tuple[str, str]:
    return ("", "") if one is None else (f"{one.sent:,}", _lost(one))


def _lost(one: Outcome) -> str:
    unsent = f", {one.not_sent} not sent" if one.not_sent else ""
    how = f" ({_how(one)})" if one.failed and one.system else ""
    return f"{one.lost}{how}{unsent}"


def _plain(one: Outcome | None) -> tuple[str, str, str]:
    return (*_half(one), "" if one is None else _how(one))


def _how(one: Outcome) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(one.failed.items()))


def markdown(outcomes: Iterable[Outcome]) -> str:
    """The table for a page."""
    lines = [HEAD, ("---",) * len(HEAD), *rows(outcomes)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def text(outcomes: Iterable[Outcome]) -> str:
    """The table for a terminal."""
    lines = [HEAD, *rows(outcomes)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
