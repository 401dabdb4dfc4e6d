"""How much work a trace brings, and until when it has to be done: what both bounds rest on.

The work of a request is that of `policies.constant`: prefill alone, and of each further iteration
its own share and c0 / B, with B the largest batch at the mean context of the trace. What the prefix
cache may hold is no work at all, and takes no room from a batch.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from cacheaware_sim.policies.capacity import LatencyTargets, largest_batch
from cacheaware_sim.policies.constant import fixed_ms
from cacheaware_sim.profiles import Profile
from cacheaware_sim.traces.trace import TraceRequest


class Job(NamedTuple):
    """What one request wants done."""

    at: float
    """When it arrives."""
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Of its prompt: what no engine needs to compute."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Pod-seconds of work in each bin of `bin_s` seconds, from second 0 on."""

    bin_s: float
    arrived: tuple[float, ...]
    """By when it comes; ends with the last arrival."""
    due: tuple[float, ...]
    """By when it has to be done at the latest; as long. What is due after the last bin that is over
    when the last request comes is left out: from then on nothing is paid."""


@dataclass(slots=True)
class _Bins:
    """Work that is known, and steps whose share of c0 is known at the end of the trace only."""

    fixed_ms: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    steps: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, index: int, fixed: float, steps: int) -> None:
        self.fixed_ms[index] += fixed
        self.steps[index] += steps

    def seconds(self, bins: int, step_ms: float) -> tuple[float, ...]:
        return tuple(
            (self.fixed_ms.get(at, 0.0) + self.steps.get(at, 0) * step_ms) / 1e3
            for at in range(bins)
        )


def jobs_of(trace: Iterable[TraceRequest], block_size: int, *, caching: bool) -> Iterator[Job]:
    """The work of a trace at the best case for its prefix caches.

    With caching no block of any prompt is computed twice in the whole trace, as if all pods had one
    cache without an end; one token of each prompt is always computed. Remembers the blocks' names.
    """
    seen: set[int] = set()
    for at, prompt, output, _, prefix in trace:
        cached = 0
        if caching and prefix:
            known = next((n for n, name in enumerate(prefix) if name not in seen), len(prefix))
            seen.update(prefix[known:])
            cached = min(known * block_size, prompt - 1)
        yield Job(at, prompt, output, cached)


def curves_of(
    jobs: Iterable[Job], profile: Profile, targets: LatencyTargets, bin_s: float
) -> Curves:
    """One pass over the jobs; memory goes with the number of bins.

    A request is due at arrival + TTFT target + output tokens x TPOT target, the latest that any
    policy can take. Work is booked in the bin of its arrival and in the one of its deadline.
    """
    arrived, due = _Bins(), _Bins()
    output = context = last = 0.0
    for at, prompt_tokens, output_tokens, cached_tokens in jobs:
        fixed = fixed_ms(profile.cost, prompt_tokens, output_tokens, cached_tokens)
        steps = max(0, output_tokens - 1)
        arrived.add(math.floor(at / bin_s), fixed, steps)
        deadline = at + targets.ttft_s + output_tokens * targets.tpot_s
        due.add(math.floor(deadline / bin_s), fixed, steps)
        output += output_tokens
        context += output_tokens * (prompt_tokens - cached_tokens + output_tokens / 2)
        last = max(last, at)
    batch = largest_batch(profile, context / output if output else 0.0, targets.tpot_s)
    step_ms = profile.cost.c0_ms / batch
    bins = math.floor(last / bin_s) + 1
    due_s = (*due.seconds(bins - 1, step_ms), 0.0)
    return Curves(bin_s, arrived.seconds(bins, step_ms), due_s)
