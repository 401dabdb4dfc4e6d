"""To no replica and back."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cacheaware.decide import decide
from cacheaware.decide.circumstances import Circumstances, Floor, Reading, Wake
from cacheaware.decide.fleet import FleetView, PodLoad, PodView, Unknown
from cacheaware.decide.memory import Memory
from cacheaware.decide.policy import SCALE_DOWN, Activation, Policy
from cacheaware.decide.zero import Quiet, quieted
from cacheaware_sidecar.phase import Phase

POLICY = Policy(mode="Scale", min_replicas=0, activation=Activation(threshold=0, idle_seconds=600))
ZERO, CALLS, UNREAD = Reading(0.0), Reading(1.0), Reading(detail="queue: no answer in 3 s")


def woken(reading, *, asleep=True, quiet_s=None, **more):
    return {"around": Circumstances(wake=Wake(reading, quiet_s, asleep), **more)}


class TestAtZero:
    def test_a_signal_above_its_threshold_wakes_it_at_once(self, make, rounds):
        life = rounds(POLICY, replicas=0)
        quiet = life.round(make.fleet([], **woken(ZERO)))
        decision = life.round(make.fleet([], **woken(CALLS)), after=5)

        assert (quiet.desired, quiet.reason) == (0, "ScaledToZero")
        assert (decision.desired, decision.reason) == (1, "Activated")
        assert decision.message == "the activation signal is 1: 1 at once"
        assert life.memory.replicas == 1

    def test_the_woken_replica_is_not_given_up_again_at_once(self, make, rounds):
        life = rounds(POLICY, replicas=0)
        life.round(make.fleet([], **woken(CALLS)))
        booting = make.fleet([make.booting()], **woken(ZERO, asleep=False, quiet_s=20.0))

        assert life.round(booting, after=5).desired == 1

    def test_a_signal_that_cannot_be_read_changes_nothing(self, make, once):
        decision = once(make.fleet([], **woken(UNREAD)), min_replicas=0)

        assert (decision.desired, decision.reason) == (0, "ActivationUnknown")
        assert "queue: no answer in 3 s" in decision.message

    def test_what_is_wanted_whatever_the_signal_says_comes(self, make, once):
        night = make.fleet([], **woken(UNREAD, scheduled=Floor(3, "x")))
        plain = make.fleet([], **woken(ZERO))

        assert once(night, min_replicas=0).desired == 3
        assert once(plain, min_replicas=0, warm_pool=2).desired == 2
        assert once(plain, min_replicas=2).desired == 2
        assert once(plain, min_replicas=2, mode="Advise").reason == "Advised"

    def test_replicas_that_somebody_set_to_0_are_paused_whatever_the_signal_says(self, make, once):
        decision = once(make.fleet([], **woken(CALLS, asleep=False)), min_replicas=0)

        assert (decision.desired, decision.reason) == (0, "Paused")

    def test_another_owner_wakes_it_or_not(self, make, once):
        view = make.fleet([], conflict="HPA chat", **woken(CALLS))

        assert (once(view).desired, once(view).reason) == (0, "TargetConflict")


class TestToZero:
    def test_an_idle_pod_goes_once_all_has_been_quiet(self, make, rounds):
        life = rounds(POLICY)
        early = make.fleet([make.idle()], **woken(ZERO, asleep=False, quiet_s=599.0))
        late = make.fleet([make.idle()], **woken(ZERO, asleep=False, quiet_s=600.0))
        for _ in range(40):
            assert life.round(early, after=15).desired == 1

        decision = life.round(late, after=15)
        assert (decision.desired, decision.reason) == (0, "ScaledDown")

    def test_the_last_pod_too_is_cordoned_and_drained_first(self, make, rounds):
        life = rounds(POLICY)
        quiet = woken(ZERO, asleep=False, quiet_s=900.0)
        pod = make.idle(sidecar=True, serving_age_s=3000.0, age_s=3600.0)
        for _ in range(40):
            first = life.round(make.fleet([pod], uid="me", **quiet), after=15)
            if first.cordons:
                break

        assert (first.desired, [one.pod for one in first.cordons]) == (1, ["a"])
        out = make.idle(
            sidecar=True, phase=Phase.CORDONED, ready=False, cordoned_by="me", empty=True,
            cordoned_s=10.0,
        )  # fmt: skip
        second = life.round(make.fleet([out], uid="me", **quiet), after=15)
        assert second.desired == 0
        assert second.victims[0].cordoned

    def test_a_call_brings_a_cordoned_pod_back(self, make, rounds):
        life = rounds(POLICY)
        pod = make.idle(sidecar=True, serving_age_s=3000.0, age_s=3600.0)
        quiet = woken(ZERO, asleep=False, quiet_s=900.0)
        for _ in range(40):
            if life.round(make.fleet([pod], uid="me", **quiet), after=15).cordons:
                break
        out = make.idle(sidecar=True, phase=Phase.CORDONED, ready=False, cordoned_by="me")
        decision = life.round(make.fleet([out], uid="me", **woken(CALLS, asleep=False)), after=15)

        assert decision.desired == 1
        assert [one.pod for one in decision.uncordons] == ["a"]

    @pytest.mark.parametrize(
        ("reading", "words"),
        [(UNREAD, "the activation signal is not known"), (ZERO, "not known that there are none")],
    )
    def test_what_is_unknown_keeps_the_last_replica(self, make, rounds, reading, words):
        life = rounds(POLICY)
        view = make.fleet([make.idle()], **woken(reading, asleep=False))
        for _ in range(40):
            decision = life.round(view, after=15)

        assert (decision.desired, decision.reason) == (1, "AtMinimum")
        assert "activation" in decision.limited_by
        assert words in decision.message

    def test_without_an_activation_no_quiet_is_long_enough(self, make, once):
        view = make.fleet([make.idle()], **woken(ZERO, asleep=False, quiet_s=9e9))

        assert once(view, min_replicas=0).desired == 1


class TestQuiet:
    def after(self, *steps):
        """The quiet after steps of (seconds, reading, pods)."""
        quiet, now = Quiet(), 1000.0
        for seconds, reading, pods in steps:
            now += seconds
            quiet = quieted(quiet, reading, 0.0, pods, now)
        return quiet.lasted(now)

    def test_it_lasts_from_the_first_quiet_round(self, make):
        pods = [make.idle()]

        assert self.after((0, ZERO, pods)) == 0.0
        assert self.after((0, ZERO, pods), *[(50, ZERO, pods)] * 14) == 700.0
        assert self.after((0, ZERO, pods), (61, ZERO, pods)) == 0.0

    def test_a_call_or_a_request_begins_it_anew(self, make):
        idle, busy = [make.idle()], [make.idle(), make.pod("b", kv=0.1, running=1.0)]

        for loud in ((5, CALLS, idle), (5, ZERO, busy)):
            assert self.after((0, ZERO, idle), loud) is None
            assert self.after((0, ZERO, idle), loud, (5, ZERO, idle)) == 0.0

    def test_what_is_unknown_is_not_quiet_and_a_short_gap_is_no_new_beginning(self, make):
        idle, dark = [make.idle()], [make.idle(), make.unknown()]

        for gap in ((5, UNREAD, idle), (5, ZERO, dark)):
            assert self.after((0, ZERO, idle), gap) is None
            assert self.after((0, ZERO, idle), gap, (5, ZERO, idle)) == 10.0
            assert self.after((0, ZERO, idle), (56, *gap[1:]), (9, *gap[1:]), (5, ZERO, idle)) == 0

    def test_pods_that_start_or_end_hold_nothing_up(self, make):
        warming = make.pod(
            "w", phase=Phase.WARMING, ready=False, load=PodLoad(running=1.0, waiting=0.0)
        )
        ending = make.pod("e", kv=0.5, running=3.0, terminating=True)

        assert self.after((0, ZERO, [make.idle(), warming, ending, make.booting("y")])) == 0.0

    def test_a_pod_that_does_not_tell_its_queue_is_not_empty(self, make):
        silent = make.pod(load=PodLoad(running=0.0))

        assert self.after((0, ZERO, [silent])) is None


def test_a_restart_begins_the_wait_anew(make):
    assert quieted(Quiet(), ZERO, 0.0, [make.idle()], 5000.0).lasted(5000.0) == 0.0
    assert Memory.start(0, 5000.0).replicas == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from([5.0, 5.0, 5.0, 30.0, 70.0]),
        st.sampled_from([0.0, 0.0, 0.0, 0.0, None, 2.0]),
        st.sampled_from(["empty", "empty", "empty", "unknown", "busy"]),
    ),
    min_size=1,
    max_size=60,
)
LOADS = {
    "empty": PodLoad(running=0.0, waiting=0.0, usage=0.0),
    "busy": PodLoad(running=2.0, waiting=0.0, usage=0.1),
    "unknown": None,
}


@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_it_goes_to_zero_only_when_all_is_known_to_have_been_quiet_for_long_enough(steps):
    rule = Activation(threshold=0, idle_seconds=60)
    policy = replace(
        POLICY, activation=rule, scale_down=replace(SCALE_DOWN, stabilization_seconds=0)
    )
    quiet, now, memory, past = Quiet(), 1000.0, Memory.start(1, 1000.0), []
    for seconds, value, state in steps:
        now += seconds
        load = LOADS[state]
        pod = PodView(name="a", load=load, unknown=None if load else Unknown.REFUSED, idle_rounds=9)
        reading = Reading(value)
        quiet = quieted(quiet, reading, 0.0, [pod], now)
        past.append((now, value, state))
        around = Circumstances(wake=Wake(reading, quiet.lasted(now)))
        view = FleetView(namespace="n", name="c", spec_replicas=1, pods=(pod,), around=around)
        decision, memory = decide(view, policy, memory, now)
        if decision.desired == 0:
            recent = [one for one in past if one[0] >= now - rule.idle_seconds]
            assert (value, state) == (0.0, "empty")
            assert past[0][0] <= now - rule.idle_seconds
            assert not any(value == 2.0 or state == "busy" for _, value, state in recent)
            known = [at for at, value, state in past if (value, state) == (0.0, "empty")]
            assert any(at <= now - rule.idle_seconds for at in known)
            since = max(at for at in known if at <= now - rule.idle_seconds)
            seen = [at for at in known if at >= since]
            assert all(later - at <= 60.0 for at, later in pairwise(seen))
            return
