import re
from dataclasses import fields
from pathlib import Path

import pytest

from cacheaware_sidecar.settings import Settings, SettingsError, load, table, unknown_variables

DOCS = Path(__file__).parents[2] / "docs" / "sidecar.md"
CONTRACT = {
    "CACHEAWARE_ENGINE_URL": "http://127.0.0.1:8000",
    "CACHEAWARE_METRICS_PATH": "/metrics",
    "CACHEAWARE_ENGINE_BASE_PATH": None,
    "CACHEAWARE_ENGINE_PORTS": (),
    "CACHEAWARE_ENGINE_TYPE": "auto",
    "CACHEAWARE_PORT": 9440,
    "CACHEAWARE_SHARED_DIR": "/var/run/cacheaware",
    "CACHEAWARE_SCRAPE_INTERVAL_SECONDS": 1.0,
    "CACHEAWARE_SCRAPE_TIMEOUT_SECONDS": 5.0,
    "CACHEAWARE_API_KEY_FILE": None,
    "CACHEAWARE_CA_FILE": None,
    "CACHEAWARE_CONFIG_FILE": None,
    "CACHEAWARE_CONFIG_URL": None,
    "CACHEAWARE_CONFIG_TOKEN_FILE": None,
    "CACHEAWARE_TENSOR_PARALLEL": 1,
    "CACHEAWARE_PIPELINE_PARALLEL": 1,
    "CACHEAWARE_DECODE_CONTEXT_PARALLEL": 1,
    "CACHEAWARE_KV_CACHE_DTYPE": "auto",
    "CACHEAWARE_WARMUP": True,
    "CACHEAWARE_WARMUP_BUDGET_SECONDS": 120,
    "CACHEAWARE_WARMUP_VERDICT": "Ready",
    "CACHEAWARE_MAX_BATCHED_TOKENS": None,
    "CACHEAWARE_MAX_MODEL_LENGTH": None,
    "CACHEAWARE_WARMUP_FEATURES": (),
    "CACHEAWARE_HOT_PREFIXES_FILE": None,
    "CACHEAWARE_MODEL": None,
    "CACHEAWARE_GRACE_SECONDS": 30,
    "CACHEAWARE_ENGINE_SHUTDOWN_SECONDS": 0,
    "CACHEAWARE_DRAIN_FLOOR_SECONDS": 5,
    "CACHEAWARE_ROLE": "Both",
    "CACHEAWARE_KV_TRANSFER_TIMEOUT_SECONDS": 480,
    "CACHEAWARE_OPERATOR_ACCOUNT": None,
    "CACHEAWARE_TOKEN_DIR": "/var/run/secrets/kubernetes.io/serviceaccount",
    "CACHEAWARE_POD_UID": None,
    "CACHEAWARE_RELIEF": False,
    "CACHEAWARE_RELIEF_USAGE_PERCENT": 98,
    "CACHEAWARE_RELIEF_AFTER_SECONDS": 60,
    "CACHEAWARE_RELIEF_CORDON_SECONDS": 60,
    "CACHEAWARE_RELIEF_EVERY_SECONDS": 600,
    "CACHEAWARE_RELIEF_ABORT": False,
    "CACHEAWARE_CANARY_SECONDS": None,
    "CACHEAWARE_CANARY_FILE": None,
    "CACHEAWARE_LOG_FORMAT": "text",
}
"""Pod templates in the field hold these: names and defaults never change."""


def test_names_and_defaults_are_the_frozen_contract():
    defaults = {f"CACHEAWARE_{f.name.upper()}": f.default for f in fields(Settings)}

    assert defaults == CONTRACT


