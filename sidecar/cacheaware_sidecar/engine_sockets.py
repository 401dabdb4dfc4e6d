"""What still lies in the engine's connections: bytes that were not sent, requests not yet read.

The containers of a pod share their network, so the kernel's tables of TCP sockets show the engine's
too. Source: proc(5), /proc/net/tcp; the states are those of the kernel's tcp_states.h.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ESTABLISHED, TIME_WAIT, LISTEN = "01", "06", "0A"


def unsent_bytes(tables: Iterable[str], ports: Collection[int]) -> int:
    """Bytes and connections that the engine still has to deal with.

    Args:
        tables: texts of /proc/net/tcp and /proc/net/tcp6.
        ports: where the engine listens.

    Returns:
        Unsent bytes of its connections, unread ones of those that are open, and connections that
        it has not accepted.
    """
    return sum(_left(line.split(), ports) for table in tables for line in table.split("\n")[1:])


def _left(fields: list[str], ports: Collection[int]) -> int:
    if len(fields) < 5 or int(fields[1].rpartition(":")[2], 16) not in ports:
        return 0
    state = fields[3]
    unsent, unread = (int(part, 16) for part in fields[4].split(":"))
    if state == LISTEN:
        return unread
    if state == TIME_WAIT:
        return 0
    return unsent + (unread if state == ESTABLISHED else 0)


def read_unsent(ports: Collection[int], tables: Iterable[Path] = TABLES) -> int | None:
    """What is left in the connections now; None where the kernel's tables can't be read."""
    texts = []
    for table in tables:
        with suppress(FileNotFoundError):  # no IPv6
            try:
                texts.append(table.read_text(encoding="ascii"))
            except (PermissionError, ValueError):
                return None
    return unsent_bytes(texts, ports) if texts else None
