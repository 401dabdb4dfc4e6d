"""The operator as it is after an hour: `python -m tests.operator.scale.operator`.

Only the history differs from `cacheaware run`: it is full from the start, because judging forecasts
on an hour of it costs what it costs, and a benchmark does not wait for an hour.
"""

import random
from array import array

import uvloop
from msgspec.structs import replace

from cacheaware.controller.app import main
from cacheaware.decide.history import KEPT, History
from cacheaware.decide.memory import Memory
from cacheaware.settings import from_environment
from cacheaware.telemetry import set_up_logging

start_of_now = Memory.start


def start(replicas: int, now: float) -> Memory:
    """A memory with an hour behind it."""
    needs = array("d", (random.uniform(0.74, 0.76) * replicas for _ in range(KEPT)))
    turn = random.randrange(KEPT)
    return replace(start_of_now(replicas, now), history=History(needs=needs, turn=turn))


def run() -> int:
    """Run until SIGTERM."""
    Memory.start = start
    settings = from_environment()
    set_up_logging(settings.log_format, settings.log_level)
    return uvloop.run(main(settings))


if __name__ == "__main__":
    raise SystemExit(run())
