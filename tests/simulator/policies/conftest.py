"""Shows policies fleets that are made by hand."""

from collections.abc import Callable

import pytest

from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sidecar.phase import Phase
from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.policies.policy import Orders, Policy
from cacheaware_sim.profiles import Profile

PAGE = {
    "running": 0.0,
    "waiting": 0.0,
    "usage": 0.0,
    "used_tokens": 0.0,
    "capacity_tokens": 100_000.0,
    "requests": 0.0,
    "prompt_tokens": 0.0,
    "generation_tokens": 0.0,
    "prefix_queries": 0.0,
    "prefix_hits": 0.0,
}


@pytest.fixture(scope="session")
def page() -> Callable[..., EngineSample]:
    """An engine's page; `usage` tells used_tokens where they are not given."""

    def make(**fields) -> EngineSample:
        values = {**PAGE, **fields}
        if "usage" in fields and "used_tokens" not in fields and fields["usage"] is not None:
            values["used_tokens"] = fields["usage"] * values["capacity_tokens"]
        return EngineSample(engine="vllm", **values)

    return make


@pytest.fixture(scope="session")
def serving(page) -> Callable[..., PodSample]:
    """A ready pod, scraped at `at`; or silent, or terminating."""

    def make(name="a", *, at=0.0, silent=False, terminating=False, **fields) -> PodSample:
        return PodSample(
            name=name,
            created_at=-1000.0,
            phase=Phase.SERVING,
            ready=not terminating,
            terminating=terminating,
            sample=None if silent else page(**fields),
            sampled_at=None if silent else at,
        )

    return make


@pytest.fixture(scope="session")
def starting() -> Callable[..., PodSample]:
    """A pod that loads its model."""

    def make(name="new", *, created_at=0.0) -> PodSample:
        return PodSample(
            name=name,
            created_at=created_at,
            phase=Phase.LOADING,
            ready=False,
            terminating=False,
            sample=None,
            sampled_at=None,
        )

    return make


@pytest.fixture(scope="session")
def fleet(serving, starting) -> Callable[..., Observation]:
    """Pods named by number, all with the same page, and some that start."""

    def make(now, pods, *, loading=0, replicas=None, **fields) -> Observation:
        ready = [serving(f"pod-{index}", at=now, **fields) for index in range(pods)]
        new = [starting(f"new-{index}") for index in range(loading)]
        return Observation(now, pods + loading if replicas is None else replicas, (*ready, *new))

    return make


@pytest.fixture(scope="session")
def obey() -> Callable[[Policy, Observation], Orders]:
    """Asks a policy, and lets its write go through."""

    def ask(policy, seen) -> Orders:
        orders = policy.decide(seen)
        if orders.replicas != seen.replicas:
            policy.wrote(seen.replicas, orders.replicas, seen.now)
        return orders

    return ask


@pytest.fixture(scope="session")
def profile() -> Profile:
    """Round: an iteration is 10 ms + 0.1 per request + 0.1 per 1,000 tokens, + 50 of prefill."""
    return Profile(
        name="round",
        source="OURS",
        cost=IterationCost(
            c0_ms=10, c1_ms_per_seq=0.1, c2_ms_per_ktok=0.1, a1_ms_per_ktok=50, a2_ms_per_mtok2=0
        ),
        num_blocks=10_000,
        block_size=16,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
    )
