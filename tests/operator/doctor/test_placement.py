"""Where the sidecar stands, and what it is told."""

import pytest
from tests.operator.doctor.workloads import (
    ABSENT,
    ACCOUNT,
    FOLDER,
    HTTP_HOOK,
    LABELS,
    MOUNT,
    body,
    engine,
    one,
    plain,
    said,
    sidecar,
    sleep,
    subject,
)  # fmt: skip

from cacheaware.doctor.control import control
from cacheaware.doctor.placement import placement
from cacheaware.doctor.sidecar import Place, is_ours, sidecar_in

READY = {"httpGet": {"path": "/readyz", "port": 9440}}


def ready(period=1, timeout=2, failures=3):
    return {
        **READY,
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def test_a_pod_without_a_sidecar_is_told_once():
    assert said(placement, plain()) == [("warning", "sidecar-missing")]
    assert said(control, plain()) == []


def test_what_inject_makes_is_content():
    assert said(placement, body()) == []
    assert said(control, body()) == []


@pytest.mark.parametrize(
    ("container", "ours"),
    [
        ({"image": "REGISTRY/cacheaware/sidecar:0.1.0"}, True),
        ({"image": "own:1", "ports": [{"name": "cacheaware", "containerPort": 1}]}, True),
        ({"name": "cacheaware"}, True),
        ({"name": "engine", "image": "docker.io/cacheaware/mock-engine:dev"}, False),
    ],
    ids=str,
)
def test_the_sidecar_is_known_by_image_port_or_name(container, ours):
    assert is_ours(container) is ours


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"restartPolicy": ABSENT}, [("error", "sidecar-blocks-start")]),
        ({"readinessProbe": ABSENT}, [("error", "sidecar-readiness-missing")]),
        ({"readinessProbe": {"httpGet": {"path": "/livez"}}},
         [("error", "sidecar-readiness-missing")]),
        ({"readinessProbe": ready(period=2)}, [("warning", "sidecar-readiness-timing")]),
        ({"readinessProbe": READY}, [("warning", "sidecar-readiness-timing")]),
        ({"readinessProbe": ready(timeout=1)}, [("warning", "sidecar-readiness-timing")]),
        ({"readinessProbe": ready(failures=1)}, [("warning", "sidecar-readiness-timing")]),
        ({"readinessProbe": ready(timeout=None)}, [("warning", "sidecar-readiness-timing")]),
        ({"readinessProbe": ready(failures=5)}, []),
        ({"startupProbe": READY}, [("error", "sidecar-startup-probe")]),
        ({"startupProbe": {"exec": {"command": ["x"]}}}, [("error", "sidecar-startup-probe")]),
        ({"startupProbe": {"httpGet": {"path": "/livez"}}}, []),
        ({"livenessProbe": {"httpGet": {"path": "/livez"}}}, []),
        ({"livenessProbe": READY}, [("error", "sidecar-liveness-path")]),
        ({"volumeMounts": ABSENT}, [("error", "shared-volume")]),
        ({"volumeMounts": [{**MOUNT, "name": "other"}]}, [("error", "shared-volume")]),
        ({"ports": ABSENT}, [("error", "sidecar-port-untold")]),
        ({"ports": [{"containerPort": 9441}]}, [("error", "sidecar-port-untold")]),
    ],
    ids=str,
)  # fmt: skip
def test_each_part_of_the_sidecar_has_its_reason(changed, wanted):
    assert said(placement, body(side=sidecar(**changed))) == wanted


def test_the_timing_of_readiness_says_what_follows():
    slow = one(placement, body(side=sidecar(readinessProbe=ready(period=10))))
    assert "stays in the endpoints for 30 s" in slow.message
    hasty = one(placement, body(side=sidecar(readinessProbe=ready(failures=1))))
    assert "throttled for a moment" in hasty.message


def test_an_ordinary_container_ends_with_the_engine():
    manifest = plain(engine(), sidecar(restartPolicy=ABSENT))
    assert said(placement, manifest) == [("error", "sidecar-not-native")]


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (body(engine(volumeMounts=ABSENT)), [("error", "hook-script-missing")]),
        (body(engine(volumeMounts=[{**MOUNT, "name": "other"}])),
         [("error", "hook-script-missing")]),
        (body(engine({"exec": {"command": ["python3", "/elsewhere/wait.py"]}})),
         [("error", "hook-script-missing")]),
        (body(engine(HTTP_HOOK, volumeMounts=ABSENT)), []),
        (body(engine(volumeMounts=[{**MOUNT, "mountPath": f"{FOLDER}/"}])), []),
        (body(pod={"volumes": [{"name": "cacheaware", "hostPath": {}}]}),
         [("error", "shared-volume")]),
        (body(pod={"volumes": ABSENT}), [("error", "shared-volume")]),
        (body(side=sidecar(env={"SHARED_DIR": "/other"})), [("error", "shared-volume")]),
        (body(side=sidecar(env={"SHARED_DIR": {"valueFrom": {}}})), []),
    ],
)  # fmt: skip
def test_both_containers_need_the_shared_folder(manifest, wanted):
    assert said(placement, manifest) == wanted


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (body(engine(args=["--port=9440"])), [("error", "port-clash")]),
        (body(engine(), {"name": "x", "ports": [{"containerPort": 9440}]}),
         [("error", "port-clash")]),
        (body(engine(), {"name": "x", "ports": [{"containerPort": 9441}]}), []),
        (body(pod={"hostNetwork": True}), []),
        (body(pod={"hostNetwork": True}, replicas=2), [("info", "host-network")]),
        (body(pod={"hostNetwork": True}, replicas=2, kind="LeaderWorkerSet"), []),
        (body(pod={"hostNetwork": True}, side=sidecar(
            env={"PORT": "9100"}, ports=[{"containerPort": 9100}])),
         [("error", "host-port-taken")]),
    ],
)  # fmt: skip
def test_the_port_is_the_sidecars_own(manifest, wanted):
    assert said(placement, manifest) == wanted


