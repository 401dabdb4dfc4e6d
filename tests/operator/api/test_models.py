"""What the models read, and what becomes of it."""

import pytest

from cacheaware.api.models import CacheAwareScaler, ScalerStatus, record_of
from cacheaware.api.policy import policy_of
from cacheaware.api.spec import DIALECTS
from cacheaware.api.status import (
    MAX_INT32,
    MAX_MESSAGE,
    MAX_TERMS,
    MAX_VICTIMS,
    learned_of,
    learned_record,
)
from cacheaware.decide.cold_start import ColdStart
from cacheaware.decide.decision import Decision, Term, Victim
from cacheaware.decide.learned import Learned
from cacheaware.decide.learned_work import Decode, Sizes, Work
from cacheaware.decide.policy import (
    PRUNED,
    SCALE_DOWN,
    SCALE_UP,
    Activation,
    Policy,
    RatePolicy,
    Schedule,
)
from cacheaware.decide.prefill_speed import Prefilled, in_service


def read(body):
    return CacheAwareScaler.model_validate(body)


def test_the_schemas_defaults_are_the_policys_defaults(scaler, stored):
    assert policy_of(read(stored(scaler()))) == Policy(max_replicas=10)


def test_defaults_are_up_at_once_and_down_after_five_minutes(scaler, stored):
    policy = policy_of(read(stored(scaler())))

    assert policy.scale_up.stabilization_seconds == 0
    assert policy.scale_up.policies == (RatePolicy("Percent", 100, 15), RatePolicy("Pods", 4, 15))
    assert policy.scale_down.stabilization_seconds == 300
    assert policy.scale_down.policies == (RatePolicy("Percent", 10, 60), RatePolicy("Pods", 1, 60))
    assert (policy.scale_up, policy.scale_down) == (SCALE_UP, SCALE_DOWN)


def test_policies_that_an_old_crd_dropped_become_two_pods_a_minute(scaler, case):
    assert case("097", "expect.json")["effective_limit"] == PRUNED.value == 2
    assert PRUNED.period_seconds == 60

    pruned = policy_of(read(scaler(behavior={"scaleUp": {}})))

    assert pruned.scale_up.policies == pruned.scale_down.policies == (PRUNED,)


def test_every_field_reaches_the_policy(scaler):
    policies = [{"type": "Pods", "value": 3, "periodSeconds": 30}]
    body = scaler(
        mode="Scale",
        minReplicas=2,
        maxReplicas=9,
        engine={"role": "Decode"},
        targets={
            "kvUtilizationPercent": 70,
            "pendingPerReplica": 3,
            "timeToFirstTokenMs": 800,
        },
        behavior={
            "scaleUp": {"stabilizationWindowSeconds": 5, "policies": policies},
            "scaleDown": {"selectPolicy": "Min", "policies": policies, "tolerancePercent": 5},
        },
        drain={"sharePercent": 50, "deadlineSeconds": 60},
        fallback={"afterSeconds": 120, "replicas": 4},
    )

    policy = policy_of(read(body))

    assert policy.mode == "Scale"
    assert (policy.min_replicas, policy.max_replicas) == (2, 9)
    assert policy.role == "Decode"
    assert policy.kv_utilization_percent == 70
    assert (policy.pending_per_replica, policy.ttft_p90_ms) == (3, 800)
    assert policy.scale_up.stabilization_seconds == 5
    assert policy.scale_down.select == "Min"
    assert policy.scale_down.tolerance_percent == 5
    assert policy.scale_up.policies == (RatePolicy("Pods", 3, 30),)
    assert (policy.drain_share_percent, policy.drain_deadline_seconds) == (50, 60)
    assert (policy.fallback_after_seconds, policy.fallback_replicas) == (120, 4)


def test_unknown_fields_nulls_and_whole_floats_are_read_as_the_api_server_does(scaler):
    body = scaler(maxReplicas=4.0, fallback=None, schedules=[], engine={"ports": [8000.0]})

    spec = read(body).spec

    assert spec.max_replicas == 4
    assert spec.fallback is None
    assert spec.engine.ports == [8000]


def test_035_a_zero_replicas_need_a_signal_that_wakes_them(scaler, refusals, case):
    given = case("035", "input.a.json")
    assert (given["min"], given["activationSignal"]) == (0, None)
    signal = {"url": "http://gateway:9090/metrics", "metric": "queue"}

    refused = refusals(scaler(minReplicas=given["min"]))
    assert case("035", "expect.json")["a"] == "rejected"
    assert len(refused) == 1
    assert "nothing could wake a workload that has 0 replicas" in refused[0]
    assert refusals(scaler(minReplicas=0, activation=signal)) == []


def test_wishes_become_the_policy(scaler):
    eight = {"cron": "0 8 * * 1-5", "timeZone": "Europe/Berlin"}
    signal = {"url": "http://gateway:9090/metrics", "metric": "queue", "threshold": 3}
    found = policy_of(
        read(
            scaler(
                minReplicas=0,
                headroomPercent=20,
                warmPool=2,
                maxGpus=64,
                schedules=[{**eight, "durationSeconds": 36_000, "minReplicas": 4}],
                activation=signal,
            )
        )
    )

    assert (found.headroom_percent, found.warm_pool, found.max_gpus) == (20, 2, 64)
    assert found.schedules == (
        Schedule(
            cron="0 8 * * 1-5",
            time_zone="Europe/Berlin",
            duration_seconds=36_000,
            min_replicas=4,
        ),
    )
    assert found.activation == Activation(threshold=3, idle_seconds=600)


