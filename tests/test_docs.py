"""The docs say what is true: links lead somewhere, YAML is valid, commands and files exist."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from cacheaware.api.models import CacheAwareScaler
from cacheaware.cli import command_line

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("charts/**/*.md")],
    key=str,
)
FENCE = re.compile(r"^([ >]*)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
INLINE = re.compile(r"`((?:kubectl )?cacheaware [^`\n]+|make [a-z0-9-]+)`")
SHELL_LANGUAGES = {"sh", "bash", "shell", "console"}
OWN_PROGRAMS = {"cacheaware", "kubectl-cacheaware"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


pages = pytest.mark.parametrize("page", PAGES, ids=name)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def blocks(markdown: str) -> Iterator[Block]:
    for indent, language, text in FENCE.findall(markdown):
        lines = [line.removeprefix(indent) for line in text.splitlines()]
        yield Block(language, "\n".join(lines) + "\n")


def without_code(markdown: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", markdown))


def anchors(markdown: str) -> set[str]:
    """The anchors that the forge makes of a page's headings."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", markdown), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a shell block, word by word; comments and line continuations resolved."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        for index, word in enumerate(words):
            if word in {"|", "&&", ";"}:
                yield from commands(shlex.join(words[index + 1 :]))
                words = words[:index]
                break
        if words:
            yield words


def mentioned(markdown: str) -> Iterator[list[str]]:
    """All commands of a page: in shell blocks and in its sentences."""
    for block in blocks(markdown):
        if block.language in SHELL_LANGUAGES:
            yield from commands(block.text)
    for inline in INLINE.findall(FENCE.sub("", markdown)):
        yield from commands(inline.replace("...", "").split("|")[0])


def broken_links(page: Path) -> list[str]:
    """Relative links of a page that lead nowhere."""
    broken = []
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (
            anchor and path.suffix == ".md" and anchor not in anchors(path.read_text())
        ):
            broken.append(link)
    return broken


def why_unknown(words: list[str]) -> str | None:
    """What is wrong with a call of our own command line; None where it could be run."""
    command = command_line()
    rest = list(words)
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"{' '.join(words)}: there is no command {rest[0]!r}"
        command = command.commands[rest.pop(0)]
    options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
    for word in rest:
        option = word.split("=")[0]
        if re.match(r"--?[a-z]", option) and option not in options:
            return f"{' '.join(words)}: there is no option {option}"
    return None


def problem(words: list[str]) -> str | None:
    """What is wrong with a command in the docs; programs of others are taken as they are."""
    if words[:2] == ["kubectl", "cacheaware"]:
        words = words[1:]
    if words[0] in OWN_PROGRAMS:
        return why_unknown(words[1:]) if len(words) > 1 else None
    if words[0] == "make":
        targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        missing = [w for w in words[1:] if "=" not in w and w not in targets]
        return f"the Makefile has no target {missing[0]}" if missing else None
    return missing_file(words) or unknown_value(words)


def missing_file(words: list[str]) -> str | None:
    """A file of this repository that a command names and that is not there."""
    ours = ("manifests/", "charts/", "docs/", "tests/", "operator/", "sidecar/", "simulator/")
    for word in words:
        if word.startswith(ours) and not (ROOT / word).exists():
            return f"{' '.join(words)}: there is no {word}"
    return None


def unknown_value(words: list[str]) -> str | None:
    """A value of the chart that `helm --set` names and that does not exist."""
    if words[0] != "helm":
        return None
    for before, word in pairwise(words):
        values = yaml.safe_load((ROOT / "charts/cacheaware/values.yaml").read_text())
        if before != "--set":
            continue
        for key in word.split("=")[0].split("."):
            if not isinstance(values, dict) or key not in values:
                return f"the chart has no value {word.split('=')[0]}"
            values = values[key]
    return None


def test_there_are_pages():
    assert {"README.md", "docs/README.md", "charts/cacheaware/README.md"} <= set(map(name, PAGES))


@pages
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


@pages
def test_yaml_blocks_parse_and_scalers_are_valid(page):
    for block in blocks(page.read_text()):
        if block.language not in {"yaml", "yml"}:
            continue
        for document in yaml.safe_load_all(block.text):
            if isinstance(document, dict) and document.get("kind") == "CacheAwareScaler":
                CacheAwareScaler.model_validate(document)


@pages
def test_commands_exist(page):
    assert [p for words in mentioned(page.read_text()) if (p := problem(words))] == []


@pages
def test_fences_are_closed(page):
    assert len(re.findall(r"^[ >]*```", page.read_text(), re.MULTILINE)) % 2 == 0


def test_every_page_of_docs_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    listed = {(ROOT / "docs" / link).resolve() for link in LINK.findall(index)}
    assert set((ROOT / "docs").glob("*.md")) - listed == {ROOT / "docs" / "README.md"}


def test_every_decision_is_in_its_index():
    folder = ROOT / "docs" / "decisions"
    listed = set(LINK.findall((folder / "README.md").read_text()))
    assert {p.name for p in folder.glob("0*.md")} == listed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cacheaware", "modle", "pages"], "no command 'modle'"),
        (["cacheaware", "model", "pages", "--tensor"], "no option --tensor"),
        (["kubectl", "cacheaware", "explane", "x"], "no command 'explane'"),
        (["make", "tset"], "no target tset"),
        (["kubectl", "apply", "-f", "manifests/kind/nothing.yaml"], "there is no manifests"),
        (["helm", "install", "--set", "image.repo=x"], "no value image.repo"),
    ],
    ids=["command", "option", "plugin", "target", "file", "value"],
)
def test_the_check_would_notice_what_is_not_there(words, says):
    assert says in (problem(words) or "")


@pytest.mark.parametrize(
    "words",
    [
        ["cacheaware", "model", "pages", "config.json", "-o", "json"],
        ["kubectl", "get", "cas"],
        ["make", "test"],
        ["helm", "install", "--set", "image.tag=x"],
        ["cacheaware"],
    ],
    ids=" ".join,
)
def test_the_check_lets_through_what_is_there(words):
    assert problem(words) is None


def test_the_check_reads_commands_as_a_shell_does():
    text = "$ a b \\\n  c  # d\n\ncurl x | cacheaware scrape -\n"
    assert list(commands(text)) == [["a", "b", "c"], ["cacheaware", "scrape", "-"], ["curl", "x"]]


def test_the_check_finds_broken_links_and_anchors(tmp_path):
    (tmp_path / "other.md").write_text("# A head, with `code`\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#a-head-with-code) [b](other.md#none) [c](none.md) [d](https://x)\n"
    )
    assert broken_links(page) == ["other.md#none", "none.md"]
