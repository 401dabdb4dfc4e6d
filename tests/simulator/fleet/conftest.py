"""Fleets of small engines, and policies that do what a test says."""

from collections.abc import Callable, Mapping

import pytest

from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.fleet.fleet import Fleet, FleetConfig
from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.policies.policy import Limits, Orders
from cacheaware_sim.traces.trace import TraceRequest


class Script:
    """A policy that gives orders at given times and records what it saw."""

    name = "script"

    def __init__(self, orders: Mapping[float, Orders] | None = None, interval_s: float = 1.0):
        self.orders = dict(orders or {})
        self.interval_s = interval_s
        self.saw: list[Observation] = []
        self.writes: list[tuple[int, int, float]] = []

    def decide(self, seen: Observation) -> Orders:
        self.saw.append(seen)
        return self.orders.get(seen.now, Orders(seen.replicas))

    def wrote(self, before: int, after: int, now: float) -> None:
        self.writes.append((before, after, now))

    def at(self, now: float) -> Observation:
        """What it saw then."""
        return next(seen for seen in self.saw if seen.now == now)

    def pod(self, name: str, now: float):
        """What it saw of a pod then; None where it was not there."""
        return next((pod for pod in self.at(now).pods if pod.name == name), None)


@pytest.fixture(scope="session")
def script() -> type[Script]:
    return Script


@pytest.fixture(scope="session")
def engine() -> EngineConfig:
    """100 ms an iteration and nothing else; 640 tokens of cache."""
    cost = IterationCost(
        c0_ms=100, c1_ms_per_seq=0, c2_ms_per_ktok=0, a1_ms_per_ktok=0, a2_ms_per_mtok2=0
    )
    return EngineConfig(
        cost=cost,
        num_blocks=41,
        max_model_len=640,
        max_num_seqs=8,
        max_num_batched_tokens=512,
        prefix_caching=False,
    )


@pytest.fixture(scope="session")
def fleet(engine) -> Callable[..., Fleet]:
    """A fleet of one to four such engines, ten seconds to start."""

    def make(policy=None, *, router=None, on_row=None, **changes) -> Fleet:
        values = {
            "engine": engine,
            "start_replicas": 1,
            "limits": Limits(1, 4),
            "cold_start_s": (10.0, 0.0),
        }
        more = {} if router is None else {"router": router}
        return Fleet(
            FleetConfig(**{**values, **changes}), policy or Script(), on_row=on_row, **more
        )

    return make


@pytest.fixture(scope="session")
def request_at() -> Callable[..., TraceRequest]:
    """A request of 16 prompt tokens; so many output tokens take as many tenths of a second."""

    def make(at, output=10, prompt=16, prefix=None) -> TraceRequest:
        return TraceRequest(at, prompt, output, prefix=prefix)

    return make


@pytest.fixture(scope="session")
def until(request_at) -> Callable[..., list[TraceRequest]]:
    """A trace with these requests that lasts until then: its last request is a short one."""

    def make(end, *requests) -> list[TraceRequest]:
        return [*requests, request_at(end, output=1)]

    return make
