"""What a pod carries, in the words of the decision, whoever told it."""

from cacheaware.decide.fleet import PodLoad
from cacheaware_sidecar.engines import Rates
from cacheaware_sidecar.state import KvState


def pod_load(running: float | None, waiting: float | None, kv: KvState, rates: Rates) -> PodLoad:
    """The load of a pod or of one of its engines."""
    return PodLoad(
        running=running,
        waiting=waiting,
        usage=kv.usage,
        usage_max=kv.usage_max,
        used_tokens=kv.used_tokens,
        capacity_tokens=kv.capacity_tokens,
        prompt_tokens_per_s=rates.prompt_tokens_per_s,
        generation_tokens_per_s=rates.generation_tokens_per_s,
        tokens_per_request=total(
            rates.prompt_tokens_per_request, rates.generation_tokens_per_request
        ),
        prompt_tokens_per_request=rates.prompt_tokens_per_request,
        generation_tokens_per_request=rates.generation_tokens_per_request,
        prefix_hit_ratio=rates.prefix_hit_ratio,
        preemptions_per_s=rates.preemptions_per_s,
    )


def total(prompt: float | None, generation: float | None) -> float | None:
    """Tokens of a request; None unless both parts are known."""
    return None if prompt is None or generation is None else prompt + generation
