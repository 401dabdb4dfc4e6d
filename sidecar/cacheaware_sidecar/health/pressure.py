"""Rules about room: how full the cache is and becomes, what is thrown back, what waits."""

from collections.abc import Iterator
from typing import Final

from cacheaware_sidecar.engines.rates import ratio
from cacheaware_sidecar.health.looks import Looks, mean, sequences_that_fit, tokens_per_request
from cacheaware_sidecar.health.symptom import ERROR, INFO, WARNING, Symptom

NEAR_FULL: Final = 0.9
"""Usage, 0..1, as `FULL` and `FILLS_FROM`."""
FULL: Final = 0.98
FILLS_WITHIN_S: Final = 300.0
FILLS_FROM: Final = 0.5
"""Below this usage a growth is the ordinary coming and going."""
STORM_PER_REQUEST: Final = 0.5
"""Preemptions for each request that ends. A healthy trace had 0.08 (1,538 of 19,801 requests)."""
STORM_PER_RUNNING_MINUTE: Final = 1.0
"""Where no request ended: each one that runs is thrown back once a minute."""
ENOUGH_ENDED: Final = 10
"""Requests that ended, for a ratio over them to be none of chance."""
ENOUGH_PREEMPTED: Final = 5
LONG_WAIT_S, VERY_LONG_WAIT_S = 10.0, 60.0
FEW_WAIT: Final = 8
"""Requests; fewer are no queue."""
MANY_WAIT: Final = 50
MANY_ROUNDS: Final = 10
"""Times as many as run."""


def near_full(looks: Looks) -> Iterator[Symptom]:
    """Usage near full, and for how long as far as the looks tell."""
    usage = looks.sample.usage_max
    if usage is None or usage < NEAR_FULL:
        return
    before = looks.before.sample.usage_max if looks.before and not looks.restarted else None
    lasts = before is not None and before >= NEAR_FULL
    waiting = looks.sample.waiting or 0.0
    refused = lasts and min(usage, before or 0.0) >= FULL and waiting > 0
    yield Symptom(
        "kv-full",
        ERROR if refused else WARNING,
        f"{usage:.1%} of the KV cache is pinned{_how_long(looks, lasts=lasts)}"
        + (f", and {waiting:g} requests wait" if waiting else ""),
        "more replicas, or less at once: a smaller --max-num-seqs (vLLM), --max-running-requests"
        " (SGLang), or an FP8 KV cache, which holds twice as many tokens",
    )


def _how_long(looks: Looks, *, lasts: bool) -> str:
    if looks.before is None:
        return "; one look does not tell for how long"
    if not lasts:
        return ", since less than the time between the looks"
    return " at both looks" + (f", {looks.seconds:g} s apart" if looks.seconds else "")


def fills(looks: Looks) -> Iterator[Symptom]:
    """The time until the cache is full, if it goes on like this."""
    left = time_to_full(looks)
    usage = looks.sample.usage
    if left is None or usage is None or left > FILLS_WITHIN_S or not FILLS_FROM <= usage < FULL:
        return
    yield Symptom(
        "kv-fills",
        WARNING,
        f"the KV cache went to {usage:.1%} within {looks.seconds:g} s; like this it is full in"
        f" {left:.0f} s",
        "a new replica has to be ordered its own cold start ahead; compare the two",
    )


def time_to_full(looks: Looks) -> float | None:
    """Seconds until usage is 1 at the pace between the looks; None where it does not grow."""
    if looks.before is None or looks.restarted or not looks.seconds:
        return None
    old, new = looks.before.sample.usage, looks.sample.usage
    if old is None or new is None or new <= old:
        return None
    return (1.0 - new) / (new - old) * looks.seconds


def preempted(looks: Looks) -> Iterator[Symptom]:
    """Preemptions between the looks: a storm, or the ordinary ones of a full cache."""
    count = looks.grown("preemptions")
    if not count or looks.restarted:
        return
    rate = looks.per_second("preemptions")
    said = f"{count:g} preemptions" + (f" {looks.span}" if looks.seconds else "")
    if not is_storm(looks):
        yield Symptom(
            "preemption-normal",
            INFO,
            f"{said}{_per_request(looks)}: a cache that is used well throws some back",
        )
        return
    again = tokens_again_per_s(looks)
    cost = f"; about {again:,.0f} tokens a second are computed again" if again else ""
    pace = f" ({rate:.2g} a second)" if rate else ""
    yield Symptom(
        "preemption-storm", ERROR, f"{said}{pace}{_per_request(looks)}{cost}", _relief(looks)
    )


