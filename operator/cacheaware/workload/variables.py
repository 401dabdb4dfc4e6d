"""A container's environment variables, and what they make of words that name them."""

import re
from collections.abc import Mapping
from typing import Any

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
REFERENCE = re.compile(
    rf"(?<!\$)\$(?:\((?P<kube>{NAME})\)|\{{(?P<braces>{NAME})(?::?[-=](?P<default>[^${{}}]*))?\}}"
    rf"|(?P<bare>{NAME}))"
)
"""`$(NAME)` as Kubernetes expands it; `$NAME`, `${NAME}` and `${NAME:-default}` as shells do."""


def env_of(container: Any) -> dict[str, str]:
    """Environment variables with a literal value."""
    given = container.get("env") or ()
    return {
        str(one.get("name")): str(one["value"]) for one in given if one.get("value") is not None
    }


def known_values(container: Any, script: str | None = None) -> dict[str, str | None]:
    """What each variable is in the command; None where the manifest does not show it.

    A shell's script may set a variable itself: that one is not known either.
    """
    named = {str(one.get("name")): None for one in container.get("env") or ()}
    shown = {name: value for name, value in env_of(container).items() if "$(" not in value}
    own = dict.fromkeys(re.findall(rf"(?:^|[\s;&|(])({NAME})=", script or ""))
    return {**named, **shown, **own}


def expanded(word: str, known: Mapping[str, str | None], open_ended: bool = False) -> str:
    """A word with its variables replaced; the word as it is where one of them is not known.

    Where there is an `envFrom`, variables are there that the manifest does not name (open-ended).

    >>> expanded("--port=${PORT:-8000}", {}), expanded("$(PORT)", {"PORT": "81"})
    ('--port=8000', '81')
    """
    values = [value_of(one, known, open_ended) for one in REFERENCE.finditer(word)]
    if not values or None in values:
        return word
    left = iter(values)
    return REFERENCE.sub(lambda _: str(next(left)), word)


def value_of(found: re.Match[str], known: Mapping[str, str | None], open_ended: bool) -> str | None:
    """What one reference stands for; its default where the manifest names no such variable."""
    name = found["kube"] or found["braces"] or found["bare"]
    if name in known or open_ended:
        return known.get(name)
    return found["default"]
