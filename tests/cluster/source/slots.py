"""Which slot belongs to which checkout, and one command at a time.

Two checkouts on one machine get two clusters. A slot whose checkout is gone is free again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.locks import locked
from tests.cluster.shell import say
from tests.cluster.source.plan import SLOTS, STATE_ROOT, Plan

OWNER = "owner"


@contextmanager
def one_at_a_time(root: Path = STATE_ROOT) -> Iterator[None]:
    """Holds the machine's lock; waits, with a word, while another command holds it."""
    root.mkdir(parents=True, exist_ok=True, mode=0o755)
    with locked(root / "lock"):
        yield


def owner(plan: Plan) -> Path | None:
    """The checkout that made the cluster of a slot; None where there is none."""
    try:
        return Path((plan.state / OWNER).read_text())
    except FileNotFoundError:
        return None


def held(checkout: Path, root: Path = STATE_ROOT) -> Plan | None:
    """The checkout's slot, if it has one."""
    return next((plan for plan in plans(root) if owner(plan) == checkout), None)


def choose(checkout: Path, root: Path = STATE_ROOT) -> Plan:
    """The checkout's slot, else the first that is free or whose checkout is gone.

    Raises:
        ClusterError: all are held by checkouts that exist; they are named.
    """
    if mine := held(checkout, root):
        return mine
    for plan in plans(root):
        other = owner(plan)
        if other is None or not other.is_dir():
            return plan
        say(f"the checkout {other} has a cluster too: it takes its share of the machine")
    raise ClusterError(
        f"all {SLOTS} slots are taken; `make cluster-down` in a checkout named above frees one"
    )


def take(plan: Plan, checkout: Path) -> None:
    """Writes the owner down, first of all, so that a crash leaves a slot that is known."""
    plan.state.mkdir(parents=True, exist_ok=True, mode=0o711)
    (plan.state / OWNER).write_text(str(checkout))


def plans(root: Path = STATE_ROOT) -> list[Plan]:
    """Every slot's plan."""
    return [Plan(slot, root) for slot in range(SLOTS)]
