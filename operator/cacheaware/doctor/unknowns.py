"""What only a cluster can tell, said once where none was asked."""

from collections.abc import Iterator

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.subject import Subject


def unknowns(subject: Subject) -> Iterator[Finding]:
    """The rules that had nothing to look at."""
    facts = subject.facts
    if facts.from_cluster:
        return
    looked_for = {
        "PodDisruptionBudgets": facts.budgets is not None,
        "VerticalPodAutoscalers": facts.vertical is not None,
        "the cluster-autoscaler's limit": facts.autoscaler.present is not None,
        "the kubelets' graceful shutdown": facts.kubelet_grace_s is not None,
        "containers that admission adds": False,
    }
    missing = [name for name, known in looked_for.items() if not known]
    yield subject.info(
        "not-checked",
        f"without a cluster these were not checked: {', '.join(missing)}",
        f"when it runs: cacheaware doctor {subject.workload}",
    )
