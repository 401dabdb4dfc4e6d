"""Conditions from what a round found."""

import pytest
from msgspec.structs import replace

from cacheaware import names
from cacheaware.act.conditions import Condition, Fault, Situation, conditions, dated
from cacheaware.decide.circumstances import Circumstances, Contested, Reading, Wake
from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView, PodLoad, PodView, Unknown
from cacheaware_sidecar.phase import Phase

LOAD = PodLoad(running=1, waiting=0, usage=0.5)
KNOWN = PodView(name="a", load=LOAD)
TIMED_OUT = PodView(name="b", unknown=Unknown.TIMED_OUT)
STARTING = PodView(name="c", phase=Phase.LOADING, unknown=Unknown.REFUSED)


def fleet(*pods, spec=2, problems=()):
    return FleetView(
        namespace="demo", name="chat", spec_replicas=spec, pods=pods, problems=problems,
        target_name="chat",
    )  # fmt: skip


def decision(reason="Steady", **more):
    return Decision(desired=2, current=2, reason=reason, message="why", **more)


def found(mode="Scale", **more):
    return {one.type: one for one in conditions(Situation(mode=mode, **more))}


def brief(one):
    return (one.status, one.reason)


def test_all_is_well():
    all_of = found(fleet=fleet(KNOWN), decision=decision())
    assert {kind: one.status for kind, one in all_of.items()} == {
        "Ready": "True",
        "TargetResolved": "True",
        "MetricsAvailable": "True",
        "ScalingActive": "True",
        "AbleToScale": "True",
        "ScalingLimited": "False",
        "Conflicted": "False",
    }
    assert brief(all_of["Ready"]) == ("True", "Steady")
    assert all_of["Ready"].message == "why"


def test_before_anything_is_known_nothing_is_claimed():
    all_of = found()
    assert brief(all_of["Ready"]) == ("Unknown", "Pending")
    assert brief(all_of["MetricsAvailable"]) == ("Unknown", "Pending")
    assert brief(all_of["TargetResolved"]) == ("Unknown", "Pending")


def test_a_target_that_is_not_there_is_the_summarys_reason():
    all_of = found(target_fault=Fault("TargetNotFound", "no such thing"))
    for kind in ("Ready", "TargetResolved", "ScalingActive"):
        assert brief(all_of[kind]) == ("False", "TargetNotFound")


def test_some_unknown_pods_are_told_and_do_not_make_it_unready():
    lines = ("MetricsTimedOut: pod b: no answer in 3 s",)
    all_of = found(fleet=fleet(KNOWN, TIMED_OUT, STARTING, problems=lines), decision=decision())
    assert brief(all_of["MetricsAvailable"]) == ("False", "MetricsTimedOut")
    told = all_of["MetricsAvailable"].message
    assert told == "1 of 2 serving pods are known; MetricsTimedOut: pod b: no answer in 3 s"
    assert all_of["Ready"].status == "True"


def test_all_unknown_makes_it_unready_and_inactive():
    all_of = found(fleet=fleet(TIMED_OUT), decision=decision("MetricsUnknown"))
    assert brief(all_of["Ready"]) == ("False", "MetricsTimedOut")
    assert brief(all_of["ScalingActive"]) == ("False", "MetricsUnknown")


def test_pods_that_only_start_are_no_gap():
    all_of = found(fleet=fleet(STARTING), decision=decision("WaitingForStarting"))
    assert brief(all_of["MetricsAvailable"]) == ("Unknown", "NoServingPods")
    assert all_of["Ready"].status == "True"


def test_a_conflict_in_scale_stops_and_in_advise_informs():
    for mode, status in (("Scale", "True"), ("Advise", "False")):
        all_of = found(mode, fleet=fleet(KNOWN), decision=decision(), conflict="HPA chat")
        assert all_of["Conflicted"].status == status
        assert "managed by HPA chat" in all_of["Conflicted"].message
        assert all_of["Ready"].status == ("False" if mode == "Scale" else "True")
    assert brief(found(conflict="HPA chat")["ScalingActive"]) == ("False", "TargetConflict")


def test_paused_advised_and_undecided_are_not_active():
    paused = found(fleet=fleet(spec=0), decision=decision("Paused"))
    assert brief(paused["ScalingActive"]) == ("False", "Paused")
    assert brief(found("Advise")["ScalingActive"]) == ("False", "Advised")
    assert brief(found(fleet=fleet(KNOWN))["ScalingActive"]) == ("False", "Pending")


def test_a_failed_write_is_told():
    fault = Fault("WriteFailed", "403")
    all_of = found(fleet=fleet(KNOWN), decision=decision(), write_fault=fault)
    assert brief(all_of["AbleToScale"]) == brief(all_of["Ready"]) == ("False", "WriteFailed")


def test_limits_are_listed():
    all_of = found(fleet=fleet(KNOWN), decision=decision("AtMaximum", limited_by=("a", "b")))
    assert brief(all_of["ScalingLimited"]) == ("True", "AtMaximum")
    assert all_of["ScalingLimited"].message == "limited by a, b"


