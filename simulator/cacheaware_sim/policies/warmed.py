"""What a sidecar's warm-up would have measured on an engine of a fleet, in virtual time."""

from cacheaware_sidecar.prompts import ALIGNMENT
from cacheaware_sidecar.state import ShapeState
from cacheaware_sidecar.warmup_plan import ANSWER_TOKENS, FEW, LONG
from cacheaware_sim.engine import Engine
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.request import Request


def shapes_of(config: EngineConfig) -> tuple[ShapeState, ...]:
    """The shapes of one prompt each, with their latencies when nothing else runs."""
    room = config.max_model_len - ANSWER_TOKENS
    sizes = {
        "short": ALIGNMENT,
        "multiple-of-16": FEW,
        "ragged": FEW + 1,
        "long": LONG + ALIGNMENT,
        "chunked": config.max_num_batched_tokens + ALIGNMENT,
    }
    return tuple(
        ShapeState(name=name, requests=1, tokens=tokens, last_s=latency_s(config, tokens))
        for name, tokens in sizes.items()
        if tokens <= room
    )


def latency_s(config: EngineConfig, prompt_tokens: int) -> float:
    """Seconds that one request takes on an idle engine."""
    engine, now = Engine(config), config.cold_start_s
    engine.submit(Request(1, prompt_tokens, ANSWER_TOKENS), now)
    while (step := engine.step(now)).duration_s is not None:
        now += step.duration_s
    return now - config.cold_start_s
