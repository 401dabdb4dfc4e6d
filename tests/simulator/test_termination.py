import pytest

from cacheaware_sim.engine import Engine, NotAdmittedError
from cacheaware_sim.request import Request
from cacheaware_sim.termination import Habit, Termination


def engine_with(config, habit, timeout=0.0, seqs=1):
    engine = Engine(
        config(max_num_seqs=seqs, termination=Termination(habit=habit, timeout_s=timeout))
    )
    for number in (1, 2):
        engine.submit(Request(number, 10, 10), 0)
    engine.step(0)
    return engine


def test_vllm_fails_everything_at_once(config):
    engine = engine_with(config, Habit.ABORT)

    cut = engine.terminate(0.005)

    assert [request.outcome for request in cut] == ["abort", "abort"]
    assert engine.exited
    assert engine.snapshot().running == engine.snapshot().waiting == 0


@pytest.mark.parametrize(
    ("habit", "timeout"),
    [
        pytest.param(Habit.ABORT, 20, id="vLLM with a shutdown timeout"),
        pytest.param(Habit.FINISH, 0, id="finish"),
        pytest.param(Habit.CLOSE, 0, id="close"),
    ],
)
def test_what_runs_and_waits_is_finished_while_newcomers_fail(config, run, habit, timeout):
    engine = engine_with(config, habit, timeout)

    cut = engine.terminate(0.005)
    with pytest.raises(NotAdmittedError, match="shutting down"):
        engine.submit(Request(3, 10, 10), 0.006)
    assert not engine.exited
    _, results = run(engine, now=0.01)

    assert cut == []
    assert [request.id for result in results for request in result.finished] == [1, 2]
    assert engine.exited


@pytest.mark.parametrize("habit", [Habit.ABORT, Habit.FINISH, Habit.CLOSE])
def test_what_still_runs_at_the_timeout_is_cut(config, habit):
    engine = engine_with(config, habit, timeout=0.05)
    engine.terminate(0.0)

    results = [engine.step(now / 100) for now in range(1, 6)]

    assert [request.id for request in results[-1].aborted] == [1, 2]
    assert engine.exited


def test_one_that_never_exits_takes_newcomers_too(config, run):
    engine = engine_with(config, Habit.NEVER, timeout=0.01)
    engine.terminate(0.0)
    engine.submit(Request(3, 10, 10), 0.006)

    _, results = run(engine, now=0.01)

    assert [request.id for result in results for request in result.finished] == [1, 2, 3]
    assert engine.exited


def test_an_idle_engine_exits_at_once_whatever_its_habit(config):
    for habit in Habit:
        engine = Engine(config(termination=Termination(habit=habit)))
        engine.terminate(0)

        assert engine.exited


@pytest.mark.parametrize(
    ("habit", "listens", "admits"),
    [
        (Habit.ABORT, True, False),
        (Habit.FINISH, True, False),
        (Habit.CLOSE, False, False),
        (Habit.NEVER, True, True),
    ],
)
def test_who_listens_and_who_admits_after_sigterm(habit, listens, admits):
    termination = Termination(habit=habit)

    assert (termination.listens, termination.admits) == (listens, admits)
