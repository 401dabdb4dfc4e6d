"""The samples and the try-out on a local cluster: valid, and of one piece with the sidecar."""

import json
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from cacheaware.api.models import CacheAwareScaler
from cacheaware.names import API_VERSION, SIDECAR_PORT, SIDECAR_PORT_NAME
from cacheaware_sidecar import settings as sidecar_settings

MANIFESTS = Path(__file__).parents[2] / "manifests"
FILES = sorted([*MANIFESTS.glob("samples/*.yaml"), *MANIFESTS.glob("kind/*.yaml")])


def documents(path):
    return [d for d in yaml.safe_load_all(path.read_text()) if d]


OBJECTS = [
    pytest.param(d, id=f"{path.parent.name}/{path.name}:{d['kind']}")
    for path in FILES
    for d in documents(path)
]
SCALERS = [p for p in OBJECTS if p.values[0]["kind"] == "CacheAwareScaler"]
BUILT_IN = [p for p in OBJECTS if p.values[0]["kind"] != "CacheAwareScaler"]


@pytest.fixture(scope="module")
def crd_schema(root):
    crd = yaml.safe_load((root / "manifests" / "crd.yaml").read_text())
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def close(schema):
    """The schema with unknown fields refused, as `kubectl apply` does by strict validation."""
    if isinstance(schema, list):
        return [close(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: close(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


@pytest.mark.parametrize("scaler", SCALERS)
def test_a_scaler_is_valid_for_the_models(scaler):
    assert scaler["apiVersion"] == API_VERSION
    CacheAwareScaler.model_validate(scaler)


@pytest.mark.parametrize("scaler", SCALERS)
def test_a_scaler_is_valid_for_the_crd_and_has_no_field_it_would_drop(scaler, crd_schema):
    jsonschema.validate(scaler["spec"], close(crd_schema["properties"]["spec"]))


def test_the_closed_schema_would_notice_a_typo(crd_schema):
    spec = documents(MANIFESTS / "samples" / "advise.yaml")[0]["spec"]
    with pytest.raises(jsonschema.ValidationError, match="minReplica"):
        jsonschema.validate({**spec, "minReplica": 1}, close(crd_schema["properties"]["spec"]))


def test_the_samples_show_both_modes_and_both_ways_to_observe():
    specs = [p.values[0]["spec"] for p in SCALERS]
    assert {s.get("mode") for s in specs} == {"Advise", "Scale"}
    assert {s.get("observation") for s in specs} == {None, "Direct"}
    assert {s["scaleTargetRef"]["kind"] for s in specs} == {
        "Deployment",
        "StatefulSet",
        "LeaderWorkerSet",
    }


@pytest.mark.parametrize("version", ["1.29.0", "1.35.0", "1.37.0"])
@pytest.mark.parametrize("item", BUILT_IN)
def test_a_built_in_object_is_valid_for_kubernetes(item, version):
    kubernetes_validate.validate(item, version, strict=True)


@pytest.mark.parametrize("item", [pytest.param(p.values[0], id=p.id) for p in OBJECTS])
def test_no_object_names_a_namespace_so_that_it_goes_where_you_say(item):
    assert "namespace" not in item["metadata"]


@pytest.fixture(scope="module")
def engine():
    found = documents(MANIFESTS / "kind" / "mock-engine.yaml")
    return {d["kind"]: d for d in found}


@pytest.fixture(scope="module")
def pod(engine):
    return engine["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def containers(pod):
    (sidecar,), (mock,) = pod["initContainers"], pod["containers"]
    return sidecar, mock


def env_of(container):
    """What a container gets; a pod's uid where the kubelet puts it in."""
    return {e["name"]: e.get("value", "a-uid") for e in container.get("env", [])}


def test_the_sidecar_is_a_native_one(containers):
    sidecar, _ = containers
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["ports"] == [{"name": SIDECAR_PORT_NAME, "containerPort": SIDECAR_PORT}]


def test_no_startup_probe_of_the_sidecar_waits_for_an_engine_that_starts_after_it(containers):
    sidecar, _ = containers
    assert "startupProbe" not in sidecar


def test_the_pod_is_ready_when_both_say_so(containers):
    sidecar, mock = containers
    assert sidecar["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": SIDECAR_PORT_NAME}
    assert sidecar["livenessProbe"]["httpGet"] == {"path": "/livez", "port": SIDECAR_PORT_NAME}
    assert mock["readinessProbe"]["httpGet"]["path"] == "/health"


def test_the_sidecar_accepts_its_settings(containers):
    sidecar, _ = containers
    sidecar_settings.load(env_of(sidecar))
    assert sidecar_settings.unknown_variables(env_of(sidecar)) == []


def test_the_sidecar_knows_how_long_the_pod_may_take_to_end(containers, pod):
    sidecar, _ = containers
    grace = pod["terminationGracePeriodSeconds"]
    assert env_of(sidecar)["CACHEAWARE_GRACE_SECONDS"] == str(grace)


def test_the_engines_hook_runs_the_script_that_the_sidecar_puts_there(containers, pod):
    sidecar, mock = containers
    shared = sidecar_settings.Settings().shared_dir
    hook = ["python3", "-I", "-S", f"{shared}/wait.py"]
    assert mock["lifecycle"]["preStop"]["exec"]["command"] == hook
    for container in containers:
        assert {"name": "cacheaware", "mountPath": shared} in container["volumeMounts"]
    assert {"name": "cacheaware", "emptyDir": {}} in pod["volumes"]
    assert env_of(sidecar).get("CACHEAWARE_SHARED_DIR", shared) == shared


def test_both_containers_run_as_one_user_so_that_both_can_use_the_socket(containers, pod):
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert pod["automountServiceAccountToken"] is False


def test_the_model_configuration_gives_bytes(engine, containers):
    from cacheaware_sidecar.kv import geometry

    sidecar, _ = containers
    config = json.loads(engine["ConfigMap"]["data"]["config.json"])
    mounts = {m["name"]: m["mountPath"] for m in sidecar["volumeMounts"]}
    assert env_of(sidecar)["CACHEAWARE_CONFIG_FILE"] == f"{mounts['config']}/config.json"
    assert geometry(config).bytes_per_token_growing == 16_384


def test_the_service_and_the_scaler_mean_this_deployment(engine):
    deployment = engine["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert engine["Service"]["spec"]["selector"].items() <= labels.items()
    (scaler,) = documents(MANIFESTS / "kind" / "scaler.yaml")
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]


def test_nothing_else_sets_the_replicas(engine):
    assert "replicas" not in engine["Deployment"]["spec"]


def test_the_load_ends_by_itself(engine):
    (job,) = documents(MANIFESTS / "kind" / "load.yaml")
    assert job["spec"]["activeDeadlineSeconds"] <= 900
    assert job["spec"]["backoffLimit"] == 0
    service = engine["Service"]["metadata"]["name"]
    assert any(
        f"http://{service}:8000" in a
        for a in job["spec"]["template"]["spec"]["containers"][0]["args"]
    )


@pytest.mark.parametrize("name", ["mock-engine.yaml", "load.yaml"])
def test_images_are_those_that_make_images_builds(name):
    text = (MANIFESTS / "kind" / name).read_text()
    images = {line.split("image:")[1].strip() for line in text.splitlines() if "image:" in line}
    assert images <= {"docker.io/cacheaware/mock-engine:dev", "docker.io/cacheaware/sidecar:dev"}
