"""The five-minute check of a config.json: all rules, worst findings first."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from cacheaware.doctor.findings import Finding, Severity, worst_first
from cacheaware.model.audit import (
    contradictions,
    dtypes,
    experts,
    ffn,
    heads,
    length,
    norms,
    quantization,
    rope,
    vocabulary,
    windows,
)
from cacheaware.model.audit.view import Serving, View, error, info, view_of

MISSING: Final = " is missing"
"""How the KV rules say that a field is not there, which is no fault of what is there."""

Rule = Callable[[View, Serving], Iterable[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    *contradictions.RULES,
    *heads.RULES,
    *rope.RULES,
    *ffn.RULES,
    *norms.RULES,
    *dtypes.RULES,
    *vocabulary.RULES,
    *windows.RULES,
    *quantization.RULES,
    *experts.RULES,
    *length.RULES,
)


def audit(subject: str, config: Any, serving: Serving = Serving()) -> list[Finding]:  # noqa: B008 - frozen
    """What is wrong with a model's configuration.

    Args:
        subject: What the findings name; the file.
        config: The parsed config.json.
        serving: How it is to be served.

    Raises:
        ConfigError: It is no configuration: no object, or a text part or type of another kind.
    """
    view = view_of(subject, config)
    found = [finding for rule in RULES for finding in rule(view, serving)]
    return worst_first([*found, *_refusal(view, found)])


def _refusal(view: View, found: Iterable[Finding]) -> Iterator[Finding]:
    """What the KV rules refuse, where no rule has said why."""
    if view.refused is None or any(one.severity is Severity.ERROR for one in found):
        return
    tell = info if MISSING in view.refused else error
    yield tell(
        view, "geometry-refused",
        f"the KV cache can't be sized: {view.refused}",
        "Compare the field with the model's own release.",
    )  # fmt: skip
