"""What is said of texts that are no YAML."""

import pytest
from ruamel.yaml import YAML

from cacheaware.workload.no_yaml import TEMPLATE, why_no_yaml


def why(text):
    with pytest.raises(Exception, match=r".") as raised:
        list(YAML(typ="safe", pure=True).load_all(text))
    return why_no_yaml(text, raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "is no YAML: line 3: found duplicate key"),
        ("a:\n\tb: 1\n", "is no YAML: line 2: found character '\\t'"),
        ("a: 1\x00", "is no YAML: unacceptable character"),
        ("a: {{ .Values.x }}\n", TEMPLATE),
        ("{{- if .x }}\na: 1\n", TEMPLATE),
        ("chat: '{{ x }}'\na: 1\na: 2\n", "is no YAML: line 3: found duplicate key"),
    ],
)
def test_the_line_and_the_problem_are_told_in_one_line(text, said):
    assert why(text).startswith(said)
    assert "\n" not in why(text)