def test_metadata_is_at_hand(scaler):
    body = scaler()
    body["metadata"] |= {
        "uid": "u",
        "generation": 3,
        "annotations": {"a": "b"},
        "managedFields": [],
    }

    meta = read(body).metadata

    assert (meta.namespace, meta.name, meta.uid, meta.generation) == ("llm", "chat", "u", 3)
    assert meta.annotations == {"a": "b"}


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_engine_type_is_one_that_the_scanner_knows(name, scaler):
    from cacheaware_sidecar.engines import ENGINES

    assert read(scaler(engine={"type": name})).spec.engine.dialect in ENGINES
    assert read(scaler()).spec.engine.dialect is None


def absurd(**more):
    term = Term(signal="pending", demand=1e15, per_replica=1 / 3, unit="requests", replicas=2**40)
    victims = [Victim(pod=f"p{i}", uid="", reason="r" * 600) for i in range(40)]
    return Decision(
        desired=3,
        current=2,
        reason="ScaledUp",
        message="m" * 5000,
        terms=(term,) * 9,
        raw=2**40,
        limited_by=("rate",) * 30,
        victims=tuple(victims),
        **more,
    )


def test_a_record_never_exceeds_the_schema(refusals, scaler):
    record = record_of(absurd(), "2026-01-01T00:00:00Z")

    assert len(record.message) == MAX_MESSAGE
    assert record.message.endswith("…")
    assert record.raw == MAX_INT32
    assert len(record.terms) == MAX_TERMS
    assert len(record.victims) == MAX_VICTIMS
    status = ScalerStatus(decisions=[record]).model_dump(exclude_none=True)
    assert refusals({**scaler(), "status": status}) == []


def test_a_record_says_from_and_to_and_leaves_out_what_is_not_known():
    decision = Decision(desired=3, current=2, reason="Steady", message="m")

    record = record_of(decision, "2026-01-01T00:00:00Z").model_dump(exclude_none=True)

    assert (record["from"], record["to"]) == (2, 3)
    assert {"raw", "terms", "victims", "limitedBy"}.isdisjoint(record)


def test_a_status_that_was_written_reads_back_equal(case, scaler, stored):
    written = {
        "observedGeneration": 4,
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "servingReplicas": 2,
        "startingReplicas": 0,
        "cordonedReplicas": 1,
        "lastScaleTime": "2026-01-01T00:00:00Z",
        "scaledToZeroAt": "2026-01-01T00:00:00Z",
        "observation": "Sidecar",
        "learned": {
            "coldStartSeconds": 71,
            "coldStartP99Seconds": 80,
            "prefillTokensPerSecond": 10240,
            "prefillSeconds": 600,
            "promptTokensPerRequest": 900.5,
            "generationTokensPerRequest": 100.0,
            "requestLooks": 40,
            "decode": [{"running": 8.0, "tokensPerSecond": 240.5, "looks": 9}],
            "starts": [{"schedule": 1.0, "pull": 20.0, "load": 40.5, "warm": 9.0}],
            "nodes": ["node-1"],
        },
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "ScaledUp",
                "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 4,
            }
        ],
        "decisions": [
            record_of(absurd(unknown=1), "2026-01-01T00:00:00Z").model_dump(exclude_none=True)
        ],
    }

    kept = stored({**scaler(), "status": written})["status"]

    assert case("093", "expect.json")["roundtrip_equal"] is (kept == written) is True
    assert set(written) == {field.alias for field in ScalerStatus.model_fields.values()}
    assert ScalerStatus.model_validate(kept).model_dump(exclude_none=True) == written


def test_what_starts_have_taught_is_kept_and_read_again():
    starts = tuple(ColdStart(schedule=1.0, pull=20.0, load=40.0 + n, warm=8.0) for n in range(5))
    learned = Learned(starts=starts, nodes=("node-1",), counted=frozenset({"a"}))
    kept = learned_record(learned).model_dump(by_alias=True, exclude_none=True)
    assert (kept["coldStartSeconds"], kept["coldStartP99Seconds"]) == (71, 73)
    assert learned_of({"learned": kept}) == Learned(starts=starts, nodes=("node-1",))


def test_what_requests_have_taught_is_kept_and_read_again():
    work = Work(sizes=Sizes(900.5, 100.0, 40), decode=(Decode(8.0, 240.5, 9),))
    kept = learned_record(Learned(work=work)).model_dump(by_alias=True, exclude_none=True)

    assert learned_of({"learned": kept}).work == work
    del kept["generationTokensPerRequest"]
    assert learned_of({"learned": kept}).work.sizes is None


def test_a_speed_that_requests_have_told_goes_on_and_one_of_warm_ups_is_measured_again():
    told = Prefilled(seconds=100.0, tokens=500_000.0, requests=50.0)
    served = Learned(prefill_tokens_per_s=5000.0, prefilled=told)
    warmed = Learned(prefill_tokens_per_s=9000.0)

    kept, guessed = [
        learned_of({"learned": learned_record(one).model_dump(by_alias=True, exclude_none=True)})
        for one in (served, warmed)
    ]

    assert in_service(kept.prefilled, idle=12_000.0) == 5000.0
    assert guessed.prefill_tokens_per_s == 9000.0
    assert in_service(guessed.prefilled, idle=24_000.0) == 18_000.0


def test_few_starts_are_kept_without_a_figure():
    few = learned_record(Learned(starts=(ColdStart(schedule=1, pull=1, load=1, warm=1),)))
    assert (few.cold_start_seconds, few.cold_start_p99_seconds) == (None, None)
    assert few.starts


@pytest.mark.parametrize("status", [{}, {"learned": {"starts": [{"pull": -1}]}}])
def test_what_cannot_be_read_teaches_nothing(status):
    assert learned_of(status) == Learned()
