"""Settings from the environment."""

import pytest

from cacheaware.settings import SettingError, from_environment


def test_defaults_are_sane():
    found = from_environment({})
    assert (found.namespaces, found.round_seconds, found.port) == ((), 5.0, 8080)
    assert (found.stale_seconds, found.scrape_seconds) == (15.0, 3.0)
    assert found.pod_name


def test_every_variable_is_read():
    found = from_environment(
        {
            "CACHEAWARE_NAMESPACES": "a, b,,a",
            "CACHEAWARE_ROUND_SECONDS": "2.5",
            "CACHEAWARE_NODE_SECONDS": "1800",
            "CACHEAWARE_PORT": "9000",
            "CACHEAWARE_POD_NAMESPACE": "ops",
            "CACHEAWARE_POD_NAME": "op-0",
            "CACHEAWARE_SCRAPE_CONCURRENCY": "10",
            "CACHEAWARE_LOG_FORMAT": "json",
            "CACHEAWARE_LOG_LEVEL": "debug",
        }
    )
    assert found.namespaces == ("a", "b")
    assert found.node_seconds == 1800.0
    assert (found.round_seconds, found.port, found.scrape_concurrency) == (2.5, 9000, 10)
    assert (found.lease_namespace, found.pod_name) == ("ops", "op-0")
    assert (found.log_format, found.log_level) == ("json", "DEBUG")


def test_the_lease_may_be_elsewhere_than_the_pod():
    env = {"CACHEAWARE_POD_NAMESPACE": "ops", "CACHEAWARE_LEASE_NAMESPACE": "leases"}
    assert from_environment(env).lease_namespace == "leases"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PORT", "http", "CACHEAWARE_PORT='http': allowed: a whole number from 1 to 65535"),
        ("PORT", "0", "1 to 65535"),
        ("PORT", "80.5", "whole number"),
        ("ROUND_SECONDS", "0.1", "a number from 1 to 300"),
        ("ROUND_SECONDS", "nan", "a number from 1 to 300"),
        ("NODE_SECONDS", "5", "a number from 10 to 86400"),
        ("SCRAPE_CONCURRENCY", "0", "1 to 4096"),
        ("LOG_FORMAT", "xml", "allowed: text, json"),
        ("LOG_LEVEL", "loud", "allowed: DEBUG, INFO, WARNING, ERROR"),
        ("NAMESPACES", "Prod", "'Prod' is not a namespace's name"),
        ("NAMESPACES", "a b", "not a namespace's name"),
    ],
)
def test_a_bad_value_gets_one_line_that_names_it(name, value, said):
    with pytest.raises(SettingError) as error:
        from_environment({f"CACHEAWARE_{name}": value})
    assert said in str(error.value)
    assert "\n" not in str(error.value)
