"""What inject did to a workload, kept in an annotation of the workload (not of its pods).

With it a later run knows what it was told and what was there before, so that `--remove` brings
that back. The annotation changes no pod: it stands beside the template, not in it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheaware.names import GROUP

ANNOTATION = f"{GROUP}/injected"


class RecordError(ValueError):
    """The annotation can't be read; one line."""


@dataclass(slots=True)
class Record:
    """What was told and what was there; filled while a workload is changed."""

    options: dict[str, Any] = field(default_factory=dict)
    engine: str = ""
    """The engine's container."""
    env: list[str] = field(default_factory=list)
    """Variables of the sidecar that inject wrote; all others are a user's."""
    mounts: list[str] = field(default_factory=list)
    """Paths in the sidecar where inject mounted something."""
    was: dict[str, Any] = field(default_factory=dict)
    """By place: the value that was replaced; null where there was none."""
    empty: dict[str, Any] = field(default_factory=dict)
    """By place: an empty list, an empty mapping or a null that was there and has been filled."""
    argument: list[str] = field(default_factory=list)
    """`args` or `command`, and what was put at its end."""

    def put(self, place: str, holder: Any, key: str, value: Any, *before: str) -> None:
        """Set a value and remember the one that it replaces, an explicit null too."""
        self.was[place] = holder.get(key)
        if key in holder and holder[key] is None:
            self.empty[place] = None
        insert(holder, key, value, *before)

    def restore(self, place: str, holder: Any, key: str) -> None:
        """Bring a value back that was replaced."""
        if place in self.was:
            if self.was[place] is None and place not in self.empty:
                holder.pop(key, None)
            else:
                holder[key] = self.was[place]

    def child(self, holder: Any, key: str, kind: type, *before: str, place: str = "") -> Any:
        """The collection at a key; an empty one is made where there is none."""
        if not holder.get(key):
            if key in holder:
                self.empty[place or key] = holder[key]
            insert(holder, key, kind(), *before)
        return holder[key]

    def prune(self, holder: Any, key: str, place: str = "") -> None:
        """Take a collection away that has become empty, unless it was there so."""
        if key in holder and not holder[key]:
            if (place or key) in self.empty:
                holder[key] = self.empty[place or key]
            else:
                del holder[key]

    def text(self) -> str:
        """As the annotation holds it."""
        content = {name: getattr(self, name) for name in self.__slots__}
        filled = {name: value for name, value in content.items() if value}
        return json.dumps(filled, sort_keys=True, ensure_ascii=False)


def insert(holder: Any, key: str, value: Any, *before: str) -> None:
    """Set a key; a new one comes before the first of others, or at the end."""
    later = {}
    if key not in holder and not set(before).isdisjoint(holder):
        names = list(holder)
        first = min(names.index(name) for name in before if name in holder)
        later = {name: holder.pop(name) for name in names[first:]}
    holder[key] = value
    holder.update(later)


def annotations_of(holder: Any) -> Mapping[str, Any]:
    """The annotations of an object or a template."""
    found = (holder.get("metadata") or {}).get("annotations")
    return found if isinstance(found, Mapping) else {}


def record_of(body: Any) -> Record | None:
    """What an earlier run wrote; None where there was none.

    Raises:
        RecordError: somebody changed the annotation.
    """
    text = annotations_of(body).get(ANNOTATION)
    if text is None:
        return None
    try:
        content = json.loads(str(text))
        kinds = {name: type(getattr(Record(), name)) for name in Record.__slots__}
        good = all(isinstance(value, kinds[name]) for name, value in content.items())
        if good:
            return Record(**content)
    except (ValueError, KeyError, AttributeError):
        pass
    raise RecordError(f"the annotation {ANNOTATION} is not what inject wrote: it can't be undone")
