"""What an engine does when its cache is full."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheaware_sim.engine import Engine
from cacheaware_sim.request import Phase, Request


def test_a_full_cache_shows_what_the_real_vllm_showed(config, run):
    """Seen on vLLM 0.32: 24 requests of 400 tokens on 64 blocks of 32.

    Running 6, waiting 18, usage 0.95 to 1.0, 39 preemptions, all answered.
    """
    engine = Engine(config())
    requests = [Request(number, 12, 400) for number in range(24)]
    for request in requests:
        engine.submit(request, 0)

    seen, now = [], 0.0
    while (duration := engine.step(now).duration_s) is not None:
        now += duration
        seen.append(engine.snapshot())

    full = [one for one in seen if one.usage > 0.9]
    average = sum(one.running for one in full) / len(full)
    assert all(one.running + one.waiting <= 24 for one in seen)
    assert 5 <= average <= 7
    assert max(one.usage for one in seen) == 1.0
    assert any(one.running == 6 and one.waiting == 18 for one in full)
    assert 10 <= engine.stats.preemptions <= 60
    assert all(request.outcome == "length" for request in requests)


def test_the_newest_request_gives_its_blocks_to_the_older_one(config):
    engine = Engine(config(num_blocks=5, max_model_len=128))
    old, new = Request(1, 60, 40), Request(2, 60, 40)
    engine.submit(old, 0)
    engine.submit(new, 0)

    preempted = [engine.step(now).preempted for now in range(8)]

    assert [request.id for step in preempted for request in step] == [2]
    assert (old.phase, new.phase) == (Phase.DECODE, Phase.WAITING)
    assert engine.generated(new) == 5


def test_a_preempted_request_goes_to_the_front_of_the_queue(config):
    engine = Engine(config(num_blocks=5, max_model_len=128, max_num_seqs=2))
    for number in (1, 2, 3):
        engine.submit(Request(number, 60, 40), 0)

    for now in range(8):
        engine.step(now)

    assert [request.id for request in engine.waiting] == [2, 3]


def test_a_preempted_request_is_computed_anew_and_loses_no_token(config, run):
    engine = Engine(config(num_blocks=5, max_model_len=128, prefix_caching=False))
    old, new = Request(1, 60, 40), Request(2, 60, 40)

    run(engine, [old, new])

    assert (old.generated, new.generated) == (40, 40)
    assert new.preemptions == 1
    assert engine.snapshot().counters["generation_tokens"] == 80
    assert engine.snapshot().counters["prompt_tokens"] == 120
    assert engine.snapshot().histograms["time_to_first_token_seconds"].count == 2


def test_a_preempted_request_finds_its_own_blocks_again_if_nobody_took_them(config, run):
    engine = Engine(config(num_blocks=5, max_model_len=128))
    new = Request(2, 60, 40)

    run(engine, [Request(1, 60, 10), new])

    # Of its two full blocks the older request needed one: the later one.
    assert (new.preemptions, new.found_tokens) == (1, 32)
    # vLLM counts no lookups of preempted requests.
    assert engine.snapshot().counters["prefix_cache_queries"] == 120
    assert engine.snapshot().counters["prefix_cache_hits"] == new.cached_tokens == 0


def test_a_preempted_request_does_not_find_blocks_that_others_took(config, run):
    engine = Engine(config(num_blocks=5, max_model_len=128))
    new = Request(2, 60, 40)

    run(engine, [Request(1, 60, 60), new])

    assert (new.preemptions, new.found_tokens) == (1, 0)
    assert engine.pool.evictions > 0


def test_a_request_that_is_itself_the_newest_steps_back(config):
    engine = Engine(config(num_blocks=5, max_model_len=128))
    engine.submit(Request(1, 63, 40), 0)
    engine.submit(Request(2, 64, 40), 0)

    engine.step(0)
    result = engine.step(1)

    assert [request.id for request in result.preempted] == [2]


def test_a_prompt_in_the_making_steps_back_for_an_older_decode(config):
    engine = Engine(config(num_blocks=6, max_model_len=160, max_num_batched_tokens=33))
    engine.submit(Request(1, 30, 60), 0)
    engine.step(0)
    engine.submit(Request(2, 125, 2), 0.5)
    seen = []

    for now in range(1, 12):
        seen += engine.step(now).preempted

    assert [request.id for request in seen] == [2]


REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 200),  # prompt
        st.integers(1, 120),  # output
        st.integers(0, 3),  # which prefix it shares; 0 is none
        st.integers(0, 20),  # iterations until it arrives
        st.one_of(st.none(), st.integers(0, 40)),  # iterations until its client leaves
    ),
    min_size=1,
    max_size=25,
)


def names(prompt, output, group, size):
    if not group:
        return None
    return [group * 1000 + index for index in range((prompt + output) // size)]


@settings(max_examples=150, deadline=None)
@given(
    requests=REQUESTS,
    blocks=st.integers(42, 70),
    budget=st.integers(8, 128),
    caching=st.booleans(),
    reserve=st.booleans(),
)
def test_whatever_comes_the_books_stay_straight_and_everyone_ends(
    config, *, requests, blocks, budget, caching, reserve
):
    engine = Engine(
        config(
            num_blocks=blocks,
            block_size=8,
            max_model_len=320,
            max_num_batched_tokens=budget,
            prefix_caching=caching,
            reserve_full_prompt=reserve,
        )
    )
    arriving, leaving = [], []
    for number, (prompt, output, group, arrives, stays) in enumerate(requests):
        request = Request(number, prompt, output, block_names=names(prompt, output, group, 8))
        arriving.append((arrives, number, request))
        leaving.append((math.inf if stays is None else arrives + stays, request))
    arriving.sort()
    everyone = [request for _, request in leaving]
    now, step = 0.0, 0
    while True:
        while arriving and arriving[0][0] <= step:
            engine.submit(arriving.pop(0)[2], now)
        for moment, request in leaving:
            if moment == step and request.phase is not Phase.NEW:
                engine.abort(request, now)
        result = engine.step(now)
        check_books(engine, everyone)
        if result.duration_s is None and not arriving:
            break
        now += result.duration_s or 0.01
        step += 1
        assert step < 20_000

    assert all(request.phase is Phase.FINISHED for request in everyone)
    served = [request for request in everyone if request.outcome == "length"]
    assert all(request.generated == request.output_tokens for request in served)
    assert engine.pool.in_use == 0
    assert engine._decodes.size == engine._decodes.contexts == 0
    assert not any(engine._decodes._growing)
    assert sum(engine.snapshot().outcomes.values()) == len(everyone)


def check_books(engine, everyone):
    pool = engine.pool
    held = {name for request in everyone for name in request.named}
    nameless = sum(request.blocks - len(request.named) for request in everyone)
    assert pool.in_use == nameless + len(held)
    assert pool.free + pool.in_use == pool.usable
    assert 0 <= pool.cached <= pool.free
    contexts = [
        engine._decodes.computed(request)
        for request in engine.running.values()
        if request.phase is Phase.DECODE
    ]
    assert engine._decodes.contexts == sum(contexts)
    assert engine._decodes.size == len(contexts)
    assert all(
        request.blocks * engine.config.block_size >= engine._decodes.computed(request)
        for request in engine.running.values()
        if request.phase is Phase.DECODE
    )


@pytest.mark.parametrize("prompt", [31, 32, 33])
def test_a_finished_request_has_used_exactly_the_blocks_of_its_tokens(config, prompt):
    engine = Engine(config())
    request = Request(1, prompt, 33)
    engine.submit(request, 0)
    most = 0

    for now in range(40):
        engine.step(now)
        most = max(most, engine.pool.in_use)

    assert most == -(-(prompt + 32) // 32)
