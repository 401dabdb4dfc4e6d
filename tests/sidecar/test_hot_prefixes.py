import json
import os

import pytest

from cacheaware_sidecar.hot_prefixes import LARGEST, read
from cacheaware_sidecar.warmup_plan import HotPrefix

CHAT = {"messages": [{"role": "system", "content": "You are Ada."}], "model": "sql"}


def test_a_text_file_is_one_prompt(tmp_path):
    file = tmp_path / "rules"
    file.write_text("You are helpful.\n")

    assert read(file) == ((HotPrefix("rules", {"prompt": "You are helpful.\n"}),), ())


def test_a_folder_is_read_as_kubernetes_mounts_a_configmap(tmp_path):
    data = tmp_path / "..2026_01_01"
    data.mkdir()
    (data / "b.json").write_text(json.dumps([CHAT, {"prompt": "p"}]))
    (data / "a.jsonl").write_text(json.dumps(CHAT) + "\n\n")
    (tmp_path / "..data").symlink_to(data)
    for name in ("a.jsonl", "b.json"):
        (tmp_path / name).symlink_to(tmp_path / "..data" / name)

    assert read(tmp_path) == (
        (
            HotPrefix("a.jsonl", CHAT),
            HotPrefix("b.json#1", CHAT),
            HotPrefix("b.json#2", {"prompt": "p"}),
        ),
        (),
    )


@pytest.mark.parametrize(
    "entry",
    [
        {},
        [],
        "text",
        {"prompt": ""},
        {"prompt": 1},
        {"prompt": "p", "messages": CHAT["messages"]},
        {"messages": []},
        {"messages": "m"},
        {"messages": [{}], "tools": {}},
        {"prompt": "p", "model": 1},
        {"prompt": "p", "stream": True},
    ],
    ids=str,
)
def test_what_is_no_prefix_is_told_and_the_good_ones_are_loaded(tmp_path, entry):
    (tmp_path / "bad.jsonl").write_text(json.dumps(entry))
    (tmp_path / "good").write_text("x")
    found, problems = read(tmp_path)

    assert [each.name for each in found] == ["good"]
    assert problems == (
        (
            'hot prefixes: bad.jsonl: allowed: {"prompt": "..."} or {"messages": [...], "tools":'
            ' [...]}, and "model"'
        ),
    )


def test_an_empty_list_holds_nothing(tmp_path):
    (tmp_path / "none.json").write_text("[]")

    assert read(tmp_path) == ((), ())


def test_broken_json_and_no_text_are_told(tmp_path):
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b").write_bytes(b"\xff")
    found, problems = read(tmp_path)

    assert found == ()
    assert [each.split(":")[1].strip() for each in problems] == ["a.json", "b"]


def test_a_file_that_is_missing_is_told(tmp_path):
    assert read(tmp_path / "x")[1] == ("hot prefixes: x: No such file or directory",)


def test_a_folder_that_can_not_be_listed_is_told(tmp_path, monkeypatch):
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    assert read(tmp_path)[1] == (f"hot prefixes: {tmp_path} can't be read (Permission denied)",)


def test_more_than_a_configmap_holds_is_not_read(tmp_path):
    (tmp_path / "a").write_text("x" * LARGEST)
    (tmp_path / "b").write_text("x")
    found, problems = read(tmp_path)

    assert [each.name for each in found] == ["a"]
    assert "is larger than 0 bytes" in problems[0]


def test_only_so_many_are_loaded(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"prompt": str(n)} for n in range(70)]))
    found, problems = read(tmp_path)

    assert len(found) == 64
    assert problems == ("hot prefixes: 70 are given; the first 64 are loaded",)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"prompt": "a \\ud800 b"}', "half a surrogate pair; allowed: whole characters"),
        (
            b'{"prompt": "a", "model": "\\udfff"}',
            "half a surrogate pair; allowed: whole characters",
        ),
        (b'{"messages": [{"weight": NaN}]}', "NaN is no JSON; allowed: numbers"),
        (b'{"messages": [{"weight": -Infinity}]}', "-Infinity is no JSON; allowed: numbers"),
        (b"\xff\xfe", "it is no text; allowed: UTF-8"),
    ],
)
def test_what_could_not_be_sent_is_told_and_the_good_ones_are_loaded(tmp_path, content, why):
    (tmp_path / "bad.json").write_bytes(content)
    (tmp_path / "good").write_text("x")
    found, problems = read(tmp_path)

    assert [each.name for each in found] == ["good"]
    assert problems == (f"hot prefixes: bad.json: {why}",)


def test_a_name_that_is_no_text_is_shown_as_text(tmp_path):
    path = os.fsencode(str(tmp_path / "a")) + b"\xff"
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a name of bytes
        file.write("x")

    assert [each.name for each in read(tmp_path)[0]] == ["a?"]


def test_a_pipe_does_not_hold_the_others_up(tmp_path):
    os.mkfifo(tmp_path / "a")
    (tmp_path / "b").write_text("x")
    found, problems = read(tmp_path)

    assert [each.name for each in found] == ["b"]
    assert problems == (f"hot prefixes: a: {tmp_path / 'a'} is no file",)
