"""Manifests as files: every workload in a text is changed, every other byte stays."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheaware.inject.pod import LeftAloneError
from cacheaware.inject.record import RecordError
from cacheaware.inject.yaml_edits import EditError, rewritten
from cacheaware.inject.yaml_nodes import documents_in
from cacheaware.workload.shape import misfit
from cacheaware.workload.template import Workload, workload_of

Change = Callable[[Any], tuple[Any, tuple[str, ...]]]
"""From an object to the changed one, and what was left alone in it."""


@dataclass(slots=True)
class Changed:
    """A text after the change."""

    text: str
    workloads: list[Any] = field(default_factory=list)
    """All that were meant, as they are now."""
    notes: list[str] = field(default_factory=list)
    """What was left alone inside of them, one line each."""
    failed: list[str] = field(default_factory=list)
    """Workloads that were left alone as a whole, and why, one line each."""


def changed(text: str, change: Change, meant: Callable[[Workload], bool]) -> Changed:
    """Change the workloads of a text that are meant; one that can't be changed stays as it is.

    Raises:
        ManifestTextError: the text is no YAML.
    """
    result = Changed(text)
    for at, place, _ in objects_in(text):
        change_one(result, at, place, change, meant)
    return result


def change_one(
    result: Changed, at: int, place: int | None, change: Change, meant: Callable[[Workload], bool]
) -> None:
    """Change one object of the text: a document, or an item of a list."""
    documents = documents_in(result.text)
    data = [one.data for one in documents]
    body = object_at(data[at], place)
    workload = workload_of(body)
    if workload is None or not meant(workload):
        return
    try:
        check_shape(body)
        new, notes = change(body)
        data[at] = new if place is None else with_item(data[at], place, new)
        result.text = rewritten(result.text, documents, data)
    except (LeftAloneError, RecordError, EditError) as error:
        result.failed.append(f"{workload}: left alone: {error}")
        return
    result.workloads.append(new)
    result.notes += [f"{workload}: {note}" for note in notes]


def check_shape(body: Any) -> None:
    """Whether every part that is looked into is what it has to be.

    Raises:
        LeftAloneError: one is not.
    """
    if wrong := misfit(body):
        raise LeftAloneError(wrong)


def objects_in(text: str) -> Iterator[tuple[int, int | None, Any]]:
    """All objects of a text: which document, which item of it where it is a list, and the object.

    Raises:
        ManifestTextError: the text is no YAML.
    """
    for at, one in enumerate(documents_in(text)):
        for place in places(one.data):
            yield at, place, object_at(one.data, place)


def object_at(document: Any, place: int | None) -> Any:
    """The document itself, or the item of a list."""
    return document if place is None else document["items"][place]


def places(document: Any) -> Iterator[int | None]:
    """Where objects are: the document itself, or each item of a list."""
    if isinstance(document, Mapping) and str(document.get("kind", "")).endswith("List"):
        items = document.get("items")
        yield from range(len(items) if isinstance(items, list) else 0)
    else:
        yield None


def with_item(document: Any, place: int, item: Any) -> Any:
    """A list with one of its items replaced."""
    items = [item if at == place else one for at, one in enumerate(document["items"])]
    return {**document, "items": items}


def workloads_in(text: str) -> list[Workload]:
    """All workloads of a text.

    Raises:
        ManifestTextError: the text is no YAML.
    """
    found = (workload_of(body) for _, _, body in objects_in(text))
    return [one for one in found if one is not None]
