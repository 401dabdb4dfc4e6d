"""References to other objects, and how a pattern is told to the API server."""

import re
from typing import ClassVar

from pydantic import Field

from cacheaware.api.base import Model, Rule

OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
KEY_NAME = r"^[-._a-zA-Z0-9]+$"


def cel_regex(pattern: str) -> str:
    """A regular expression as a CEL string literal."""
    return "'" + pattern.replace("\\", "\\\\") + "'"


class SecretKeyRef(Model):
    """One key of a Secret in the namespace of the CacheAwareScaler."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the Secret."""
    key: str = Field(default="token", min_length=1, max_length=253)
    """Key within the Secret."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.name.matches({cel_regex(OBJECT_NAME)})",
            lambda ref: re.fullmatch(OBJECT_NAME, ref.name) is not None,
            "name {name} must be that of a Secret: lower case letters, digits, - and .",
            ".name",
            shown=True,
        ),
        Rule(
            f"self.key.matches({cel_regex(KEY_NAME)})",
            lambda ref: re.fullmatch(KEY_NAME, ref.key) is not None,
            "key {key} must be a key of the Secret: letters, digits, -, _ and .",
            ".key",
            shown=True,
        ),
    )
