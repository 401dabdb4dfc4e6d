"""Texts are changed where their data changed, and nowhere else."""

import copy
import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cacheaware.inject.yaml_edits import Edit as Change
from cacheaware.inject.yaml_edits import EditError, aligned, applied, names, rewritten, same
from cacheaware.inject.yaml_nodes import ManifestTextError, documents_in

TEXT = """\
# head
a: 1   # one
# before b
b:
- name: x   # item x
  image: 'y'
  # inner
- name: z
  m: |
    foo

# tail
c: {d: 1, e: [1, 2]}
f:
---
# second
{"k": 1}
"""


def written(text, change, at=0):
    """A text with the data of one of its documents changed in place."""
    documents = documents_in(text)
    data = copy.deepcopy([one.data for one in documents])
    change(data[at])
    return rewritten(text, documents, data)


def setting(key, value):
    return lambda data: data.__setitem__(key, value)


def test_text_without_a_change_keeps_every_byte():
    assert written(TEXT, lambda data: None) == TEXT


@pytest.mark.parametrize(
    ("text", "change", "result"),
    [
        ("a: 1 # one\n", setting("a", 2), "a: 2 # one\n"),
        ("a: 1 # one\n", setting("b", "on"), 'a: 1 # one\nb: "on"\n'),
        ("a: 1", setting("b", 2), "a: 1\nb: 2"),
        ("a: 1\r\nb: 2\r\n", setting("c", 3), "a: 1\r\nb: 2\r\nc: 3\r\n"),
        ("a:\n  b: 1\n\n# end\n", lambda d: d["a"].update(c=2), "a:\n  b: 1\n  c: 2\n\n# end\n"),
        ("a: {b: 1}\n", lambda d: d["a"].update(c=[1]), "a: {b: 1, c: [1]}\n"),
        ("a: {b: 1, c: 2}\n", lambda d: d["a"].pop("b"), "a: {c: 2}\n"),
        ("a: {b: 1, c: 2}\n", lambda d: d["a"].pop("c"), "a: {b: 1}\n"),
        ("a: {b: 1, c: 2, d: 3}\n", lambda d: (d["a"].pop("b"), d["a"].pop("c")), "a: {d: 3}\n"),
        ("a: {}\n", lambda d: d["a"].update(c=2), "a:\n  c: 2\n"),
        ("a: {b: 1}\n", setting("a", {"c": "x y"}), 'a: {c: "x y"}\n'),
        ("a: # none\nb: 1\n", setting("a", [{"name": "x"}]), "a:\n  - name: x # none\nb: 1\n"),
        ("a:\n- 1\n", lambda d: d["a"].append(2), "a:\n- 1\n- 2\n"),
        ("a:\n- 1\n", lambda d: d["a"].insert(0, 2), "a:\n- 2\n- 1\n"),
        ("a: [1]\n", lambda d: d["a"].insert(0, 2), "a: [2, 1]\n"),
        ("a:\n  - 1 # one\n  - 2\n", lambda d: d["a"].remove(1), "a:\n  - 2\n"),
        ("a:\n  - x: 1\n    y: 2\n", lambda d: d["a"][0].pop("x"), "a:\n  - y: 2\n"),
        ("a:\n  - x: 1\n  - z\n", lambda d: d["a"].__setitem__(0, 5), "a:\n  - 5\n  - z\n"),
        ("a:\n  b: 1\nc: 2\n", setting("a", None), "a:\nc: 2\n"),
        ("a:\n  b: 1\nc: 2\n", setting("a", []), "a: []\nc: 2\n"),
        ("a: x\n", setting("a", {"b": {"c": 1}}), "a:\n  b:\n    c: 1\n"),
        ("a: 1\nb: 2\n", lambda d: d.pop("a"), "\nb: 2\n"),
        ("a: |+\n  x\n\nb: 1\n", setting("c", 1), "a: |+\n  x\n\nb: 1\nc: 1\n"),
        ("a:\n  b: |+\n    x\n\nd: 1\n", lambda d: d["a"].update(c=1),
         "a:\n  b: |+\n    x\n\n  c: 1\nd: 1\n"),
        ("a:\n  - >+\n    x\n\n\n", lambda d: d["a"].append(1), "a:\n  - >+\n    x\n\n\n  - 1\n"),
        ("a: |+\n  x\n\nb: 1\n", lambda d: d.pop("a"), "\nb: 1\n"),
        ("a: |\n  x\n\n\n", setting("c", 1), "a: |\n  x\nc: 1\n\n\n"),
        ("- a\n", lambda d: d.append({"b": []}), "- a\n- b: []\n"),
        ('{"a": {\n  "b": 1}}', lambda d: d["a"].update(c="x"), '{"a": {\n  "b": 1,\n  "c": "x"}}'),
        ("x: &x {a: 1}\ny: 2\n", setting("y", 3), "x: &x {a: 1}\ny: 3\n"),
        ("x: &x {}\ny: {<<: *x}\n", lambda d: d["y"].update(a=2), "x: &x {}\ny: {<<: *x, a: 2}\n"),
        ("x: &x {b: 1}\ny:\n  <<: *x\n  c: 2\n", lambda d: d["y"].update(a=2),
         "x: &x {b: 1}\ny:\n  <<: *x\n  c: 2\n  a: 2\n"),
        ("x: &x {b: 1}\ny: {<<: *x}\n", lambda d: d["y"].update(b=2),
         "x: &x {b: 1}\ny: {<<: *x, b: 2}\n"),
        ("x: &x [1]\ny: *x\n", setting("y", [1, 2]), "x: &x [1]\ny: [1, 2]\n"),
    ],
)  # fmt: skip
def test_a_change_touches_its_own_place(text, change, result):
    assert written(text, change) == result


