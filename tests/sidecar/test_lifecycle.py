from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.lifecycle import (
    LEEWAY_S,
    OUTLIVED_S,
    PROOF,
    SPENT_KEPT,
    Cordon,
    Cordoned,
    DeadlineSet,
    Drain,
    DrainBegun,
    Emptied,
    Healthy,
    Lifecycle,
    Refused,
    Scraped,
    Silent,
    Tick,
    Uncordoned,
    Unhealthy,
    UsedToken,
    Verdict,
    WarmupEnded,
    advance,
    is_ready,
)
from cacheaware_sidecar.phase import Phase

DRAIN = DrainBegun(seconds=25, grace=30)
ONE, TWO = UsedToken("a", 600.0), UsedToken("b", 900.0)


def after(*events, state=None, now=0.0):
    """Runs events a second apart."""
    state = state or Lifecycle(since=now)
    for event in events:
        now += 1
        state = advance(state, event, now)
    return state


SERVING = after(Scraped(100.0), Healthy(), WarmupEnded(1, Verdict.WARM))


def test_a_pod_loads_warms_and_serves():
    assert [
        after().phase,
        after(Scraped(100.0)).phase,
        after(Scraped(100.0), Healthy()).phase,
        SERVING.phase,
    ] == ["loading", "loading", "warming", "serving"]
    assert SERVING.since == 3.0
    assert SERVING.verdict == "Warm"


@pytest.mark.parametrize("verdict", [Verdict.READY, Verdict.NOT_APPLICABLE, Verdict.OFF])
def test_a_pod_that_was_not_warmed_serves_all_the_same(verdict):
    assert after(Healthy(), WarmupEnded(1, verdict)).phase == "serving"


def test_a_failed_warmup_keeps_the_pod_not_ready():
    state = after(Healthy(), WarmupEnded(1, Verdict.FAILED))

    assert (state.phase, state.verdict, is_ready(state, 9)) == ("warming", "Failed", False)


def test_the_warmup_of_an_older_engine_says_nothing():
    state = after(Healthy(), *[Refused()] * 3, Healthy(), WarmupEnded(1, Verdict.WARM))

    assert (state.phase, state.engine) == ("warming", 2)


def test_a_warmup_that_ends_when_nobody_waits_for_it_says_nothing():
    assert after(WarmupEnded(1, Verdict.WARM)).phase == "loading"


@pytest.mark.parametrize(
    "events",
    [
        [Silent()] * 9,
        [Refused()] * 2,
        [Refused(), Refused(), Silent(), Refused(), Refused()],
        [Refused(), Refused(), Scraped(100.0), Refused(), Refused()],
        [Unhealthy()] * 2,
        [Unhealthy(), Unhealthy(), Healthy(), Unhealthy(), Unhealthy()],
        [Scraped(100.0), Scraped(None), Scraped(100.3)],
        [Tick()] * 9,
        [Emptied(), Uncordoned()],
    ],
    ids=str,
)
def test_observation_that_proves_nothing_never_unserves(events):
    assert after(*events, state=SERVING).phase == "serving"


@pytest.mark.parametrize(
    "events",
    [[Refused()] * PROOF, [Unhealthy()] * PROOF, [Scraped(200.0)], [Scraped(50.0)]],
    ids=["refused", "unhealthy", "started later", "started earlier"],
)
@pytest.mark.parametrize("phase", [Phase.SERVING, Phase.CORDONED, Phase.WARMING])
def test_proof_that_the_engine_is_gone_sends_the_pod_back_to_loading(events, phase):
    state = after(*events, state=replace(SERVING, phase=phase))

    assert (state.phase, state.verdict) == ("loading", None)
    assert after(Healthy(), state=state).engine == 2


def test_a_page_between_unhealthy_answers_does_not_make_them_well():
    """vLLM's metrics page still answers when its engine core is dead."""
    events = [Unhealthy(), Scraped(100.0)] * 3

    assert after(*events, state=SERVING).phase == "loading"


def test_processes_that_share_a_port_are_taken_for_a_new_engine_only_once():
    state = after(*[Scraped(100.0), Scraped(101.0)] * 4)

    assert state.engine == 2


def test_an_engine_that_takes_long_to_load_is_still_the_first():
    assert after(*[Refused()] * 99, Scraped(100.0), Healthy()).engine == 1


def test_an_engine_that_restarts_while_loading_is_another_one():
    state = after(Scraped(100.0), Scraped(200.0))

    assert (state.phase, state.engine, state.since) == ("loading", 2, 0.0)


def test_a_drain_goes_on_to_drained_and_stays_ready_until_empty():
    draining = after(DRAIN, state=SERVING, now=100)
    drained = after(Emptied(), state=draining, now=110)

    assert draining.drain == Drain(began=101, deadline=126, outlived=161, before=Phase.SERVING)
    assert is_ready(draining, 125.9)
    assert not is_ready(draining, 126.0)
    assert (drained.phase, is_ready(drained, 112)) == ("drained", False)


@pytest.mark.parametrize(
    "before", [after(), after(Healthy()), after(Cordoned("op"), state=SERVING)]
)
def test_a_drain_does_not_make_a_pod_ready_that_was_not(before):
    assert not is_ready(after(DRAIN, state=before), 5)


