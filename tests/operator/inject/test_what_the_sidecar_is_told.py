"""The sidecar's settings, out of the engine's flags, its key, its model and the options."""

from typing import Any

import pytest
from tests.operator.inject.workloads import Result, deployment, engine, refusal


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"args": ["--port", "7000"]}, "http://127.0.0.1:7000"),
        ({"args": ["--host", "0.0.0.0"]}, "http://127.0.0.1:8000"),
        ({"args": ["--host", "10.0.0.7"]}, "http://10.0.0.7:8000"),
        ({"args": ["--host", "::1"]}, "http://[::1]:8000"),
        ({"args": ["--host", "$(IP)"], "env": [{"name": "IP", "value": "x"}]}, "http://x:8000"),
        ({"args": ["--host", "$(IP)"], "env": [{"name": "IP", "valueFrom": {}}]},
         "http://$(IP):8000"),
        ({"command": ["sh", "-c"], "args": ["vllm serve m --port $PORT"],
          "env": [{"name": "PORT", "value": "8123"}]}, "http://127.0.0.1:8123"),
        ({"image": "nvcr.io/nvidia/tritonserver:24.08-trtllm-python-py3", "args": []},
         "http://127.0.0.1:8002"),
    ],
)  # fmt: skip
def test_the_sidecar_asks_where_the_engine_listens(fields, url):
    assert Result(deployment(engine(**fields))).env["ENGINE_URL"] == url


def test_an_address_that_nobody_knows_is_asked_for():
    body = deployment(engine(args=["--host", "$(IP)"]))

    assert "--env CACHEAWARE_ENGINE_URL" in refusal(body)
    told = {"CACHEAWARE_ENGINE_URL": "http://127.0.0.1:8000"}
    assert Result(body, env=told).env["ENGINE_URL"] == "http://127.0.0.1:8000"


def test_a_port_that_nobody_knows_is_asked_for():
    body = deployment(engine(args=["--port=$(PORT)"], env=[{"name": "PORT", "valueFrom": {}}]))

    assert "listens on a port that its manifest does not show" in refusal(body)
    told = {"CACHEAWARE_ENGINE_URL": "http://127.0.0.1:8001"}
    assert Result(body, env=told).env["ENGINE_URL"] == "http://127.0.0.1:8001"


def test_an_engine_with_tls_is_asked_with_tls():
    made = Result(deployment(engine(args=["--ssl-keyfile=/k", "--ssl-certfile=/c"])))

    assert made.env["ENGINE_URL"] == "https://127.0.0.1:8000"
    assert "CACHEAWARE_CA_FILE" in made.notes[0]


def test_flags_become_settings():
    args = [
        "-tp=4",
        "--pipeline-parallel-size",
        "2",
        "--max-model-len=32k",
        "--kv-cache-dtype",
        "fp8",
    ]
    made = Result(deployment(engine(args=[*args, "--max-num-batched-tokens=8192"])))

    assert made.env["TENSOR_PARALLEL"] == "4"
    assert made.env["PIPELINE_PARALLEL"] == "2"
    assert made.env["KV_CACHE_DTYPE"] == "fp8"
    assert made.env["MAX_BATCHED_TOKENS"] == "8192"
    assert "MAX_MODEL_LENGTH" not in made.env, "32k is no plain number"


def test_what_a_variable_hides_stays_unknown():
    made = Result(deployment(engine(args=["--kv-cache-dtype=$(TYPE)", "-tp=$(TP)"])))

    assert not {"KV_CACHE_DTYPE", "TENSOR_PARALLEL"} & set(made.env)


def test_tensorrt_llm_has_its_page_elsewhere():
    made = Result(deployment(engine(image="x", command=["trtllm-serve", "m"], args=[])))

    assert made.env["METRICS_PATH"] == "/prometheus/metrics"


def test_settings_that_the_sidecar_would_refuse_are_refused_here():
    told = {"CACHEAWARE_CONFIG_FILE": "/a", "CACHEAWARE_CONFIG_URL": "http://b/c"}

    assert "the sidecar would refuse its settings: CACHEAWARE_CONFIG_URL" in refusal(
        deployment(), env=told
    )


