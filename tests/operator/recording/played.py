"""Fleets in virtual time, with what their policy saw and decided."""

from dataclasses import dataclass, field

import pytest

from cacheaware.decide.decision import Decision
from cacheaware.decide.learned import Learned
from cacheaware.recording import lines
from cacheaware.recording.histories import BEHAVIOR
from cacheaware.recording.privacy import Aliases, header_of, pod_line, sidecar_look
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.fleet.fleet import Fleet, FleetConfig
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.policies import ours
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.warmed import shapes_of
from cacheaware_sim.traces.randomness import stream
from cacheaware_sim.traces.trace import TraceRequest

LIMITS = Limits(1, 20)
SPEC = {
    "mode": "Scale",
    "behavior": BEHAVIOR,
    "minReplicas": LIMITS.min_replicas,
    "maxReplicas": LIMITS.max_replicas,
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "secret-model"},
}
"""`secret-model` must not be found in any recording."""


@dataclass
class Played:
    """A run, with what its policy saw and decided."""

    header: lines.Header
    rounds: list[lines.Round] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    score: Score | None = None


COST = IterationCost(
    c0_ms=10, c1_ms_per_seq=0.5, c2_ms_per_ktok=1, a1_ms_per_ktok=400, a2_ms_per_mtok2=0
)
ENGINE = EngineConfig(
    cost=COST,
    num_blocks=201,
    max_model_len=2048,
    max_num_seqs=64,
    max_num_batched_tokens=512,
    prefix_caching=False,
)
"""A request of 100 and 50 tokens keeps it busy for half a second."""


def play(monkeypatch: pytest.MonkeyPatch, rates, *, seed=1, seconds=300.0) -> Played:
    """Our own policy on a wave of requests; each step of these rates lasts for `seconds`."""
    aliases = Aliases(ours.SCALER, "Deployment")
    played = Played(
        header_of(
            kind="Deployment",
            spec=SPEC,
            round_seconds=ours.ROUND_S,
            gpus_per_replica=2,
            learned=Learned(),
            aliases=aliases,
        )
    )
    look_of, remember, decide = ours.look_of, ours.remember, ours.decide
    states, pods = [], []

    def looked(state, phase, at):
        states.append(state)
        return look_of(state, phase, at)

    def remembered(memory, record, look):
        pods.append(pod_line(record, sidecar_look(states[-1], look.at, aliases), aliases, 0.0))
        return remember(memory, record, look)

    def decided(fleet, policy, memory, now):
        decision, after = decide(fleet, policy, memory, now)
        seen = lines.Round(at_s=now, replicas=fleet.spec_replicas, pods=tuple(pods))
        pods.clear()
        played.rounds.append(seen)
        played.decisions.append(decision)
        return decision, after

    monkeypatch.setattr(ours, "look_of", looked)
    monkeypatch.setattr(ours, "remember", remembered)
    monkeypatch.setattr(ours, "decide", decided)
    fleet = Fleet(
        FleetConfig(
            engine=ENGINE, start_replicas=4, limits=LIMITS, cold_start_s=(30.0, 5.0), seed=seed
        ),
        ours.CacheAwarePolicy(LIMITS, shapes=shapes_of(ENGINE)),
    )
    played.score = fleet.run(wave(seed, rates, seconds))
    return played


def wave(seed, rates, seconds):
    """Requests at these rates, one after the other."""
    rng, requests, at = stream(seed, "wave"), [], 0.0
    for number, rate in enumerate(rates, 1):
        while (at := at + rng.expovariate(rate)) < number * seconds:
            requests.append(TraceRequest(at, rng.randint(20, 400), rng.randint(1, 200)))
        at = number * seconds
    return requests
