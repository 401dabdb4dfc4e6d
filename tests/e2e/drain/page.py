"""`python -m tests.e2e.drain.page`: write the tables of the last runs into docs/drain.md."""

import re
import sys
from pathlib import Path

from tests.e2e.drain.outcome import FILE, Outcome, kept, markdown
from tests.e2e.drain.real_engines import REAL_FILE

PAGE = Path(__file__).parents[3] / "docs" / "drain.md"
TABLES = {"table": FILE, "vllm": REAL_FILE}


def with_table(page: str, outcomes: list[Outcome], name: str = "table") -> str:
    """The page with one of its tables anew."""
    begin, end = (re.escape(f"<!-- {name}: {word} -->") for word in ("begin", "end"))
    table = re.compile(rf"({begin}\n).*({end})", re.DOTALL)
    return table.sub(lambda found: f"{found[1]}\n{markdown(outcomes)}\n{found[2]}", page)


def main() -> int:
    """Write the tables of which there are runs; 1 where nothing was run."""
    found = {name: kept(file) for name, file in TABLES.items()}
    if not any(found.values()):
        print("no runs are kept: `make e2e-drain` and `make e2e-vllm` make them", file=sys.stderr)
        return 1
    for name, outcomes in found.items():
        if outcomes:
            PAGE.write_text(with_table(PAGE.read_text(), outcomes, name))
            print(f"wrote {len(outcomes)} outcomes into the table '{name}' of {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
