"""Coasting measures what single steps measure."""

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cacheaware_sim.engine import Engine, NotAdmittedError
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.first_shapes import Shape
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.request import Request
from cacheaware_sim.sample import HISTOGRAMS, sample_of
from cacheaware_sim.termination import Habit, Termination
from cacheaware_sim.virtual_time import VirtualTimeEngine

TICK_S = 0.00173
TIE_S = 1e-7
FOREVER_S = 1e6


@dataclass
class SingleSteps:
    """The plain driver: one call per iteration."""

    engine: Engine
    ends_at: float | None = None
    ends: list[float] = field(default_factory=list)
    """When iterations ended."""
    told: list[tuple] = field(default_factory=list)

    def until(self, now):
        while True:
            busy = self.engine.running or self.engine.waiting
            cut_at = self.engine.abort_at if busy else math.inf
            if cut_at <= now and (self.ends_at is None or cut_at < self.ends_at):
                self.tell(cut_at, aborted=self.engine.abort_all(cut_at))
            elif self.ends_at is not None and self.ends_at <= now:
                self.ends.append(self.ends_at)
                self.step(self.ends_at)
            else:
                return

    def submit(self, request, now):
        self.engine.submit(request, now)
        if self.ends_at is None:
            self.step(now)

    def abort(self, request, now):
        return self.engine.abort(request, now)

    def terminate(self, now):
        return self.engine.terminate(now)

    def set_cost(self, cost, now):
        self.engine.config = _at(self.engine.config, cost)

    def generated(self, request, now):
        return self.engine.generated(request)

    def snapshot(self, now):
        return self.engine.snapshot()

    def step(self, now):
        result = self.engine.step(now)
        self.ends_at = None if result.duration_s is None else now + result.duration_s
        self.tell(now, result.first_tokens, result.finished, result.preempted, result.aborted)

    def tell(self, now, first_tokens=(), finished=(), preempted=(), aborted=()):
        ids = [[one.id for one in each] for each in (first_tokens, finished, preempted, aborted)]
        if any(ids):
            self.told.append((now, ids))


class Coasting(SingleSteps):
    """The driver that is tested."""

    def __init__(self, engine):
        super().__init__(engine)
        self.virtual = VirtualTimeEngine(engine)
        self.submit = self.virtual.submit
        self.abort = self.virtual.abort
        self.terminate = self.virtual.terminate
        self.set_cost = self.virtual.set_cost
        self.generated = self.virtual.generated
        self.snapshot = self.virtual.snapshot
        self.wakes = 0

    def until(self, now):
        while (wake := self.virtual.wake_at) is not None and wake <= now:
            result = self.virtual.advance(wake)
            self.wakes += 1
            self.tell(wake, result.first_tokens, result.finished, result.preempted, result.aborted)


def _at(config, cost):
    names = EngineConfig.__dataclass_fields__
    return EngineConfig(**{**{name: getattr(config, name) for name in names}, "cost": cost})


COSTS = st.sampled_from(
    [
        # c0, c1 per sequence, c2 per ktok, a1 per ktok, a2 per Mtok^2
        (3.137, 0.0713, 1.931, 17.77, 1.37),
        (3.137, 0, 0, 17.77, 1.37),  # every iteration takes the same time
        (2.917, 0.5113, 731.3, 5.171, 0),  # far from it: durations cross the buckets
    ]
).map(
    lambda cost: IterationCost(
        **dict(
            zip(
                ("c0_ms", "c1_ms_per_seq", "c2_ms_per_ktok", "a1_ms_per_ktok", "a2_ms_per_mtok2"),
                cost,
                strict=True,
            )
        )
    )
)
REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 90),  # prompt
        st.one_of(st.integers(1, 60), st.integers(60, 200)),  # output
        st.integers(0, 3),  # which prefix it shares; 0 is none
        st.booleans(),  # whether its answer has names, too
        st.one_of(st.integers(0, 200), st.integers(0, 1500)),  # ticks until it arrives
        st.one_of(st.none(), st.none(), st.integers(0, 900)),  # ticks until its client leaves
    ),
    min_size=1,
    max_size=20,
)
TERMINATIONS = st.one_of(
    st.none(),
    st.tuples(
        st.integers(0, 2500),
        st.builds(
            Termination, habit=st.sampled_from(Habit), timeout_s=st.sampled_from([0.0, 0.31])
        ),
    ),
)


