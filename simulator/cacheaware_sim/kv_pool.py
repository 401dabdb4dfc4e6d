"""A paged KV cache by its counts: blocks in use, blocks that can be found again, blank blocks.

Blocks have no identity here, only those whose content is known have a name (the chained hash of
their tokens). So taking or giving back a hundred blocks is one subtraction, and an hour of traffic
on forty engines fits into seconds.
"""

from collections import OrderedDict
from collections.abc import Sequence


class KvPool:
    """Blocks of one engine; a block is in use, cached (findable, evictable) or blank.

    vLLM's null block is never handed out: of N blocks N - 1 are usable, and usage is
    in use / (N - 1). A block that nobody uses is free even while it can be found again, so a warm
    and idle pool shows 0. Blank blocks are handed out first, then the least recently used cached
    one is evicted (vLLM has both in one queue: slightly earlier evictions).
    """

    __slots__ = ("_cached", "_pinned", "evictions", "in_use", "usable")

    def __init__(self, num_blocks: int) -> None:
        self.usable = num_blocks - 1
        self.in_use = 0
        self.evictions = 0
        self._pinned: dict[int, int] = {}
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that can be taken: blank and cached ones."""
        return self.usable - self.in_use

    @property
    def cached(self) -> int:
        """Free blocks that can still be found."""
        return len(self._cached)

    @property
    def usage(self) -> float:
        """Share of the usable blocks that is in use, 0..1."""
        return self.in_use / self.usable

    def take(self, blocks: int) -> bool:
        """Take that many blocks, or none if there are not enough."""
        in_use = self.in_use + blocks
        if in_use > self.usable:
            return False
        self.in_use = in_use
        evict = in_use + len(self._cached) - self.usable
        if evict > 0:
            self.evictions += evict
            for _ in range(evict):
                self._cached.popitem(last=False)
        return True

    def find(self, names: Sequence[int], limit: int) -> int:
        """How many of the first `limit` names are here, up to the first that is not."""
        pinned, cached = self._pinned, self._cached
        for index in range(min(limit, len(names))):
            name = names[index]
            if name not in pinned and name not in cached:
                return index
        return min(limit, len(names))

    def sleeping(self, names: Sequence[int], count: int) -> int:
        """How many of the first `count` names, all here, nobody uses: sharing them takes space."""
        cached = self._cached
        return sum(names[index] in cached for index in range(count)) if cached else 0

    def share(self, name: int) -> None:
        """Use a block that was found."""
        users = self._pinned.get(name)
        if users is None:
            del self._cached[name]
            self._pinned[name] = 1
            self.in_use += 1
        else:
            self._pinned[name] = users + 1

    def name(self, names: Sequence[int]) -> Sequence[int]:
        """Make blocks in use findable; those of them of whose name none was here already."""
        pinned, cached = self._pinned, self._cached
        if not (pinned.keys().isdisjoint(names) and cached.keys().isdisjoint(names)):
            names = [name for name in names if name not in pinned and name not in cached]
        pinned.update(dict.fromkeys(names, 1))
        return names

    def give_back(self, names: Sequence[int], nameless: int) -> None:
        """Give back blocks: named ones stay findable, a prompt's last ones are evicted first."""
        pinned, cached = self._pinned, self._cached
        released = nameless
        for name in reversed(names):
            users = pinned.pop(name)
            if users == 1:
                cached[name] = None
                released += 1
            else:
                pinned[name] = users - 1
        self.in_use -= released
