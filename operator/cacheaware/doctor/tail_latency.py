"""Why the slowest requests are slow: the plain causes first, then the three steps.

Each check judges one cause from what is known: it is one, it is ruled out, or it is open, with
what would tell. Step 1 is a recompute storm, step 2 trouble inside the model, step 3 positions
that differ between ranks or pods.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final

from cacheaware.doctor.kv_health import ENOUGH_PEERS, SLOW_FIX, slower, token_s
from cacheaware.observe.latency import quantile
from cacheaware_sidecar.engines import Histogram
from cacheaware_sidecar.engines.rates import ratio
from cacheaware_sidecar.health import Looks
from cacheaware_sidecar.health.looks import mean
from cacheaware_sidecar.health.pressure import is_storm, preempted

ENOUGH: Final = 20
"""Fewer observations have no tail."""
TAIL_TIMES: Final = 4.0
LONG_TTFT_S, LONG_TOKEN_S = 1.0, 0.2


class State(StrEnum):
    """What a check comes to."""

    CAUSE = "cause"
    RULED_OUT = "ruled_out"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Judged:
    """One cause, and what speaks for or against it."""

    id: str
    state: State
    evidence: str
    """For a cause its evidence, else why it is none, or what would tell."""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Tail:
    """Latency of first tokens and of the others, seconds; None where not told."""

    ttft_p50: float | None = None
    ttft_p99: float | None = None
    token_p50: float | None = None
    token_p99: float | None = None
    beyond: tuple[str, ...] = ()
    """Fields whose value is in the open bucket: it is at least that."""

    @property
    def known(self) -> bool:
        """Whether either is."""
        return self.ttft_p99 is not None or self.token_p99 is not None

    @property
    def is_long(self) -> bool:
        """Whether the slowest are slow: many times the median, or beyond what people bear."""
        return (
            _long(self.ttft_p50, self.ttft_p99, LONG_TTFT_S)
            or _long(self.token_p50, self.token_p99, LONG_TOKEN_S)
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """An engine, and what is known besides its pages."""

    looks: Looks
    peers: tuple[Looks, ...] = ()
    """Other pods that serve the same."""
    attention: tuple[str, ...] | None = None
    """What a stored `cacheaware probe attention` found; None where there is none."""
    rope: Mapping[str, str] = field(default_factory=dict)
    """Hash of the RoPE tables by rank or pod."""


def _long(half: float | None, most: float | None, bound: float) -> bool:
    if most is None:
        return False
    return most >= bound or (half is not None and half > 0 and most >= TAIL_TIMES * half)


def tail_of(looks: Looks) -> Tail:
    """Between the looks, or since the engine's start where there is but one."""
    wanted = (("ttft", "ttft"), ("token", "tpot"))
    found = {
        f"{name}_p{percent}": (histogram, at(histogram, percent / 100))
        for name, field_ in wanted
        for histogram in [looks.between(field_)]
        for percent in (50, 99)
    }
    beyond = tuple(name for name, each in found.items() if is_open(*each))
    return Tail(**{name: value for name, (_, value) in found.items()}, beyond=beyond)


def is_open(histogram: Histogram | None, value: float | None) -> bool:
    """Whether a quantile is the last finite bound: all that is known is that it is no less."""
    bounds = [bound for bound, _ in histogram.buckets if bound < inf] if histogram else []
    return value is not None and (not bounds or value >= bounds[-1])


def at(histogram: Histogram | None, q: float) -> float | None:
    """A quantile; None of too few observations."""
    if histogram is None or histogram.count < ENOUGH:
        return None
    zero = Histogram(0.0, 0.0, tuple((bound, 0.0) for bound, _ in histogram.buckets))
    return quantile(zero, histogram, q)


def judge(case: Case) -> list[Judged]:
    """All causes in the order in which to look at them; none where no tail is known or long."""
    return [check(case) for check in CHECKS] if tail_of(case.looks).is_long else []


SKEWED: Final = (
    "requests were aborted while they waited, and the page counts that as prefills longer than the"
    " requests; two looks later on would tell"
)
MORE_EARLIER: Final = "more replicas, earlier: a target on waiting work"
WARM_UP: Final = "warm up before Ready: `cacheaware inject` adds it"


