"""Traces for those who have no file: seeded, with the statistics of public ones.

Arrivals are a doubly stochastic Poisson process. The rate is

    mean rate x hour of the day x sum of share_i x G_i

where G_i is drawn anew every 1, 10 and 60 s from a Gamma distribution of mean 1. The index of
dispersion (IoD = variance / mean of the counts in a window of W seconds) of such a process is

    IoD(W) = 1 + sum of a_i x min(W, slot_i),      a_i = rate x share_i^2 x variance_i

for windows that are multiples or parts of the slots, so three published IoDs give the three a_i.
Shares are in proportion to sqrt(a_i), which makes the three variances equal and as small as can be:
(sum of sqrt(a_i))^2 / rate.

    azure-conv-like: IoD 1.39, 3.86, 16.1 at 1, 10, 60 s and 5.53 requests/s
    9 (a10 + a60) = 3.86 - 1.39 = 2.47;  a1 = 0.39 - 0.274 = 0.116
    50 a60 = 16.1 - 3.86 = 12.24; a60 = 0.245; a10 = 0.274 - 0.245 = 0.030

The hours of a day add rate x variance of the hours x W to the IoD of a whole day; that is taken off
first.

Sources: Azure's LLM inference traces of 2023 (CC-BY-4.0, Splitwise, ISCA '24); ServeGen's
deepseek-r1 clients (Alibaba, Apache-2.0) at a quarter of their rate, first day. Token counts follow
quantiles measured on them. Prompts and outputs are drawn independently of each other and of the
rate, clients (where there are several) by Zipf's law: the files know more than that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from random import Random

from cacheaware_sim.traces.fields import LONGEST_S
from cacheaware_sim.traces.lengths import Lengths, Lognormal, Quantiles
from cacheaware_sim.traces.randomness import stream
from cacheaware_sim.traces.trace import TraceRequest

SLOTS_S = (1, 10, 60)
HOUR_S = 3600
SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginals:
    """What a generated trace is to look like."""

    rate_per_s: float
    iod: tuple[float, float, float]
    """At windows of 1, 10 and 60 s."""
    prompt: Lengths
    output: Lengths
    hours: tuple[float, ...] = (1.0,)
    """Times the mean rate, hour by hour from the start, over and over."""
    clients: int = 1
    zipf: float = 1.0
    """The n-th busiest client sends in proportion to n to the minus this."""


def _quantiles(*tokens: int) -> Quantiles:
    return Quantiles(tuple(zip(SHARES, tokens, strict=True)))


# fmt: off
_R1_HOURS = (
    1.21, 1.39, 2.04, 1.79, 1.06, 0.91, 0.75, 0.58, 0.60, 0.66, 0.81, 0.83,
    0.45, 0.55, 0.69, 0.71, 0.87, 0.55, 0.75, 0.58, 1.24, 1.62, 2.19, 1.18,
)
# fmt: on
_MEDIUM_PROMPT = Lognormal(800, 0.7, 1, 16_384)
_MEDIUM_OUTPUT = Lognormal(200, 0.8, 1, 4096)

MARGINALS = {
    "azure-conv-like": Marginals(
        rate_per_s=5.53,
        iod=(1.39, 3.86, 16.1),
        prompt=_quantiles(2, 29, 181, 207, 396, 1020, 1189, 2735, 4083, 4098, 4142, 6212, 14_050),
        output=_quantiles(7, 16, 41, 54, 85, 129, 395, 424, 451, 540, 601, 954, 1000),
    ),
    "azure-code-like": Marginals(
        rate_per_s=2.57,
        iod=(13.2, 71.6, 164.0),
        prompt=_quantiles(3, 17, 75, 147, 578, 1469, 2745, 5194, 7315, 7436, 7436, 7437, 7437),
        output=_quantiles(6, 6, 6, 7, 9, 13, 24, 55, 90, 169, 252, 831, 1899),
    ),
    "servegen-r1-like": Marginals(
        rate_per_s=4.0,
        iod=(3.1, 13.6, 67.0),
        prompt=_quantiles(4, 9, 13, 18, 41, 208, 483, 2102, 6664, 16_486, 23_257, 33_735, 56_815),
        output=_quantiles(
            9, 141, 224, 286, 427, 789, 1496, 3439, 5683, 9292, 12_497, 20_788, 32_768
        ),
        hours=_R1_HOURS,
        clients=73,
        zipf=1.14,  # the first ten send 68 %
    ),
    "steady": Marginals(
        rate_per_s=5.0, iod=(1.0, 1.0, 1.0), prompt=_MEDIUM_PROMPT, output=_MEDIUM_OUTPUT
    ),
    "bursty": Marginals(
        rate_per_s=5.0, iod=(4.0, 25.0, 80.0), prompt=_MEDIUM_PROMPT, output=_MEDIUM_OUTPUT
    ),
    "prefill-heavy": Marginals(
        rate_per_s=12.0,
        iod=(6.0, 30.0, 90.0),
        prompt=Lognormal(3500, 0.5, 128, 8192),
        output=Lognormal(60, 0.7, 1, 512),
    ),
}
"""By name. `steady` is Poisson; `bursty` lies between Azure's two; `prefill-heavy` has long prompts
and short answers; these three are ours."""


@dataclass(frozen=True, slots=True)
class Level:
    """Gamma noise that is drawn anew every `slot_s` seconds."""

    slot_s: int
    share: float
    variance: float

    def draw(self, rng: Random) -> float:
        """Share x a Gamma variable of mean 1 and that variance."""
        if self.variance == 0:
            return self.share
        return self.share * rng.gammavariate(1 / self.variance, self.variance)


def levels(marginals: Marginals) -> tuple[Level, ...]:
    """The noise that gives these IoDs (see the module's docstring).

    Raises:
        ValueError: No such process has them: they have to grow with the window, at most with it.
    """
    spread = sum(hour**2 for hour in marginals.hours) / len(marginals.hours)
    by_hours = marginals.rate_per_s * (spread - 1)
    excess = [
        (iod - 1 - by_hours * window) / spread
        for iod, window in zip(marginals.iod, SLOTS_S, strict=True)
    ]
    slower = (excess[1] - excess[0]) / 9
    slowest = (excess[2] - excess[1]) / 50
    parts = (excess[0] - slower, slower - slowest, slowest)
    if min(parts) < -1e-9:
        raise ValueError(f"iod {marginals.iod}: must be those of noise over {SLOTS_S} s")
    roots = [sqrt(max(0.0, part)) for part in parts]
    total = sum(roots)
    if total == 0:
        return (Level(SLOTS_S[-1], 1.0, 0.0),)
    variance = total**2 / marginals.rate_per_s
    return tuple(
        [Level(slot, root / total, variance) for slot, root in zip(SLOTS_S, roots, strict=True)]
    )


def generate(name: str, duration_s: float, *, seed: int = 0) -> Iterator[TraceRequest]:
    """A trace of that length by the marginals of that name, the same again for the same seed.

    Raises:
        ValueError: Another name than in MARGINALS, or a duration not above 0 and at most a year.
    """
    marginals = MARGINALS.get(name)
    if marginals is None:
        raise ValueError(f"generator {name!r}: must be one of {', '.join(MARGINALS)}")
    if not 0 < duration_s <= LONGEST_S:
        raise ValueError(f"duration_s {duration_s}: must be above 0 and at most {LONGEST_S:,.0f}")
    return _requests(marginals, duration_s, seed)


def _requests(marginals: Marginals, duration_s: float, seed: int) -> Iterator[TraceRequest]:
    tokens, senders = stream(seed, "tokens"), stream(seed, "clients")
    weights = list(accumulate((n + 1) ** -marginals.zipf for n in range(marginals.clients)))
    numbers = range(marginals.clients)
    for at in arrivals(marginals, duration_s, seed):
        yield TraceRequest(
            at,
            marginals.prompt.draw(tokens),
            marginals.output.draw(tokens),
            senders.choices(numbers, cum_weights=weights)[0] if len(weights) > 1 else 0,
        )


def arrivals(marginals: Marginals, duration_s: float, seed: int) -> Iterator[float]:
    """Arrival times, second by second: Poisson within each, at the rate of that second."""
    noise, gaps = stream(seed, "rate"), stream(seed, "arrivals")
    process = levels(marginals)
    drawn = [0.0] * len(process)
    second = 0
    while second < duration_s:
        for index, level in enumerate(process):
            if second % level.slot_s == 0:
                drawn[index] = level.draw(noise)
        hour = marginals.hours[second // HOUR_S % len(marginals.hours)]
        rate = marginals.rate_per_s * hour * sum(drawn)
        end = min(second + 1.0, duration_s)
        at = second + gaps.expovariate(rate) if rate > 0 else end
        while at < end:
            yield at
            at += gaps.expovariate(rate)
        second += 1
