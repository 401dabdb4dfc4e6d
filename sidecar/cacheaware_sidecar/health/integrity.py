"""Rules about whether the engine and its page can be believed."""

from collections.abc import Iterator
from typing import Final

from cacheaware_sidecar.engines.detect import DIALECTS
from cacheaware_sidecar.engines.vllm import INFERENCE_SIM
from cacheaware_sidecar.health.looks import Looks
from cacheaware_sidecar.health.symptom import ERROR, INFO, WARNING, Symptom

STALL_S: Final = 60.0
"""So long without a token is no ordinary prefill."""
COUNT_AT_END: Final = frozenset(
    each.engine for each in (*DIALECTS, INFERENCE_SIM) if "generation_tokens" in each.counted_at_end
)
"""Engines whose counters stand still while a long request runs: they can't be judged by them."""
COUNTS_CORRUPTED: Final = "vllm"
"""The engine that can count requests with NaN in their logits."""


def corrupted(looks: Looks) -> Iterator[Symptom]:
    """Requests whose logits held NaN: answered with status 200, and wrong."""
    total, grown = looks.signs.corrupted, looks.grown("corrupted")
    if not total:
        return
    ended = looks.grown("requests")
    of = f", of {ended:g} that ended" if ended else ""
    yield Symptom(
        "corrupted-requests",
        ERROR if grown else WARNING,
        f"{grown:g} requests with NaN in their logits {looks.span}{of}"
        if grown
        else f"{total:g} requests since the engine's start had NaN in their logits",
        "take this pod out of service and restart it: blocks with NaN are used again through the"
        " prefix cache. If its node does it again, cordon the node. More replicas don't help",
    )


def corruption_not_measured(looks: Looks) -> Iterator[Symptom]:
    """An engine that could count such requests, and does not."""
    if looks.signs.corrupted is None and looks.sample.engine == COUNTS_CORRUPTED:
        yield Symptom(
            "corruption-not-measured",
            INFO,
            "whether logits hold NaN is not measured; that is not the same as healthy",
            "VLLM_COMPUTE_NANS_IN_LOGITS=1 (from 0.11.2 on) counts such requests, at some cost",
        )


def rejected(looks: Looks) -> Iterator[Symptom]:
    """Requests that the engine refused at its door."""
    grown = looks.grown("rejected")
    if grown:
        yield Symptom(
            "requests-rejected",
            ERROR,
            f"{grown:g} requests were refused at admission {looks.span}: their clients saw 503",
            "more replicas, or a longer --max-num-queued-reqs",
        )


def stalled(looks: Looks) -> Iterator[Symptom]:
    """An engine that has requests and makes no token."""
    ran = looks.before.sample.running if looks.before and not looks.restarted else None
    seconds = looks.seconds or 0.0
    if not ran or not looks.sample.running or seconds < STALL_S:
        return
    if looks.sample.engine in COUNT_AT_END:
        return
    if looks.grown("generation_tokens") != 0 or looks.grown("prompt_tokens"):
        return
    yield Symptom(
        "engine-stalled",
        ERROR,
        f"{looks.sample.running:g} requests run, and not one token came in {seconds:g} s",
        "read its log for a hung collective or a lost GPU; restart the pod",
    )


def began_anew(looks: Looks) -> Iterator[Symptom]:
    """An engine that was replaced: it is cold, and its counters begin at 0."""
    if looks.restarted:
        yield Symptom(
            "engine-restarted",
            WARNING,
            "the engine began anew between the looks: its cache is cold, and what its counters"
            " hold has come since",
            "`kubectl logs --previous` says why",
        )


def two_engines(looks: Looks) -> Iterator[Symptom]:
    """Pages of two engines, which are no two looks at one."""
    if looks.before is not None and looks.two_engines:
        old, new = (one or "no known engine" for one in (looks.before.sample.engine,
                                                         looks.sample.engine))  # fmt: skip
        yield Symptom(
            "two-engines",
            WARNING,
            f"the earlier page is of {old}, the later of {new}: they are no two looks at one"
            " engine, and the later was judged by itself",
            "give two pages of the same pod",
        )


def fell_alone(looks: Looks) -> Iterator[Symptom]:
    """A counter that fell while the process and the other counters went on."""
    if looks.before is not None and (name := looks.fallen) is not None:
        was, now = (getattr(one.sample, name) for one in (looks.before, looks.now))
        yield Symptom(
            "counter-fell",
            WARNING,
            f"{name} fell from {was:,.0f} to {now:,.0f} while the process and its other counters"
            " went on: no restart; what it gained is not known",
            "look for what rewrites the page: an exporter, a proxy, or a sum over engines of which"
            " one is missing",
        )


def not_a_ratio(looks: Looks) -> Iterator[Symptom]:
    """A percentage where a fraction belongs; it is not divided by 100, it is unknown."""
    for name, value in dict(looks.signs.not_ratios).items():
        yield Symptom(
            "not-a-ratio",
            WARNING,
            f"{name} is {value:g}: engines write a fraction from 0 to 1 there, whatever the name"
            " says; it is read as unknown, not as a percentage",
            "look for what rewrites the page: an exporter or a recording rule",
        )


def unknown(looks: Looks) -> Iterator[Symptom]:
    """What the page does not tell, so that nobody takes silence for health."""
    sample = looks.sample
    if sample.engine is None:
        yield Symptom(
            "engine-unknown",
            WARNING,
            "; ".join(sample.problems) or "no engine's names are on it",
            "give the engine's own metrics page: /metrics, of TensorRT-LLM /prometheus/metrics",
        )
        return
    if sample.usage is None:
        yield Symptom("usage-unknown", INFO, "the page does not tell how full the KV cache is")
    if sample.sleeping:
        yield Symptom("engine-sleeps", INFO, "the engine sleeps: it serves nothing")
