"""One run of the canary, against a fake engine: in which way, of which model, and who answered."""

import pytest
from tests.sidecar.canary.fakes import Engine, run

from cacheaware_sidecar.canary.ask import Question, UnansweredError, ask
from cacheaware_sidecar.canary.completion import NoLogprobsError, Way


async def test_the_first_way_that_tells_is_taken():
    engine = Engine()
    engine.refuses = {Way.ECHO}
    assert (await ask(engine, Question(prompt="x"))).way is Way.PLAIN
    engine.refuses = {Way.ECHO, Way.PLAIN}
    told = []
    asked = await ask(engine, Question(prompt="x", engine="tgi"), answered=told.append)
    assert asked.way is Way.CHAT
    assert (asked.identity.model, asked.identity.engine) == ("m", "tgi")
    assert len(told) == 1


async def test_a_completion_without_log_probabilities_counts_but_is_passed_over():
    engine, told = Engine(), []
    engine.model = run(prompt=0, answer=())
    asked = await ask(engine, Question(prompt="x"), answered=told.append)

    assert asked.way is Way.PLAIN
    assert len(told) == 2


@pytest.mark.parametrize(
    ("model", "preferred", "chosen"),
    [(None, None, "m"), (None, "alias", "alias"), (None, "gone", "m"), ("x", "alias", "x")],
)
async def test_the_baselines_model_is_asked_for_where_it_is_served(model, preferred, chosen):
    engine = Engine()
    asked = await ask(engine, Question(prompt="x", model=model, preferred=preferred))

    assert asked.identity.model == chosen
    assert engine.asked[0][1]["model"] == chosen


async def test_the_fingerprint_stands_for_a_version_that_is_not_told():
    engine = Engine()
    assert (await ask(engine, Question(prompt="x"))).identity.version == "0.32.0"
    engine.tells = None
    assert (await ask(engine, Question(prompt="x"))).identity.version == "b4501"
    engine.refuses = {Way.ECHO, Way.PLAIN}
    assert (await ask(engine, Question(prompt="x"))).identity.version is None


@pytest.mark.parametrize("status", [401, 403])
async def test_a_missing_key_is_said(status):
    engine = Engine()
    engine.status = status
    with pytest.raises(NoLogprobsError, match="an API key is needed"):
        await ask(engine, Question(prompt="x"))


async def test_no_answer_is_no_judgement():
    engine = Engine()
    engine.status = None
    with pytest.raises(UnansweredError):
        await ask(engine, Question(prompt="x"))
