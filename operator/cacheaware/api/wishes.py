"""Wishes beyond targets and bounds: schedules, and what wakes a target without replicas."""

import re
from typing import ClassVar

from pydantic import Field, field_validator

from cacheaware.api.base import Model, Rule
from cacheaware.api.references import SecretKeyRef, cel_regex

CRON = r"^[-0-9A-Za-z*/,#]+( +[-0-9A-Za-z*/,#]+){4}$"
TIME_ZONE = r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"
URL = r"^https?://[-_.a-zA-Z0-9:\[\]]+(/[-._~!$&()*+,;=:@%/?a-zA-Z0-9]*)?$"
METRIC = r"^[a-zA-Z_:][a-zA-Z0-9_:]*$"
LABEL = r"^[a-zA-Z_][a-zA-Z0-9_]*$"


class Schedule(Model):
    """A floor at set times. Times that can't be read are told as `InvalidSpec`."""

    cron: str = Field(min_length=9, max_length=100)
    """When it begins, in five fields: minute, hour, day of the month, month, day of the week."""
    time_zone: str = Field(default="UTC", min_length=1, max_length=64)
    """The IANA name of the time zone that `cron` is meant in, such as `Europe/Berlin`."""
    duration_seconds: int = Field(ge=60, le=2_678_400)
    """How long it holds. Pods are ordered ahead of its beginning by the learned cold start."""
    min_replicas: int = Field(ge=1, le=10_000)
    """Never fewer than this while it holds."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.cron.matches({cel_regex(CRON)})",
            lambda one: re.fullmatch(CRON, one.cron) is not None,
            "cron {cron} must have five fields with blanks between them, such as 0 8 * * 1-5",
            ".cron",
            shown=True,
        ),
        Rule(
            f"self.timeZone.matches({cel_regex(TIME_ZONE)})",
            lambda one: re.fullmatch(TIME_ZONE, one.time_zone) is not None,
            "timeZone {timeZone} must be an IANA name such as Europe/Berlin",
            ".timeZone",
            shown=True,
        ),
    )


class Label(Model):
    """A label that a series must have."""

    name: str = Field(min_length=1, max_length=128)
    """Its name."""
    value: str = Field(max_length=256)
    """Its value."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.name.matches({cel_regex(LABEL)})",
            lambda one: re.fullmatch(LABEL, one.name) is not None,
            "name {name} must be that of a label: letters, digits and _",
            ".name",
            shown=True,
        ),
    )


class Activation(Model):
    """What wakes a target that has no replicas: a series of a metrics page outside of its pods.

    Such as the queue of a gateway or router. It is read in each round.
    """

    url: str = Field(min_length=8, max_length=512)
    """The metrics page, in Prometheus' text format."""
    metric: str = Field(min_length=1, max_length=200)
    """Name of a gauge on it, such as requests that wait or are in flight; never a counter."""
    labels: list[Label] | None = Field(
        default=None,
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """Labels that a series must have to count; several series are summed."""
    threshold: int = Field(default=0, ge=0, le=1_000_000)
    """Above this the target is woken, at once."""
    idle_seconds: int = Field(default=600, ge=30, le=604_800)
    """How long signal and pods must be known to be quiet before the last replica goes."""
    authorization_secret_ref: SecretKeyRef | None = None
    """The bearer token for the page."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.url.matches({cel_regex(URL)})",
            lambda one: re.fullmatch(URL, one.url) is not None,
            "url {url} must be that of a metrics page, such as http://gateway.infra:9090/metrics",
            ".url",
            shown=True,
        ),
        Rule(
            f"self.metric.matches({cel_regex(METRIC)})",
            lambda one: re.fullmatch(METRIC, one.metric) is not None,
            "metric {metric} must be the name of a metric: letters, digits, _ and :",
            ".metric",
            shown=True,
        ),
    )

    @field_validator("labels")
    @classmethod
    def labels_differ(cls, labels: list[Label] | None) -> list[Label] | None:
        """A map by name, as `x-kubernetes-list-type` says."""
        if labels is not None and len({one.name for one in labels}) < len(labels):
            raise ValueError("a label is named twice")
        return labels
