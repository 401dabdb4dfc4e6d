import pytest

from cacheaware_sim.iteration import IterationCost

H100 = IterationCost(
    c0_ms=6.41,
    c1_ms_per_seq=0.0105,
    c2_ms_per_ktok=0.0417,
    a1_ms_per_ktok=16.6,
    a2_ms_per_mtok2=0.69,
)


def iteration_s(cost, batch, contexts, chunks):
    prefill = sum(cost.chunk_s(start, tokens) for start, tokens in chunks)
    return cost.decode_s(batch, contexts) + prefill


@pytest.mark.parametrize(
    ("batch", "contexts", "chunks", "milliseconds"),
    [
        pytest.param(0, 0, [], 6.41, id="an empty iteration reads the weights"),
        pytest.param(64, 64 * 256, [], 6.41 + 0.672 + 0.6832128, id="decodes and their contexts"),
        pytest.param(0, 0, [(0, 2048)], 6.41 + 33.9968 + 2.89406976, id="a prompt's first chunk"),
        pytest.param(
            0, 0, [(2048, 1000)], 6.41 + 16.6 + 0.69 * 5.096, id="a chunk sees all tokens before it"
        ),
        pytest.param(
            10,
            5000,
            [(0, 100), (0, 200)],
            6.41 + 0.105 + 0.2085 + (1.66 + 0.0069) + (3.32 + 0.0276),
            id="decodes and two chunks",
        ),
    ],
)
def test_an_iteration_takes_what_the_formula_says(batch, contexts, chunks, milliseconds):
    assert iteration_s(H100, batch, contexts, chunks) == pytest.approx(milliseconds / 1e3)


def test_chunks_of_a_prompt_cost_together_what_the_whole_prompt_costs():
    whole = H100.chunk_s(0, 3000)

    assert H100.chunk_s(0, 2048) + H100.chunk_s(2048, 952) == pytest.approx(whole)


def test_an_engine_twice_as_fast_takes_half_as_long():
    assert iteration_s(H100.faster(2), 10, 5000, [(0, 100)]) == pytest.approx(
        iteration_s(H100, 10, 5000, [(0, 100)]) / 2
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        pytest.param("c0_ms", 0, "c0_ms 0: must be above 0", id="an iteration takes time"),
        pytest.param("a1_ms_per_ktok", -1, "a1_ms_per_ktok -1: must be at least 0", id="negative"),
        pytest.param("c2_ms_per_ktok", float("nan"), "c2_ms_per_ktok nan", id="no number"),
    ],
)
def test_an_absurd_coefficient_is_refused(field, value, message):
    values = {name: getattr(H100, name) for name in H100.__slots__}

    with pytest.raises(ValueError, match=message):
        IterationCost(**{**values, field: value})
