"""Policies by their names on the command line."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from cacheaware_sim.policies import (
    aibrix,
    constant,
    dynamo,
    hpa,
    keda,
    knative,
    token_velocity,
    wva_v1,
    wva_v2,
)
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.policy import Limits, Policy
from cacheaware_sim.policies.tuned import TUNED
from cacheaware_sim.profiles import Profile

S = TypeVar("S")
Variant = Literal["default", "tuned"]
_CONSTANT = re.compile(r"constant-([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a run can give to its policy beside observations; each takes what its peer is given."""

    limits: Limits
    profile: Profile
    targets: LatencyTargets
    demand: Callable[[], Iterable[constant.Demand]]
    """The trace anew, for policies that are allowed to know it."""
    cold_start_s: tuple[float, float] = (60.0, 10.0)
    """From ordered to serving: mean and standard deviation."""


@dataclass(frozen=True, slots=True)
class Peer(Generic[S]):
    """A published policy: its settings as shipped, and how to make it of settings."""

    default: S
    build: Callable[[S, Setup], Policy]


def _hpa(name: str, value_of: Any, settings: hpa.HpaSettings, setup: Setup) -> Policy:
    return hpa.HpaPolicy(name, value_of, settings, setup.limits)


def _keda(name: str, settings: keda.KedaSettings, setup: Setup) -> Policy:
    return keda.KedaPolicy(name, settings, setup.limits)


def _aibrix(name: str, settings: aibrix.AibrixSettings, setup: Setup) -> Policy:
    return aibrix.AibrixPolicy(name, settings, setup.limits)


def _dynamo(settings: dynamo.DynamoSettings, setup: Setup) -> Policy:
    return dynamo.DynamoPolicy(settings, setup.profile, setup.targets, setup.limits)


def _token_velocity(settings: token_velocity.VelocitySettings, setup: Setup) -> Policy:
    return token_velocity.TokenVelocityPolicy(settings, setup.profile, setup.targets, setup.limits)


def _static(
    name: str,
    replicas: Callable[[list[float], float], int],
    settings: constant.StaticSettings,
    setup: Setup,
) -> Policy:
    load = constant.load_curve(setup.demand(), setup.profile, setup.targets, settings.bin_s)
    return constant.ConstantPolicy(name, replicas(load, settings.utilization), setup.limits)


PEERS: Mapping[str, Peer[Any]] = {
    "static-peak": Peer(
        constant.DEFAULT,
        partial(_static, "static-peak", constant.peak_replicas),
    ),
    "static-mean": Peer(
        constant.DEFAULT,
        partial(_static, "static-mean", constant.mean_replicas),
    ),
    "hpa-gpu": Peer(hpa.GPU, partial(_hpa, "hpa-gpu", hpa.gpu_percent)),
    "hpa-waiting": Peer(hpa.WAITING, partial(_hpa, "hpa-waiting", hpa.waiting_requests)),
    "keda-kv": Peer(keda.KV, partial(_keda, "keda-kv")),
    "keda-waiting": Peer(keda.WAITING, partial(_keda, "keda-waiting")),
    "keda-both": Peer(keda.BOTH, partial(_keda, "keda-both")),
    "knative-kpa": Peer(
        knative.DEFAULT,
        lambda settings, setup: knative.KpaPolicy(settings, setup.limits),
    ),
    "aibrix-kpa": Peer(aibrix.DEFAULT, partial(_aibrix, "aibrix-kpa")),
    "aibrix-apa": Peer(aibrix.DEFAULT, partial(_aibrix, "aibrix-apa")),
    "wva-v1": Peer(
        wva_v1.DEFAULT,
        lambda settings, setup: wva_v1.WvaV1Policy(settings, setup.limits),
    ),
    "wva-v2": Peer(
        wva_v2.DEFAULT,
        lambda settings, setup: wva_v2.WvaV2Policy(settings, setup.limits),
    ),
    "dynamo": Peer(dynamo.DEFAULT, _dynamo),
    "token-velocity": Peer(token_velocity.DEFAULT, _token_velocity),
}


class Registry:
    """The peers and constant-N, and what is registered beside them.

    >>> Registry().names()[:3]
    ('constant-N', 'static-peak', 'static-mean')
    """

    def __init__(self) -> None:
        self._own: dict[str, Callable[[Setup], Policy]] = {}

    def register(self, name: str, factory: Callable[[Setup], Policy]) -> None:
        """Add a policy that is no peer's.

        Raises:
            ValueError: The name is taken.
        """
        if name in self.names() or _CONSTANT.fullmatch(name):
            raise ValueError(f"policy {name}: must be a new name")
        self._own[name] = factory

    def names(self) -> tuple[str, ...]:
        """All names; `constant-N` stands for any N."""
        return "constant-N", *PEERS, *self._own

    def make(
        self, name: str, setup: Setup, variant: Variant = "default", settings: object = None
    ) -> Policy:
        """The policy of that name.

        Args:
            name: One of `names()`, with a number for N.
            setup: What the run gives to it.
            variant: Of the peers' settings; constants and registered policies have one.
            settings: Instead of a variant's, for tuning.

        Raises:
            ValueError: One line that says what is allowed.
        """
        if match := _CONSTANT.fullmatch(name):
            return self._constant(name, int(match[1]), setup.limits)
        if name in self._own:
            return self._own[name](setup)
        if name not in PEERS:
            raise ValueError(f"policy {name}: must be one of {', '.join(self.names())}")
        peer = PEERS[name]
        if settings is None:
            settings = peer.default if variant == "default" else TUNED[name]
        return peer.build(settings, setup)

    @staticmethod
    def _constant(name: str, replicas: int, limits: Limits) -> Policy:
        if replicas != limits.clamp(replicas):
            raise ValueError(
                f"policy {name}: must be constant-{limits.min_replicas} to "
                f"constant-{limits.max_replicas}, the limits of the run"
            )
        return constant.ConstantPolicy(name, replicas, limits)
