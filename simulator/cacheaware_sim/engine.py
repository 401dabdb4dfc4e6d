"""One LLM engine as vLLM's scheduler runs it, without a clock: the driver says what time it is.

Each iteration takes all decoding requests, then goes on with the prompt that was cut, then admits
waiting ones first come first served, within a token budget. A decoding request that finds no free
block takes those of the newest request, which is computed anew later. Only requests to which
something happens are touched: the others advance because a counter does.
"""

import math
from collections import deque
from collections.abc import Collection

from cacheaware_sim.decode_batch import DecodeBatch
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.first_shapes import Chunk, FirstShapes
from cacheaware_sim.kv_manager import KvManager
from cacheaware_sim.kv_pool import KvPool
from cacheaware_sim.request import Phase, Request
from cacheaware_sim.stats import EngineSnapshot, Stats
from cacheaware_sim.step_result import StepResult

__all__ = ["Engine", "NotAdmittedError", "StepResult"]


class NotAdmittedError(Exception):
    """The engine takes no requests: it is loading, or it is ending."""


class Engine:
    """A continuous-batching engine with a paged KV cache.

    A driver calls `submit` when a request arrives and `step` when an iteration ends (or when the
    engine was idle): `step` completes the iteration that ran, starts the next, and says how long
    it will take. Between two calls the gauges of `snapshot` stand still, as vLLM's do.

    Args:
        config: Speed, pool and scheduler.
        created_at: When its process started; it answers after the cold start.
    """

    def __init__(self, config: EngineConfig, created_at: float = 0.0) -> None:
        self.config = config
        self.ready_at = created_at + config.cold_start_s
        self.pool = KvPool(config.num_blocks)
        self.stats = Stats(config.max_model_len)
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Request] = {}
        self._cut: Request | None = None
        self._prefilled: list[Request] = []
        self._chunks: list[Chunk] = []
        self._shapes = FirstShapes(config.stalls_s)
        self._stall_s = 0.0
        self._serial = 0
        self._executing = False
        self.abort_at = math.inf
        """When a shutdown cuts what still runs; infinity if never."""
        self._terminated = False
        self._decodes = DecodeBatch(config.block_size)
        self._kv = KvManager(config, self.pool)
        self._blocked: Request | None = None
        self._last_end = created_at
        self._gauges = (0, 0, 0)

    # What a driver calls

    def submit(self, request: Request, now: float) -> None:
        """Queue a request.

        Raises:
            NotAdmittedError: The engine is loading or ending.
            ValueError: The request is empty or longer than `max_model_len`.
        """
        if now < self.ready_at:
            raise NotAdmittedError("the engine is loading")
        if self._terminated and not self.config.termination.admits:
            raise NotAdmittedError("the engine is shutting down")
        request.check(self.config.max_model_len)
        request.arrived_at = now
        request.phase = Phase.WAITING
        self.waiting.append(request)

    def step(self, now: float, result: StepResult | None = None) -> StepResult:
        """Complete the iteration that has run until `now`, and start the next one.

        Args:
            now: Its end.
            result: One to add to; it then tells the duration of this iteration.
        """
        result = StepResult() if result is None else result
        if self._executing:
            self._complete(now, result)
        result.duration_s = None
        if now >= self.abort_at:
            result.aborted += self.abort_all(now)
        else:
            self._start(now, result)
        return result

    def abort(self, request: Request, now: float, outcome: str = "abort") -> bool:
        """Drop a request, whatever it is doing; False if it had ended already."""
        if request.phase is Phase.WAITING:
            self.waiting.remove(request)
        elif request.phase is Phase.PREFILL or request.phase is Phase.DECODE:
            self._drop_from_batch(request)
        else:
            return False
        self._end(request, now, outcome)
        self._blocked = None
        self._publish()
        return True

    def abort_all(self, now: float) -> list[Request]:
        """Drop everything; the requests that were cut."""
        cut = [*self.running.values(), *self.waiting]
        for request in cut:
            self.abort(request, now)
        return cut

    def terminate(self, now: float) -> list[Request]:
        """SIGTERM: act by the engine's habit; the requests that were cut at once."""
        self._terminated = True
        self.abort_at = now + self.config.termination.patience_s
        return self.abort_all(now) if now >= self.abort_at else []

    # What a driver reads

    @property
    def exited(self) -> bool:
        """Whether SIGTERM came and everything has ended."""
        return self._terminated and not self.running and not self.waiting

    def generated(self, request: Request) -> int:
        """Output tokens of a request so far."""
        if request.phase is Phase.DECODE:
            return self._decodes.generated(request)
        return request.generated

    def snapshot(self, histograms: Collection[str] | None = None) -> EngineSnapshot:
        """All numbers, of histograms only these; the gauges as the last iteration left them."""
        running, waiting, in_use = self._gauges
        return EngineSnapshot(
            running=running,
            waiting=waiting,
            usage=in_use / self.pool.usable,
            counters=self.stats.counters(),
            outcomes=dict(self.stats.outcomes),
            histograms=self.stats.histograms(histograms),
        )

    # Iterations that bring nothing but tokens

    def uneventful(self) -> int:
        """How many iterations, the one that runs included, a driver may treat as one.

        Of all but the last nothing is to be told but their number: nobody ends, comes in, computes
        a prompt, names a block or loses some, and each takes only the time of its decodes. To be
        asked after `step`: a request that is submitted or aborted changes it.
        """
        decodes = self._decodes
        if (
            not decodes.size
            or self._prefilled
            or self._cut is not None
            or self._stall_s
            or (self.waiting and self.waiting[0] is not self._blocked)
        ):
            return 1
        return decodes.uneventful(self.pool.free)

    def growth_s(self) -> float:
        """Seconds by which each iteration of the same decodes takes longer than the one before."""
        return self.config.cost.growth_s(self._decodes.size)

    def coast(self, iterations: int, first_s: float, growth_s: float, now: float) -> None:
        """Complete uneventful iterations at once, and start the next one.

        Args:
            iterations: How many, fewer than `uneventful`.
            first_s: Seconds of the first of them.
            growth_s: By how much each takes longer than the one before.
            now: When the last one ended.
        """
        decodes, stats = self._decodes, self.stats
        size = decodes.size
        stats.inter_token.observe_series(first_s, growth_s, iterations, size)
        stats.generation_tokens += size * iterations
        stats.iteration_tokens.observe(size, iterations)
        stats.iterations += iterations
        self.pool.take(decodes.growth(iterations))
        decodes.advance(iterations)
        self._last_end = now
        in_use = self.pool.in_use - len(decodes.growing())
        self._gauges = (len(self.running), len(self.waiting), in_use)

    # The end of an iteration

    def _complete(self, now: float, result: StepResult) -> None:
        stats = self.stats
        tokens = decodes = self._decodes.size
        self._decodes.grown_to = 0
        prompt_tokens = 0
        if decodes:
            stats.inter_token.observe(now - self._last_end, decodes)
            for request in self._decodes.advance():
                self._drop_from_batch(request)
                self._kv.name_computed(request, request.computed - 1, request.computed)
                self._finish(request, now, result)
        for request in self._prefilled:
            if request.phase is Phase.PREFILL:
                tokens += 1
                prompt_tokens += self._first_token(request, now, result)
        self._prefilled.clear()
        stats.generation_tokens += tokens
        stats.iteration_tokens.observe(tokens + prompt_tokens)
        stats.iterations += 1
        self._last_end = now
        self._executing = False
        self._publish()

    def _first_token(self, request: Request, now: float, result: StepResult) -> int:
        prompt_tokens = 0
        if request.first_token_at is None:
            request.first_token_at = now
            self.stats.first_token(request, now)
            prompt_tokens = request.prompt_tokens
        else:
            self.stats.inter_token.observe(now - request.last_token_at)
        result.first_tokens.append(request)
        request.generated += 1
        if request.generated == request.output_tokens:
            del self.running[request.serial]
            self._finish(request, now, result)
        else:
            self._decodes.join(request, names=self._kv.names_decoded(request))
        return prompt_tokens

    def _finish(self, request: Request, now: float, result: StepResult) -> None:
        self._end(request, now, "stop" if request.stops else "length")
        result.finished.append(request)

    def _end(self, request: Request, now: float, outcome: str) -> None:
        request.phase = Phase.FINISHED
        request.outcome = outcome
        request.finished_at = now
        self._kv.give_back(request)
        self.stats.finished(request, now)

    def _publish(self) -> None:
        self._gauges = (len(self.running), len(self.waiting), self.pool.in_use)

    def _drop_from_batch(self, request: Request) -> None:
        self.running.pop(request.serial, None)
        if request.phase is Phase.DECODE:
            self._decodes.leave(request)
            self._kv.name_late(request)
        elif request is self._cut:
            self._cut = None

    # The start of an iteration

    def _start(self, now: float, result: StepResult) -> None:
        preemptions = self.stats.preemptions
        if self._decodes.size:
            self._grow(result)
        budget = self.config.max_num_batched_tokens - self._decodes.size
        seconds = 0.0
        if self._cut is not None:
            used, seconds = self._continue_prompt(self._cut, budget, result)
            budget -= used
        self._blocked = None
        if self.waiting and self.stats.preemptions == preemptions:
            seconds += self._admit(budget, now)
        if self._decodes.size or self._prefilled or self._cut is not None:
            self._executing = True
            result.duration_s = seconds + self._base_s()

    def _base_s(self) -> float:
        """Seconds of the iteration without its prefill chunks."""
        decodes = self._decodes
        self._stall_s = 0.0
        if self._shapes.unmet:
            self._stall_s = self._shapes.stall_s(decodes.size, self._chunks)
            self._chunks.clear()
        return self.config.cost.decode_s(decodes.size, decodes.contexts) + self._stall_s

    def _grow(self, result: StepResult) -> None:
        """Give a block to each decode that begins a new one with its next token."""
        decodes = self._decodes
        growing = decodes.growing()
        if growing:
            if self.pool.take(len(growing)):
                for request in decodes.naming_now():
                    self._name_decoded(request)
            else:
                self._grow_one_by_one(list(growing.values()), result)
        decodes.grown_to = math.inf

    def _grow_one_by_one(self, growing: list[Request], result: StepResult) -> None:
        naming = self._decodes.naming_now()
        for request in growing:
            if request.phase is Phase.DECODE and self._take(request, 1, result):
                self._decodes.grown_to = request.serial
                if request in naming:
                    self._name_decoded(request)

    def _name_decoded(self, request: Request) -> None:
        if not self._kv.name_decoded(request, self._decodes.computed(request)):
            self._decodes.stop_naming(request)

    def _take(self, request: Request, blocks: int, result: StepResult) -> bool:
        """Take blocks, from the newest requests if need be; False if it was itself the newest."""
        while not self.pool.take(blocks):
            if self._preempt_newest(result) is request:
                return False
        return True

    def _preempt_newest(self, result: StepResult) -> Request:
        _, victim = self.running.popitem()
        if victim.phase is Phase.DECODE:
            victim.last_token_at = self._last_end
        self._drop_from_batch(victim)
        self._kv.name_own(victim)
        self._kv.give_back(victim)
        victim.phase = Phase.WAITING
        victim.preemptions += 1
        self.waiting.appendleft(victim)
        self.stats.preemptions += 1
        result.preempted.append(victim)
        return victim

    def _continue_prompt(
        self, request: Request, budget: int, result: StepResult
    ) -> tuple[int, float]:
        """Go on with the prompt that was cut: its tokens now, and their seconds.

        There is at most one: a prompt is cut when the budget is used up, and nothing is admitted
        before it is done. It is therefore the newest request, too.
        """
        chunk = min(request.target - request.computed, budget)
        blocks = self._kv.blocks(request.computed + chunk) - request.held
        if not self._take(request, blocks, result):
            return 0, 0.0
        request.held += blocks
        return chunk, self._prefill(request, chunk)

    def _admit(self, budget: int, now: float) -> float:
        """Take in what waits, as far as there is room; the seconds of its chunks."""
        kv, waiting = self._kv, self.waiting
        most = self.config.max_num_seqs
        seconds = 0.0
        while budget > 0 and waiting and len(self.running) < most:
            request = waiting[0]
            request.target = request.prompt_tokens + request.generated
            if kv.hopeless(request):
                break
            found = kv.find(request)
            chunk = min(request.target - found * kv.block_size, budget)
            if not kv.fits(request, found, chunk):
                break
            waiting.popleft()
            self._run(request, found, now)
            blocks = kv.blocks(request.computed + chunk) - found
            self.pool.take(blocks)
            request.held += blocks
            seconds += self._prefill(request, chunk)
            budget -= chunk
        if waiting and (len(self.running) >= most or kv.only_gets_harder(waiting[0])):
            self._blocked = waiting[0]
        return seconds

    def _run(self, request: Request, found: int, now: float) -> None:
        """Move a request from the queue into the batch."""
        self._serial += 1
        request.serial = self._serial
        request.phase = Phase.PREFILL
        request.computed = request.found_tokens = found * self.config.block_size
        self.running[self._serial] = request
        self._kv.share(request, found)
        if request.scheduled_at is None:
            request.scheduled_at = now
            request.cached_tokens = min(request.computed, request.prompt_tokens)
            if self.config.prefix_caching:
                self.stats.prefix_cache_queries += request.prompt_tokens
                self.stats.prefix_cache_hits += request.cached_tokens

    def _prefill(self, request: Request, chunk: int) -> float:
        """Count a chunk as computed; its seconds."""
        start = request.computed
        request.computed = start + chunk
        if request.block_names is not None:
            self._kv.name_computed(request, start, request.computed)
        if request.computed == request.target:
            self._prefilled.append(request)
            self._cut = None
        else:
            self._cut = request
        if self._shapes.unmet:
            chunk_of = start, request.found_tokens, request.prompt_tokens
            self._chunks.append(Chunk(*chunk_of, request.features))
        return self.config.cost.chunk_s(start, chunk)