SCALER = {
    "kind": "CacheAwareScaler",
    "spec": {"mode": "Scale", "scaleTargetRef": {"kind": "Deployment", "name": "chat"}},
}


def env(**values):
    return body(side=sidecar(env=values))


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (env(PORT="x"), [("error", "sidecar-settings")]),
        (env(GRACE_SECONDS="8"), [("error", "sidecar-settings")]),
        (env(WARM_UP="off"), [("warning", "sidecar-setting-unknown")]),
        (env(GRACE_SECONDS="200"), [("error", "grace-mismatch")]),
        (env(GRACE_SECONDS="100"), [("warning", "grace-mismatch")]),
        (env(GRACE_SECONDS=None), [("warning", "grace-mismatch")]),
        (env(GRACE_SECONDS="$(GRACE)"), []),
        (body(grace=None, side=sidecar(grace=None)), []),
        (body(grace=0, side=sidecar()), []),
        (env(ENGINE_URL="http://127.0.0.1:8001"), [("error", "engine-url-port")]),
        (env(ENGINE_URL="https://127.0.0.1"), [("error", "engine-url-port")]),
        (env(ENGINE_URL="http://127.0.0.1"), [("error", "engine-url-port")]),
        (env(ENGINE_URL={"valueFrom": {}}), []),
        (body(engine(args=["--port", "$(PORT)"], ports=ABSENT)), []),
        (body(engine(ports=[{"name": "http"}])), []),
        (body(engine(args=["--port", "$(PORT)"], ports=[{"containerPort": 8001}])),
         [("error", "engine-url-port")]),
        (body(engine(image="nvcr.io/nvidia/tritonserver:24.08"),
              side=sidecar(env={"ENGINE_URL": "http://127.0.0.1:8002"})), []),
        (env(OPERATOR_ACCOUNT=None), [("info", "operator-account-unset")]),
        (env(OPERATOR_ACCOUNT={"valueFrom": {}}), []),
    ],
)  # fmt: skip
def test_the_sidecar_is_told_the_truth(manifest, wanted):
    assert said(control, manifest) == wanted


def test_values_from_elsewhere_are_unknown_not_unset():
    hidden = sidecar(env={"OPERATOR_ACCOUNT": None}, envFrom=[{"configMapRef": {"name": "x"}}])
    assert said(control, body(side=hidden)) == []
    found = sidecar_in(hidden, Place.NATIVE)
    assert (found.setting("grace_seconds"), found.setting("warmup")) == (180, None)
    assert found.warms_up
    assert found.port == 9440


def test_variables_of_others_are_no_settings():
    env = [{"name": "HOME", "value": "/"}, {"name": "CACHEAWARE_PORT", "value": "9441"}]
    assert sidecar_in({"env": env}, Place.NATIVE).port == 9441


def test_an_account_matters_where_a_scaler_scales():
    unset = env(OPERATOR_ACCOUNT=None)
    assert said(control, unset, scalers=(SCALER,)) == [("warning", "operator-account-unset")]
    advise = {**SCALER, "spec": {**SCALER["spec"], "mode": "Advise"}}
    assert said(control, unset, scalers=(advise,)) == [("info", "operator-account-unset")]


TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_MOUNT = {"name": "tokens", "mountPath": TOKENS}
PROJECTED = [
    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
    {"configMap": {"name": "kube-root-ca.crt"}},
]


def projected(sources, mount=TOKEN_MOUNT):
    volumes = [
        {"name": "cacheaware", "emptyDir": {}},
        {"name": "tokens", "projected": {"sources": sources}},
    ]
    pod = {"automountServiceAccountToken": False, "volumes": volumes}
    return body(pod=pod, side=sidecar(volumeMounts=[MOUNT, *([mount] if mount else [])]))


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (body(pod={"automountServiceAccountToken": True}), []),
        (body(pod={"automountServiceAccountToken": False}), [("warning", "token-missing")]),
        (projected(PROJECTED), []),
        (projected(PROJECTED, None), [("warning", "token-missing")]),
        (projected(PROJECTED[:1]), [("warning", "token-missing")]),
        (projected(PROJECTED[1:]), [("warning", "token-missing")]),
        (projected([{"serviceAccountToken": {"path": "x"}}, PROJECTED[1]]),
         [("warning", "token-missing")]),
        (body(pod={"automountServiceAccountToken": False},
              side=sidecar(env={"TOKEN_DIR": {"valueFrom": {}}})), []),
    ],
)  # fmt: skip
def test_the_operators_calls_are_checked_with_a_token(manifest, wanted):
    assert said(control, manifest) == wanted


def test_the_builders_make_what_they_say():
    looked = subject(body(engine(sleep(3))))
    assert looked.workload.template["metadata"]["labels"] == LABELS
    assert looked.sidecar.setting("operator_account") == ACCOUNT
    assert looked.hook.seconds == 3
