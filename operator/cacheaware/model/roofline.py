"""The roofline: the time that arithmetic or memory needs at the least.

Source: Williams, Waterman, Patterson, Roofline (2009). It flatters: kernels reach 60 to 90 % of
either peak, launches and gaps come on top.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cacheaware.model.gpus import Gpu
from cacheaware.model.work import Operation

VECTOR: Final = "fp32"
"""What norms, positions and activations are computed in: no matrix units."""


class Bound(StrEnum):
    """What an operation waits for."""

    COMPUTE = "compute"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Roof:
    """An operation under the roofline.

    Attributes:
        compute_s: Seconds of arithmetic at the peak.
        memory_s: Seconds of memory traffic at the peak.
    """

    compute_s: float
    memory_s: float

    @property
    def seconds(self) -> float:
        """The longer of both."""
        return max(self.compute_s, self.memory_s)

    @property
    def bound(self) -> Bound:
        """Which of them it is."""
        return Bound.COMPUTE if self.compute_s > self.memory_s else Bound.MEMORY


def roof(operation: Operation, gpu: Gpu) -> Roof:
    """The least time of one operation of one layer on one GPU."""
    rate = gpu.tflops[operation.dtype] * 1e12
    return Roof(operation.flops / rate, operation.moved / (gpu.bandwidth_gb_s * 1e9))