@st.composite
def scenarios(draw):
    """(config, events): an event is (tick, kind, argument), in the order of time."""
    size = draw(st.sampled_from([4, 8, 16]))
    seqs = draw(st.integers(1, 10))
    ended = draw(TERMINATIONS)
    config = {
        "cost": draw(COSTS),
        "block_size": size,
        "num_blocks": draw(st.integers(296 // size + 2, 1000 // size)),
        "max_model_len": 296,
        "max_num_seqs": seqs,
        "max_num_batched_tokens": draw(st.integers(seqs, 128)),
        "prefix_caching": draw(st.booleans()),
        "reserve_full_prompt": draw(st.booleans()),
        "stalls_s": draw(st.sampled_from([{}, dict.fromkeys(Shape, 0.0371)])),
        "termination": ended[1] if ended else Termination(),
    }
    events = [(tick, 3, None) for tick in draw(st.lists(st.integers(0, 4000), max_size=25))]
    for number, (prompt, output, group, named, arrives, stays) in enumerate(draw(REQUESTS)):
        tokens = prompt + output if named else prompt
        names = [group * 1000 + index for index in range(tokens // size)] if group else None
        events.append((arrives, 0, (number, prompt, output, names)))
        if stays is not None:
            events.append((arrives + stays, 1, number))
    if ended:
        events.append((ended[0], 2, None))
    if draw(st.booleans()):
        events.append((draw(st.integers(0, 2500)), 4, draw(COSTS)))
    return config, sorted(events, key=lambda event: event[:2])


def play(driver, events):
    """All events, then until nothing is left: the requests, and what was seen on the way."""
    requests, seen = {}, []
    for tick, kind, argument in events:
        now = tick * TICK_S
        driver.until(now)
        if kind == 0:
            number, prompt, output, names = argument
            request = Request(number, prompt, output, block_names=names)
            try:
                driver.submit(request, now)
            except NotAdmittedError:
                continue
            requests[number] = request
        elif kind == 1 and argument in requests:
            seen.append(driver.abort(requests[argument], now))
        elif kind == 2:
            seen.append([request.id for request in driver.terminate(now)])
        elif kind == 3:
            generated = [driver.generated(request, now) for request in requests.values()]
            snapshot = driver.snapshot(now)
            seen.append((snapshot, generated, driver.engine.pool.evictions))
            check_books(driver.engine, requests.values())
        elif kind == 4:
            driver.set_cost(argument, now)
    driver.until(FOREVER_S)
    seen.append((driver.snapshot(FOREVER_S), [], driver.engine.pool.evictions))
    return requests, seen


def check_books(engine, everyone):
    held = {name for request in everyone for name in request.named}
    nameless = sum(request.blocks - len(request.named) for request in everyone)
    assert engine.pool.in_use == nameless + len(held)


def close(mine, other):
    return mine == (other if other is None else pytest.approx(other, rel=1e-9, abs=1e-9))


def same_snapshot(mine, other):
    for name in ("running", "waiting", "usage", "counters", "outcomes"):
        assert getattr(mine, name) == getattr(other, name), name
    for name, histogram in other.histograms.items():
        assert mine.histograms[name].buckets == histogram.buckets, name
        assert close(mine.histograms[name].sum, histogram.sum), name


TIMES = ("arrived_at", "scheduled_at", "first_token_at", "finished_at")
COUNTS = ("id", "outcome", "generated", "preemptions", "cached_tokens", "found_tokens", "blocks")


@settings(max_examples=300, deadline=None)
@given(scenarios())
def test_coasting_and_single_steps_measure_the_same(scenario):
    config, events = scenario
    plain = SingleSteps(Engine(EngineConfig(**config)))
    coasting = Coasting(Engine(EngineConfig(**config)))

    expected, seen = play(plain, events)
    moments = {tick * TICK_S for tick, *_ in events}
    assume(all(abs(end - moment) > TIE_S for end in plain.ends for moment in moments))
    requests, seen_too = play(coasting, events)

    assert requests.keys() == expected.keys()
    for number, request in requests.items():
        for name in COUNTS:
            assert getattr(request, name) == getattr(expected[number], name), name
        for name in TIMES:
            assert close(getattr(request, name), getattr(expected[number], name)), name
    assert [ids for _, ids in coasting.told] == [ids for _, ids in plain.told]
    assert close([now for now, _ in coasting.told], [now for now, _ in plain.told])
    for mine, other in zip(seen_too, seen, strict=True):
        if isinstance(mine, tuple):
            same_snapshot(mine[0], other[0])
            assert mine[1:] == other[1:]
        else:
            assert mine == other
    assert coasting.wakes <= len(plain.ends) + len(events)


@pytest.fixture
def virtual(config):
    """An engine in virtual time, its iterations 10 ms long."""

    def make(**changes):
        return VirtualTimeEngine(Engine(config(**changes)))

    return make


def wakes(engine):
    """When it woke until it was idle."""
    moments = []
    while (now := engine.wake_at) is not None:
        engine.advance(now)
        moments.append(now)
    return moments


def test_a_long_answer_takes_as_many_calls_as_a_short_one(virtual):
    engine = virtual(max_num_seqs=1)
    engine.submit(Request(1, 10, 1000), 1.0)

    assert wakes(engine) == pytest.approx([1.0, 1.01, 11.0])
    assert engine.engine.stats.iterations == 1000


def test_an_arrival_joins_when_the_iteration_that_runs_has_ended(virtual):
    engine = virtual()
    engine.submit(Request(1, 10, 500), 0.0)
    engine.advance(0.011)
    late = Request(2, 10, 2)

    engine.submit(late, 1.004)

    assert engine.wake_at == pytest.approx(1.01)
    engine.advance(2.0)
    assert late.scheduled_at == pytest.approx(1.01)
    assert (late.first_token_at, late.finished_at) == pytest.approx((1.02, 1.03))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"max_num_seqs": 1}, id="no sequence is left"),
        pytest.param({"num_blocks": 41, "max_model_len": 1000}, id="too few blocks are left"),
    ],
)
def test_those_who_wait_in_vain_hold_nobody_up(virtual, changes):
    engine = virtual(**changes)
    engine.submit(Request(1, 700, 250), 0.0)
    engine.advance(0.015)
    for number in range(2, 6):
        engine.submit(Request(number, 700, 1), 0.1 * number)

    moments = [now for now in wakes(engine) if now < 2.49]

    assert len(moments) <= 1
    assert engine.engine.stats.iterations == 250 + 4


