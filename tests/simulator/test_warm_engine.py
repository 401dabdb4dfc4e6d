"""What the sidecar's warm-up is worth: the first request of each shape, cold and warmed.

Once in virtual time, where there is no noise and 10 % is 10 %, and once with the real processes.
"""

import asyncio
import itertools
import json
import math
import random
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.sidecar.conftest import Sidecar

from cacheaware_sidecar.engine_answers import Answer
from cacheaware_sidecar.lifecycle import Verdict
from cacheaware_sidecar.warmup import Budget, Runner
from cacheaware_sidecar.warmup_plan import CHAT, COMPLETIONS, Limits, Wishes, plan
from cacheaware_sim import openai_api, tokens
from cacheaware_sim.engine import Engine
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.first_shapes import Shape
from cacheaware_sim.openai_api import Served
from cacheaware_sim.profiles import PROFILES
from cacheaware_sim.request import Phase, Request

STALL_S = 0.5
FEATURES = ("structured-output", "logprobs")
LIMIT = 2048
SERVED = Served(model="mock", max_model_len=4096, answer_tokens=64)
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
SEEDS = itertools.count(1)
SHAPES = {
    "short": (20, {}),
    "multiple-of-16": (160, {}),
    "ragged": (165, {}),
    "long": (600, {}),
    "chunked": (2500, {}),
    "repeat": (600, {}),
    "together": (165, {}),
    "structured-output": (165, {"response_format": SCHEMA}),
    "logprobs": (165, {"logprobs": 5}),
}
"""Tokens of a user's prompt, and what the request has besides."""


def bodies(shape):
    """The requests of one user, or of two at once; the one that is measured is the last."""
    length, extra = SHAPES[shape]
    prompts = [tokens.prompt_of(length, next(SEEDS)) for _ in range(2)]
    if shape not in {"together", "repeat"}:
        prompts = prompts[:1]
    if shape == "repeat":
        prompts = prompts[:1] * 2
    return [{"prompt": prompt, "max_tokens": 8, **extra} for prompt in prompts]


def p99(latencies):
    return sorted(latencies)[math.ceil(0.99 * len(latencies)) - 1]


class VirtualEngine:
    """The engine model behind the sidecar's own interface, by a clock that nobody waits for."""

    def __init__(self):
        profile = PROFILES["tiny"]
        self.engine = Engine(
            EngineConfig(
                cost=profile.cost,
                num_blocks=profile.num_blocks,
                max_model_len=profile.max_model_len,
                max_num_seqs=profile.max_num_seqs,
                max_num_batched_tokens=LIMIT,
                stalls_s=dict.fromkeys(Shape, STALL_S),
            )
        )
        self.now = 0.0
        self._ends_at = None

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds

    async def ask(self, path, body, timeout_s):
        asked = openai_api.parse(body, SERVED, chat=path == CHAT)
        prompt, output = asked.prompts[0], asked.output_tokens[0]
        answer = tokens.answer(tokens.seed_of(prompt), 0, output)
        names = tokens.block_names((*prompt, *answer), 16)
        request = Request(
            next(SEEDS), len(prompt), output, block_names=names, features=asked.features
        )
        self.engine.submit(request, self.now)
        await asyncio.sleep(0)  # those that are asked at the same time arrive, too
        while request.phase is not Phase.FINISHED:
            self._iterate()
        used = openai_api.usage(len(prompt), output, request.cached_tokens)
        return Answer(200, {"choices": [{"text": ""}], "usage": used})

    def _iterate(self):
        if self._ends_at is not None:
            self.now = max(self.now, self._ends_at)
        duration = self.engine.step(self.now).duration_s
        self._ends_at = None if duration is None else self.now + duration

    async def user(self, shape):
        """The latency of a request of a shape, in seconds."""
        requests = bodies(shape)
        if shape == "repeat":
            await self.ask(COMPLETIONS, requests.pop(0), 60)
        began = self.now
        await asyncio.gather(*(self.ask(COMPLETIONS, body, 60) for body in requests))
        return self.now - began

    async def warm_up(self):
        runner = Runner(
            engine=self,
            model="mock",
            budget=Budget(seconds=120, verdict=Verdict.READY),
            clock=self.clock,
            sleep=self.sleep,
            dice=random.Random(1),
        )
        limits = Limits(max_batched_tokens=LIMIT, max_model_length=4096, kv_tokens=8176)
        return await runner.run(plan(limits, Wishes(features=FEATURES)))


async def long_serving():
    engine = VirtualEngine()
    for shape in [*SHAPES] * 20:
        await engine.user(shape)
    return engine


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_warmed_engine_is_within_10_percent_of_one_that_has_served_for_long(shape):
    warmed, old, cold = VirtualEngine(), await long_serving(), VirtualEngine()
    result = await warmed.warm_up()
    assert (result.verdict, result.problems) == ("Warm", ())

    first_cold = await cold.user(shape)
    after_warmup = [await warmed.user(shape) for _ in range(100)]
    after_long = [await old.user(shape) for _ in range(100)]

    assert first_cold > STALL_S
    assert p99(after_warmup) <= 1.1 * p99(after_long)
    assert after_warmup[0] <= 1.1 * p99(after_long), "the very first as well"