def is_storm(looks: Looks) -> bool:
    """Whether requests are thrown back again and again, instead of now and then.

    By the requests that ended, where enough did; else by those that run. A total since the start
    of the engine says nothing: it is high on each pod that is old.
    """
    count, ended = looks.grown("preemptions"), looks.grown("requests")
    if count is None or count < ENOUGH_PREEMPTED or looks.restarted:
        return False
    if ended is not None and ended >= ENOUGH_ENDED:
        return count / ended >= STORM_PER_REQUEST
    pace = per_running_minute(looks)
    return pace is not None and pace >= STORM_PER_RUNNING_MINUTE


def per_running_minute(looks: Looks) -> float | None:
    """Preemptions a minute for each request that runs."""
    each = ratio(looks.per_second("preemptions"), looks.sample.running)
    return None if each is None else each * 60.0


def tokens_again_per_s(looks: Looks) -> float | None:
    """Tokens a second that preempted requests have computed before: their mean KV each."""
    rate, held = looks.per_second("preemptions"), looks.sample.used_tokens
    each = ratio(held, looks.sample.running)
    return None if rate is None or each is None else rate * each


def _per_request(looks: Looks) -> str:
    each = ratio(looks.grown("preemptions"), looks.grown("requests"))
    if each is not None:
        return f", {each:.2g} for each request that ended"
    pace = per_running_minute(looks)
    return "" if pace is None else f", {pace:.2g} a minute for each that runs"


def _relief(looks: Looks) -> str:
    size, each = looks.sample.capacity_tokens, tokens_per_request(looks)
    fit = f" of {sequences_that_fit(size, each):,}" if size and each else ""
    reason = f": the pool's {size:,.0f} tokens hold no more of {each:,.0f}" if fit else ""
    return f"--max-num-seqs{fit or ' smaller'}{reason}; and more replicas"


def queued(looks: Looks) -> Iterator[Symptom]:
    """A queue that takes long to get through."""
    waiting, running = looks.sample.waiting, looks.sample.running
    if not waiting or waiting < FEW_WAIT:
        return
    wait = wait_s(looks)
    rounds = waiting / max(running or 0.0, 1.0)
    if wait is not None:
        severity = ERROR if wait >= VERY_LONG_WAIT_S else WARNING
        said = wait >= LONG_WAIT_S
    else:
        severity = ERROR if rounds >= MANY_ROUNDS and waiting >= MANY_WAIT else WARNING
        said = rounds >= 1
    if not said:
        return
    pace = "" if wait is None else f"; at the pace of now the last one waits {wait:,.0f} s"
    ran = "" if running is None else f" behind {running:,.0f} that run ({rounds:.1f} times as many)"
    yield Symptom(
        "queue-long",
        severity,
        f"{waiting:,.0f} requests wait{ran}{pace}{_reasons(looks)}",
        "more replicas; where KV use is low the prefill is the bottleneck, and a target on KV use"
        " alone never sees it",
    )


def wait_s(looks: Looks) -> float | None:
    """Seconds that the last of the queue waits: what waits over the requests ended a second.

    From two looks; from one, over those that run by the time that one of them takes without its
    queue (Little's law).
    """
    waiting, pace = looks.sample.waiting, looks.per_second("requests")
    if looks.before is None:
        whole, queue = mean(looks.sample.e2e), mean(looks.sample.queue)
        if whole is None or queue is None or whole <= queue:
            return None
        pace = ratio(looks.sample.running, whole - queue)
    return ratio(waiting, pace)


def _reasons(looks: Looks) -> str:
    told = [f"{count:g} for {reason}" for reason, count in looks.sample.waiting_by_reason if count]
    return f" ({', '.join(told)})" if told else ""
