"""What still lies in the engine's connections: bytes that were not sent, requests not yet read.

The containers of a pod share their network, so the kernel's tables of TCP sockets show the engine's
too. Source: proc(5), /proc/net/tcp; the states are those of the kernel's tcp_states.h.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


@dataclass(frozen=True, slots=True)
class Rest:
    """What the engine, or the kernel for it, still has to deal with."""

    unsent: int = 0
    """Bytes of answers that the clients have not acknowledged."""
    unread: int = 0
    """Bytes of requests that the engine has not read, and connections not accepted."""
    abandoned: int = 0
    """Unread bytes of clients that have gone: nobody waits for an answer."""

    def __add__(self, other: "Rest") -> "Rest":
        return Rest(
            self.unsent + other.unsent,
            self.unread + other.unread,
            self.abandoned + other.abandoned,
        )

    def __bool__(self) -> bool:
        """Whether a client still waits for some of it."""
        return bool(self.unsent or self.unread)

    @property
    def is_ignored(self) -> bool:
        """Whether something lies there for the engine to read: it reads at once, if at all."""
        return bool(self.unread or self.abandoned)


NOTHING_LEFT = Rest()


def rest_of(tables: Iterable[str], ports: Collection[int]) -> Rest:
    """Reads the kernel's tables.

    Args:
        tables: texts of /proc/net/tcp and /proc/net/tcp6.
        ports: where the engine listens.
    """
    lines = (line for table in tables for line in table.split("\n")[1:])
    return sum((_of_socket(line.split(), ports) for line in lines), NOTHING_LEFT)


def _of_socket(fields: list[str], ports: Collection[int]) -> Rest:
    if len(fields) < 5 or int(fields[1].rpartition(":")[2], 16) not in ports:
        return NOTHING_LEFT
    unsent, unread = (int(part, 16) for part in fields[4].split(":"))
    match fields[3]:
        case "06":  # TIME_WAIT
            return NOTHING_LEFT
        case "0A":  # LISTEN: the queue of those that were not accepted
            return Rest(unread=unread)
        case "01":  # ESTABLISHED
            return Rest(unsent, unread)
        case _:
            return Rest(unsent, abandoned=unread)


def read_rest(ports: Collection[int], tables: Iterable[Path] = TABLES) -> Rest | None:
    """What is left in the connections now; None where the kernel's tables can't be read."""
    texts = []
    for table in tables:
        try:
            texts.append(table.read_text(encoding="ascii"))
        except FileNotFoundError:
            continue  # no IPv6
        except (OSError, ValueError):
            return None
    return rest_of(texts, ports) if texts else None
