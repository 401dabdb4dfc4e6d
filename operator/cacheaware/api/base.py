"""What all API models share: camelCase on the wire, strict types, rules told once for both."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

PLACE = re.compile(r" \{([\w.]+)\}")
VALUE = r" ' + self.\1 + '"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule over several fields: in CEL for the API server, in Python for the model.

    Both say the same; a test with generated objects holds them together.
    """

    cel: str
    check: Callable[[Any], bool]
    message: str
    """What the user reads; ` {minReplicas}` stands for the value of that field."""
    field_path: str = ""
    shown: bool = False
    """Whether the API server shows the values too: strings of bounded length, as it prices a text
    made from a number as if it were endless, and refuses the whole schema."""

    def text(self, model: BaseModel) -> str:
        """The message for one object, with its values in place."""
        values = model.model_dump(by_alias=True)
        return PLACE.sub(lambda place: f" {walk(values, place[1])}", self.message)

    def schema(self) -> dict[str, str]:
        """The entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": PLACE.sub("", self.message)}
        if self.shown:
            entry["messageExpression"] = f"'{PLACE.sub(VALUE, self.message)}'"
        return entry | ({"fieldPath": self.field_path} if self.field_path else {})


def walk(values: Any, path: str) -> Any:
    """The value at a dotted path of nested dictionaries."""
    for name in path.split("."):
        values = values[name]
    return values


def as_stored(value: Any) -> Any:
    """A value as the API server reads it: 3.0 is the integer 3, and a null is an absent field."""
    if isinstance(value, dict):
        return {name: as_stored(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [as_stored(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(ge=0)]


class Model(BaseModel):
    """The base of all models: unknown fields are ignored, so that old and new CRDs can be read."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def read_as_stored(cls, value: Any) -> Any:
        """Read what the API server would store."""
        return as_stored(value)

    @model_validator(mode="after")
    def keep_rules(self) -> Self:
        """Refuse an object that breaks a rule, in the rule's own words."""
        for rule in self.rules:
            if not rule.check(self):
                raise ValueError(rule.text(self))
        return self
