"""Thousands of sidecars on loopback addresses behind one cheap server: the address tells which."""

import asyncio
import json
import random
import socket
import time
from dataclasses import dataclass, field, replace
from typing import Any

from cacheaware_sidecar.engines import Histogram, Rates
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import (
    Counters,
    KvState,
    Latency,
    PodState,
    ShapeState,
    StartState,
    WarmupState,
)
from cacheaware_sidecar.state_json import pod_state_to_json

CAPACITY = 420_000
"""Tokens: an 8B model on an H100."""
BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, float("inf")),
)
"""vLLM's buckets of the time to the first token."""
SHARES = [
    ["+Inf" if bound == float("inf") else bound, at / (len(BOUNDS) - 1)]
    for at, bound in enumerate(BOUNDS)
]
"""Of the requests, answered within each."""
SHAPES = tuple(
    ShapeState(name=name, requests=2, tokens=tokens, first_s=2 * took, last_s=took)
    for name, tokens, took in (
        *(("short", 16, 0.25), ("multiple-of-16", 512, 0.3), ("ragged", 777, 0.33)),
        *(("long", 4_000, 0.6), ("chunked", 9_000, 1.1)),
    )
)
CALM = 0.6
FULL = 0.95


@dataclass
class Sidecar:
    """One pod's; the load wanders a little, as loads do."""

    usage: float = CALM
    waiting: int = 0
    asked: list[float] = field(default_factory=list)
    """When its state was asked for."""

    def body(self, now: float) -> bytes:
        """The JSON of /v1/state."""
        usage = min(1.0, self.usage + random.uniform(-0.02, 0.02))
        running, seconds = round(60 * usage), int(now)
        TEMPLATE["sample_seq"], TEMPLATE["sample_age_s"] = seconds, round(now - seconds, 3)
        TEMPLATE["running"], TEMPLATE["waiting"] = running, self.waiting
        TEMPLATE["kv"]["usage"] = TEMPLATE["kv"]["usage_max"] = usage
        TEMPLATE["kv"]["used_tokens"] = usage * CAPACITY
        TEMPLATE["counters"]["prompt_tokens"] = 5_000 * seconds
        answered = float(6 * seconds)
        buckets = [[bound, answered * share] for bound, share in SHARES]
        TEMPLATE["latency"]["ttft_s"].update(count=answered, sum=0.3 * answered, buckets=buckets)
        return json.dumps(TEMPLATE).encode()


def realistic() -> dict[str, Any]:
    """A whole state of a pod that serves, as a sidecar writes it."""
    counted = Histogram(9_000.0, 2_700.5, tuple((one, 400.0 * at) for at, one in enumerate(BOUNDS)))
    state = PodState(
        phase=Phase.SERVING,
        phase_age_s=5_000.0,
        sample_age_s=0.4,
        engine="vllm",
        version="0.19.0",
        models=("meta-llama/Llama-3.1-8B-Instruct",),
        kv=KvState(capacity_tokens=CAPACITY, block_size=16, page_bytes=65_536),
        rates=Rates(
            prompt_tokens_per_s=5_000.0,
            generation_tokens_per_s=900.0,
            requests_per_s=6.1,
            prompt_tokens_per_request=820.0,
            generation_tokens_per_request=148.0,
            prefix_hit_ratio=0.3,
            preemptions_per_s=0.0,
        ),
        counters=Counters(prompt_tokens=0.0, generation_tokens=9e8, requests=1e6),
        latency=Latency(ttft_s=counted, tpot_s=counted, e2e_s=counted),
        warmup=WarmupState(step=6, steps=6, verdict="Warm", duration_s=21.0, shapes=SHAPES),
        start=StartState(loading_s=61.0, warming_s=21.0),
    )
    return pod_state_to_json(replace(state))


TEMPLATE = realistic()


class Sidecars:
    """All of them; `port` once it listens."""

    def __init__(self) -> None:
        self.by_address: dict[str, Sidecar] = {}
        self.port = 0
        self.asked = 0

    async def start(self) -> None:
        """Listen on all loopback addresses."""
        loop = asyncio.get_running_loop()
        sock = socket.create_server(("0.0.0.0", 0), backlog=4096)
        self.port = sock.getsockname()[1]
        await loop.create_server(lambda: Connection(self), sock=sock, backlog=4096)

    def add(self) -> str:
        """A new one; its address."""
        count = len(self.by_address)
        address = f"127.2.{count // 250}.{count % 250 + 1}"
        self.by_address[address] = Sidecar()
        return address


class Connection(asyncio.Protocol):
    """Answers each request head with the state."""

    def __init__(self, sidecars: Sidecars) -> None:
        self._sidecars = sidecars

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._mine = self._sidecars.by_address[transport.get_extra_info("sockname")[0]]

    def data_received(self, data: bytes) -> None:
        if not data.endswith(b"\r\n\r\n"):
            raise ValueError(f"half a request: {data!r}")
        now = time.monotonic()
        self._sidecars.asked += 1
        self._mine.asked.append(now)
        body = self._mine.body(now)
        head = f"HTTP/1.1 200 \r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        self._transport.write(f"{head}\r\n\r\n".encode() + body)
