"""Variables in a container's command, as far as its manifest shows them."""

import pytest

from cacheaware.workload.variables import env_of, expanded, known_values

KNOWN = {"PORT": "81", "HIDDEN": None}


@pytest.mark.parametrize(
    ("word", "result"),
    [
        ("$(PORT)", "81"),
        ("$PORT", "81"),
        ("${PORT}", "81"),
        ("--port=${PORT:-8000}", "--port=81"),
        ("${OTHER:-8000}", "8000"),
        ("${OTHER-8000}", "8000"),
        ("http://$(PORT):$PORT/", "http://81:81/"),
        ("$OTHER", "$OTHER"),
        ("$(HIDDEN)", "$(HIDDEN)"),
        ("${HIDDEN:-8000}", "${HIDDEN:-8000}"),
        ("$PORT$OTHER", "$PORT$OTHER"),
        ("$$(PORT)", "$$(PORT)"),
        ("plain", "plain"),
        ("$", "$"),
    ],
)
def test_a_word_is_expanded_where_all_its_variables_are_known(word, result):
    assert expanded(word, KNOWN) == result


def test_a_default_counts_only_where_no_variable_can_come_from_elsewhere():
    assert expanded("${OTHER:-8000}", KNOWN, open_ended=True) == "${OTHER:-8000}"


def test_values_from_elsewhere_and_those_of_a_script_are_not_known():
    container = {
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {}},
            {"name": "C", "value": "$(B)"},
            {"name": "D", "value": "4"},
        ]
    }
    assert known_values(container, "export D=5; serve --x=$A") == {
        "A": "1", "B": None, "C": None, "D": None,
    }  # fmt: skip
    assert env_of({"env": [{"name": "A", "value": 0}, {"name": "B"}]}) == {"A": "0"}
    assert known_values({}) == {}
