"""The decoding requests of an engine, all advanced by one counter."""

from heapq import heappop, heappush

from cacheaware_sim.request import Phase, Request


class DecodeBatch:
    """Requests that get one token in every iteration.

    Nothing is done per request and iteration: how far a request has come is the difference of two
    counters, when it ends and when it needs a block is known when it joins. So an iteration costs
    the same for 2 requests and for 200, and a thousand iterations the same as one.
    """

    __slots__ = (
        "_end_steps",
        "_ends",
        "_growing",
        "_naming",
        "block_size",
        "contexts",
        "grown_to",
        "naming",
        "size",
        "steps",
    )

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.steps = 0
        """Iterations with at least one decode so far."""
        self.size = 0
        self.contexts = 0
        """Tokens in the cache of all decoding requests together."""
        self.grown_to: float = 0
        """Of the requests whose blocks are full those up to this serial have got the next one."""
        self.naming = 0
        """Requests that name a block when they have filled it."""
        self._ends: dict[int, list[Request]] = {}
        self._end_steps: list[int] = []
        self._growing: list[dict[int, Request]] = [{} for _ in range(block_size)]
        self._naming: list[dict[int, Request]] = [{} for _ in range(block_size)]

    def join(self, request: Request, *, names: bool = False) -> None:
        """Take in a request whose prompt (`target` tokens) is done.

        Args:
            request: The newest of the batch.
            names: Whether it names the next block that it fills.
        """
        steps = self.steps
        request.phase = Phase.DECODE
        request.batch = self
        request.joined_at_step = steps
        ends_at = request.ends_at_step = steps + request.output_tokens - request.generated
        ending = self._ends.get(ends_at)
        if ending is None:
            self._ends[ends_at] = [request]
            heappush(self._end_steps, ends_at)
        else:
            ending.append(request)
        bucket = (steps - request.target) % self.block_size
        self._growing[bucket][request.serial] = request
        if names:
            self._naming[bucket][request.serial] = request
            self.naming += 1
        self.size += 1
        self.contexts += request.target

    def leave(self, request: Request) -> None:
        """Let a request go, and write down how far it has come."""
        request.held = self.blocks(request)
        request.batch = None
        joined, target = request.joined_at_step, request.target
        done = self.steps - joined
        if (ending := self._ends.get(request.ends_at_step)) is not None:
            ending.remove(request)
            if not ending:
                del self._ends[request.ends_at_step]
        del self._growing[(joined - target) % self.block_size][request.serial]
        self.stop_naming(request)
        self.size -= 1
        self.contexts -= target + done
        request.generated += done
        request.computed = target + done

    def generated(self, request: Request) -> int:
        """Output tokens of a decoding request."""
        return request.generated + self.steps - request.joined_at_step

    def computed(self, request: Request) -> int:
        """Tokens of a decoding request in the cache."""
        return request.target + self.steps - request.joined_at_step

    def blocks(self, request: Request) -> int:
        """Blocks that a decoding request holds, the one for its next token among them."""
        full, rest = divmod(self.computed(request), self.block_size)
        return full + (rest > 0 or request.serial <= self.grown_to)

    def advance(self, iterations: int = 1) -> list[Request]:
        """Tokens for everyone; the requests that are at their end now."""
        self.steps += iterations
        self.contexts += self.size * iterations
        return self._ends.pop(self.steps, None) or []

    # Blocks

    def growing(self) -> dict[int, Request]:
        """Requests whose blocks are all full, oldest first: their next token needs a new one."""
        return self._growing[self.steps % self.block_size]

    def naming_now(self) -> list[Request]:
        """Those of the growing ones that name the block they have filled."""
        return list(self._naming[self.steps % self.block_size].values()) if self.naming else []

    def stop_naming(self, request: Request) -> None:
        """Let a request name no more blocks."""
        if self.naming:
            bucket = self._naming[(request.joined_at_step - request.target) % self.block_size]
            if bucket.pop(request.serial, None) is not None:
                self.naming -= 1

    def growth(self, iterations: int) -> int:
        """Blocks that the batch, as it is, needs for the iterations after the one that runs."""
        cycles, rest = divmod(iterations, self.block_size)
        first = (self.steps + 1) % self.block_size
        buckets = self._growing[first : first + rest]
        if first + rest > self.block_size:
            buckets += self._growing[: first + rest - self.block_size]
        return cycles * self.size + sum(map(len, buckets))

    # How long nothing happens

    def uneventful(self, free: int) -> int:
        """Iterations, with the one that runs, until one ends or `free` blocks do not suffice.

        Or until one names a block. The last of them ends as an ordinary one does.
        """
        ends = self._end_steps
        while ends[0] not in self._ends:
            heappop(ends)
        iterations = ends[0] - self.steps
        size, block_size = self.size, self.block_size
        if self.naming:
            iterations = min(iterations, self._until_naming())
        if -(-(iterations - 1) // block_size) * size <= free:
            return iterations
        cycles, free = divmod(free, size)
        enough = cycles * block_size + 1
        while enough < iterations:
            free -= len(self._growing[(self.steps + enough) % block_size])
            if free < 0:
                break
            enough += 1
        return min(enough, iterations)

    def _until_naming(self) -> int:
        steps, size = self.steps, self.block_size
        return next(n for n in range(1, size + 1) if self._naming[(steps + n) % size])