def test_the_sidecar_knows_whom_to_obey_and_who_it_is():
    made = Result(deployment())

    assert made.env["OPERATOR_ACCOUNT"] == "system:serviceaccount:cacheaware-system:cacheaware"
    assert made.env["POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert "TOKEN_DIR" not in made.env


def test_a_pod_without_a_token_gets_one_for_the_sidecar_alone():
    made = Result(deployment(automountServiceAccountToken=False))
    sources = made.volumes["cacheaware-token"]["projected"]["sources"]

    assert made.env["TOKEN_DIR"] == made.mounts["cacheaware-token"]["mountPath"]
    assert [next(iter(one)) for one in sources] == ["serviceAccountToken", "configMap"]
    assert "cacheaware-token" not in {one["name"] for one in made.engine["volumeMounts"]}


def key(**ref: Any) -> dict[str, Any]:
    return {"valueFrom": {"secretKeyRef": {"name": "keys", "key": "vllm", **ref}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"env": [{"name": "VLLM_API_KEY", **key()}]},
        {"env": [{"name": "K", **key()}], "args": ["--api-key", "$(K)"]},
    ],
)
def test_the_engines_key_comes_to_the_sidecar_as_a_file(fields):
    made = Result(deployment(engine(**fields)))

    assert made.env["API_KEY_FILE"] == "/var/run/secrets/cacheaware-api-key/api-key"
    assert made.volumes["cacheaware-api-key"]["secret"]["items"] == [
        {"key": "vllm", "path": "api-key"}
    ]
    assert made.mounts["cacheaware-api-key"]["readOnly"]


def test_an_optional_key_stays_optional():
    made = Result(deployment(engine(env=[{"name": "VLLM_API_KEY", **key(optional=True)}])))

    assert made.volumes["cacheaware-api-key"]["secret"]["optional"]


def test_a_key_in_the_manifest_is_not_copied_and_that_is_said():
    made = Result(deployment(engine(args=["--api-key", "abc"])))

    assert "API_KEY_FILE" not in made.env
    assert "put it into a Secret" in made.notes[0]
    assert "abc" not in str(made.sidecar) + str(made.notes)


def test_a_key_file_of_ones_own_is_taken():
    fields = {"env": [{"name": "VLLM_API_KEY", **key()}]}
    made = Result(deployment(engine(**fields)), env={"CACHEAWARE_API_KEY_FILE": "/k"})

    assert made.env["API_KEY_FILE"] == "/k"
    assert "cacheaware-api-key" not in made.volumes


MODELS = {"name": "models", "mountPath": "/models"}
VOLUME = {"name": "models", "emptyDir": {}}


@pytest.mark.parametrize(
    ("fields", "folder"),
    [
        ({"args": ["--model", "/models/a"]}, "/models/a"),
        ({"args": ["/models/a"]}, "/models/a"),
        ({"command": ["vllm", "serve", "/models"], "args": []}, "/models"),
        ({"args": ["--model", "/elsewhere/a"]}, None),
        ({"args": ["--model", "org/name"]}, None),
        ({"args": ["--model", "/models/a.gguf"]}, None),
    ],
)
def test_a_model_on_a_volume_is_read_there(fields, folder):
    made = Result(deployment(engine(volumeMounts=[MODELS], **fields), volumes=[VOLUME]))

    assert made.env.get("CONFIG_FILE") == folder
    assert ("models" in made.mounts) == (folder is not None)


def test_a_volume_can_be_given_to_the_sidecar():
    made = Result(deployment(volumes=[VOLUME]), mounts={"models": "/etc/model"},
                  env={"CACHEAWARE_CONFIG_FILE": "/etc/model/config.json"})  # fmt: skip

    assert made.mounts["models"] == {"name": "models", "mountPath": "/etc/model", "readOnly": True}
    assert "the pod has none" in refusal(deployment(), mounts={"models": "/m"})


def test_a_role_that_is_told_wins_over_the_flags():
    body = deployment(engine(args=["--disaggregation-mode=decode"]))
    made = Result(body, env={"CACHEAWARE_ROLE": "Prefill"})

    assert made.env["ROLE"] == "Prefill"
    assert made.env["GRACE_SECONDS"] == "495"