def test_a_second_hook_joins_the_drain_that_is_under_way():
    draining = after(DRAIN, state=SERVING)
    gone = after(*[Refused()] * 3, state=draining)

    assert after(DRAIN, state=draining) == draining
    assert after(DRAIN, state=gone) == gone


@pytest.mark.parametrize("end", [Emptied(), Tick()], ids=["drained", "cut"])
def test_a_hook_that_comes_after_the_end_of_a_drain_waits_anew(end):
    over = advance(after(DRAIN, state=SERVING, now=0), end, 40.0)
    again = advance(over, DRAIN, 50.0)

    assert again.phase == "draining"
    assert again.drain == Drain(began=50, deadline=75, outlived=110, before=Phase.SERVING)


def test_and_no_longer_than_the_operator_says():
    over = after(DRAIN, DeadlineSet(10), Emptied(), state=SERVING, now=0)
    again = advance(over, DRAIN, 5.0)

    assert again.drain
    assert (again.drain.deadline, again.drain.limit) == (12.0, 12.0)


def test_at_the_deadline_the_drain_is_cut_and_never_called_drained():
    state = advance(after(DRAIN, state=SERVING, now=0), Tick(), 26.0)

    assert state.phase == "draining"
    assert state.drain
    assert state.drain.cut
    assert advance(state, Emptied(), 27.0).phase == "drained"


def test_an_engine_that_ends_in_a_drain_leaves_nothing_to_wait_for():
    assert after(DRAIN, *[Refused()] * 3, state=SERVING).phase == "drained"


def test_a_drain_before_the_engine_ever_listened_ends_soon():
    assert after(*[Refused()] * 50, DRAIN, *[Refused()] * 3).phase == "drained"


def test_an_engine_that_says_it_is_unwell_while_draining_may_still_run_requests():
    assert after(DRAIN, *[Unhealthy()] * 9, state=SERVING).phase == "draining"


def test_a_new_engine_ends_the_drain_because_only_its_container_was_restarted():
    with_start = after(DRAIN, Scraped(200.0), state=SERVING)
    without = after(DRAIN, *[Refused()] * 5, Healthy(), state=replace(SERVING, starts=()))

    assert (with_start.phase, with_start.drain, with_start.engine) == ("loading", None, 2)
    assert (without.phase, without.drain, without.engine) == ("warming", None, 2)


@pytest.mark.parametrize(
    ("before", "phase"),
    [
        (SERVING, "serving"),
        (after(Cordoned("op", 300), state=SERVING), "cordoned"),
        (after(Cordoned("op", 60), state=SERVING), "serving"),
        (after(), "loading"),
    ],
    ids=["serving", "cordoned", "cordoned, the lease is over", "loading"],
)
def test_a_pod_that_outlives_its_grace_period_was_not_deleted(before, phase):
    drained = after(DRAIN, Emptied(), state=before, now=0)

    assert advance(drained, Tick(), 30.9 + OUTLIVED_S).phase == "drained"
    back = advance(drained, Tick(), 31 + OUTLIVED_S)
    assert (back.phase, back.drain) == (phase, None)


def test_a_pod_without_an_engine_stays_drained():
    gone = after(DRAIN, *[Refused()] * 3, state=SERVING, now=0)

    assert advance(gone, Tick(), 999).phase == "drained"
    assert after(*[Refused()] * 5, state=replace(gone, refused=0)).phase == "drained"


def test_a_cordon_can_be_taken_back():
    cordoned = after(Cordoned("op"), state=SERVING)

    assert (cordoned.phase, is_ready(cordoned, 9)) == ("cordoned", False)
    assert after(Uncordoned(), state=cordoned).phase == "serving"


@pytest.mark.parametrize(
    "state",
    [
        after(),
        after(Healthy()),
        after(DRAIN, state=SERVING),
        after(DRAIN, Emptied(), state=SERVING),
    ],
    ids=["loading", "warming", "draining", "drained"],
)
def test_only_a_pod_that_serves_is_cordoned(state):
    assert after(Cordoned("op"), state=state) == state
    assert after(Uncordoned(), state=state) == state


def test_a_cordon_is_a_lease_that_ends_unless_it_is_renewed():
    cordoned = after(Cordoned("op", 60), state=SERVING, now=99)
    renewed = advance(cordoned, Cordoned("op", 60), 150)

    assert cordoned.cordon == Cordon(by="op", began=100, until=160)
    assert advance(cordoned, Tick(), 159.9).phase == "cordoned"
    ended = advance(cordoned, Tick(), 160)
    assert (ended.phase, ended.since, ended.cordon) == ("serving", 160, None)
    assert renewed.cordon == Cordon(by="op", began=100, until=210)
    assert (renewed.since, advance(renewed, Tick(), 209.9).phase) == (100, "cordoned")


def test_another_scaler_does_not_take_a_cordon_over():
    cordoned = after(Cordoned("op"), state=SERVING)

    assert after(Cordoned("other"), state=cordoned) == cordoned