def test_an_outdated_schema_is_a_condition_only_while_it_is():
    assert names.Conditions.SCHEMA_OUTDATED not in found()
    all_of = found(missing_fields=("spec.drain: no limit",))
    assert "spec.drain" in all_of[names.Conditions.SCHEMA_OUTDATED].message


@pytest.mark.parametrize("mode", ["Scale", "Advise"])
def test_every_condition_is_a_valid_one(mode):
    for situation in (
        Situation(mode=mode),
        Situation(mode=mode, fleet=fleet(KNOWN), decision=decision()),
        Situation(mode=mode, fleet=fleet(), decision=decision()),
    ):
        for one in conditions(situation):
            assert one.status in {"True", "False", "Unknown"}
            assert one.reason.isalnum()


def test_the_transition_time_moves_only_with_the_status():
    before = [
        {"type": "Ready", "status": "True", "reason": "Old", "lastTransitionTime": "then"},
        {"type": "Conflicted", "status": "True", "lastTransitionTime": "then"},
    ]
    new = [
        Condition("Ready", "True", "New", "m"),
        Condition("Conflicted", "False", "NoConflict", ""),
        Condition("AbleToScale", "True", "ReadyToScale", ""),
    ]
    times = {one["type"]: one["lastTransitionTime"] for one in dated(new, before, "now", 3)}
    assert times == {"Ready": "then", "Conflicted": "now", "AbleToScale": "now"}
    assert dated(new, before, "now", 3)[0]["reason"] == "New"
    assert dated(new, before, "now", 3)[0]["observedGeneration"] == 3


UNREAD = Reading(detail="queue: answered 503")


def zero(reading, *, asleep=True):
    view = fleet(spec=0)
    return replace(view, around=Circumstances(wake=Wake(reading, None, asleep)))


def test_a_target_that_sleeps_is_well_and_no_pause():
    all_of = found(fleet=zero(Reading(0.0)), decision=decision("ScaledToZero"))

    assert brief(all_of["Ready"]) == ("True", "ScaledToZero")
    assert brief(all_of["ScalingActive"]) == ("True", "Scaling")


def test_zero_by_hand_is_a_pause():
    all_of = found(fleet=zero(Reading(5.0), asleep=False), decision=decision("Paused"))

    assert brief(all_of["ScalingActive"]) == ("False", "Paused")


def test_an_activation_that_cannot_be_read_is_told_and_at_zero_makes_it_unready():
    all_of = found(fleet=zero(UNREAD), decision=decision("ActivationUnknown"))
    told = all_of["MetricsAvailable"]

    assert brief(told) == brief(all_of["Ready"]) == ("False", "ActivationUnknown")
    assert told.message == "the activation signal is not known: queue: answered 503"

    awake = replace(fleet(KNOWN), around=Circumstances(wake=Wake(UNREAD)))
    all_of = found(fleet=awake, decision=decision())
    assert brief(all_of["MetricsAvailable"]) == ("False", "ActivationUnknown")
    assert all_of["Ready"].status == "True"


def test_a_gap_in_the_pods_is_told_before_one_in_the_activation():
    view = replace(fleet(KNOWN, TIMED_OUT), around=Circumstances(wake=Wake(UNREAD)))

    told = found(fleet=view, decision=decision())["MetricsAvailable"]
    assert told.reason == "MetricsTimedOut"


def test_a_contest_names_the_other_writer_while_it_lasts():
    contested = replace(fleet(KNOWN), around=Circumstances(contested=Contested("argocd", 30.0)))
    all_of = found(fleet=contested, decision=decision("ReplicasContested"))

    assert brief(all_of["Conflicted"]) == ("True", "ReplicasContested")
    assert brief(all_of["Ready"]) == ("False", "ReplicasContested")
    assert "field manager argocd" in all_of["Conflicted"].message


@pytest.mark.parametrize("limit", ["PodsUnschedulable", "GpusUnknown"])
def test_a_limit_that_needs_somebody_is_the_reason(limit):
    limited = found(fleet=fleet(KNOWN), decision=decision(limited_by=("rate", limit)))

    assert brief(limited["ScalingLimited"]) == ("True", limit)


def test_sick_caches_are_named_and_change_no_summary():
    sick = [
        PodView(name=f"p{number}", load=LOAD, findings=("preemption-storm",)) for number in range(7)
    ]
    told = found(fleet=fleet(KNOWN, *sick), decision=decision())
    assert brief(told["CacheUnhealthy"]) == ("True", "CacheUnhealthy")
    assert "p0: preemption-storm; p1" in told["CacheUnhealthy"].message
    assert "p4: preemption-storm; and 2 more" in told["CacheUnhealthy"].message
    assert brief(told["Ready"]) == ("True", "Steady")
    assert "CacheUnhealthy" not in found(fleet=fleet(KNOWN), decision=decision())
