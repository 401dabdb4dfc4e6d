import pytest

from cacheaware_sim.engine import Engine
from cacheaware_sim.first_shapes import Shape
from cacheaware_sim.request import Request


def stalls(results):
    """Iterations that took longer than 10 ms, by the seconds above."""
    durations = [result.duration_s for result in results if result.duration_s is not None]
    return [round(duration - 0.01, 6) for duration in durations if duration > 0.0101]


@pytest.mark.parametrize(
    ("shape", "requests"),
    [
        pytest.param(Shape.PREFILL, [(10, 2)], id="the first prompt"),
        pytest.param(Shape.ALIGNED_PROMPT, [(64, 2)], id="a multiple of 16"),
        pytest.param(Shape.RAGGED_PROMPT, [(65, 2)], id="no multiple of 16"),
        pytest.param(Shape.LONG_PROMPT, [(513, 2)], id="a prompt of more than 512 tokens"),
        pytest.param(Shape.CHUNKED_PREFILL, [(300, 2)], id="a prompt of more than the budget"),
        pytest.param(Shape.BATCHED_DECODE, [(10, 4), (10, 4)], id="two decodes at once"),
    ],
)
def test_the_first_of_a_shape_stalls_and_the_second_does_not(config, run, shape, requests):
    engine = Engine(config(stalls_s={shape: 2.0}, max_num_batched_tokens=256))

    now, first = run(engine, [Request(n, *one) for n, one in enumerate(requests)])
    _, second = run(engine, [Request(n, *one) for n, one in enumerate(requests)], now)

    assert (stalls(first), stalls(second)) == ([2.0], [])


@pytest.mark.parametrize("shape", [Shape.STRUCTURED_OUTPUT, Shape.LOGPROBS])
def test_the_first_request_that_uses_a_feature_stalls_and_plain_ones_do_not(config, run, shape):
    engine = Engine(config(stalls_s={shape: 2.0}))
    seen = [
        stalls(run(engine, [Request(n, 100, 2, features=features)], n)[1])
        for n, features in enumerate([(), (shape,), (shape,)])
    ]

    assert seen == [[], [2.0], []]


@pytest.mark.parametrize(("shape", "other"), [("aligned-prompt", 65), ("ragged-prompt", 64)])
def test_lengths_of_one_kind_do_not_warm_an_engine_for_the_other(config, run, shape, other):
    engine = Engine(config(stalls_s={Shape(shape): 2.0}))

    assert stalls(run(engine, [Request(1, other, 2)])[1]) == []


def test_the_first_prefix_hit_stalls(config, run):
    engine = Engine(config(stalls_s={Shape.PREFIX_HIT: 2.0}))
    seen = [
        stalls(run(engine, [Request(n, 100, 2, block_names=[1, 2, 3])], n)[1]) for n in range(3)
    ]

    assert seen == [[], [2.0], []]


@pytest.mark.parametrize(
    ("prompt", "output"), [pytest.param(512, 2, id="512 tokens"), pytest.param(10, 2, id="short")]
)
def test_a_short_prompt_does_not_warm_an_engine_for_long_ones(config, run, prompt, output):
    engine = Engine(config(stalls_s={Shape.LONG_PROMPT: 2.0}))

    now, first = run(engine, [Request(1, prompt, output)])
    _, second = run(engine, [Request(2, 600, 2)], now)

    assert (stalls(first), stalls(second)) == ([], [2.0])


def test_several_shapes_at_once_add_up(config, run):
    engine = Engine(
        config(
            stalls_s={Shape.LONG_PROMPT: 2.0, Shape.CHUNKED_PREFILL: 1.0},
            max_num_batched_tokens=600,
        )
    )

    _, results = run(engine, [Request(1, 900, 2)])

    assert stalls(results) == [2.0, 1.0]


def test_a_prompt_that_was_preempted_counts_as_found_in_its_own_cache_not_as_cut(config, run):
    engine = Engine(config(num_blocks=5, max_model_len=128, stalls_s={Shape.CHUNKED_PREFILL: 2.0}))

    _, results = run(engine, [Request(1, 60, 10), Request(2, 60, 40)])

    assert engine.stats.preemptions == 1
    assert stalls(results) == []
