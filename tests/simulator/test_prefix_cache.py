import pytest

from cacheaware_sim.engine import Engine
from cacheaware_sim.request import Request


def counters(engine):
    return engine.snapshot().counters


@pytest.mark.parametrize(
    ("prompt", "hits"),
    [
        pytest.param(224, 192, id="seven full blocks: the last one is computed for its last token"),
        pytest.param(225, 224, id="one token more: all seven are found"),
        pytest.param(31, 0, id="less than a block is never found"),
    ],
)
def test_the_same_prompt_twice_is_found_while_usage_reads_zero_between(config, run, prompt, hits):
    engine = Engine(config())
    names = list(range(1, prompt // 32 + 1))

    now, _ = run(engine, [Request(1, prompt, 4, block_names=names)])
    between = engine.snapshot()
    second = Request(2, prompt, 4, block_names=names)
    run(engine, [second], now)

    assert between.usage == 0.0
    assert between.counters["prefix_cache_hits"] == 0
    assert counters(engine)["prefix_cache_hits"] == second.cached_tokens == hits
    assert counters(engine)["prefix_cache_queries"] == 2 * prompt
    assert counters(engine)["prompt_tokens_cached"] == hits


def test_two_requests_of_one_prompt_share_its_blocks_while_both_run(config):
    engine = Engine(config())
    for number in (1, 2):
        engine.submit(Request(number, 100, 4, block_names=[1, 2, 3]), 0)

    engine.step(0)

    assert engine.pool.in_use == 3 + 1 + 1


def test_the_answer_is_found_by_the_next_turn(config, run):
    engine = Engine(config())
    names = list(range(1, 11))

    now, _ = run(engine, [Request(1, 64, 97, block_names=names[:5])])
    run(engine, [Request(2, 200, 4, block_names=names[:6])], now)

    assert counters(engine)["prefix_cache_hits"] == 160


def test_without_a_prefix_cache_nothing_is_looked_up(config, run):
    engine = Engine(config(prefix_caching=False))
    for number in (1, 2):
        run(engine, [Request(number, 100, 4, block_names=[1, 2, 3])])

    assert counters(engine)["prefix_cache_queries"] == 0
    assert counters(engine)["prefix_cache_hits"] == 0


def test_what_is_found_is_not_computed_again(config):
    engine = Engine(config(max_num_batched_tokens=40))
    engine.submit(Request(1, 100, 1, block_names=[1, 2, 3]), 0)
    for now in range(4):
        engine.step(now)
    engine.submit(Request(2, 100, 1, block_names=[1, 2, 3]), 4)

    engine.step(4)

    assert engine.step(5).first_tokens


def test_a_cache_of_strangers_gives_way_to_requests(config, run):
    engine = Engine(config())
    now = 0.0
    for number in range(10):
        names = [number * 100 + index for index in range(20)]
        now, _ = run(engine, [Request(number, 640, 2, block_names=names)], now)

    assert engine.pool.evictions > 0
    assert engine.pool.in_use == 0
    assert engine.pool.cached <= 63
