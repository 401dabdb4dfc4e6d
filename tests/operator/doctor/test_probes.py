"""Probes against the time to load a model."""

import csv

import pytest
from tests.operator.doctor.workloads import (
    ABSENT,
    body,
    engine,
    one,
    plain,
    said,
    sidecar,
    subject,
)  # fmt: skip

from cacheaware.doctor.probes import Probe, failures_needed, probe_of, probes


def container(startup, liveness):
    names = ("periodSeconds", "failureThreshold")
    rest = {}
    if startup:
        rest["startupProbe"] = dict(zip(names, startup, strict=True))
    if liveness:
        rest["livenessProbe"] = dict(
            zip(("initialDelaySeconds", *names), liveness, strict=True)
        )  # fmt: skip
    return engine(**rest)


ROWS = {
    "a": (400, None, (30, 10, 3), ["error liveness-kills-loading"]),
    "b": (400, (10, 60), (0, 10, 3), []),
    "c": (1020, (10, 60), (0, 10, 3), ["error startup-probe-too-short"]),
    "d": (40, None, (300, 10, 3), ["info liveness-late"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_table_of_probes_and_loads(name):
    load, startup, liveness, wanted = ROWS[name]
    found = said(probes, body(container(startup, liveness)), load_s=load)
    assert [" ".join(pair) for pair in found] == wanted


def test_the_table_is_that_of_the_field_case(case):
    for line in csv.DictReader(case("056", "input.probes.csv").splitlines()):
        load, startup, liveness, _ = ROWS[line["id"]]
        columns = ("loadSeconds", "startup_period", "startup_failures", "live_initialDelay")
        given = [line[k] for k in (*columns, "live_period", "live_failures")]
        assert given == [str(v) for v in (load, *(startup or ("", "")), *liveness)]
    expected = case("056", "expect.json")
    assert expected == {
        "a": {"killed_at": 50}, "b": "ok", "c": {"failures_needed": 123}, "d": "hint",
    }  # fmt: skip


def test_the_numbers_are_told():
    a = one(probes, body(container(*ROWS["a"][1:3])), load_s=400)
    assert "kills the engine at 50 s (30 + 10 x 2), and loading takes 400 s" in a.message
    assert "periodSeconds 10 and failureThreshold 48" in a.fix
    c = one(probes, body(container(*ROWS["c"][1:3])), load_s=1020)
    assert "gives 0 + 10 x 60 = 600 s, and loading takes 1020 s" in c.message
    assert "failureThreshold to at least 123 (20 % margin)" in c.fix
    d = one(probes, body(container(*ROWS["d"][1:3])), load_s=40)
    assert "300 s is detected that much later" in d.message


@pytest.mark.parametrize(
    ("load", "probe", "failures"),
    [
        (1020, Probe(0, 10, 60), 123),
        (100, Probe(0, 10, 3), 12),
        (100, Probe(60, 10, 3), 6),
        (10, Probe(60, 10, 3), 1),
    ],
)
def test_failures_that_a_startup_probe_must_bear(load, probe, failures):
    assert failures_needed(load, probe) == failures


@pytest.mark.parametrize(
    ("startup", "liveness", "load", "wanted"),
    [
        ((10, 60), None, 501, ["warning startup-probe-tight"]),
        ((10, 60), None, 500, []),
        ((10, 60), None, 600, ["warning startup-probe-tight"]),
        ((10, 60), None, 601, ["error startup-probe-too-short"]),
        (None, (100, 10, 3), 110, ["warning liveness-tight"]),
        (None, (60, 10, 3), 50, []),
        (None, None, 50, []),
        (None, None, None, []),
        ((10, 60), None, None, ["info load-time-unknown"]),
        (None, (30, 10, 3), None, ["info load-time-unknown"]),
    ],
)
def test_loads_around_what_probes_bear(startup, liveness, load, wanted):
    found = said(probes, body(container(startup, liveness)), load_s=load)
    assert [" ".join(pair) for pair in found] == wanted


def test_what_probes_bear_is_told_where_the_load_is_unknown():
    assert "600 s to load" in one(probes, body(container((10, 60), (30, 10, 3)))).message
    assert "not up after 50 s" in one(probes, body(container(None, (30, 10, 3)))).message


def test_a_pod_without_any_readiness_is_ready_too_soon():
    bare = engine(readinessProbe=ABSENT)
    assert said(probes, plain(bare)) == [("error", "no-readiness-probe")]
    assert said(probes, body(bare)) == []
    ungated = body(bare, side=sidecar(readinessProbe=ABSENT))
    assert said(probes, ungated) == [("error", "no-readiness-probe")]


@pytest.mark.parametrize(("delay", "found"), [(0, []), (120, []), (121, ["readiness-late"])])
def test_a_readiness_probe_that_begins_late_wastes_a_pod(delay, found):
    probe = {"initialDelaySeconds": delay}
    findings = list(probes(subject(body(engine(readinessProbe=probe)), load_s=100)))
    assert [f.id for f in findings] == found


def test_a_probe_has_kubernetes_defaults():
    assert probe_of({"livenessProbe": {}}, "livenessProbe") == Probe(0, 10, 3)
    zeros = {"initialDelaySeconds": 0, "periodSeconds": 0, "failureThreshold": 0}
    assert probe_of({"livenessProbe": zeros}, "livenessProbe") == Probe(0, 10, 3)
    assert probe_of({}, "livenessProbe") is None
