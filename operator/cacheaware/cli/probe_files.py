"""What `cacheaware probe ... -o json` wrote, read back: findings, and hashes of rotary tables."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cacheaware.cli.errors import BadInputError, attempt
from cacheaware.cli.scrape import read_file
from cacheaware.doctor.findings import Finding, Severity

BAD = frozenset({Severity.ERROR, Severity.WARNING})
HASHED = "float64"
"""The hash that every file has; it alone depends on the host's libm."""
SAME_TABLES = "the same config.json, RoPE scaling and engine version everywhere"


@dataclass(frozen=True, slots=True)
class Stored:
    """What stored probes say.

    Attributes:
        attention: Findings of the attention probe; None where no file was named or can be used.
        rope: Hashes by precision, by the file's name.
        failed: Whether a file could not be used.
    """

    attention: tuple[Finding, ...] | None = None
    rope: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    failed: bool = False

    @property
    def evidence(self) -> tuple[str, ...] | None:
        """Messages of the attention probe's errors and warnings; None without a probe."""
        if self.attention is None:
            return None
        return tuple(one.message for one in self.attention if one.severity in BAD)

    @property
    def shown(self) -> dict[str, str]:
        """By the file's name the hash that tells the tables apart, where one does."""
        name = telling(self.rope.values())
        return {file: hashes[name] for file, hashes in self.rope.items()}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong whether requests are slow or not."""
        found = [one for one in self.attention or () if one.severity in BAD]
        return (*found, *rope_findings(self.shown))


def stored(attention: Path | None, rope: Sequence[Path]) -> Stored:
    """Read the files; a bad one gets its line and does not hold back the others."""
    found = None if attention is None else attempt(partial(stored_probe, attention))
    read = [(path, attempt(partial(rope_table, path))) for path in rope]
    failed = (attention is not None and found is None) or any(one is None for _, one in read)
    tables = {str(path): one for path, one in read if one is not None}
    hashes = attempt(partial(of_one_length, tables))
    if hashes is None:
        return Stored(found, {}, failed=True)
    return Stored(found, by_stem(hashes), failed)


def stored_probe(path: Path) -> tuple[Finding, ...]:
    """What a stored `cacheaware probe attention` found.

    Raises:
        BadInputError: it is no such file.
    """
    found = json_of(path, "--attention").get("findings")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadInputError(
            f"--attention {path}: findings is missing: allowed is what"
            " `cacheaware probe attention -o json` writes"
        )
    return tuple(stored_finding(path, place, one) for place, one in enumerate(found))


def stored_finding(path: Path, place: int, told: Mapping[str, Any]) -> Finding:
    """One finding of a stored probe.

    Raises:
        BadInputError: a field is no text, or the severity is none.
    """
    where = f"--attention {path}: findings[{place}]"
    allowed = [str(one) for one in Severity]
    if told.get("severity") not in allowed:
        raise BadInputError(
            f"{where}.severity is {told.get('severity')!r}: allowed are {', '.join(allowed)}"
        )
    for name in ("id", "message"):
        if not isinstance(told.get(name), str) or not told[name]:
            raise BadInputError(f"{where}.{name} is {told.get(name)!r}: allowed is text")
    fix = told.get("fix")
    return Finding(
        told["id"], Severity(told["severity"]), str(path), told["message"],
        fix if isinstance(fix, str) else "",
    )  # fmt: skip


def rope_table(path: Path) -> tuple[int, dict[str, str]]:
    """Length and hashes of a stored `cacheaware probe rope`.

    Raises:
        BadInputError: it is no such file.
    """
    return checked_table(json_of(path, "--rope"), f"--rope {path}", (HASHED,))


def checked_table(told: Any, where: str, needed: Iterable[str]) -> tuple[int, dict[str, str]]:
    """Length in tokens and hashes by precision.

    Args:
        told: The JSON.
        where: Option and file.
        needed: Hashes that it must have.

    Raises:
        BadInputError: one is missing, or a field has another type.
    """
    writes = "`cacheaware probe rope -o json` writes"
    if not isinstance(told, dict) or "hashes" not in told:
        told = {"hashes": {}, **(told if isinstance(told, dict) else {})}
    hashes, tokens = told["hashes"], told.get("tokens")
    if not isinstance(hashes, dict):
        raise BadInputError(f"{where}: hashes is {hashes!r}: allowed is the object that {writes}")
    for name in dict.fromkeys((*needed, *hashes)):
        text = hashes.get(name)
        if not isinstance(text, str) or not text:
            raise BadInputError(
                f"{where}: hashes.{name} is {text!r}: allowed is the text that {writes}"
            )
    if type(tokens) is not int or tokens < 1:
        raise BadInputError(f"{where}: tokens is {tokens!r}: allowed is the number that {writes}")
    return tokens, hashes


def of_one_length(
    tables: Mapping[str, tuple[int, Mapping[str, str]]],
) -> dict[str, Mapping[str, str]]:
    """The hashes of tables that can be compared.

    Raises:
        BadInputError: they differ in length.
    """
    if len({tokens for tokens, _ in tables.values()}) > 1:
        said = ", ".join(f"{tokens} in {name}" for name, (tokens, _) in tables.items())
        raise BadInputError(f"--rope: tokens is {said}: allowed are tables of one length")
    return {name: hashes for name, (_, hashes) in tables.items()}


def by_stem(hashes: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """By the file's name without folder and ending, where no other has the same."""
    stems = [Path(name).stem for name in hashes]
    return {
        stem if stems.count(stem) == 1 else name: one
        for stem, (name, one) in zip(stems, hashes.items(), strict=True)
    }


def telling(tables: Iterable[Mapping[str, str]]) -> str:
    """The hash to compare: one that differs, of those that all have.

    float64 counts only where there is no other: its last bit is each libm's own.
    """
    known = list(tables)
    names = [name for name in (known[0] if known else ()) if all(name in one for one in known)]
    names = [name for name in names if name != HASHED] or [HASHED]
    return next((name for name in names if len({one[name] for one in known}) > 1), names[0])


def rope_findings(shown: Mapping[str, str]) -> list[Finding]:
    """Tables that differ, and one that there is nothing to compare with."""
    names = ", ".join(shown)
    if len(set(shown.values())) > 1:
        said = ", ".join(f"{name} {text[:12]}" for name, text in shown.items())
        text = f"RoPE tables differ: {said}"
        return [Finding("rope-differs", Severity.ERROR, names, text, SAME_TABLES)]
    if len(shown) == 1:
        text = "one RoPE table was given: it was compared with none"
        return [Finding("rope-not-compared", Severity.INFO, names, text, "give another --rope")]
    return []


def json_of(path: Path, option: str) -> dict[str, Any]:
    """A stored answer.

    Raises:
        BadInputError: it is no JSON object.
    """
    try:
        found = json.loads(read_file(path))
    except BadInputError as error:
        raise BadInputError(f"{option} {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{option} {path}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadInputError(f"{option} {path}: a JSON object is allowed")
    return found