def queueing(case: Case) -> Judged:
    """Requests that wait before anything is done for them."""
    if is_skewed(case.looks):
        counted = queueing_by_count(case.looks)
        return counted if counted.state is State.CAUSE else Judged("queueing", State.OPEN, SKEWED)
    queue, first = mean(case.looks.between("queue")), mean(case.looks.between("ttft"))
    share = ratio(queue, first)
    if share is None:
        return queueing_by_count(case.looks)
    said = f"of {first:.2f} s to the first token, {queue:.2f} s are in the queue ({share:.0%})"
    if share >= 0.5:
        return Judged("queueing", State.CAUSE, said, MORE_EARLIER)
    if share < 0.2:
        return Judged("queueing", State.RULED_OUT, said)
    return Judged("queueing", State.OPEN, f"{said}: a part, not the whole")


def is_skewed(looks: Looks) -> bool:
    """Whether prefills took longer than the requests that they are parts of.

    vLLM counts a request so that was aborted in the engine while it waited, by
    `/pause?mode=abort`, and its time in the queue as 0.
    """
    prefill, whole = looks.between("prefill"), looks.between("e2e")
    return prefill is not None and whole is not None and prefill.sum > whole.sum


def queueing_by_count(looks: Looks) -> Judged:
    """The same of an engine that does not time its queue."""
    waiting, running = looks.sample.waiting, looks.sample.running
    if waiting is None:
        return Judged("queueing", State.OPEN, "the page tells neither a queue nor the time in it")
    if waiting > (running or 0.0):
        said = f"{waiting:g} wait behind {running or 0:g} that run"
        return Judged("queueing", State.CAUSE, said, MORE_EARLIER)
    if waiting == 0 and (looks.before is None or looks.before.sample.waiting == 0):
        return Judged("queueing", State.RULED_OUT, "nothing waits")
    said = f"{waiting:g} wait; the page does not tell for how long"
    return Judged("queueing", State.OPEN, said)


def kv_starvation(case: Case) -> Judged:
    """Requests that wait for room in the KV cache."""
    id_, sample = "kv-starvation", case.looks.sample
    usage = sample.usage_max
    if usage is None:
        return Judged(id_, State.OPEN, "the page does not tell how full the KV cache is")
    before = case.looks.before.sample.usage_max if case.looks.before else None
    fullest = max(usage, before or 0.0)
    said = f"the KV cache is {fullest:.0%} full"
    waits = bool(sample.waiting) or bool(case.looks.before and case.looks.before.sample.waiting)
    if fullest >= 0.95 and waits:
        fix = "more replicas, an FP8 KV cache, or a smaller --max-num-seqs"
        return Judged(id_, State.CAUSE, f"{said} and requests wait", fix)
    if fullest < 0.8:
        return Judged(id_, State.RULED_OUT, f"{said} at its fullest look")
    return Judged(id_, State.OPEN, f"{said}; look again when requests are slow")


def prefill_interference(case: Case) -> Judged:
    """Long prompts in the same steps as others' tokens."""
    id_, tail = "prefill-interference", tail_of(case.looks)
    if tail.token_p50 is None or tail.token_p99 is None:
        return Judged(id_, State.OPEN, "the page has no times between tokens")
    half, most = tail.token_p50 * 1e3, tail.token_p99 * 1e3
    said = f"tokens take {half:.0f} ms (p50) and {most:.0f} ms (p99)"
    if tail.token_p99 < 3 * tail.token_p50:
        return Judged(id_, State.RULED_OUT, f"{said}: long prompts don't hold up the others")
    steps, prompt = at(case.looks.between("steps"), 0.99), mean(case.looks.between("prompts"))
    if steps is None and prompt is None:
        return Judged(id_, State.OPEN, f"{said}; the page does not tell how long the prompts are")
    if max(steps or 0.0, prompt or 0.0) < 1024:
        return Judged(id_, State.RULED_OUT, f"{said}, but prompts and steps are short")
    what = f"prompts of {prompt:,.0f} tokens" if prompt else f"steps of {steps:,.0f} tokens (p99)"
    fix = "a smaller --max-num-batched-tokens (2048), or prefill and decode in pods of their own"
    return Judged(id_, State.CAUSE, f"{said}, with {what} in between", fix)


def cold_shapes(case: Case) -> Judged:
    """First requests of a shape, which compile kernels."""
    id_, looks = "cold-shapes", case.looks
    before = looks.before.sample.requests if looks.before and not looks.restarted else None
    if looks.restarted:
        return Judged(id_, State.CAUSE, "the engine began anew between the looks", WARM_UP)
    if before is None:
        return Judged(id_, State.OPEN, "how many requests it had served before is not known")
    if before >= 1000:
        return Judged(id_, State.RULED_OUT, f"it had served {before:,.0f} requests before")
    tail = tail_of(looks)
    if before < 100 and queueing(case).state is State.CAUSE:
        why = f"it had served {before:g} requests before, but the queue explains the slow ones"
        return Judged(id_, State.OPEN, why)
    if before < 100 and _long(tail.ttft_p50, tail.ttft_p99, inf):
        few = f"it had served {before:g} requests before, and some first tokens took far longer"
        return Judged(id_, State.CAUSE, few, WARM_UP)
    why = f"it had served {before:g} requests; the log says `JIT compilation during inference`"
    return Judged(id_, State.OPEN, f"{why} where a kernel was cold (vLLM from 0.21 on)")


