"""TokenScale's token velocity, for engines that prefill and decode together: token-velocity.

Source: arXiv 2512.03416, which publishes the idea (scale on the rate of work that a stage can do in
tokens/s) at the level of an abstract and reviews; no code. So this is an approximation throughout,
without transfer of caches between stages and without decoders that turn prefiller. Velocities come
from the profile: V_P = 10^6/a1, and at the largest batch B that the latency targets allow
V_D = 1000 B (i + o) / (o TPOT) with TPOT = c0 + c1 B + c2 B (i + o/2)/1000 ms. Replicas =
(in/V_P + (in + out)/V_D) / u, rounded up.

What is chosen. Token rates are requests that reach the engines over 10 s x mean lengths of the last
5 min (the paper predicts lengths at its gateway); u = 0.8; a shrink waits for 60 s of
lower results, without which each lull between bursts would take pods away.
"""

import math
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.capacity import LatencyTargets, Lengths, decode_ms, largest_batch
from cacheaware_sim.policies.policy import Limits, Orders, hold
from cacheaware_sim.policies.traffic import TrafficMeter
from cacheaware_sim.policies.window import TimeWindow
from cacheaware_sim.profiles import Profile


@dataclass(frozen=True, slots=True)
class VelocitySettings:
    """The controller."""

    interval_s: float = 5.0
    rate_window_s: float = 10.0
    length_window_s: float = 300.0
    utilization: float = 0.8
    shrink_window_s: float = 60.0


DEFAULT = VelocitySettings()


@dataclass(frozen=True, slots=True)
class Velocities:
    """Tokens per second that one pod works off; infinite where the model says it costs nothing."""

    prefill: float
    decode: float


def velocities(profile: Profile, lengths: Lengths, targets: LatencyTargets) -> Velocities:
    """Velocities of a profile at mean lengths."""
    batch = largest_batch(profile, lengths.context, targets.tpot_s)
    tpot_ms = decode_ms(profile, batch, lengths.context)
    a1 = profile.cost.a1_ms_per_ktok
    tokens = lengths.prompt + lengths.output
    return Velocities(
        prefill=1e6 / a1 if a1 > 0 else math.inf,
        decode=1e3 * batch * tokens / (lengths.output * tpot_ms),
    )


def velocity_replicas(
    requests_per_s: float, lengths: Lengths, speed: Velocities, utilization: float
) -> int:
    """Pods for a rate of requests.

    >>> velocity_replicas(10, Lengths(1000, 200), Velocities(20_000, 40_000), 0.8)
    1
    >>> velocity_replicas(40, Lengths(1000, 200), Velocities(20_000, 40_000), 0.8)
    4
    """
    tokens_in = requests_per_s * lengths.prompt
    tokens_out = requests_per_s * lengths.output
    load = tokens_in / speed.prefill + (tokens_in + tokens_out) / speed.decode
    return max(1, math.ceil(load / utilization))


class TokenVelocityPolicy:
    """The loop around `velocity_replicas`."""

    name = "token-velocity"

    def __init__(
        self, settings: VelocitySettings, profile: Profile, targets: LatencyTargets, limits: Limits
    ) -> None:
        self.interval_s = settings.interval_s
        self._settings = settings
        self._profile = profile
        self._targets = targets
        self._limits = limits
        self._meter = TrafficMeter(max(settings.length_window_s, settings.rate_window_s))
        self._wanted = TimeWindow(settings.shrink_window_s)

    def decide(self, seen: Observation) -> Orders:
        """What the controller wants now."""
        self._meter.see(seen)
        wanted = self._replicas(seen.now)
        if wanted is None:
            return hold(seen, "no traffic seen yet")
        self._wanted.add(seen.now, wanted)
        highest = int(max(self._wanted.last(self._settings.shrink_window_s, seen.now)))
        replicas = max(wanted, min(highest, seen.replicas))
        return Orders(self._limits.clamp(replicas), reason=f"{wanted} by token velocity")

    def wrote(self, before: int, after: int, now: float) -> None:
        """Nothing to remember."""

    def _replicas(self, now: float) -> int | None:
        newest = self._meter.last(self._settings.rate_window_s, now)
        past = self._meter.last(self._settings.length_window_s, now)
        if newest is None or past is None:
            return None
        prompt = past.traffic.prompt_tokens_per_request()
        output = past.traffic.generation_tokens_per_request()
        if not prompt or not output:
            return None
        lengths = Lengths(prompt, output)
        speed = velocities(self._profile, lengths, self._targets)
        rate = max(0.0, newest.traffic.arrived) / newest.seconds
        return velocity_replicas(rate, lengths, speed, self._settings.utilization)