async def test_each_shape_of_the_warmup_shows_its_stall_and_where_it_came_to_rest():
    result = await VirtualEngine().warm_up()
    shapes = {each.name: each for each in result.shapes}

    assert shapes["multiple-of-16"].tokens % 16 == 0
    assert shapes["ragged"].tokens % 16
    assert shapes["chunked"].tokens > LIMIT
    assert all(each.note is None for each in result.shapes)
    for name in ("short", "long", "chunked", "repeat", "together", *FEATURES):
        assert shapes[name].first_s - shapes[name].last_s > 0.9 * STALL_S, name
    assert sum(each.requests for each in result.shapes) == result.requests < 60


@pytest.mark.parametrize("missing", ["chunked", "repeat", "together", "long", "logprobs"])
async def test_a_plan_without_a_shape_leaves_its_stall_to_the_first_user(missing):
    """So the tests above can fail."""
    engine = VirtualEngine()
    runner = Runner(
        engine=engine,
        model="mock",
        budget=Budget(seconds=120, verdict=Verdict.READY),
        clock=engine.clock,
        sleep=engine.sleep,
        dice=random.Random(1),
    )
    limits = Limits(max_batched_tokens=LIMIT, max_model_length=4096, kv_tokens=8176)
    covers = {missing, "repeat", "chunked"} if missing == "long" else {missing}
    steps = [step for step in plan(limits, Wishes(features=FEATURES)) if step.name not in covers]
    await runner.run(steps)

    assert await engine.user(missing) > STALL_S


# With the real processes

ROUNDS = 30
NOISE_S = 0.05
"""Of two cores that run the test's processes: timers, scheduling, HTTP. A stall is ten times it."""
STALLS = ",".join(f"{shape}={STALL_S}" for shape in Shape)


def post(url, body):
    data = json.dumps(body).encode()
    request = urllib.request.Request(
        f"{url}/v1/completions", data, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        json.load(answer)


def latency(engine, shape):
    requests = bodies(shape)
    if shape == "repeat":
        post(engine.url, requests.pop(0))
    began = time.monotonic()
    with ThreadPoolExecutor(len(requests)) as pool:
        list(pool.map(lambda body: post(engine.url, body), requests))
    return time.monotonic() - began


def counter(engine, name):
    lines = engine.get("/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{"))


@pytest.mark.benchmark
def test_the_table_of_first_requests_cold_and_warmed(mock, tmp_path):
    flags = ("--first-shape-stall", STALLS)
    cold = {}
    for shape in SHAPES:
        engine = mock(*flags)
        cold[shape] = latency(engine, shape)
        engine.process.kill()
        engine.process.wait(10)

    old, fresh = mock(*flags), mock(*flags)
    for shape in [*SHAPES] * 10:
        latency(old, shape)
    sidecar = Sidecar(
        fresh, tmp_path, warmup_features=",".join(FEATURES), max_batched_tokens=LIMIT
    ).start()
    try:
        sidecar.until(lambda: sidecar.is_ready, 60)
        state = sidecar.get("/v1/state").json()
    finally:
        sidecar.stop()
    assert state["warmup"]["verdict"] == "Warm"
    assert counter(fresh, "vllm:request_success_total") == state["warmup"]["requests"]
    assert counter(fresh, "vllm:prompt_tokens_total") == state["warmup"]["prompt_tokens"]
    assert state["latency"]["e2e_s"]["count"] == state["latency"]["ttft_s"]["count"] == 0
    assert state["rates"]["requests_per_s"] in {None, 0}

    (line,) = [line for line in sidecar.log.read_text().splitlines() if "warm-up of" in line]
    print(f"\n{line}\nmilliseconds:")
    print(
        f"{'shape':<18}{'cold, first':>12}{'warmed, first':>15}{'warmed, p99':>13}{'old, p99':>10}"
    )
    rows = {}
    for shape in SHAPES:
        pairs = [(latency(fresh, shape), latency(old, shape)) for _ in range(ROUNDS)]
        warm, served = zip(*pairs, strict=True)
        rows[shape] = (cold[shape], warm[0], p99(warm), p99(served))
        numbers = [f"{1000 * each:.0f}" for each in rows[shape]]
        print("{:<18}{:>12}{:>15}{:>13}{:>10}".format(shape, *numbers))

    for shape, (first_cold, first_warm, warm, served) in rows.items():
        assert first_cold > STALL_S, shape
        assert max(first_warm, warm) <= 1.1 * served + NOISE_S, shape