def tokenizer(case: Case) -> Judged:
    """The process in front of the engine at the end of its one core."""
    id_, looks = "cpu-bound-tokenizer", case.looks
    cores = looks.per_second("cpu_seconds")
    if is_skewed(looks):
        return Judged(id_, State.OPEN, SKEWED)
    parts = [mean(looks.between(name)) for name in ("ttft", "queue", "prefill")]
    if cores is not None and cores < 0.5:
        return Judged(id_, State.RULED_OUT, f"the page's process uses {cores:.2f} of a core")
    if cores is None or None in parts:
        why = "two looks with process_cpu_seconds_total, queue and prefill times would tell"
        return Judged(id_, State.OPEN, why)
    first, queue, prefill = (part or 0.0 for part in parts)
    lost = first - queue - prefill
    said = f"its process uses {cores:.2f} cores; {lost:.2f} of {first:.2f} s to the first token are"
    if cores >= 0.85 and lost >= 0.3 * first:
        fix = "more API processes (vLLM: --api-server-count), more CPU for the pod, shorter prompts"
        return Judged(id_, State.CAUSE, f"{said} neither queue nor prefill", fix)
    if lost < 0.1 * first:
        return Judged(id_, State.RULED_OUT, f"{said} neither queue nor prefill")
    return Judged(id_, State.OPEN, f"{said} neither queue nor prefill")


def slow_node(case: Case) -> Judged:
    """This pod slower than others that serve the same."""
    id_ = "slow-node"
    known = [one for one in case.peers if token_s(one)]
    if token_s(case.looks) is None or len(known) < ENOUGH_PEERS:
        return Judged(id_, State.OPEN, f"needs the pages of {ENOUGH_PEERS} other pods or more")
    if said := slower(case.looks, list(case.peers)):
        return Judged(id_, State.CAUSE, said, SLOW_FIX)
    return Judged(id_, State.RULED_OUT, f"{len(known)} other pods are no faster")


def recompute_storm(case: Case) -> Judged:
    """Step 1: requests thrown out of the cache and computed again."""
    id_, looks = "recompute-storm", case.looks
    count = looks.grown("preemptions")
    if count is None:
        return Judged(id_, State.OPEN, "two looks at a page with preemptions would tell")
    said = next((one for one in preempted(looks)), None)
    if said is None:
        return Judged(id_, State.RULED_OUT, "no preemptions between the looks")
    if is_storm(looks):
        return Judged(id_, State.CAUSE, said.message, said.fix)
    return Judged(id_, State.RULED_OUT, said.message)


def attention(case: Case) -> Judged:
    """Step 2: attention or numbers inside the model."""
    id_, grown = "attention", case.looks.grown("corrupted")
    found = [*(case.attention or ())]
    if grown:
        found.append(f"{grown:g} requests with NaN in their logits")
    if found:
        fix = "compare the weights with their source, the adapter with `cacheaware lora check`, and"
        return Judged(id_, State.CAUSE, "; ".join(found), f"{fix} the dtype with the model's own")
    if case.attention is None:
        return Judged(id_, State.OPEN, "no stored probe: `cacheaware probe attention` would tell")
    return Judged(id_, State.RULED_OUT, "the stored probe found nothing")


def positions(case: Case) -> Judged:
    """Step 3: ranks or pods that rotate by different tables."""
    id_, hashes = "positions", case.rope
    if len(hashes) < 2:
        return Judged(id_, State.OPEN, "RoPE hashes of two ranks or pods would tell: `cacheaware"
                      " probe rope`")  # fmt: skip
    if len(set(hashes.values())) == 1:
        return Judged(id_, State.RULED_OUT, f"{len(hashes)} RoPE tables are the same")
    said = ", ".join(f"{name} {text[:12]}" for name, text in hashes.items())
    fix = "the same config.json, RoPE scaling and engine version everywhere"
    return Judged(id_, State.CAUSE, f"RoPE tables differ: {said}", fix)


CHECKS: tuple[Callable[[Case], Judged], ...] = (
    queueing, kv_starvation, prefill_interference, cold_shapes, tokenizer, slow_node,
    recompute_storm, attention, positions,
)  # fmt: skip
