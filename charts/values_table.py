"""Writes the table of values in cacheaware/README.md from the `# --` comments of values.yaml.

Run `python charts/values_table.py`; with `--check` it writes nothing and exits with 1 when the
table is old. A key without a comment is an error, so that no value stays without a word.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

CHART = Path(__file__).parent / "cacheaware"
BEGIN = "<!-- values: made by charts/values_table.py -->"
END = "<!-- end of values -->"


def comment_above(lines: list[str], line: int) -> str | None:
    """The text of the comment block that ends above a line, if it begins with `# --`."""
    block: list[str] = []
    while line and lines[line - 1].strip().startswith("#"):
        line -= 1
        block.insert(0, lines[line].strip().removeprefix("#").strip())
    text = " ".join(block)
    return text.removeprefix("--").strip() if text.startswith("--") else None


def rows(lines: list[str], node: yaml.MappingNode, prefix: str = "") -> Iterator[tuple[str, ...]]:
    """(key, default, description) of each documented key, depth first.

    Raises:
        ValueError: a value has no `# --` comment.
    """
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        text = comment_above(lines, key.start_mark.line)
        if text is not None:
            default = yaml.safe_load(yaml.serialize(value))
            yield path, json.dumps(default, ensure_ascii=False), text
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from rows(lines, value, f"{path}.")
        else:
            raise ValueError(f"values.yaml: {path} has no `# --` comment")


def table(values: str) -> str:
    """The table in Markdown for the text of a values.yaml.

    Raises:
        ValueError: it is not a mapping, or a value has no `# --` comment.
    """
    node = yaml.compose(values, Loader=yaml.SafeLoader)
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("values.yaml is not a mapping")  # noqa: TRY004  one kind of error for a bad file
    head = ["| value | default | what it does |", "| --- | --- | --- |"]
    body = [
        f"| `{path}` | `{default}` | {text.replace('|', chr(92) + '|')} |"
        for path, default, text in rows(values.splitlines(), node)
    ]
    return "\n".join(head + body)


def with_table(readme: str, values: str) -> str:
    """The README with a fresh table between its two marks.

    Raises:
        ValueError: a mark is missing.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md lacks the marks {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{table(values)}\n{END}{after}"


def main(chart: Path = CHART, *, check: bool = False) -> int:
    """Write the README, or only compare; the exit code."""
    readme = chart / "README.md"
    old = readme.read_text()
    new = with_table(old, (chart / "values.yaml").read_text())
    if check and new != old:
        print(f"{readme} is old: run python charts/values_table.py", file=sys.stderr)  # noqa: T201  a command
        return 1
    if not check:
        readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
