"""Short words for fleets, and a run of rounds."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from cacheaware.decide import Memory, decide
from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView, PodLoad, PodView, Unknown
from cacheaware.decide.policy import Policy
from cacheaware_sidecar.phase import Phase


def pod(name="a", *, kv=None, waiting=0.0, running=None, **fields):
    """A serving pod; `kv` is its usage, and None without a load of its own makes it unknown."""
    load = fields.pop("load", None)
    if load is None and kv is not None:
        load = PodLoad(usage=kv, waiting=waiting, running=running)
    return PodView(name=name, uid=f"uid-{name}", load=load, **fields)


def tokens(name="a", *, used=0.0, capacity=100_000.0, waiting=0.0, **fields):
    """A pod that tells tokens."""
    view = {key: fields.pop(key) for key in list(fields) if key in PodView.__struct_fields__}
    load = PodLoad(
        usage=used / capacity,
        used_tokens=used,
        capacity_tokens=capacity,
        waiting=waiting,
        **fields,
    )
    return PodView(name=name, uid=f"uid-{name}", load=load, **view)


def idle(name="a", **fields):
    """A pod that was seen empty for long."""
    return pod(name, kv=0.0, running=0.0, idle_rounds=9, **fields)


def booting(name="z", **fields):
    """A pod that has not served."""
    return pod(name, phase=Phase.LOADING, ready=False, **{"age_s": 60.0, **fields})


def unknown(name="u", reason=Unknown.REFUSED, **fields):
    """A serving pod of which nothing is known."""
    return pod(name, unknown=reason, **fields)


def fleet(pods: Iterable[PodView], spec=None, **fields):
    """A fleet whose target asks for as many pods as there are."""
    pods = tuple(pods)
    asked = len(pods) if spec is None else spec
    return FleetView(namespace="llm", name="chat", spec_replicas=asked, pods=pods, **fields)


class Rounds:
    """A scaler's life: rounds on one clock, each decision written as `mode: Scale` would."""

    def __init__(self, policy=None, *, replicas=1, now=1000.0):
        self.policy = policy or Policy(mode="Scale")
        self.now = now
        self.memory = Memory.start(replicas, now)
        self.decisions: list[Decision] = []

    def round(self, view: FleetView, *, after=0.0, write=True) -> Decision:
        """Decide `after` seconds later."""
        self.now += after
        decision, self.memory = decide(view, self.policy, self.memory, self.now)
        if write and decision.changes:
            self.memory = self.memory.scaled(decision.current, decision.desired, self.now)
        self.decisions.append(decision)
        return decision


@pytest.fixture
def rounds():
    return Rounds


@pytest.fixture
def once():
    """One decision of a fleet whose windows are not full of anything."""

    def run(view, now=1000.0, **policy):
        rules = Policy(**{"mode": "Scale", **policy})
        memory = replace(Memory.start(view.spec_replicas, now), peaks=(), lows=())
        return decide(view, rules, memory, now)[0]

    return run


@pytest.fixture
def make():
    """The words above."""
    return Words


class Words:
    pod = staticmethod(pod)
    tokens = staticmethod(tokens)
    idle = staticmethod(idle)
    booting = staticmethod(booting)
    unknown = staticmethod(unknown)
    fleet = staticmethod(fleet)
