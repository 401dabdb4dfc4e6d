"""What `python3 -m tests.cluster` makes of its words."""

from pathlib import Path

import pytest
from tests.cluster import __main__ as commands


@pytest.fixture
def became(monkeypatch):
    """The words that a program was started with; the cluster is not asked."""
    started = []
    for name in ("kubectl", "helm"):
        monkeypatch.setattr(commands.programs, name, lambda name=name: Path("/bin") / name)
    monkeypatch.setattr(commands, "_become", lambda one, words: started.append((one.name, words)))
    return started


@pytest.mark.parametrize("program", ["kubectl", "helm"])
@pytest.mark.parametrize(
    "words",
    [["-n", "demo", "get", "pods"], ["--help"], ["get", "-A", "pods", "--", "-x"], ["up"], []],
    ids=["leading option", "help", "dashes", "a word of ours", "nothing"],
)
def test_a_program_gets_all_words_after_its_name_as_they_are(became, program, words):
    assert commands.main([program, *words]) == 0
    assert became == [(program, words)]


@pytest.mark.parametrize(
    "words", [[], ["-n", "demo"], ["up", "-n"], ["status", "kubectl"]], ids=str
)
def test_other_words_that_are_not_known_are_usage_errors(became, words):
    with pytest.raises(SystemExit) as end:
        commands.main(words)
    assert end.value.code == 2
    assert became == []


def test_images_are_named_after_load(monkeypatch, became):
    loaded = []
    monkeypatch.setattr(commands, "choose", lambda: "cluster")
    monkeypatch.setattr(commands.images, "load", lambda one, names: loaded.append(names) or [])

    assert commands.main(["load", "a:1", "b:2"]) == 0
    assert loaded == [["a:1", "b:2"]]
