"""What was decided in a fleet in virtual time is decided again on its recording."""

import re

import pytest

from cacheaware.decide.fleet import Unknown
from cacheaware.recording import lines
from cacheaware.recording.lines import RecordingError
from cacheaware.recording.reading import Reader
from cacheaware.recording.replay import Replay, moments_of, scaler_of

LAST_BITS = "promptTokensPerSecond"
"""A sum of fractions, whose last bits depend on the order of names; names are not recorded."""

NAMES = re.compile(r"\b(p|pod-)\d+\b")


def outcome(decision):
    """A decision without the names of pods."""
    inputs = dict(decision.inputs)
    prompts = inputs.pop(LAST_BITS)
    return {
        "inputs": inputs,
        LAST_BITS: None if prompts is None else pytest.approx(prompts),
        "cordons": len(decision.cordons),
        "uncordons": len(decision.uncordons),
        "victims": len(decision.victims),
        "message": NAMES.sub("POD", decision.message),
        "terms": decision.terms,
        **{
            name: getattr(decision, name)
            for name in ("current", "desired", "reason", "raw", "limited_by", "serving")
        },
        **{name: getattr(decision, name) for name in ("starting", "overdue", "unknown")},
    }


def replay_of(header, **spec):
    return Replay(header, scaler_of(header.target_kind, {**header.spec, **spec}))


def replayed(header, rounds, **spec):
    return [step.decision for step in replay_of(header, **spec).steps(rounds)]


def test_a_recording_replays_to_the_decisions_that_were_made(played, recording):
    """But for the GPUs: what was played knew none."""
    reader = Reader(iter([recording]))
    replay = replay_of(reader.header.model_copy(update={"gpus_per_replica": None}))
    steps = list(replay.steps(reader.rounds()))

    assert [outcome(step.decision) for step in steps] == [outcome(one) for one in played.decisions]
    assert {"ScaledUp", "ScaledDown"} <= {one.reason for one in played.decisions}
    assert replay.cold_start_s == pytest.approx(30, abs=10)


def test_another_policy_decides_otherwise_on_the_same_rounds(played):
    as_it_was = replayed(played.header, played.rounds)
    eager = replayed(played.header, played.rounds, targets={"kvUtilizationPercent": 20})

    assert [one.current for one in eager] == [one.current for one in as_it_was]
    assert sum(one.raw or 0 for one in eager) > 2 * sum(one.raw or 0 for one in as_it_was)


def test_a_replay_that_begins_in_the_middle_does_not_shrink_at_once(played):
    shrinks = next(n for n, one in enumerate(played.decisions) if one.cordons)
    found = replayed(played.header, played.rounds[shrinks:])

    assert found[0].desired == found[0].current
    assert found[0].cordons == ()


def test_pods_that_the_recorded_scaler_cordoned_are_given_up_whichever_would_be_chosen_today(
    played,
):
    """Pods that are worth the same are told apart by name, and names are not recorded."""
    swapped = [renamed(seen) for seen in played.rounds]
    found = replayed(played.header, swapped)

    assert [one.desired for one in found] == [one.desired for one in played.decisions]
    assert [one.reason for one in found] == [one.reason for one in played.decisions]


def renamed(seen):
    """The same round with names whose order is another."""
    pods = [
        pod.model_copy(update={"name": other(pod.name), "uid": other(pod.uid)}) for pod in seen.pods
    ]
    return seen.model_copy(update={"pods": tuple(pods)})


def other(name):
    return f"p{1000 - int(name.removeprefix('p'))}"


def test_in_advise_a_change_of_replicas_is_somebody_elses(played):
    header = played.header.model_copy(update={"spec": {**played.header.spec, "mode": "Advise"}})
    found = replayed(header, played.rounds)
    changes = [n for n in range(1, len(found)) if found[n].current < found[n - 1].current]

    assert changes
    assert all(found[n].desired >= found[n].current for n in changes)


def test_what_starts_taught_before_goes_on(played):
    taught = lines.Start(schedule=1, pull=2, load=30, warm=4)
    header = played.header.model_copy(update={"starts": (taught,) * 5, "nodes": ("n1",)})

    assert replay_of(header).cold_start_s == 37


def test_of_a_recording_without_starts_no_cold_start_is_known(played):
    assert replay_of(played.header).cold_start_s is None


def test_time_that_goes_backwards_is_refused(played):
    with pytest.raises(RecordingError, match=r"at_s is 10; allowed: no less than .* 15"):
        replayed(played.header, [played.rounds[2], played.rounds[1]])


