"""What commands print: numbers as people read them, tables that break no name."""

import re

import pytest

from cacheaware.cli import output
from cacheaware.cli.output import cell, print_table, text_width


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "-"),
        (8192, "8,192"),
        (8192.0, "8,192"),
        (2308.508806262231, "2,309"),
        (0.123456, "0.1235"),
        (float("nan"), "nan"),
        (True, "True"),
        ("mock", "mock"),
    ],
)
def test_a_value_is_shown_as_a_person_reads_it(value, said):
    assert cell(value) == said


@pytest.fixture
def small_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(output.Console, "is_terminal", True)


def test_a_small_terminal_breaks_text_and_no_name(small_terminal, capsys):
    name, text = "llama-7dcb8d77b9-5wb8l", "KV holds some tokens " * 5
    print_table(("POD", "WHY"), [(name, text)])
    lines = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out).splitlines()
    assert name in lines[1]
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60


def test_a_table_without_text_keeps_its_lines(small_terminal, capsys):
    print_table(("POD", "NODE", "A"), [("p" * 30, "n" * 30, 1), ("p", "n", 2)])
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_table_of_nothing_has_its_heads(capsys):
    print_table(("POD", "WHY"), [])
    assert capsys.readouterr().out.split() == ["POD", "WHY"]


@pytest.mark.parametrize(("columns", "told"), [("60", 60), ("80", 80), ("200", 100)])
def test_sentences_take_the_terminal_and_no_more_than_a_hundred_columns(monkeypatch, columns, told):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(output.Console, "is_terminal", True)
    assert text_width() == told


def test_sentences_in_a_pipe_take_a_hundred_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(output.Console, "is_terminal", False)
    assert text_width() == 100
