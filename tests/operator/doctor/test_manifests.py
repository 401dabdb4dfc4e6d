"""Manifests as they are written, and findings in their order."""

import pytest

from cacheaware.doctor.facts import Facts
from cacheaware.doctor.findings import Finding, Severity, at_least, worst_first
from cacheaware.doctor.manifests import ManifestError, documents_of, facts_around


def test_all_objects_of_a_manifest_are_read():
    text = "kind: A\n---\n# nothing\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n---\n[1]\n"
    assert [one["kind"] for one in documents_of(text)] == ["A", "B", "C"]
    assert documents_of("kind: PodList\n") == []


@pytest.mark.parametrize("items", ["5", "abc", "[1, x, null, []]"])
def test_a_list_of_what_are_no_objects_holds_none(items):
    assert documents_of(f"kind: List\nitems: {items}\n") == []


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "\tx", "a: 1\na: 2", "{{ .Values.x }}: }"])
def test_what_is_no_yaml_is_one_line(text):
    with pytest.raises(ManifestError, match=r"^is no YAML[:,] .+") as raised:
        documents_of(text)
    assert "\n" not in str(raised.value)


def test_objects_around_the_workload_are_facts_and_others_stay_unknown():
    pdb, hpa = {"kind": "PodDisruptionBudget"}, {"kind": "HorizontalPodAutoscaler"}
    vpa, scaler = {"kind": "VerticalPodAutoscaler"}, {"kind": "CacheAwareScaler"}
    assert facts_around([pdb, hpa, vpa, scaler, pdb, {"kind": "Service"}]) == Facts(
        budgets=(pdb, pdb), horizontal=(hpa,), vertical=(vpa,), scalers=(scaler,)
    )
    assert facts_around([]) == Facts()


def test_findings_come_worst_first_and_are_counted_from_a_severity_on():
    info, warning, error, second = (
        Finding(str(at), severity, "deployment/x", "m", "f")
        for at, severity in enumerate(
            (Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.ERROR)
        )
    )
    ordered = worst_first([info, warning, error, second])
    assert ordered == [error, second, warning, info]
    assert at_least(ordered, Severity.ERROR) == [error, second]
    assert at_least(ordered, Severity.WARNING) == [error, second, warning]
