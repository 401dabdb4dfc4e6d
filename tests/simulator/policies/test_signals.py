"""No peer reads what its real signal does not have: the rest may say anything."""

import random
from dataclasses import replace

import pytest

from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sidecar.phase import Phase
from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.registry import Registry, Setup

COUNTERS = {"engine", "running", "requests", "prompt_tokens", "generation_tokens"}
HITS = {"prefix_queries", "prefix_hits"}
READS = {
    "static-peak": set(),
    "static-mean": set(),
    "hpa-gpu": {"running"},
    "hpa-waiting": {"waiting"},
    "keda-kv": {"usage"},
    "keda-waiting": {"waiting"},
    "keda-both": {"usage", "waiting"},
    "knative-kpa": {"running", "waiting"},
    "aibrix-kpa": {"usage"},
    "aibrix-apa": {"usage"},
    "wva-v1": {"usage", "waiting"},
    "wva-v2": {"usage", "waiting", "capacity_tokens"} | COUNTERS,
    "dynamo": {"used_tokens", "capacity_tokens", "waiting"} | COUNTERS | HITS,
    "token-velocity": {"waiting"} | COUNTERS,
}


def wandering(pods, steps, page):
    """A fleet whose load wanders and whose queues grow; pods are silent, start and terminate."""
    chance = random.Random(7)
    done = dict.fromkeys(range(pods), 0.0)
    for step in range(steps):
        now = step * 5.0
        seen = []
        for pod in range(pods):
            done[pod] += chance.randint(0, 20)
            sample = page(
                running=float(chance.randint(0, 30)),
                waiting=float(chance.randint(0, 9) * (step // 8)),
                usage=min(1.0, chance.random() + step / 100),
                requests=done[pod],
                prompt_tokens=done[pod] * 900,
                generation_tokens=done[pod] * 150,
                prefix_queries=done[pod] * 900,
                prefix_hits=done[pod] * 300,
            )
            starts = step < 6 * pod % 20
            silent = starts or chance.random() < 0.1
            seen.append(
                PodSample(
                    name=f"pod-{pod}",
                    created_at=0.0,
                    phase=Phase.SERVING,
                    ready=not starts,
                    terminating=pod == 0 and step > 30,
                    sample=None if silent else sample,
                    sampled_at=None if silent else now,
                )
            )
        yield Observation(now, pods, tuple(seen))


def without(pod: PodSample, reads: set[str]) -> PodSample:
    """The pod with nothing on its page but `reads`, and another story from its sidecar."""
    sample = pod.sample
    if sample is not None:
        sample = EngineSample(**{name: getattr(sample, name) for name in reads})
    return replace(
        pod,
        sample=sample,
        phase=Phase.CORDONED,
        arrival_age_s=3.0,
        cordoned_s=99.0,
        empty=True,
    )


@pytest.mark.parametrize("variant", ["default", "tuned"])
@pytest.mark.parametrize("name", READS)
def test_it_decides_the_same_without_the_rest_of_the_page_and_the_sidecar(
    page, profile, name, variant
):
    setup = Setup(
        limits=Limits(1, 40),
        profile=profile,
        targets=LatencyTargets(),
        demand=lambda: [(0.0, 1000, 100)],
    )
    whole, part = (Registry().make(name, setup, variant) for _ in range(2))
    orders = []
    for seen in wandering(3, 80, page):
        pods = tuple(without(pod, READS[name]) for pod in seen.pods)
        orders.append((whole.decide(seen).replicas, part.decide(replace(seen, pods=pods)).replicas))

    assert all(one == other for one, other in orders)
    assert len(READS[name]) == 0 or len({one for one, _ in orders}) > 1


def test_every_peer_is_asked():
    assert {"constant-N", *READS} == set(Registry().names())