def test_all_kinds_of_changes_at_once_are_undone_by_the_reverse():
    documents = documents_in(TEXT)
    before = [one.data for one in documents]
    after = copy.deepcopy(before)
    after[0]["b"][1]["new"] = {"p": [{"q": "on"}], "args": ["-I", "x"]}
    after[0]["b"].append({"name": "w", "v": []})
    after[0]["c"]["e"].append("s t")
    after[0]["c"]["g"] = {"h": None}
    after[0]["f"] = [{"name": "u"}]
    after[1]["l"] = {"m": ["x"]}

    changed = rewritten(TEXT, documents, after)

    assert rewritten(changed, documents_in(changed), before) == TEXT


def test_a_value_that_is_used_elsewhere_is_not_changed():
    with pytest.raises(EditError, match="the anchor &x stands for a value"):
        written("x: &x {a: 1}\ny: *x\n", lambda data: data.update(x={"a": 1, "b": 2}))


def test_overlapping_changes_are_refused():
    with pytest.raises(EditError, match="overlap"):
        applied("abc", [Change(0, 2, ""), Change(1, 3, "")])


def test_a_result_that_says_something_else_is_refused():
    with pytest.raises(EditError, match="can't be changed in place"):
        written("a: {b: 1}\n", lambda data: data["a"].update(c=float("nan")))


def test_an_empty_document_can_not_be_filled():
    with pytest.raises(EditError, match="empty"):
        rewritten("---\n", documents_in("---\n"), [{"a": 1}])


def test_no_yaml_is_said_on_one_line():
    with pytest.raises(ManifestTextError, match=r"^is no YAML: [^\n]+$"):
        documents_in("a: [1\nb: }")


@pytest.mark.parametrize("text", ["replicas: {{ .Values.replicas }}\n", "{{- if .x }}\na: 1\n"])
def test_a_template_is_said_to_be_one(text):
    with pytest.raises(ManifestTextError, match="render it first"):
        documents_in(text)


def test_items_are_known_by_their_names():
    old, new = [{"name": "a", "x": 1}, "b"], [{"name": "c"}, {"name": "a", "x": 2}]

    assert aligned(names(old), names(new)) == ({0: 1}, {None: [0]})


def test_same_is_not_equal_for_true_and_one():
    assert same({"a": 1}, {"a": 1})
    assert not same([True], [1])


KEYS = st.sampled_from(["a", "b", "name", "spec", "on", "x y", "0"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 99999),
    st.sampled_from(["", "on", "1", "~", "a b", "it's", '"q"', "- x", "a: b", "#c", "l\nm\n"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=6)
    .filter(lambda text: "\ufeff" not in text and not text.startswith("?")),  # read as a key
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=14,
)
DOCUMENTS = st.dictionaries(KEYS, TREES, min_size=1, max_size=4)


def dumped(data, *, flow, indent):
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = flow
    yaml.width = 60
    yaml.indent(mapping=4 if indent == 4 else 2, sequence=indent, offset=indent - 2)
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


@settings(max_examples=200, deadline=None)
@given(
    old=DOCUMENTS,
    new=DOCUMENTS,
    flow=st.sampled_from([True, False, None]),
    indent=st.sampled_from([2, 4]),
)
def test_any_change_of_data_arrives_whatever_the_layout(old, new, flow, indent):
    text = dumped(old, flow=flow, indent=indent)
    documents = documents_in(text)
    assume(same(documents[0].data, old))

    result = rewritten(text, documents, [new])

    assert same(documents_in(result)[0].data, new)
