"""Which container is the engine, and what its command line says."""

import pytest

from cacheaware.workload.engine import (
    accelerators,
    engine_in,
    engine_of,
    flags_of,
    hides_port,
    kind_of,
    serves,
)
from cacheaware.workload.template import Workload

GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


def workload(*containers):
    template = {"spec": {"containers": list(containers)}}
    return Workload("Deployment", None, "chat", {}, template)


def one(name="engine", image="example.invalid/own:1", **rest):
    return {"name": name, "image": image, **rest}


@pytest.mark.parametrize(
    ("container", "kind"),
    [
        (one(image="vllm/vllm-openai:v0.18.0"), "vllm"),
        (one(image="REGISTRY:5000/mirror/vllm-openai:v0.18.0"), "vllm"),
        (one(image="docker.io/cacheaware/mock-engine:dev"), "vllm"),
        (one(command=["vllm", "serve", "m"]), "vllm"),
        (one(command=["python3", "-m", "vllm.entrypoints.openai.api_server"]), "vllm"),
        (one(command=["sh", "-c", "exec vllm serve m"]), "vllm"),
        (one(command=["python3", "-m", "sglang.launch_server"]), "sglang"),
        (one(image="lmsysorg/sglang:v0.5.3-cu126"), "sglang"),
        (one(image="vllm/vllm-openai:v1", command=["python3", "-m", "sglang.x"]), "sglang"),
        (one(image="ghcr.io/huggingface/text-generation-inference:3.0"), "tgi"),
        (one(image="nvcr.io/nvidia/tritonserver:24.08-trtllm-python-py3"), "triton-trtllm"),
        (one(command=["trtllm-serve", "m"]), "trtllm"),
        (one(command=["/app/llama-server", "-m", "x"]), "llamacpp"),
        (one(image="ghcr.io/ggml-org/llama.cpp:server"), "llamacpp"),
        (one(image="openmmlab/lmdeploy:v0.9"), "lmdeploy"),
        (one(image="ghcr.io/vllm-project/vllm-router:v1"), None),
        (one(image="ghcr.io/llm-d/vllm-routing-sidecar:v1"), None),
        (one(image="nginx:1", args=["http://vllm:8000", "/models/vllm"]), None),
        (one(), None),
        ({"name": "engine"}, None),
    ],
    ids=lambda value: str(value)[:70],
)
def test_an_engine_gives_itself_away(container, kind):
    assert kind_of(container) == kind


