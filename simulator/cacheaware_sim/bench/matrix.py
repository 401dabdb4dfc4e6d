"""Which runs a part of the benchmark is made of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from cacheaware_sim.bench.workloads import (
    ALL,
    MAX_REPLICAS,
    QUICK,
    QUICK_GENERATED,
    R1_DAY,
    STANDARD,
    Workload,
)
from cacheaware_sim.policies.registry import PEERS
from cacheaware_sim.run_spec import RunSpec, SpecError

OURS = "cacheaware"
ORACLE = "oracle"
BOUND = "bound"
"""No policy: the linear program's lower bound."""
CONSTANT = "constant"
"""On the command line: the whole front."""
VARIANTS = ("default", "tuned")
PARTS = ("quick", "standard", "full")
SEEDS = 5
PREFIX_CACHING = "on"
"""As vLLM ships. Where prompts share nothing it finds the blocks of preempted requests, which
spares fleets that are short of cache a part of the second prefill."""
BAND_SEEDS = 2
"""Of other hardware, cold starts and coefficients: they show whether a ranking holds."""
QUICK_SEEDS = 2
QUICK_PEERS = ("wva-v1", "wva-v2")
"""Tuned on the train split, the cheapest that keeps conv's target and the only one besides
hpa-gpu that follows the load and keeps both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a workload runs on."""

    model: str = "llama-3.1-8b"
    gpu: str = "l40s"
    tp: int = 1
    cold_start_s: float = 60.0
    coefficients: str = "recommended"
    pods: float = 1.0
    """Pods needed here for one of the main setting: where the front of constants is looked for."""

    @property
    def title(self) -> str:
        """For headings.

        >>> Setting(cold_start_s=15).title
        'llama-3.1-8b on l40s, cold start 15 s, recommended coefficients'
        """
        ranks = f" x{self.tp}" if self.tp > 1 else ""
        hardware = f"{self.model} on {self.gpu}{ranks}"
        return f"{hardware}, cold start {self.cold_start_s:g} s, {self.coefficients} coefficients"


