import pytest

from cacheaware_sidecar.engines import rates
from cacheaware_sim.engine import Engine
from cacheaware_sim.request import Request
from cacheaware_sim.sample import sample_of

PROMPT, OUTPUT = 100, 400
ARRIVES_EVERY_S, LAST_AT_S = 0.2, 20.0


def samples(engine, moments):
    """Requests of 4 seconds arrive for 20 seconds, five a second; samples at these moments."""
    now, arrives, taken, wanted = 0.0, 0.0, [], list(moments)
    while wanted:
        while arrives <= min(now, LAST_AT_S):
            engine.submit(Request(int(arrives * 10), PROMPT, OUTPUT), now)
            arrives += ARRIVES_EVERY_S
        duration = engine.step(now).duration_s
        if now >= wanted[0]:
            wanted.pop(0)
            taken.append(sample_of(engine.snapshot(), engine.config, "m", 1.0))
        now += duration or 0.01
    return taken


@pytest.mark.parametrize(
    ("began", "ended", "prompt", "output"),
    [
        pytest.param(0, 2, PROMPT, pytest.approx(OUTPUT / 2, rel=0.15), id="none has ended yet"),
        pytest.param(0, 4.5, PROMPT, pytest.approx(OUTPUT, rel=0.15), id="the first have ended"),
        pytest.param(6, 7, PROMPT, pytest.approx(OUTPUT, rel=0.15), id="steady, a short window"),
        pytest.param(8, 16, PROMPT, pytest.approx(OUTPUT, rel=0.05), id="steady"),
        pytest.param(18, 22, PROMPT, pytest.approx(OUTPUT, rel=0.15), id="no more arrive"),
        pytest.param(21, 23, None, pytest.approx(OUTPUT, rel=0.35), id="running empty"),
    ],
)
def test_the_rates_of_its_samples_tell_the_size_of_its_requests(
    config, began, ended, prompt, output
):
    engine = Engine(config(num_blocks=1024, max_num_seqs=64))

    before, after = samples(engine, (began, ended))
    result = rates(before, after, ended - began)

    assert result.prompt_tokens_per_request == (prompt and pytest.approx(prompt, rel=0.1))
    assert result.generation_tokens_per_request == output
