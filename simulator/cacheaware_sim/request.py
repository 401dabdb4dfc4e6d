"""A request as the engine sees it: numbers of tokens, and the names of its blocks."""

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from cacheaware_sim.first_shapes import Shape

if TYPE_CHECKING:
    from cacheaware_sim.decode_batch import DecodeBatch


class Phase(IntEnum):
    """Where a request is inside the engine."""

    NEW = 0
    WAITING = 1
    PREFILL = 2
    DECODE = 3
    FINISHED = 4


class Request:
    """One request: what it asks for, and what became of it. Mutable and slotted for speed.

    `block_names` are the chained hashes of its full blocks of tokens, prompt first, then output as
    far as it is known beforehand, none of them twice; None means that no other request can share
    them. Times are seconds of the driver's clock.
    """

    __slots__ = (
        "arrived_at",
        "batch",
        "block_names",
        "cached_tokens",
        "computed",
        "ends_at_step",
        "features",
        "finished_at",
        "first_token_at",
        "found_tokens",
        "generated",
        "held",
        "id",
        "joined_at_step",
        "last_token_at",
        "max_tokens",
        "named",
        "outcome",
        "output_tokens",
        "own_names",
        "phase",
        "preemptions",
        "prompt_tokens",
        "scheduled_at",
        "serial",
        "stops",
        "target",
    )

    def __init__(
        self,
        id: int,  # noqa: A002 - the field's name
        prompt_tokens: int,
        output_tokens: int,
        *,
        block_names: Sequence[int] | None = None,
        max_tokens: int | None = None,
        stops: bool = False,
        features: tuple[Shape, ...] = (),
    ) -> None:
        self.id = id
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.block_names = block_names
        self.max_tokens = output_tokens if max_tokens is None else max_tokens
        self.stops = stops
        """Whether it ends by itself (`stop`) or at its limit (`length`)."""
        self.features = features
        """What it uses besides: structured output, log probabilities."""
        self.phase = Phase.NEW
        self.outcome: str | None = None
        """stop, length, abort or error, once it has finished."""
        self.arrived_at = 0.0
        self.scheduled_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at = 0.0
        """Of a preempted request: when its last token before that came out."""
        self.finished_at: float | None = None
        self.preemptions = 0
        self.cached_tokens = 0
        """Prompt tokens found in the prefix cache when it was first scheduled."""
        self.found_tokens = 0
        """Tokens found in the prefix cache when it was last scheduled."""
        self.generated = 0
        """Output tokens when it last joined or left the decodes: ask Engine.generated."""
        self.target = 0
        """Tokens to prefill: the prompt, after a preemption with the output so far."""
        self.computed = 0
        """Tokens of `target` found or prefilled."""
        self.held = 0
        """Blocks when it last joined or left the decodes: ask `blocks`."""
        self.named: list[int] = []
        """Those of its blocks that can be found by their names."""
        self.own_names = False
        """Whether nobody else knows the names of its blocks: it has got them when preempted."""
        self.batch: DecodeBatch | None = None
        """The decodes it is among."""
        self.serial = 0
        self.joined_at_step = 0
        self.ends_at_step = 0

    def check(self, max_model_len: int) -> None:
        """Raise ValueError for one that is empty or longer than that."""
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError("a request has at least one prompt and one output token")
        if self.prompt_tokens + self.output_tokens > max_model_len:
            raise ValueError(
                f"{self.prompt_tokens} prompt and {self.output_tokens} output tokens: "
                f"at most {max_model_len} together"
            )

    @property
    def blocks(self) -> int:
        """Blocks it holds, named or not."""
        return self.held if self.batch is None else self.batch.blocks(self)
