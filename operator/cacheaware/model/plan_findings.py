"""What a plan has to say beyond its numbers: what doesn't fit or serve, and what would."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from cacheaware.doctor.findings import Finding, Severity, worst_first
from cacheaware.model.engine_memory import GIB
from cacheaware.model.gpus import GPUS
from cacheaware.model.layers import Experts, Latent, StateMixer
from cacheaware.model.plan import Candidate, Plan, Wish, least_ranks
from cacheaware.model.plan_scaler import MOST_REPLICAS
from cacheaware.model.precision import AUTO
from cacheaware.model.serving_load import COLD_START_S, Limit

_STORED: Final = re.compile(r"(nvfp4|mxfp4|fp8|int8|int4|awq|gptq|gguf|w4a16|w8a8)")
_STORED_AS: Final = {"awq": "int4", "gptq": "int4", "gguf": "int4", "w4a16": "int4", "w8a8": "int8"}
_TWO_NODES: Final = (16,)
_OUTER: Final = ("vision_config", "audio_config", "visual", "vision_tower", "thinker_config")
_FP8: Final = "fp8"
_HALVES: Final = frozenset({"bfloat16", "float16"})
_FOUR_BITS: Final = frozenset({"int4", "nvfp4", "mxfp4"})


class _Told(NamedTuple):
    """A finding before its subject is known."""

    id: str
    severity: Severity
    message: str
    fix: str


def findings_of(config: Mapping[str, Any], made: Plan, subject: str) -> list[Finding]:
    """All of them, the worst first."""
    told: list[_Told] = []
    chosen = made.chosen
    if chosen is None:
        told.append(_does_not_fit(config, made))
    else:
        told += _about_speed(made, chosen)
        told += _about_length(made, chosen)
        told += _about_burst(made)
        told += _about_cache(made, chosen)
        told += _about_scaler(made)
    told += _about_trust(config, made)
    told += _about_storage(made, subject)
    return worst_first(Finding(i, s, subject, message, fix) for i, s, message, fix in told)


def _does_not_fit(config: Mapping[str, Any], made: Plan) -> _Told:
    """By how much the largest size misses, and what would fit."""
    wish, nearest = made.wish, made.candidates[-1]
    memory, name = nearest.memory, f"{nearest.tensor} x {made.wish.gpu.name}"
    pool = memory.pool.expected
    taken = (
        f"a rank has {_gib(memory.budget.expected)} ({wish.utilization:g} of "
        f"{_gib(memory.visible.expected)}); weights take {_gib(memory.weights)}, activations and "
        f"the rest {_gib(memory.activations.expected + memory.other.expected)}"
    )
    if pool < 0:
        message = f"{name}: {taken}: {_gib(-pool)} are missing"
    else:
        need = nearest.kept.bytes_per_request(nearest.longest) or 0
        message = (
            f"{name}: {taken}: {_gib(pool)} are left for the cache, one request of "
            f"{nearest.longest:,} tokens needs {_gib(need)}: {_gib(need - pool)} are missing, and "
            f"the engine does not start"
        )
    ways = list(ways_to_fit(config, made))
    fix = "; or ".join(ways) if ways else "a smaller model"
    return _Told("DoesNotFit", Severity.ERROR, message, f"what would fit: {fix}")


def ways_to_fit(config: Mapping[str, Any], made: Plan) -> Iterator[str]:
    """Single changes after which it fits, the cheapest first."""
    wish, nearest = made.wish, made.candidates[-1]
    if nearest.memory.pool.expected > 0:
        shorter = replace(wish, max_model_len=None)
        if found := _fitting(config, shorter):
            yield f"--max-model-len {found.longest} with TP {found.tensor}"
        if not nearest.kept.kv_dtype.startswith(_FP8) and _has_fp8(made):
            yield from _if_fits(config, replace(wish, kv_dtype=_FP8), "--kv-dtype fp8")
    plenty = replace(wish, count=None)
    if wish.count is not None:
        yield from _if_fits(config, plenty, "more GPUs")
    for weights in _smaller_weights(made):
        yield from _if_fits(config, replace(wish, weights=weights), f"a checkpoint in {weights}")
    if not _fitting(config, plenty) and (found := _fitting(config, plenty, _TWO_NODES)):
        yield f"TP {found.tensor} over two nodes (or TP 8 x PP 2)"
    for gpu in GPUS:
        larger = gpu.vendor == wish.gpu.vendor and gpu.memory_gib > wish.gpu.memory_gib
        if larger and (found := _fitting(config, replace(wish, gpu=gpu))):
            yield f"{found.tensor} x {gpu.name}"
            return


def _smaller_weights(made: Plan) -> Iterator[str]:
    """Storages of linear layers that are smaller than what they have, and that the GPU can."""
    stored = {made.precision.weights(one) for one in made.model.linears()}
    if not stored & {"fp8", "int8", *_FOUR_BITS} and _has_fp8(made):
        yield _FP8
    if not stored & _FOUR_BITS:
        yield "int4"


def _if_fits(config: Mapping[str, Any], wish: Wish, change: str) -> Iterator[str]:
    if found := _fitting(config, wish):
        yield f"{change} with TP {found.tensor}"


def _fitting(
    config: Mapping[str, Any], wish: Wish, sizes: tuple[int, ...] = (1, 2, 4, 8)
) -> Candidate | None:
    allowed = [size for size in sizes if wish.count is None or size <= wish.count]
    return least_ranks(config, wish, allowed)


def _has_fp8(made: Plan) -> bool:
    return _FP8 in made.wish.gpu.tflops


def _about_speed(made: Plan, chosen: Candidate) -> Iterator[_Told]:
    wish = made.wish
    if chosen.point is None and chosen.speed is not None and chosen.slow is not None:
        first = chosen.slow is Limit.TTFT
        asked = (wish.load.ttft_s if first else wish.load.tpot_s) or 0.0
        alone = chosen.speed.step(1) + (chosen.speed.prefill_s if first else 0.0)
        yield _Told(
            "TargetMissed",
            Severity.ERROR,
            f"{chosen.slow} of {asked * 1000:g} ms can't be met: even one request at a time takes "
            f"{alone * 1000:.0f} ms{'' if first else ' a token'} with TP {chosen.tensor} on "
            f"{wish.gpu.name}, the fastest that fits",
            "a looser target, a faster GPU, 8-bit weights, or speculative decoding",
        )
        return
    needed = chosen.gpus_for(wish.peak)
    if wish.count is not None and needed > wish.count:
        usual = chosen.gpus_for(wish.load.rate)
        is_short = usual > wish.count
        who, least, rate = (
            ("load", usual, wish.load.rate) if is_short else ("peak", needed, wish.peak)
        )
        more = f" and {needed:.0f} at {wish.peak:g}" if needed > least else ""
        yield _Told(
            "NotEnoughGpus",
            Severity.ERROR if is_short else Severity.WARNING,
            f"the {who} needs {least:.0f} GPUs at {rate:g} requests/s{more}, there are "
            f"{wish.count}",
            f"{needed:.0f} GPUs, or at most {_carried(made, chosen):.3g} requests/s",
        )


def _carried(made: Plan, chosen: Candidate) -> float:
    count = made.wish.count or 0
    return count // chosen.tensor * chosen.rate_per_gpu * chosen.tensor


def _about_length(made: Plan, chosen: Candidate) -> Iterator[_Told]:
    positions = made.model.max_positions
    if made.wish.max_model_len is None and positions is None:
        yield _Told(
            "LengthUnknown",
            Severity.WARNING,
            f"the file tells no positions: {chosen.longest:,} is one request of average length, "
            f"and the engine refuses longer ones",
            "--max-model-len with the longest request that is to be served",
        )
    if made.wish.max_model_len is not None or positions is None or chosen.longest >= positions:
        return
    whole = next((one for one in made.candidates if one.longest >= positions and one.fits), None)
    other = f", or TP {whole.tensor}, where all of it fits" if whole else ""
    yield _Told(
        "LengthCapped",
        Severity.WARNING,
        f"one request of the model's {positions:,} positions needs more than the pool of "
        f"{_gib(chosen.pool.bytes.expected)}: without --max-model-len the engine does not start",
        f"--max-model-len {chosen.longest}{other}",
    )


def _about_burst(made: Plan) -> Iterator[_Told]:
    replicas = made.replicas
    if replicas is not None and replicas.full_in_s is not None and replicas.spare:
        yield _Told(
            "FullBeforeColdStart",
            Severity.WARNING,
            f"at {made.wish.peak:g} requests/s the cache of {counted(replicas.now)} is full "
            f"after {replicas.full_in_s:.0f} s; a new pod needs {COLD_START_S[0]} to "
            f"{COLD_START_S[1]} s with image and weights on the node, 240 s without",
            f"warmPool: {replicas.spare} if the peak comes at once, or weights cached on each node",
        )


def _about_cache(made: Plan, chosen: Candidate) -> Iterator[_Told]:
    heads = chosen.kept.kv_heads
    most = max(heads) if isinstance(heads, tuple) else heads
    latent = any(isinstance(layer.mixer, Latent) for layer in made.model.layers)
    if latent and chosen.tensor > 1:
        yield _Told(
            "CacheReplicated",
            Severity.INFO,
            f"the latent (MLA) cache is on each of {chosen.tensor} ranks: TP adds no tokens beyond "
            f"the memory that it frees of weights",
            f"data-parallel attention with expert parallelism (vLLM: --data-parallel-size "
            f"{chosen.tensor} --enable-expert-parallel) holds other requests on each GPU",
        )
    elif most and chosen.tensor > most:
        yield _Told(
            "CacheReplicated",
            Severity.INFO,
            f"{chosen.tensor} ranks share {most} KV heads: each is held "
            f"{chosen.tensor // most} times",
            f"TP {most} if it fits, or decode context parallelism",
        )


def _about_scaler(made: Plan) -> Iterator[_Told]:
    """More replicas than one object can ask for."""
    replicas = made.replicas
    if replicas is None or replicas.peak <= MOST_REPLICAS:
        return
    now = replicas.now > MOST_REPLICAS
    yield _Told(
        "BeyondOneScaler",
        Severity.ERROR if now else Severity.WARNING,
        f"{'the load' if now else 'the peak'} needs "
        f"{counted(replicas.now if now else replicas.peak)}, a CacheAwareScaler allows "
        f"{MOST_REPLICAS:,}: the one below is cut there",
        "share the load between several targets, each with a scaler of its own",
    )


def _about_trust(config: Mapping[str, Any], made: Plan) -> Iterator[_Told]:
    """What the numbers leave out or were not checked against."""
    for note in made.precision.notes:
        yield _Told("Precision", Severity.INFO, note, "")
    if part := next((name for name in _OUTER if config.get(name)), None):
        yield _Told(
            "PartsNotCounted",
            Severity.WARNING,
            f"{part}: only the text model is counted; the weights of its encoder and what it "
            f"computes in the profile run come on top",
            "leave room: lower --gpu-memory-utilization, or read the engine's own log",
        )
    mixers = [one.mixer for one in made.model.layers]
    kept = made.candidates[0].kept if made.candidates else None
    unlike = [
        word
        for word, is_so in (
            ("experts", any(isinstance(one.feed, Experts) for one in made.model.layers)),
            ("a latent cache", any(isinstance(m, Latent) for m in mixers)),
            ("layers of constant state", any(isinstance(m, StateMixer) for m in mixers)),
            ("quantised weights", bool(made.precision.groups)),
            ("a quantised cache", kept is not None and kept.kv_dtype not in _HALVES),
            (f"GPUs of {made.wish.gpu.vendor}", made.wish.gpu.vendor != "NVIDIA"),
        )
        if is_so
    ]
    if unlike:
        yield _Told(
            "SpeedNotMeasured",
            Severity.INFO,
            f"the shares of the roofline were measured with dense 16-bit models on NVIDIA GPUs, "
            f"not with {' and '.join(unlike)}: the span may be wider",
            "measure one replica before you buy",
        )


def _about_storage(made: Plan, subject: str) -> Iterator[_Told]:
    """A name that says more than the file: some tools write their scheme into a file of its own."""
    said = _STORED.search(subject.lower())
    if said is None or made.precision.groups or made.wish.weights != AUTO:
        return
    weights = _STORED_AS.get(said[1], said[1])
    yield _Told(
        "StorageNotTold",
        Severity.WARNING,
        f"the name says {said[1]}, the file has no quantization_config (it may lie in "
        f"hf_quant_config.json): weights are counted in 16 bit",
        f"--weights {weights}",
    )


def counted(replicas: int) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{replicas} replica{'s' * (replicas != 1)}"


def _gib(count: float) -> str:
    return f"{count / GIB:,.1f} GiB"
