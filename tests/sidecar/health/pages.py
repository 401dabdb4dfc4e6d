"""vLLM pages with chosen numbers: a healthy pair, and what is planted into it."""

from cacheaware_sidecar.health import Looks, examine, look

RANK = '{engine="0",model_name="m"}'
SECONDS = 60.0
BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LENGTHS = (100.0, 500.0, 1000.0, 5000.0, 10000.0)

BEFORE = {
    "num_requests_running": 20,
    "num_requests_waiting": 0,
    "kv_cache_usage_perc": 0.6,
    "num_preemptions_total": 1000,
    "prefix_cache_queries_total": 9_000_000,
    "prefix_cache_hits_total": 4_500_000,
    "prompt_tokens_total": 9_000_000,
    "generation_tokens_total": 2_000_000,
    "request_success_total": 10_000,
    "corrupted_requests_total": 0,
    "admission_rejections_total": 0,
    "process_cpu_seconds_total": 500,
}
AFTER = BEFORE | {
    "prefix_cache_queries_total": 9_090_000,
    "prefix_cache_hits_total": 4_545_000,
    "prompt_tokens_total": 9_090_000,
    "generation_tokens_total": 2_020_000,
    "request_success_total": 10_100,
    "process_cpu_seconds_total": 512,
}
"""A minute later: 100 requests of 900 + 200 tokens ended, half of each prompt was cached."""
INFO = {"block_size": "16", "num_gpu_blocks": "10000"}


def histogram(name, values, bounds=BOUNDS):
    """The lines of a histogram that has observed these values."""
    lines = [
        f'vllm:{name}_bucket{{engine="0",le="{bound}",model_name="m"}}'
        f" {sum(one <= bound for one in values)}"
        for bound in (*bounds, "+Inf")
        for bound in [float(bound)]
    ]
    lines += [f"vllm:{name}_sum{RANK} {sum(values)}", f"vllm:{name}_count{RANK} {len(values)}"]
    return lines


def page(numbers, info=INFO, histograms=(), extra=()):
    """A page of one engine; a number that is None is not on it."""
    lines = [
        f"{name} {value}" if name.startswith("process") else f"vllm:{name}{RANK} {value}"
        for name, value in numbers.items()
        if value is not None
    ]
    if info:
        labels = ",".join(f'{name}="{value}"' for name, value in {"engine": "0", **info}.items())
        lines.append(f"vllm:cache_config_info{{{labels}}} 1.0")
    for name, values in dict(histograms).items():
        lines += histogram(name, values, LENGTHS if "tokens" in name else BOUNDS)
    return "\n".join([*lines, *extra, ""]).encode()


def pair(before=None, after=None, *, seconds=SECONDS, **both):
    """Two looks at the healthy engine with these numbers in place of its own."""
    first = page(BEFORE | (before or {}), **both)
    return Looks(look(page(AFTER | (after or {}), **both)), look(first), seconds)


def single(numbers=None, **more):
    """One look."""
    return Looks(look(page(AFTER | (numbers or {}), **more)))


def severities(looks):
    """What is found, by id."""
    return {one.id: one.severity for one in examine(looks)}


def message(looks, id_):
    """The message of one finding."""
    return next(one.message for one in examine(looks) if one.id == id_)


def fix(looks, id_):
    """What one finding says to do."""
    return next(one.fix for one in examine(looks) if one.id == id_)
