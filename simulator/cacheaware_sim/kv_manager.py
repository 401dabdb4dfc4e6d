"""What a request holds of the pool, and the names under which its blocks are found again."""

from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.kv_pool import KvPool
from cacheaware_sim.request import Request

SERIAL_BITS = 24


class KvManager:
    """Finds, names and gives back the blocks of requests (vLLM's KVCacheManager)."""

    __slots__ = ("_most_blocks", "_reserve", "block_size", "pool", "prefix_caching")

    def __init__(self, config: EngineConfig, pool: KvPool) -> None:
        self.pool = pool
        self.block_size = config.block_size
        self.prefix_caching = config.prefix_caching
        self._reserve = config.reserve_full_prompt
        self._most_blocks = self.blocks(config.max_model_len)

    def blocks(self, tokens: int) -> int:
        """Blocks that so many tokens fill or begin."""
        return -(-tokens // self.block_size)

    # Admission

    def hopeless(self, request: Request) -> bool:
        """Whether it can't fit whatever the prefix cache holds: spares most of the searching."""
        free = self.pool.free
        if self._reserve and request.own_names:
            # Nobody else uses its blocks, so those it finds take as much space as new ones.
            return self.blocks(request.target) > free
        return not free

    def find(self, request: Request) -> int:
        """Blocks of the request in the prefix cache; its last token is always computed."""
        if request.block_names is None or not self.prefix_caching:
            return 0
        return self.pool.find(request.block_names, (request.target - 1) // self.block_size)

    def fits(self, request: Request, found: int, chunk: int) -> bool:
        """Whether it can begin with a chunk after the blocks that were found."""
        tokens = request.target if self._reserve else found * self.block_size + chunk
        blocks = self.blocks(tokens) - found
        if found and request.block_names is not None:
            blocks += self.pool.sleeping(request.block_names, found)
        return blocks <= self.pool.free

    def only_gets_harder(self, request: Request) -> bool:
        """Whether one that does not fit will not while blocks are only taken.

        A prefix that is evicted meanwhile takes less space to share: without the reservation of
        the whole prompt that may let the first chunk in.
        """
        return request.block_names is None or not self.prefix_caching or self._reserve

    def share(self, request: Request, found: int) -> None:
        """Let a request use the blocks that were found for it."""
        request.held = found
        if found and request.block_names is not None:
            request.named = list(request.block_names[:found])
            for name in request.named:
                self.pool.share(name)

    # Names

    def name_computed(self, request: Request, start: int, end: int) -> None:
        """Make the blocks that were filled between two positions findable."""
        names = request.block_names
        if names is None or not self.prefix_caching:
            return
        size = self.block_size
        request.named.extend(self.pool.name(names[start // size : end // size]))

    def name_own(self, request: Request) -> None:
        """Let a preempted request find its own blocks again, as long as nobody takes them."""
        if request.block_names is None and self.prefix_caching:
            start = -(request.serial << SERIAL_BITS)
            request.block_names = range(start, start + self._most_blocks)
            request.own_names = True
            self.name_computed(request, 0, request.computed)

    def names_decoded(self, request: Request) -> bool:
        """Whether the next block that a decode fills is to be named when it is full.

        Names of its own nobody else looks for: those wait until it gives its blocks back.
        """
        names = request.block_names
        if names is None or not self.prefix_caching:
            return False
        if request.own_names:
            return request.target % self.block_size == 0
        return self.blocks(request.target) <= len(names)

    def name_decoded(self, request: Request, end: int) -> bool:
        """Name the block that a decode has filled up to `end`; whether it names the next one."""
        self.name_computed(request, end - self.block_size, end)
        names = request.block_names
        return names is not None and not request.own_names and end < self.block_size * len(names)

    def name_late(self, request: Request) -> None:
        """Name the blocks that a decode has filled under names of its own, before they are free."""
        if request.own_names:
            self.name_computed(request, request.target, (request.held - 1) * self.block_size)

    def give_back(self, request: Request) -> None:
        """Free what a request holds; its full blocks can still be found where they have names."""
        self.pool.give_back(request.named, request.held - len(request.named))
        request.named = []
        request.held = 0
        request.computed = 0
