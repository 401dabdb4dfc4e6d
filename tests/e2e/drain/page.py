"""`python -m tests.e2e.drain.page`: write the table of the last runs into docs/drain.md."""

import re
import sys
from pathlib import Path

from tests.e2e.drain.outcome import FILE, Outcome, kept, markdown

PAGE = Path(__file__).parents[3] / "docs" / "drain.md"
TABLE = re.compile(r"(<!-- table: begin -->\n).*(<!-- table: end -->)", re.DOTALL)


def with_table(page: str, outcomes: list[Outcome]) -> str:
    """The page with its table anew."""
    return TABLE.sub(lambda found: f"{found[1]}\n{markdown(outcomes)}\n{found[2]}", page)


def main() -> int:
    """Write the page; 1 where nothing was run."""
    outcomes = kept()
    if not outcomes:
        print(f"{FILE} holds no runs: `make e2e-drain` makes them", file=sys.stderr)
        return 1
    PAGE.write_text(with_table(PAGE.read_text(), outcomes))
    print(f"wrote the table of {len(outcomes)} outcomes into {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
