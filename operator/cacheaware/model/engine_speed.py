"""How fast a replica is: the roofline of a step over the share of it that engines reach."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from cacheaware.model.architecture import Architecture
from cacheaware.model.collectives import collectives
from cacheaware.model.estimates import Estimate
from cacheaware.model.gpus import Gpu
from cacheaware.model.layer_work import Setting
from cacheaware.model.precision import Precision
from cacheaware.model.roofline import roof
from cacheaware.model.walk import operations
from cacheaware.model.work import Phase, Step
from cacheaware_sidecar.kv import Geometry

PREFILL_SHARE: Final = Estimate(0.50, 0.63, 0.85)
"""Roofline over measured time of prefill. AIConfigurator 0.12 (vLLM 0.24, bf16; 9 rows of 8B and
70B on A100, L40S, H100, H200): 0.60 to 0.83, and real runs take 20 % more than these kernel sums;
request logs of a real vLLM 0.19: 0.51 to 0.65 on an RTX PRO 6000."""
DECODE_SHARE: Final = Estimate(0.45, 0.64, 0.85)
"""The same of decode: 0.49 (TP 8) to 0.83, and 8 % more in real runs; logs: 0.70 to 0.84."""
_LAUNCH_S: Final = 126e-6
_LAUNCH_LAYER_S: Final = 32.1e-6
"""The least of a step beside its kernels (inference-sim's fit: BLIS)."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What steps of one replica take.

    Attributes:
        prefill_s: Seconds to compute one prompt.
        step_s: Seconds of a decode step, by sequences in it.
    """

    prefill_s: float
    step_s: Mapping[int, float]

    def step(self, batch: int) -> float:
        """A decode step of this many sequences: a straight line between those computed.

        Below the least and above the most of them the nearest.
        """
        sizes = sorted(self.step_s)
        for low, high in pairwise(sizes):
            if low <= batch <= high:
                part = (batch - low) / (high - low)
                return self.step_s[low] + part * (self.step_s[high] - self.step_s[low])
        return self.step_s[sizes[0] if batch < sizes[0] else sizes[-1]]


@dataclass(frozen=True, slots=True)
class Roofs:
    """The roofline of the steps of one replica.

    Attributes:
        layers: How many the model has.
        prompt_s: Seconds of a prompt at the roofline.
        step_s: Seconds of a decode step at the roofline, by sequences.
    """

    layers: int
    prompt_s: float
    step_s: Mapping[int, float]

    def speed(self, prefill_share: float, decode_share: float) -> Speed:
        """The speed at these shares of the roofline."""
        least = _LAUNCH_S + _LAUNCH_LAYER_S * self.layers
        return Speed(
            prefill_s=max(self.prompt_s / prefill_share, least),
            step_s={n: max(s / decode_share, least) for n, s in self.step_s.items()},
        )


@dataclass(frozen=True, slots=True)
class Replica:
    """A model on its ranks.

    Attributes:
        model: The model.
        kept: Its KV cache on these ranks.
        precision: How its weights are stored.
        gpu: The GPU of each rank.
    """

    model: Architecture
    kept: Geometry
    precision: Precision
    gpu: Gpu

    def seconds(self, step: Step) -> float:
        """A step at the roofline, exchanges between ranks included."""
        ranks = self.kept.parallel
        setting = Setting(step, self.precision, self.gpu, ranks.tensor)
        work = sum(
            roof(one, self.gpu).seconds for one in operations(self.model, self.kept, setting)
        )
        exchanges = collectives(self.model, step, self.gpu, ranks.tensor, ranks.pipeline)
        return work + sum(one.total_s for one in exchanges)


def roofs(replica: Replica, prompt: int, context: int, most: int) -> Roofs:
    """The roofline of a prompt and of decode steps of 1, 4, 16 ... up to `most` sequences.

    Args:
        replica: What computes them.
        prompt: Tokens of a prompt.
        context: Cached tokens of a sequence while it decodes, on average.
        most: The most sequences at a time, at least 1.
    """
    sizes = {1, most, *(4**power for power in range(1, 6) if 4**power < most)}
    return Roofs(
        layers=len(replica.model.layers),
        prompt_s=replica.seconds(Step(Phase.PREFILL, prompt, 0, 1)),
        step_s={
            size: replica.seconds(Step(Phase.DECODE, 1, context, size)) for size in sorted(sizes)
        },
    )
