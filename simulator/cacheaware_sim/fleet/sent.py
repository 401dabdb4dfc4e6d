"""A request on its way from its client to an engine."""

from cacheaware_sim.request import Request
from cacheaware_sim.traces.trace import TraceRequest


class Sent(Request):
    """A request of a trace, and when its client sent it: it may have waited for a pod."""

    __slots__ = ("sent_at",)

    def __init__(self, number: int, request: TraceRequest) -> None:
        super().__init__(
            number, request.prompt_tokens, request.output_tokens, block_names=request.prefix
        )
        self.sent_at = request.at
