"""What ranks say to each other in one step: how much, when, how long at the link's peak.

Volumes are those of the ring algorithms (Patarasuk, Yuan 2009): an all-reduce of n bytes over t
ranks sends and receives 2 (t - 1) / t x n on each rank, an all-gather (t - 1) / t x n.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cacheaware.model.architecture import Architecture
from cacheaware.model.gpus import Gpu
from cacheaware.model.precision import HALF_BYTES
from cacheaware.model.work import Step

_ONE_SUM: Final = frozenset({"falcon", "cohere", "gptj", "gpt_neox", "phi", "phi-msft"})
"""Types in which attention and FFN start from the same input."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One kind of exchange in a step.

    Attributes:
        name: `all-reduce`, `all-gather` or `send`.
        when: After what.
        count: How often in a step.
        payload: Bytes of the tensor.
        volume: Bytes that one rank sends, each time.
        seconds: Of one exchange, at the link's peak in one direction; latency not counted.
    """

    name: str
    when: str
    count: int
    payload: int
    volume: int
    seconds: float

    @property
    def total_s(self) -> float:
        """Seconds in a step."""
        return self.count * self.seconds


def collectives(
    model: Architecture, step: Step, gpu: Gpu, tensor: int, pipeline: int
) -> Iterator[Collective]:
    """The exchanges of one step over all its layers."""
    one_way = gpu.link_gb_s / 2 * 1e9
    values = HALF_BYTES * step.tokens * model.hidden
    ring = (tensor - 1) / tensor
    if tensor > 1:
        mixers = sum(layer.mixer is not None for layer in model.layers)
        feeds = sum(layer.feed is not None for layer in model.layers)
        logits = HALF_BYTES * step.batch * model.vocabulary
        sums = (
            ("the embedding (split by vocabulary)", 1),
            ("each output projection", mixers),
            ("each down projection or the experts", feeds),
        )
        for when, count in sums:
            if count:
                sent = round(2 * ring * values)
                yield Collective("all-reduce", when, count, values, sent, sent / one_way)
        sent = round(ring * logits)
        yield Collective("all-gather", "the head (logits)", 1, logits, sent, sent / one_way)
    if pipeline > 1:
        sent = values // tensor if tensor > 1 else values
        yield Collective(
            "send", "the last layer of a stage", pipeline - 1, values, sent, sent / one_way
        )


def could_share_a_sum(model: Architecture) -> bool:
    """Whether attention and FFN stand side by side, so that one all-reduce can do for both."""
    return model.layout in _ONE_SUM
