"""Label selectors, as the scale subresource spells them and as objects hold them.

The one is a text, `app=llm,tier in (a,b),!canary`, the other `matchLabels` and `matchExpressions`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_REQUIREMENT = re.compile(
    r"\s*(?:"
    r"!\s*(?P<absent>[\w./-]+)"
    r"|(?P<set>[\w./-]+)\s+(?P<how>in|notin)\s*\((?P<values>[^)]*)\)"
    r"|(?P<key>[\w./-]+)\s*(?P<op>==|=|!=)\s*(?P<value>[\w.-]*)"
    r"|(?P<present>[\w./-]+)"
    r")\s*(?:,|$)"
)

_WANTED = {"In": True, "NotIn": False, "Exists": True, "DoesNotExist": False}
"""By operator of matchExpressions: whether the label, or one of the values, has to be there."""


class SelectorError(ValueError):
    """The text is not a label selector."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a selector."""

    key: str
    values: frozenset[str] | None
    """None: the label's presence alone counts."""
    wanted: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it; a missing label meets every negative term, as in Kubernetes."""
        if self.key not in labels:
            return not self.wanted
        if self.values is None:
            return self.wanted
        return (labels[self.key] in self.values) == self.wanted


@dataclass(frozen=True, slots=True)
class Selector:
    """All terms must hold."""

    requirements: tuple[Requirement, ...]

    @property
    def pair(self) -> tuple[str, str] | None:
        """A label and the one value that it must have, to look pods up by; None without one."""
        for one in self.requirements:
            if one.wanted and one.values is not None and len(one.values) == 1:
                return one.key, next(iter(one.values))
        return None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is selected."""
        return all(one.holds(labels) for one in self.requirements)


def parse_selector(text: str) -> Selector:
    """Parse a selector; an empty one is refused, because it would select every pod.

    Raises:
        SelectorError: empty, or not a selector.
    """
    if not text.strip():
        raise SelectorError("the target's selector is empty, so its pods can't be told")
    found: list[Requirement] = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None or match.end() == position:
            raise SelectorError(f"{text!r} is not a label selector")
        found.append(_requirement(match.groupdict()))
        position = match.end()
    return Selector(tuple(found))


def _requirement(part: Mapping[str, str | None]) -> Requirement:
    if part["absent"]:
        return Requirement(part["absent"], None, wanted=False)
    if part["set"]:
        values = frozenset(value.strip() for value in (part["values"] or "").split(","))
        return Requirement(part["set"], values, wanted=part["how"] == "in")
    if part["key"]:
        return Requirement(part["key"], frozenset({part["value"] or ""}), wanted=part["op"] != "!=")
    return Requirement(part["present"] or "", None, wanted=True)


def selector_of(selector: Mapping[str, Any]) -> Selector:
    """A LabelSelector; an empty one selects every pod, and an unknown operator says nothing."""
    labels = (selector.get("matchLabels") or {}).items()
    terms = [Requirement(key, frozenset({value}), wanted=True) for key, value in labels]
    for one in selector.get("matchExpressions") or ():
        how = one.get("operator")
        if how in _WANTED:
            values = frozenset(one.get("values") or ()) if how in {"In", "NotIn"} else None
            terms.append(Requirement(one["key"], values, wanted=_WANTED[how]))
    return Selector(tuple(terms))
