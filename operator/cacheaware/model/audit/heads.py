"""Heads: how many, how wide, and how they come out on tensor-parallel ranks.

That heads x head_dim differs from the hidden size is no fault (Qwen3, Gemma 3, gpt-oss), and a
page needn't be a multiple of the heads: there is no rule for either.
"""

import math
from collections.abc import Iterator
from typing import Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.view import HEADS, KV_HEADS, STATES, Serving, View, error, info, warning

OTHER_SIZES: Final = ("d_kv", "attention_head_size")
"""What T5 and Reformer call the head size."""
FLASH_MULTIPLE: Final = 8
FLASH_WIDEST: Final = 256
TRITON_NARROWEST: Final = 32
FLASHINFER: Final = (64, 128, 256, 512)
"""Head sizes: vLLM 0.32, `supports_head_size` of its backends."""
BLACKWELL: Final = (10, 0)


def head_dim_told(view: View, _serving: Serving) -> Iterator[Finding]:
    """Either an explicit head_dim, or heads that divide the hidden size."""
    heads, hidden = view.heads, view.hidden
    if view.first(*OTHER_SIZES) or view.is_latent or view.head_dim is not None:
        return
    if heads and hidden and hidden % heads:
        yield error(
            view, "head-dim-missing",
            f"hidden size {hidden:,} is no multiple of {heads} heads ({hidden / heads:.2f} each), "
            f"and {view.named('head_dim')} is not given",
            f"Give head_dim, or set {view.named(view.first(*HEADS) or HEADS[0])} to a divisor of "
            f"{hidden:,}.",
        )  # fmt: skip


def kv_heads_divide(view: View, _serving: Serving) -> Iterator[Finding]:
    """Each KV head serves the same number of query heads."""
    heads, name = view.heads, view.first(*KV_HEADS)
    count = view.integer(name) if name else None
    if heads and count and heads % count and view.kv_heads is None:
        yield error(
            view, "kv-heads-divide",
            f"{view.named(name or '')} is {count}, {heads} query heads can't be shared out evenly",
            f"Set it to a divisor of {heads}: {_divisors(heads)}.",
        )  # fmt: skip


def kernels(view: View, serving: Serving) -> Iterator[Finding]:
    """Head sizes that attention kernels don't have (vLLM 0.32)."""
    size = view.head_dim
    if not serving.vllm or size is None or view.is_latent or view.layout in STATES:
        return
    if size % FLASH_MULTIPLE and size < TRITON_NARROWEST:
        yield error(
            view, "head-dim-no-kernel",
            f"head_dim {size} is below {TRITON_NARROWEST} and no multiple of {FLASH_MULTIPLE}: "
            f"neither vLLM's Triton kernel nor FlashAttention has it",
            "Export the model with padded heads, or serve it with transformers.",
        )  # fmt: skip
    elif size % FLASH_MULTIPLE:
        yield warning(
            view, "head-dim-kernel",
            f"head_dim {size} is no multiple of {FLASH_MULTIPLE}: FlashAttention does not take it, "
            f"vLLM falls back to its Triton kernel",
            "Nothing to set; expect slower attention, and measure it.",
        )  # fmt: skip
    elif size > FLASH_WIDEST:
        yield info(
            view, "head-dim-wide",
            f"head_dim {size} is above {FLASH_WIDEST}: FlashAttention 2 and 3 stop there, version "
            f"4 goes to 512, else vLLM uses its Triton kernel",
        )  # fmt: skip


def flashinfer(view: View, serving: Serving) -> Iterator[Finding]:
    """On Blackwell FlashInfer comes first, with kernels for four sizes."""
    size = view.head_dim
    if not serving.vllm or size is None or view.is_latent or size in FLASHINFER:
        return
    for gpu in serving.gpus:
        if (gpu.compute_capability or (0, 0)) >= BLACKWELL:
            yield info(
                view, "head-dim-flashinfer",
                f"head_dim {size}: FlashInfer, vLLM's first choice on {gpu.name}, has kernels for "
                f"{', '.join(map(str, FLASHINFER))} alone; another backend is used",
            )  # fmt: skip


def tensor_parallel(view: View, serving: Serving) -> Iterator[Finding]:
    """Query heads are split over the ranks; KV heads are split or repeated evenly."""
    ranks, heads = serving.tensor, view.heads
    if heads and heads % ranks:
        yield error(
            view, "tp-heads",
            f"{heads} query heads can't be split over {ranks} tensor ranks",
            f"Choose --tp from {_divisors(heads)}.",
        )  # fmt: skip
    if view.is_latent:
        return
    for count in _kv_head_counts(view):
        if max(count, ranks) % min(count, ranks):
            yield error(
                view, "tp-kv-heads",
                f"{count} KV heads on {ranks} tensor ranks: neither number divides the other, so "
                f"ranks would keep different shares",
                f"Choose --tp from the divisors of {count} ({_divisors(count)}) or its multiples.",
            )  # fmt: skip
            return


def splits(view: View, ranks: int) -> bool:
    """Whether query heads and KV heads come out evenly on so many tensor ranks."""
    even = all(not max(one, ranks) % min(one, ranks) for one in _kv_head_counts(view))
    return not (view.heads or 0) % ranks and (view.is_latent or even)


def replication(view: View, serving: Serving) -> Iterator[Finding]:
    """More ranks than KV heads: each rank keeps a copy, and the pod pays for it."""
    one, many = view.sized, view.at(serving.tensor)
    if serving.tensor == 1 or one is None or many is None:
        return
    single, total = one.bytes_per_token_all_layers, many.pod_bytes_per_token_all_layers
    if not single or not total or total <= single:
        return
    message = (
        f"on {serving.tensor} ranks the pod keeps {total:,} B a token instead of {single:,}: "
        f"{total - single:,} B ({(total - single) / total:.0%}) are copies"
    )
    if view.kv_heads is None or view.is_latent:
        yield info(
            view, "mla-replicated", f"the latent vector is one for all heads, so {message}",
            "Data-parallel attention or decode context parallelism keeps one copy.",
        )  # fmt: skip
        return
    counts = _kv_head_counts(view)
    told = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}, by layer,"
    yield warning(
        view, "kv-heads-replicated", f"{told} KV heads: {message}",
        f"--tp {math.gcd(*counts)} keeps each head once; add replicas, or pipeline or data "
        f"parallelism, for the other GPUs.",
    )  # fmt: skip


def _kv_head_counts(view: View) -> list[int]:
    """The different numbers of KV heads that layers have, the fewest first.

    Those of the sized layers: kinds of layers may have fields of their own (Gemma 4).
    """
    if view.sized is not None and view.sized.layer_list:
        return sorted({layer.total_kv_heads for layer in view.sized.layer_list} - {0})
    return sorted(set(view.kv_heads or ()) - {0})


def _divisors(number: int) -> str:
    return ", ".join(str(one) for one in range(1, number + 1) if number % one == 0)


RULES: Final = (
    head_dim_told, kv_heads_divide, kernels, flashinfer, tensor_parallel, replication,
)  # fmt: skip
