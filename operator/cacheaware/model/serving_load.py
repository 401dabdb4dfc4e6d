"""How much load one replica carries, how many are needed, and when a burst fills them.

A step decodes `batch` sequences, and prompts are computed between them. With `s` seconds of such a
step, `p` of a prompt and `o` output tokens, a replica that keeps `batch` sequences running ends
batch / (o s + batch p) requests a second, and each token takes s + batch p / o seconds.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cacheaware.model.engine_speed import Speed

FULL: Final = 0.8
"""Share of a replica's cache and prefill that a plan uses: what the scaler holds by default."""
COLD_START_S: Final = (60, 110)
"""Cold starts with image and weights on the node, published and measured; from afar 240 s."""
_TAIL: Final = 0.1
"""The time to the first token is that of the 90th percentile."""
_BURST_STEPS: Final = 50


class Limit(StrEnum):
    """What keeps a replica from carrying more."""

    KV = "KV cache"
    SEQUENCES = "max_num_seqs"
    TPOT = "tpot target"
    TTFT = "ttft target"
    PREFILL = "prefill"


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of all replicas.

    Attributes:
        rate: Requests a second.
        prompt: Tokens of a prompt.
        output: Generated tokens of a request.
        ttft_s: The time to the first token that 90 % shall have; None for no target.
        tpot_s: The time per output token that is allowed; None for no target.
    """

    rate: float
    prompt: int
    output: int
    ttft_s: float | None = None
    tpot_s: float | None = None

    @property
    def tokens(self) -> int:
        """Tokens of a request at its end."""
        return self.prompt + self.output


@dataclass(frozen=True, slots=True)
class Point:
    """A replica at work.

    Attributes:
        batch: Sequences that run at a time.
        rate: Requests a second.
        ttft_s: Time to the first token, 90th percentile.
        tpot_s: Time per output token.
        limit: What keeps it from more.
    """

    batch: int
    rate: float
    ttft_s: float
    tpot_s: float
    limit: Limit

    def residence_s(self, output: int) -> float:
        """Seconds that a request stays, waiting included."""
        return self.ttft_s + (output - 1) * self.tpot_s


def token_s(speed: Speed, load: Load, batch: int) -> float:
    """Seconds per output token with this many sequences at a time."""
    return speed.step(batch) + batch * speed.prefill_s / load.output


def rate_of(speed: Speed, load: Load, batch: int) -> float:
    """Requests a second that this many sequences at a time make."""
    return batch / (load.output * token_s(speed, load, batch))


def first_token_s(speed: Speed, rate: float, batch: int) -> float:
    """The 90th percentile of the time to the first token at this rate.

    One prompt after the other, each with a decode step beside it; prompts of equal length that
    come at random wait s r / (2 (1 - r)) on average at a load of r (Pollaczek, Khinchine), and the
    tail falls off exponentially.
    """
    service = speed.prefill_s + speed.step(batch)
    busy = rate * service
    if busy >= 1:
        return math.inf
    mean = service / (2 * (1 - busy))
    return service + mean * max(0.0, math.log(busy / _TAIL)) if busy else service


def best_point(speed: Speed, load: Load, slots: int, sequences: int) -> Point | None:
    """The most that a replica carries within the targets; None where even one is too slow.

    Args:
        speed: Of the replica.
        load: Lengths and targets.
        slots: Requests of full length that the KV cache holds.
        sequences: `max_num_seqs`.
    """
    kv = max(1, math.floor(slots * FULL))
    most = min(kv, sequences)
    broken = _broken(speed, load, most)
    if broken is None:
        return _point(speed, load, most, Limit.KV if kv <= sequences else Limit.SEQUENCES)
    if _broken(speed, load, 1) is not None:
        return None
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        if (at := _broken(speed, load, middle)) is None:
            low = middle
        else:
            high, broken = middle, at
    return _point(speed, load, low, broken)


def slowest(speed: Speed, load: Load) -> Limit | None:
    """The target that even a single request at a time misses; None where none is missed."""
    return _broken(speed, load, 1)


def _broken(speed: Speed, load: Load, batch: int) -> Limit | None:
    if load.tpot_s is not None and token_s(speed, load, batch) > load.tpot_s:
        return Limit.TPOT
    rate = rate_of(speed, load, batch)
    most = _prompts_s(speed, batch)
    first = first_token_s(speed, min(rate, most), batch)
    if load.ttft_s is not None and first > load.ttft_s:
        return Limit.TTFT
    return Limit.PREFILL if batch > 1 and rate > most else None


def _prompts_s(speed: Speed, batch: int) -> float:
    """Prompts a second that fill the time for them to `FULL`, a step beside each."""
    return FULL / (speed.prefill_s + speed.step(batch))


def _point(speed: Speed, load: Load, batch: int, limit: Limit) -> Point:
    rate, most = rate_of(speed, load, batch), _prompts_s(speed, batch)
    if rate > most:  # one request at a time, of so few output tokens that prompts are all there is
        rate, limit = most, Limit.PREFILL
    first = first_token_s(speed, rate, batch)
    return Point(batch, rate, first, token_s(speed, load, batch), limit)


def replicas_for(rate: float, each: float) -> int:
    """Replicas that carry this rate, where one carries `each`."""
    return max(1, math.ceil(rate / each))


def point_at(speed: Speed, load: Load, rate: float, most: Point) -> Point:
    """A replica at a rate that is not more than its most."""
    low, high = 0, most.batch
    while high - low > 1:
        middle = (low + high) // 2
        if rate_of(speed, load, middle) < rate:
            low = middle
        else:
            high = middle
    first = first_token_s(speed, rate, high)
    return Point(high, rate, first, token_s(speed, load, high), most.limit)


@dataclass(frozen=True, slots=True)
class Need:
    """What a load asks for, in replicas.

    Attributes:
        prefill: Seconds of prompts a second, of `FULL` seconds.
        kv: Requests in the cache, of `FULL` of those that it holds.
        together: All that a replica does, of the most that it can.
    """

    prefill: float
    kv: float
    together: float


def need_of(speed: Speed, load: Load, slots: int, most: Point, at_work: Point) -> Need:
    """Where a load presses."""
    held = load.rate * at_work.residence_s(load.output)
    return Need(
        prefill=load.rate * speed.prefill_s / FULL,
        kv=held / (FULL * slots),
        together=load.rate / most.rate,
    )


def seconds_until_full(
    load: Load, points: tuple[Point, Point], replicas: int, burst: float, tokens: int
) -> float | None:
    """Seconds from the begin of a burst until the caches of the replicas are full.

    Args:
        load: The load before: its rate is spread evenly.
        points: A replica before the burst, and at its most, where it soon is.
        replicas: How many serve.
        burst: Requests a second during the burst.
        tokens: Tokens that one replica's cache holds.

    Returns:
        None where the burst's own steady state fits. Prompts are taken to be admitted at once, so
        that it is rather sooner than later than in life.
    """
    before, most = points
    half = load.prompt + load.output / 2
    free = tokens - load.rate / replicas * before.residence_s(load.output) * half
    held_s = most.residence_s(load.output)
    extra = (burst - load.rate) / replicas
    for step in range(1, _BURST_STEPS + 1):
        share = step / _BURST_STEPS
        if extra * share * held_s * (load.prompt + load.output * share / 2) >= free:
            return share * held_s
    surplus = burst / replicas - most.rate
    if surplus <= 0:
        return None
    return held_s + (free - extra * held_s * half) / (surplus * half)


def spare_for(
    load: Load, points: tuple[Point, Point], replicas: int, burst: float, tokens: int
) -> int:
    """Replicas to keep ready beside these, so that a burst fills none before new ones serve.

    Arguments as of `seconds_until_full`.
    """
    most = replicas_for(burst, points[1].rate)
    for spare in range(max(0, most - replicas)):
        full = seconds_until_full(load, points, replicas + spare, burst, tokens)
        if full is None or full >= COLD_START_S[1]:
            return spare
    return max(0, most - replicas)
