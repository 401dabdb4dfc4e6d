"""Images, flags, settings and scalers that can't all be meant; proxies on the path of requests."""

import pytest
from tests.operator.doctor.workloads import (
    HTTP_HOOK,
    body,
    engine,
    one,
    plain,
    said,
    sidecar,
    sleep,
    subject,
)  # fmt: skip

from cacheaware.doctor.contradictions import contradictions
from cacheaware.doctor.request_path import request_path

SGLANG, LLAMA = "lmsysorg/sglang:v0.5.3", "ghcr.io/ggml-org/llama.cpp:server"


def with_(*args, image="vllm/vllm-openai:v0.18.0", env=(), **told):
    return body(engine(image=image, args=list(args), env=list(env)), side=sidecar(env=told))


def key(name, **value):
    return {"name": name, **value}


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (body(), []),
        (plain(), []),
        (with_(PORT="x"), []),
        (with_("--shutdown-timeout=20", image="vllm/vllm-openai:v0.17.1"),
         [("error", "flag-unknown-to-version")]),
        (with_("--shutdown-timeout=20", ENGINE_SHUTDOWN_SECONDS="20"), []),
        (with_("--shutdown-timeout=20", image="vllm/vllm-openai:latest",
               ENGINE_SHUTDOWN_SECONDS="20"), []),
        (with_("--disable-log-stats"), [("error", "metrics-off")]),
        (with_("--model-path", "m", image=SGLANG), [("error", "metrics-off")]),
        (with_("--model-path", "m", "--enable-metrics", image=SGLANG), []),
        (with_(image=SGLANG), []),
        (with_("-m", "x", image=LLAMA), [("error", "metrics-off")]),
        (with_("-m", "x", "--metrics", image=LLAMA), []),
        (with_("-m", "x", image=LLAMA, env=[key("LLAMA_ARG_ENDPOINT_METRICS", value="1")]), []),
        (with_("--shutdown-timeout=20"), [("warning", "shutdown-mismatch")]),
        (with_(ENGINE_SHUTDOWN_SECONDS="20"), [("warning", "shutdown-mismatch")]),
        (with_("--shutdown-timeout=20", ENGINE_SHUTDOWN_SECONDS={"valueFrom": {}}), []),
        (with_("--config=x", ENGINE_SHUTDOWN_SECONDS="20"), []),
        (with_(image=SGLANG, ENGINE_SHUTDOWN_SECONDS="20"), []),
        (with_("--max-num-batched-tokens=2048", MAX_BATCHED_TOKENS="8192"),
         [("warning", "setting-mismatch")]),
        (with_("--max-num-batched-tokens=8192", MAX_BATCHED_TOKENS="8192"), []),
        (with_("--max-num-batched-tokens=8192"), []),
        (with_(MAX_BATCHED_TOKENS="8192"), []),
        (with_("--max-model-len=1024", MAX_MODEL_LENGTH="4096"),
         [("warning", "setting-mismatch")]),
        (with_("-tp", "4", CONFIG_FILE="/m/config.json"), [("info", "setting-mismatch")]),
        (with_("-tp", "4", CONFIG_URL="https://hub.invalid/config.json"),
         [("info", "setting-mismatch")]),
        (with_("-tp", "4", CONFIG_FILE="/m", TENSOR_PARALLEL="4"), []),
        (with_("-tp", "4"), []),
        (with_(image="nvcr.io/nvidia/tensorrt-llm/release:1.0"), [("error", "metrics-path")]),
        (with_(image="nvcr.io/nvidia/tensorrt-llm/release:1.0",
               METRICS_PATH="/prometheus/metrics"), []),
        (with_("--api-key=x"), [("warning", "api-key-missing")]),
        (with_(env=[key("VLLM_API_KEY", valueFrom={"secretKeyRef": {}})]),
         [("warning", "api-key-missing")]),
        (with_("--api-key=x", API_KEY_FILE="/k"), []),
        (with_("--api-key=x", API_KEY_FILE={"valueFrom": {}}), []),
        (with_("--api-key=x", WARMUP="off"), []),
    ],
)  # fmt: skip
def test_image_flags_and_settings_have_to_agree(manifest, wanted):
    assert said(contradictions, manifest) == wanted


