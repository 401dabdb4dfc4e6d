"""Why this TP, this block size and this KV dtype: one line each."""

from collections.abc import Iterator

from cacheaware.model.engine_memory import GIB
from cacheaware.model.plan import Candidate, Plan
from cacheaware.model.serving_load import Limit
from cacheaware_sidecar.kv.blocks import DEFAULT_BLOCK_SIZE


def reasons(made: Plan, chosen: Candidate) -> Iterator[tuple[str, str, str]]:
    """What is chosen: (option, value, why)."""
    yield "tensor parallel", str(chosen.tensor), _tensor(made, chosen)
    size = chosen.kept.block_size or DEFAULT_BLOCK_SIZE
    yield "block size", f"{size} tokens", _block(made, chosen, size)
    yield "KV dtype", chosen.kept.kv_dtype, _dtype(made, chosen)
    yield "max-model-len", f"{chosen.longest:,}", _length(made, chosen)


def _tensor(made: Plan, chosen: Candidate) -> str:
    if chosen.point is None:
        return "the largest that fits; no size meets the targets"
    small = [one.tensor for one in made.candidates if not one.fits]
    why = f"{chosen.gpus_for(made.wish.peak):.0f} GPUs for the peak, the fewest of those that fit"
    verb = "does" if len(small) == 1 else "do"
    too_small = f"; TP {', '.join(map(str, small))} {verb} not fit" if small else ""
    return why + too_small


def _block(made: Plan, chosen: Candidate, size: int) -> str:
    tokens = made.wish.load.tokens
    lost = 100 * (size - 1) / 2 / tokens
    wasted = f"the last block of a request stands half empty: {lost:.2g} % of {tokens:,} tokens"
    if any(layer.state_bytes for layer in chosen.kept.layer_list):
        return f"the engine raises it until a page covers the state; {wasted}"
    if chosen.kept.kv_heads is None:
        return f"backends for latent caches take 64; {wasted}"
    return f"vLLM's own; some backends need 32 or 128; {wasted}"


def _dtype(made: Plan, chosen: Candidate) -> str:
    kept, held = chosen.kept.kv_dtype, chosen.pool.at_expected.expected
    if made.wish.kv_dtype != "auto":
        return "as asked"
    if kept not in {"bfloat16", "float16"}:
        return "declared by the checkpoint"
    if "fp8" not in made.wish.gpu.tflops:
        return f"{made.wish.gpu.name} has no FP8 arithmetic: 16 bit"
    full = chosen.point is not None and chosen.point.limit is Limit.KV
    if full:
        return (
            f"16 bit keeps the model's answers; the cache is what limits here, and fp8 would hold "
            f"about {2 * held:.0f} requests instead of {held:.0f}: try --kv-dtype fp8 and compare "
            f"answers"
        )
    return "16 bit: the cache is not what limits, fp8 would win nothing"


def _length(made: Plan, chosen: Candidate) -> str:
    if made.wish.max_model_len is not None:
        return "as asked; it sets no pages aside, one request of it has to fit"
    if made.model.max_positions == chosen.longest:
        return "all positions of the model; it sets no pages aside, one such request has to fit"
    if made.model.max_positions is None:
        return "prompt and output: the file tells no positions"
    left = chosen.pool.bytes.expected / GIB
    return f"the longest request that fits into {left:,.1f} GiB"