def test_a_scrape_in_the_middle_shows_the_last_iteration_that_has_ended(virtual):
    engine = virtual()
    request = Request(1, 32, 500)
    engine.submit(request, 0.0)
    engine.advance(0.015)

    seen = [(engine.generated(request, now), engine.snapshot(now)) for now in (0.9749, 0.9849)]

    # Of 128 tokens in the cache four blocks are full, the fifth is taken for the next token.
    assert [generated for generated, _ in seen] == [97, 98]
    assert [snapshot.usage for _, snapshot in seen] == pytest.approx([4 / 63, 5 / 63])
    assert [snapshot.counters["generation_tokens"] for _, snapshot in seen] == [97, 98]
    assert engine.wake_at == pytest.approx(5.0)


def test_advancing_late_tells_all_that_has_happened(virtual):
    engine = virtual()
    first, second = Request(1, 10, 5), Request(2, 10, 50)
    engine.submit(first, 0.0)
    engine.submit(second, 0.0)

    result = engine.advance(10.0)

    assert result.first_tokens == result.finished == [first, second]
    assert engine.wake_at is None
    assert engine.advance(11.0).finished == []


def test_a_shutdown_cuts_in_the_middle_of_an_iteration(virtual):
    engine = virtual(termination=Termination(habit=Habit.FINISH, timeout_s=1.0))
    request = Request(1, 10, 500)
    engine.submit(request, 0.0)
    engine.advance(0.015)

    assert engine.terminate(0.2049) == []
    assert engine.wake_at == pytest.approx(1.2049)
    result = engine.advance(1.2049)

    assert result.aborted == [request]
    assert (request.generated, request.finished_at) == (120, 1.2049)
    assert engine.engine.exited
    assert wakes(engine) == pytest.approx([1.21])


def test_all_can_be_dropped_at_once(virtual):
    engine = virtual()
    requests = [Request(number, 10, 500) for number in range(3)]
    for request in requests:
        engine.submit(request, 0.0)
    engine.advance(0.05)

    assert engine.abort_all(0.5) == requests
    assert not engine.abort(requests[0], 0.5)
    assert engine.snapshot(0.5).running == 0


def test_an_engine_of_another_speed_ends_its_iteration_at_the_old_one(virtual, flat):
    engine = virtual()
    request = Request(1, 10, 101)
    engine.submit(request, 0.0)
    engine.advance(0.015)

    engine.set_cost(flat.faster(0.5), 0.505)

    engine.advance(10.0)
    assert request.finished_at == pytest.approx(0.51 + 50 * 0.02)


def test_a_sample_needs_few_of_the_histograms(virtual):
    engine = virtual()
    engine.submit(Request(1, 10, 101), 0.0)
    engine.advance(3.0)
    config = engine.engine.config

    whole, part = engine.snapshot(3.0), engine.snapshot(3.0, HISTOGRAMS)

    assert sample_of(part, config, "m", 0.0) == sample_of(whole, config, "m", 0.0)
    assert (len(whole.histograms), len(part.histograms)) == (16, 6)