@pytest.mark.parametrize(
    "events",
    [[Refused()] * PROOF, [Unhealthy()] * PROOF, [Scraped(200.0)]],
    ids=["refused", "unhealthy", "started later"],
)
def test_a_cordon_ends_with_its_engine(events):
    lost = after(*events, state=after(Cordoned("op", 60, ONE), state=SERVING))

    assert (lost.phase, lost.cordon, lost.spent) == ("loading", None, (ONE,))
    assert after(Healthy(), WarmupEnded(2, Verdict.WARM), state=lost).phase != "cordoned"


def test_tokens_are_spent_when_their_cordon_ends_and_not_before():
    cordoned = after(Cordoned("op", 60, ONE), Cordoned("op", 60, ONE), state=SERVING)
    renewed = after(Cordoned("op", 60, TWO), state=cordoned)

    assert (renewed.cordon.tokens, renewed.spent) == ((ONE, TWO), ())
    assert after(Uncordoned(TWO), state=renewed).spent == (ONE, TWO)
    assert after(Uncordoned(UsedToken("c", 900)), state=cordoned).spent == (
        ONE,
        UsedToken("c", 900),
    )
    assert advance(renewed, Tick(), 999).spent == (ONE, TWO)
    assert after(Uncordoned(ONE), state=SERVING).spent == ()


def test_spent_tokens_are_forgotten_when_they_have_expired_anyhow():
    spent = after(Cordoned("op", 60, ONE), Uncordoned(TWO), state=SERVING)

    def kept(wall):
        return after(Cordoned("op", 60, None, wall), state=spent).spent

    assert kept(ONE.expires + LEEWAY_S - 1) == (ONE, TWO)
    assert kept(ONE.expires + LEEWAY_S) == (TWO,)


def test_only_so_many_spent_tokens_are_kept():
    state = SERVING
    for number in range(SPENT_KEPT + 5):
        state = after(Cordoned("op", 60, UsedToken(str(number), 9e9)), Uncordoned(), state=state)

    assert len(state.spent) == SPENT_KEPT
    assert state.spent[-1].id == str(SPENT_KEPT + 4)


def test_a_drain_overrides_a_cordon_whose_lease_runs_on():
    draining = after(DRAIN, state=after(Cordoned("op", 60), state=SERVING, now=0), now=1)

    assert (draining.phase, draining.cordon.by) == ("draining", "op")
    assert not is_ready(draining, 5)
    ended = advance(draining, Tick(), 61)
    assert (ended.phase, ended.cordon, is_ready(ended, 61)) == ("draining", None, False)
    freed = after(Uncordoned(), state=draining)
    assert (freed.phase, freed.cordon, is_ready(freed, 5)) == ("draining", None, False)


def test_a_drain_can_only_be_made_shorter():
    draining = after(DRAIN, state=SERVING, now=99)

    shorter = advance(draining, DeadlineSet(10), 101)
    assert (shorter.drain.deadline, shorter.drain.limit) == (111, 111)
    longer = advance(shorter, DeadlineSet(25), 101)
    assert (longer.drain.deadline, longer.drain.limit) == (111, 111)
    assert advance(draining, DeadlineSet(99), 101).drain.deadline == draining.drain.deadline
    assert advance(SERVING, DeadlineSet(10), 101) == SERVING
    cut = advance(advance(draining, DeadlineSet(-3), 101), Tick(), 101)
    assert cut.drain.cut
    assert not is_ready(cut, 101)


def test_what_is_no_event_is_a_fault():
    with pytest.raises(AssertionError):
        advance(SERVING, "nonsense", 0)


EVENTS = st.sampled_from(
    [
        Scraped(100.0),
        Scraped(200.0),
        Scraped(),
        Refused(),
        Silent(),
        Healthy(),
        Unhealthy(),
        WarmupEnded(1, Verdict.WARM),
        WarmupEnded(2, Verdict.WARM),
        DRAIN,
        Emptied(),
        Tick(),
        Cordoned("op", 5),
        Cordoned("other", 5, ONE),
        Uncordoned(),
        DeadlineSet(3),
    ]
)


@given(st.lists(EVENTS, max_size=40))
def test_never_ready_before_warm(events):
    warm = False
    state = Lifecycle(since=0.0)
    for now, event in enumerate(events):
        before, state = state, advance(state, event, float(now))
        if state.phase is Phase.LOADING or state.engine != before.engine:
            warm = False
        warm = warm or (isinstance(event, WarmupEnded) and before.phase is Phase.WARMING)
        assert warm or not is_ready(state, float(now))


@given(st.lists(EVENTS, max_size=40))
def test_a_cordoned_pod_has_a_cordon_and_one_that_serves_has_none(events):
    state = after(*events)

    assert (state.phase is not Phase.CORDONED) or state.cordon
    assert state.cordon is None or state.phase in {
        Phase.CORDONED,
        Phase.DRAINING,
        Phase.DRAINED,
    }


@given(st.lists(EVENTS, max_size=40))
def test_a_drain_is_there_exactly_in_the_phases_of_a_drain(events):
    state = after(*events)

    assert (state.drain is not None) == (state.phase in {Phase.DRAINING, Phase.DRAINED})