def test_without_variables_all_defaults_hold_and_an_empty_one_counts_as_unset():
    assert load({}) == load({"CACHEAWARE_PORT": "", "CACHEAWARE_MODEL": " "}) == Settings()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("engine_url", "https://[::1]:8443/", "https://[::1]:8443"),
        ("engine_url", "http://localhost", "http://localhost"),
        ("metrics_path", "/prometheus/metrics?a=b", "/prometheus/metrics?a=b"),
        ("port", "1", 1),
        ("engine_ports", "8001, 8002", (8001, 8002)),
        ("engine_base_path", "/llm/a.b/", "/llm/a.b"),
        ("warmup_features", "logprobs, image", ("logprobs", "image")),
        ("warmup_features", "lora:sql,lora:a/b,lora", ("lora:sql", "lora:a/b", "lora")),
        ("role", "Decode", "Decode"),
        ("scrape_interval_seconds", "0.5", 0.5),
        ("warmup", "off", False),
        ("canary_seconds", "60", 60),
        ("warmup_verdict", "Fail", "Fail"),
        ("max_batched_tokens", "8192", 8192),
        ("engine_type", "sglang", "sglang"),
        ("model", "org/model", "org/model"),
        ("config_file", "/models/config.json", "/models/config.json"),
        ("config_url", "https://hub/x/config.json?a=b", "https://hub/x/config.json?a=b"),
        ("grace_seconds", "10", 10),
        ("operator_account", "system:serviceaccount:a-b:c.d", "system:serviceaccount:a-b:c.d"),
        ("pod_uid", "0b7d6f1e-95ce-4b0e-9d0f-3c1f6ff0f6a1", "0b7d6f1e-95ce-4b0e-9d0f-3c1f6ff0f6a1"),
    ],
)
def test_a_good_value_is_taken(name, text, value):
    assert getattr(load({f"CACHEAWARE_{name.upper()}": text}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("ENGINE_URL", "ftp://x", "http://HOST[:PORT]"),
        ("ENGINE_PORTS", "8001,", "up to 64 different ports"),
        ("ENGINE_PORTS", "8001,8001", "up to 64 different ports"),
        ("ENGINE_PORTS", "99999", "up to 64 different ports"),
        ("ENGINE_BASE_PATH", "llm", "a path such as /llm"),
        ("ENGINE_BASE_PATH", "/", "a path such as /llm"),
        ("ENGINE_BASE_PATH", "//evil", "a path such as /llm"),
        ("ENGINE_BASE_PATH", "/a?b=c", "a path such as /llm"),
        ("WARMUP_FEATURES", "logprob", "different ones of structured-output, logprobs, lora,"),
        ("WARMUP_FEATURES", "image,image", "different ones of structured-output"),
        ("WARMUP_FEATURES", "lora:", "different ones of structured-output"),
        ("WARMUP_FEATURES", "image,", "different ones of structured-output"),
        ("ROLE", "both", "one of Both, Prefill, Decode"),
        ("ENGINE_URL", "http://", "http://HOST[:PORT]"),
        ("ENGINE_URL", "http://h:0", "http://HOST[:PORT]"),
        ("ENGINE_URL", "http://h:x", "http://HOST[:PORT]"),
        ("ENGINE_URL", "http://h/path", "http://HOST[:PORT]"),
        ("ENGINE_URL", "http://[::1", "http://HOST[:PORT]"),
        ("METRICS_PATH", "metrics", "a path that begins with /"),
        ("METRICS_PATH", "/a#b", "a path that begins with /"),
        ("ENGINE_TYPE", "vLLM", "one of auto, vllm"),
        ("PORT", "0", "an integer from 1 to 65535"),
        ("PORT", "65536", "an integer from 1 to 65535"),
        ("PORT", "80_0", "an integer from 1 to 65535"),
        ("PORT", "-1", "an integer from 1 to 65535"),
        ("PORT", "\u0661", "an integer from 1 to 65535"),
        ("SHARED_DIR", "run", "an absolute path of at most 80 bytes"),
        ("SHARED_DIR", "/" + "x" * 80, "an absolute path of at most 80 bytes"),
        ("SCRAPE_INTERVAL_SECONDS", "0.1", "a number from 0.2 to 60"),
        ("SCRAPE_INTERVAL_SECONDS", "nan", "a number from 0.2 to 60"),
        ("SCRAPE_INTERVAL_SECONDS", "1e1", "a number from 0.2 to 60"),
        ("WARMUP", "true", "on or off"),
        ("CANARY_SECONDS", "59", "an integer from 60 to 86400"),
        ("CANARY_SECONDS", "off", "an integer from 60 to 86400"),
        ("CANARY_FILE", "canary.json", "an absolute path"),
        ("CANARY_FILE", "/c.json", "both"),
        ("WARMUP_VERDICT", "ready", "one of Ready, Fail"),
        ("MODEL", "a\x07b", "up to 256 printable characters"),
        ("CONFIG_URL", "s3://bucket/m", "an http:// or https:// URL"),
        ("CONFIG_URL", "/models/local", "an http:// or https:// URL"),
        ("LOG_FORMAT", "xml", "one of text, json"),
        ("OPERATOR_ACCOUNT", "cacheaware", "system:serviceaccount:NAMESPACE:NAME"),
        ("OPERATOR_ACCOUNT", "system:serviceaccount:a:", "system:serviceaccount:NAMESPACE:NAME"),
        ("OPERATOR_ACCOUNT", "system:serviceaccount:a:b:c", "system:serviceaccount:NAMESPACE:NAME"),
        ("OPERATOR_ACCOUNT", "system:serviceaccounts", "system:serviceaccount:NAMESPACE:NAME"),
        ("POD_UID", "a/b", "a uid: up to 64 letters"),
        ("TOKEN_DIR", "secrets", "an absolute path"),
        ("TENSOR_PARALLEL", "10" * 20, "an integer from 1 to 1024"),
    ],
)
def test_a_bad_value_is_one_line_with_variable_and_what_is_allowed(name, text, allowed):
    with pytest.raises(SettingsError) as caught:
        load({f"CACHEAWARE_{name}": text})

    line = str(caught.value)
    assert line.startswith(f"CACHEAWARE_{name}: ")
    assert f"allowed: {allowed}" in line
    assert "\n" not in line


