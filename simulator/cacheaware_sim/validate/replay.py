"""Plays logged requests to one engine of the model."""

from collections.abc import Sequence

from cacheaware_sim.engine import Engine
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.request import Request
from cacheaware_sim.validate.request_logs import ServedRequest
from cacheaware_sim.virtual_time import VirtualTimeEngine


def replay(
    config: EngineConfig, logged: Sequence[ServedRequest]
) -> tuple[tuple[ServedRequest, ...], int]:
    """The same requests at the same times as the model serves them, and its preemptions.

    Args:
        config: The engine.
        logged: In the order of their arrival.

    Raises:
        ValueError: A request is longer than `max_model_len`.
    """
    engine = VirtualTimeEngine(Engine(config))
    requests: list[Request] = []
    for number, one in enumerate(logged):
        while engine.wake_at is not None and engine.wake_at <= one.queued_at:
            engine.advance(engine.wake_at)
        request = Request(number, one.prompt_tokens, one.output_tokens)
        engine.submit(request, one.queued_at)
        requests.append(request)
    while engine.wake_at is not None:
        engine.advance(engine.wake_at)
    return tuple(map(_served, requests)), engine.engine.stats.preemptions


def _served(request: Request) -> ServedRequest:
    if request.first_token_at is None or request.finished_at is None:
        raise AssertionError(f"request {request.id} was not served")
    return ServedRequest(
        request.arrived_at,
        request.first_token_at,
        request.finished_at,
        request.prompt_tokens,
        request.output_tokens,
    )