@pytest.mark.parametrize(
    ("image", "command", "version"),
    [
        ("vllm/vllm-openai:v0.18.0", (), "0.18.0"),
        ("vllm/vllm-openai:v0.18.0@sha256:00", (), "0.18.0"),
        ("localhost:5000/vllm-openai:0.9.2rc1", (), "0.9.2rc1"),
        ("vllm/vllm-openai:latest", (), None),
        ("vllm/vllm-openai", (), None),
        ("localhost:5000/vllm-openai", (), None),
        ("lmcache/vllm-openai:v0.3.5", (), None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.3.0", ("vllm", "serve"), None),
        ("example.invalid/own:v1.2.3", ("vllm", "serve"), None),
        ("lmsysorg/sglang:v0.5.3-cu126", (), "0.5.3-cu126"),
    ],
)
def test_only_the_engines_own_image_tells_its_version(image, command, version):
    assert engine_in(one(image=image, command=command)).version == version


@pytest.mark.parametrize(
    ("tag", "before"),
    [("v0.17.1", True), ("v0.9", True), ("v0.18.0", False), ("v0.18.0rc1", False),
     ("v1.0", False), ("latest", None)],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(tag, before):
    assert engine_in(one(image=f"vllm/vllm-openai:{tag}")).before(0, 18) is before


def test_flags_are_read_in_all_their_forms():
    container = one(
        command=["vllm", "serve", "model"],
        args=["--port=9", "--max_model_len", "4096", "-tp", "4", "--enforce-eager", "--seed", "-1",
              "--kv-events", "{}", "--", "--disable-log-stats"],
    )  # fmt: skip
    assert flags_of(container) == {
        "port": "9",
        "max-model-len": "4096",
        "tensor-parallel-size": "4",
        "enforce-eager": "",
        "seed": "-1",
        "kv-events": "{}",
        "disable-log-stats": "",
    }


def test_a_flag_is_a_number_or_unknown():
    engine = engine_in(one(args=["--a", "1.5", "--b", "8k"]))
    assert [engine.number(flag) for flag in "abc"] == [1.5, None, None]


@pytest.mark.parametrize("value", ["inf", "nan", "1e400", "-5"])
def test_a_number_without_end_or_below_zero_is_none(value):
    assert engine_in(one(args=["--a", value])).number("a") is None


@pytest.mark.parametrize(
    ("container", "port"),
    [
        (one(args=["--port", "9000"], ports=[{"containerPort": 8000}]), 9000),
        (one(args=["--port", "$(PORT)"], ports=[{"containerPort": 8001}]), 8001),
        (one(args=["--port", "$(PORT)"], env=[{"name": "PORT", "value": "8002"}]), 8002),
        (one(command=["sh", "-c", "vllm serve m --port $PORT"],
             env=[{"name": "PORT", "value": "8003"}]), 8003),
        (one(command=["sh", "-c", "exec vllm serve m --port ${PORT:-8004}"]), 8004),
        (one(command=["sh", "-c", "PORT=1; vllm serve m --port $PORT"],
             env=[{"name": "PORT", "value": "8003"}]), 8000),
        (one(image="ghcr.io/huggingface/text-generation-inference:3.3.4",
             env=[{"name": "PORT", "value": "8080"}]), 8080),
        (one(image="ghcr.io/ggml-org/llama.cpp:server", args=["--port", "8090"],
             env=[{"name": "LLAMA_ARG_PORT", "value": "8080"}]), 8090),
        (one(env=[{"name": "PORT", "value": "8080"}]), 8000),
        (one(args=["--port", "\N{SUPERSCRIPT TWO}"]), 8000),
        (one(args=["--server-port", "23334"]), 23334),
        (one(ports=[{"containerPort": 5}, {"name": "http", "containerPort": 6}]), 6),
        (one(ports=[{"name": "grpc", "containerPort": 5}]), 5),
        (one(image="lmsysorg/sglang:v0.5.3"), 30000),
        (one(), 8000),
    ],
)  # fmt: skip
def test_the_port_is_the_flags_or_the_containers_or_the_engines_habit(container, port):
    assert engine_in(container).port == port


ENGINE = one("engine", "vllm/vllm-openai:v0.18.0", **GPU)
OTHER = one("other", "vllm/vllm-openai:v0.18.0")


@pytest.mark.parametrize(
    ("containers", "name", "found"),
    [
        ((one("own"),), None, "own"),
        ((one("nginx"), ENGINE), None, "engine"),
        ((OTHER, ENGINE), None, "engine"),
        ((one("a", **GPU), one("b")), None, "a"),
        ((one("a"), OTHER), None, "other"),
        ((one("a"), one("b")), None, None),
        ((one("a", **GPU), one("b", **GPU)), None, None),
        ((one("a"), one("b")), "b", "b"),
        ((one("a"),), "x", None),
        ((), None, None),
    ],
)
def test_the_engine_is_found_among_containers_or_not_guessed(containers, name, found):
    engine = engine_of(workload(*containers), name)
    assert (engine and engine.name) == found


@pytest.mark.parametrize(
    ("container", "hidden"),
    [
        (one(args=["--port", "$(PORT)"]), True),
        (one(args=["--port", "$(PORT)"], ports=[{"containerPort": 1}]), False),
        (one(args=["--port", "8000"]), False),
        (one(), False),
    ],
)
def test_a_port_that_the_manifest_shows_nowhere_is_hidden(container, hidden):
    assert hides_port(container) is hidden


@pytest.mark.parametrize(
    ("containers", "name", "found"),
    [
        ((one("a"), ENGINE), None, True),
        ((one("a", **GPU),), None, True),
        ((one("a"),), None, False),
        ((one("a"),), "a", True),
        ((ENGINE,), "a", False),
    ],
)
def test_a_workload_serves_by_the_name_that_is_told_or_by_itself(containers, name, found):
    assert serves(workload(*containers), name) is found


def test_a_malformed_workload_counts_so_that_it_is_told():
    template = {"spec": {"containers": "x"}}
    body = {"spec": {"template": template}}
    assert serves(Workload("Deployment", None, "chat", body, template))


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        ({"limits": {"nvidia.com/gpu": "2", "memory": "1Gi"}}, {"nvidia.com/gpu": 2}),
        ({"requests": {"amd.com/gpu": 1}}, {"amd.com/gpu": 1}),
        ({"limits": {"nvidia.com/mig-1g.5gb": "1"}}, {"nvidia.com/mig-1g.5gb": 1}),
        ({"limits": {"google.com/tpu": "4"}}, {"google.com/tpu": 4}),
        ({"limits": {"nvidia.com/gpu": "0"}}, {}),
        ({"limits": {"nvidia.com/gpu": "x"}}, {}),
        ({"limits": {1: 2}}, {}),
        (None, {}),
    ],
)
def test_accelerators_are_counted(resources, found):
    assert accelerators({"resources": resources}) == found