@pytest.mark.parametrize("name", ["ENGINE_URL", "CONFIG_URL"])
def test_a_password_in_a_url_is_refused_and_not_repeated(name):
    with pytest.raises(SettingsError) as caught:
        load({f"CACHEAWARE_{name}": "https://me:hunter2@host/config.json"})

    assert "hunter2" not in str(caught.value)


def test_a_grace_period_without_time_to_drain_is_refused_with_the_sum():
    with pytest.raises(SettingsError, match=r"at least 55 \(.* 45 \+ .* 5 \+ 5\)"):
        load({"CACHEAWARE_GRACE_SECONDS": "54", "CACHEAWARE_ENGINE_SHUTDOWN_SECONDS": "45"})


def test_the_drain_ends_before_the_engine_needs_its_time():
    settings = load({"CACHEAWARE_GRACE_SECONDS": "75", "CACHEAWARE_ENGINE_SHUTDOWN_SECONDS": "45"})

    assert settings.drain_seconds == 25


def test_only_one_source_of_the_configuration_is_allowed():
    with pytest.raises(SettingsError, match="one of the two"):
        load({"CACHEAWARE_CONFIG_FILE": "/c", "CACHEAWARE_CONFIG_URL": "https://h/c"})


def test_the_link_of_a_service_named_cacheaware_is_not_taken_for_a_port():
    assert load({"CACHEAWARE_PORT": "tcp://10.0.0.7:9440"}).port == 9440


def test_misspelt_variables_are_found_and_kubernetes_service_links_are_not_taken_for_them():
    environment = {
        "CACHEAWARE_GRACE_SECOND": "30",
        "CACHEAWARE_SERVICE_HOST": "10.0.0.7",
        "CACHEAWARE_SERVICE_PORT_HTTP": "80",
        "CACHEAWARE_PORT_9440_TCP_ADDR": "10.0.0.7",
        "CACHEAWARE_OPERATOR_PORT": "tcp://10.0.0.7:80",
        "CACHEAWARE_MODEL": "m",
        "OTHER": "x",
    }

    assert unknown_variables(environment) == ["CACHEAWARE_GRACE_SECOND"]


def test_the_documented_table_is_the_one_of_the_code():
    documented = re.search(
        r"<!-- settings -->\n(.*)\n<!-- /settings -->", DOCS.read_text(), re.DOTALL
    )

    assert documented
    assert documented[1] == table()


def test_every_setting_has_a_meaning_that_ends_as_a_sentence():
    assert all(f.metadata["doc"].endswith(".") for f in fields(Settings))


@pytest.mark.parametrize(
    ("url", "ports", "urls"),
    [
        pytest.param("http://127.0.0.1:8000", (), ("http://127.0.0.1:8000",), id="one"),
        pytest.param(
            "http://127.0.0.1:8000",
            (8000, 8001),
            ("http://127.0.0.1:8000", "http://127.0.0.1:8001"),
            id="the main one counts once",
        ),
        pytest.param("https://[::1]", (8443,), ("https://[::1]", "https://[::1]:8443"), id="IPv6"),
    ],
)
def test_all_engines_of_a_pod_are_on_the_host_of_the_main_one(url, ports, urls):
    settings = Settings(engine_url=url, engine_ports=ports)
    assert settings.engine_urls == urls
    assert settings.all_ports >= set(ports)


@pytest.mark.parametrize(("url", "port"), [("http://h", 80), ("https://h", 443), ("http://h:1", 1)])
def test_the_port_of_an_engine_is_known_without_being_told(url, port):
    assert Settings(engine_url=url).engine_port == port