MAIN = Setting()
BAND = (
    *(Setting(coefficients=name) for name in ("raw", "slow-prefill", "slow-decode")),
    *(Setting(cold_start_s=seconds) for seconds in (15.0, 110.0, 240.0)),
    Setting(gpu="h100", pods=0.35),
    Setting(model="llama-3.1-70b", gpu="h100", tp=4, pods=1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run."""

    workload: Workload
    setting: Setting = MAIN
    policy: str
    variant: str = "default"
    """default, tuned, or of a tuning grid its number."""
    seed: int = 0
    target: float = 99.0
    """Of the oracle, per cent."""

    def spec(self, data: Path) -> RunSpec:
        """The run itself.

        Raises:
            SpecError: One line.
        """
        load, on = self.workload, self.setting
        return RunSpec(
            trace=load.path(data),
            policy=self.policy,
            model=on.model,
            gpu=on.gpu,
            tp=on.tp,
            coefficients=on.coefficients,
            cold_start_s=on.cold_start_s,
            max_replicas=MAX_REPLICAS,
            scale=load.scale,
            jitter_s=load.jitter_s,
            seed=self.seed,
            slo_ttft_ms=load.slo_ttft_ms,
            slo_tpot_ms=load.slo_tpot_ms,
            from_s=load.from_s,
            to_s=load.to_s,
            variant=self.variant if self.variant in VARIANTS else "default",
            router=load.router,
            prefix_caching=PREFIX_CACHING,
            target_attainment=self.target,
        )

    @property
    def label(self) -> str:
        """For people.

        >>> from cacheaware_sim.bench.workloads import CONV
        >>> Case(workload=CONV, policy="wva-v1", variant="tuned", seed=3).label
        'wva-v1 tuned on conv, seed 3'
        """
        variant = "" if self.variant == "default" else f" {self.variant}"
        target = f" {self.target:g} %" if self.policy == ORACLE else ""
        return f"{self.policy}{variant}{target} on {self.workload.name}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asks for.

    Raises:
        SpecError: One line with the option, its value and what is allowed.
    """

    part: str = "standard"
    only: tuple[str, ...] = ()
    """Names of workloads; none: all of the part."""
    policies: tuple[str, ...] = ()
    """Names; none: all of the part."""
    seeds: int | None = None

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise SpecError(f"part {self.part}: must be one of {', '.join(PARTS)}")
        there = [load.name for load in (*ALL, *QUICK, *QUICK_GENERATED)]
        for name in self.only:
            if name not in there:
                raise SpecError(f"only {name}: must be one of {', '.join(there)}")
        known = (OURS, CONSTANT, *PEERS, ORACLE, BOUND)
        for name in self.policies:
            if name not in known:
                raise SpecError(f"policies {name}: must be one of {', '.join(known)}")
        if self.seeds is not None and not 1 <= self.seeds <= 100:
            raise SpecError(f"seeds {self.seeds}: must be 1 to 100")


def cases(wanted: Wanted, *, files: bool = True) -> tuple[Case, ...]:
    """All runs, those of the first seed first.

    Args:
        wanted: The part, or what of it.
        files: Whether there are trace files; else quick takes generators.
    """
    if wanted.part == "quick":
        found = list(_quick(wanted, QUICK if files else QUICK_GENERATED))
    else:
        found = list(_main(wanted, _loads(wanted)))
        if wanted.part == "full":
            found += _band(wanted)
    return tuple(sorted(found, key=lambda case: case.seed))


def _loads(wanted: Wanted) -> tuple[Workload, ...]:
    if wanted.only:
        return tuple(load for load in (*ALL, *QUICK, *QUICK_GENERATED) if load.name in wanted.only)
    return ALL if wanted.part == "full" else STANDARD


def _main(wanted: Wanted, loads: Iterable[Workload]) -> Iterator[Case]:
    seeds = range(SEEDS if wanted.seeds is None else wanted.seeds)
    for load in loads:
        yield from _policies(wanted, load, MAIN, seeds)
        for target in (*load.levels, *load.oracle_levels):
            if _asked(wanted, ORACLE):
                yield Case(workload=load, policy=ORACLE, target=target)
        if _asked(wanted, BOUND):
            yield Case(workload=load, policy=BOUND, target=load.levels[-1])


def _band(wanted: Wanted) -> Iterator[Case]:
    seeds = range(min(BAND_SEEDS, SEEDS if wanted.seeds is None else wanted.seeds))
    loads = [load for load in _loads(wanted) if load != R1_DAY]
    for setting, load in product(BAND, loads):
        yield from _policies(wanted, load, setting, seeds)


def _quick(wanted: Wanted, loads: Iterable[Workload]) -> Iterator[Case]:
    seeds = range(QUICK_SEEDS if wanted.seeds is None else wanted.seeds)
    for load in loads:
        if wanted.only and load.name not in wanted.only:
            continue
        for case in _policies(wanted, load, MAIN, seeds):
            if case.policy not in PEERS or (
                case.policy in QUICK_PEERS and case.variant == VARIANTS[1]
            ):
                yield case


def _policies(
    wanted: Wanted, load: Workload, setting: Setting, seeds: Sequence[int]
) -> Iterator[Case]:
    for policy, variant in (*_constants(load, setting), (OURS, "default"), *_peers()):
        name = CONSTANT if policy.startswith("constant-") else policy
        if _asked(wanted, name):
            for seed in seeds:
                yield Case(
                    workload=load, setting=setting, policy=policy, variant=variant, seed=seed
                )


def _asked(wanted: Wanted, name: str) -> bool:
    return not wanted.policies or name in wanted.policies


def _constants(load: Workload, setting: Setting) -> list[tuple[str, str]]:
    numbers = sorted({max(1, round(number * setting.pods)) for number in load.constants})
    return [(f"constant-{number}", "default") for number in numbers]


def _peers() -> list[tuple[str, str]]:
    return [(policy, variant) for policy in PEERS for variant in VARIANTS]
