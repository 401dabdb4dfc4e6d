"""The decoding requests of an engine, all advanced by one counter."""

from cacheaware_sim.request import Phase, Request


class DecodeBatch:
    """Requests that get one token in every iteration.

    Nothing is done per request and iteration: how far a request has come is the difference of two
    counters, when it ends and when it needs a block is known when it joins. So an iteration costs
    the same for 2 requests and for 200.
    """

    __slots__ = ("_ends", "_growing", "block_size", "contexts", "size", "steps")

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.steps = 0
        """Iterations with at least one decode so far."""
        self.size = 0
        self.contexts = 0
        """Tokens in the cache of all decoding requests together."""
        self._ends: dict[int, list[Request]] = {}
        self._growing: list[dict[int, Request]] = [{} for _ in range(block_size)]

    def join(self, request: Request) -> None:
        """Take in a request whose prompt (`target` tokens) is done."""
        steps = self.steps
        request.phase = Phase.DECODE
        request.joined_at_step = steps
        request.ends_at_step = steps + request.output_tokens - request.generated
        self._ends.setdefault(request.ends_at_step, []).append(request)
        self._growing[(steps - request.target) % self.block_size][request.serial] = request
        self.size += 1
        self.contexts += request.target

    def leave(self, request: Request) -> None:
        """Let a request go, and write down how far it has come."""
        joined, target = request.joined_at_step, request.target
        done = self.steps - joined
        if (ending := self._ends.get(request.ends_at_step)) is not None:
            ending.remove(request)
        del self._growing[(joined - target) % self.block_size][request.serial]
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

    def advance(self) -> list[Request]:
        """One token for everyone; the requests that are at their end now."""
        self.steps += 1
        self.contexts += self.size
        return self._ends.pop(self.steps, None) or []

    def growing(self) -> dict[int, Request]:
        """Requests whose blocks are all full, oldest first: their next token needs a new one."""
        return self._growing[self.steps % self.block_size]
