"""Label selectors as the scale subresource spells them."""

import pytest

from cacheaware.observe.selector import SelectorError, parse_selector

LABELS = {"app": "llm", "tier": "gpu", "example.com/x": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=llm", True),
        ("app==llm,tier=gpu", True),
        ("app=other", False),
        ("app!=other", True),
        ("app!=llm", False),
        ("none!=llm", True),
        ("tier in (cpu, gpu)", True),
        ("tier in (cpu)", False),
        ("tier notin (cpu),app", True),
        ("none notin (a)", True),
        ("none in (a)", False),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("!app", False),
        ("example.com/x=", True),
        (" app = llm , tier in (gpu) ", True),
    ],
)
def test_a_selector_matches_as_in_kubernetes(text, matches):
    assert parse_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["", "  ", "app=(", "app in gpu", "=x", "a b"])
def test_what_is_no_selector_is_refused(text):
    with pytest.raises(SelectorError):
        parse_selector(text)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("app=llm", ("app", "llm")),
        ("!x,tier in (gpu)", ("tier", "gpu")),
        ("app!=llm,tier in (a,b),app", None),
    ],
)
def test_a_label_with_one_value_is_what_pods_are_looked_up_by(text, pair):
    assert parse_selector(text).pair == pair