def test_a_state_that_cannot_be_read_is_refused_with_its_place(played):
    pod = played.rounds[0].pods[1]
    look = pod.look.model_copy(update={"state": {**pod.look.state, "running": "many"}})
    bad = played.rounds[0].model_copy(
        update={"pods": (played.rounds[0].pods[0], pod.model_copy(update={"look": look}))}
    )

    with pytest.raises(RecordingError, match=r"pods\[1\]\.look\.state\.running is 'many'"):
        replayed(played.header, [bad])


def test_a_look_that_says_nothing_is_refused(played):
    pod = played.rounds[0].pods[0]
    empty = lines.Look(way="Sidecar", at_s=0.0)
    bad = lines.Round(at_s=0, replicas=1, pods=(pod.model_copy(update={"look": empty}),))

    with pytest.raises(RecordingError, match=r"pods\[0\]\.look has neither"):
        replayed(played.header, [bad])


def test_pods_that_tell_nothing_are_unknown_and_hold_the_fleet(played):
    def silent(seen, look):
        pods = tuple(pod.model_copy(update={"look": look}) for pod in seen.pods)
        return seen.model_copy(update={"pods": pods})

    refused = lines.Look(way="Sidecar", at_s=0.0, unknown=Unknown.REFUSED)
    for look in (refused, None):
        found = replayed(played.header, [silent(played.rounds[0], look)])
        assert (found[0].reason, found[0].raw) == ("MetricsUnknown", None)


def test_a_round_stands_until_the_next_and_what_nobody_watched_is_left_out(played):
    seen = [played.rounds[n].model_copy(update={"at_s": at}) for n, at in enumerate((0.0, 6.0))]
    late = played.rounds[2].model_copy(update={"at_s": 1006.0})
    steps = list(replay_of(played.header).steps([*seen, late]))
    moments, gap = moments_of(steps, 5.0)

    assert [one.seconds for one in moments] == [6.0, 5.0, 5.0]
    assert gap == 995.0


def test_a_spec_that_is_not_allowed_is_refused():
    with pytest.raises(RecordingError, match=r"spec.maxReplicas is 0; allowed: greater than"):
        scaler_of("Deployment", {"maxReplicas": 0})
    with pytest.raises(RecordingError, match="minReplicas 3 must not be greater than"):
        scaler_of("Deployment", {"minReplicas": 3, "maxReplicas": 2})


def test_of_a_statefulset_the_highest_ordinal_goes_first(played):
    header = played.header.model_copy(update={"target_kind": "StatefulSet"})
    idle = next(n for n, one in enumerate(played.decisions) if one.cordons)
    seen = played.rounds[idle]
    serving = [pod for pod in seen.pods if pod.look and pod.look.state["phase"] == "serving"]
    named = tuple(pod.model_copy(update={"name": f"p-{n}"}) for n, pod in enumerate(serving, 5))
    rounds = [
        seen.model_copy(update={"at_s": at, "pods": moved(named, at), "replicas": len(named)})
        for at in (0.0, 5.0, 10.0)
    ]
    spec = {"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [POD_A_MINUTE]}}
    found = replayed(header, rounds, behavior=spec)
    chosen = {one.pod for decision in found for one in decision.cordons}

    assert chosen == {f"p-{len(named) + 4}"}


POD_A_MINUTE = {"type": "Pods", "value": 1, "periodSeconds": 60}


def moved(pods, at):
    """The same looks at another time."""
    return tuple(
        pod.model_copy(update={"look": pod.look.model_copy(update={"at_s": at})}) for pod in pods
    )


def test_max_gpus_counts_by_what_a_replica_was_recorded_to_take(played):
    """Two GPUs each: nine of them are four replicas."""
    assert played.header.gpus_per_replica == 2
    capped = replayed(played.header, played.rounds, maxGpus=9)

    assert max(one.raw or 0 for one in capped) > 4
    assert all(one.desired <= max(4, one.current) for one in capped)
    assert any("maxGpus" in one.limited_by for one in capped)
    assert not any("GpusUnknown" in one.limited_by for one in capped)


def test_orders_that_no_node_had_room_for_are_taken_back_again(played):
    first = next(one for one in played.rounds if one.pods)
    late = lines.Pod(name="z", uid="z", created_s=-1801.0, pending=True, stuck="Unschedulable")
    seen = first.model_copy(update={"pods": (*first.pods, late), "replicas": len(first.pods) + 1})
    (decision,) = replayed(played.header, [seen], warmPool=9, maxReplicas=20)

    assert "PodsUnschedulable" in decision.limited_by
    assert decision.desired == len(first.pods)