def test_what_follows_from_a_wrong_shutdown_time_is_said():
    short = one(contradictions, with_("--shutdown-timeout=20"))
    assert "followed by a shutdown that the grace period cuts" in short.message
    assert short.fix == 'set CACHEAWARE_ENGINE_SHUTDOWN_SECONDS to "20"'
    long = one(contradictions, with_(ENGINE_SHUTDOWN_SECONDS="20"))
    assert "the drain ends 20 s earlier" in long.message


def target(kind, mode=None, name="chat", namespace="demo"):
    ref = {
        "scaleTargetRef": {"kind": "Deployment", "name": name},
        **({"mode": mode} if mode else {}),
    }
    return {"kind": kind, "metadata": {"name": "x", "namespace": namespace}, "spec": ref}


@pytest.mark.parametrize(
    ("scaler", "hpa", "found"),
    [
        (target("CacheAwareScaler", "Scale"), target("HorizontalPodAutoscaler"), True),
        (target("CacheAwareScaler", "Advise"), target("HorizontalPodAutoscaler"), False),
        (target("CacheAwareScaler"), target("HorizontalPodAutoscaler"), False),
        (target("CacheAwareScaler", "Scale"), target("HorizontalPodAutoscaler", name="b"), False),
        (target("CacheAwareScaler", "Scale", namespace="b"), target("x"), False),
    ],
)
def test_two_that_write_replicas_are_told(scaler, hpa, found):
    findings = said(contradictions, body(), scalers=(scaler,), horizontal=(hpa,))
    assert findings == ([("warning", "two-scalers")] if found else [])


PROXY = {"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.24"}
QUICK = engine(sleep(15), args=["--shutdown-timeout=45"])


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (body(), []),
        (body(engine(), PROXY), [("error", "proxy-ends-first")]),
        (body(engine(), {"name": "front", "image": "nginx:1"}), [("error", "proxy-ends-first")]),
        (body(engine(), {"name": "pd-sidecar", "image": "x"}), [("error", "proxy-ends-first")]),
        (body(engine(), {"name": "exporter", "image": "y"}), []),
        (body(engine(), {"name": "exporter", "image": "nginx-exporter:1"}), []),
        (body(engine(), {**PROXY, "lifecycle": {"preStop": sleep(60)}}),
         [("warning", "proxy-ends-early")]),
        (body(engine(), {**PROXY, "lifecycle": {"preStop": sleep(175)}}), []),
        (body(engine(), {**PROXY, "lifecycle": {"preStop": HTTP_HOOK}}), []),
        (plain(QUICK, {**PROXY, "lifecycle": {"preStop": sleep(59)}}),
         [("warning", "proxy-ends-early")]),
        (plain(QUICK, {**PROXY, "lifecycle": {"preStop": sleep(60)}}), []),
        (plain(engine({"exec": {"command": ["/x"]}}), PROXY), [("error", "proxy-ends-first")]),
        (plain(engine({"exec": {"command": ["/x"]}}),
               {**PROXY, "lifecycle": {"preStop": sleep(60)}}), []),
        (body(meta={"labels": {"app": "chat", "sidecar.istio.io/inject": "true"}}),
         [("info", "mesh-injected")]),
        (body(meta={"annotations": {"sidecar.istio.io/inject": "true"}}),
         [("info", "mesh-injected")]),
        (body(meta={"annotations": {"sidecar.istio.io/inject": "false"}}), []),
        (body(engine(), PROXY, meta={"annotations": {"sidecar.istio.io/inject": "true"}}),
         [("error", "proxy-ends-first")]),
    ],
)  # fmt: skip
def test_a_proxy_may_not_end_before_the_engine(manifest, wanted):
    assert said(request_path, manifest) == wanted


def test_how_long_the_engine_goes_on_is_told():
    assert "for up to 175 s" in one(request_path, body(engine(), PROXY)).message
    bare = plain(engine(None), PROXY)
    assert "while the engine works on:" in one(request_path, bare).message


def test_a_proxy_that_admission_added_is_seen_in_the_running_pods():
    assert said(request_path, body(), injected=(PROXY,)) == [("error", "proxy-ends-first")]


def test_our_sidecar_is_no_neighbour_even_as_an_ordinary_container():
    assert subject(plain(engine(), sidecar(name="envoy-like"))).neighbours == []
