"""Ends that others bring about: evictions, node drains, node shutdowns, spot nodes, the VPA."""

from collections.abc import Iterator
from math import ceil
from typing import Any

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.subject import Subject
from cacheaware.doctor.targets import aimed_at, scalers_of, selecting
from cacheaware.workload.hooks import HookKind

CAP_FLAG = "--max-graceful-termination-sec"
CAP_S = 600.0
"""Its default."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
EVICTING = frozenset({"Auto", "Recreate", "InPlaceOrRecreate"})
SPOT_LABELS = {
    "cloud.google.com/gke-spot": ("true", 25.0),
    "cloud.google.com/gke-preemptible": ("true", 25.0),
    "eks.amazonaws.com/capacityType": ("SPOT", 120.0),
    "karpenter.sh/capacity-type": ("spot", 120.0),
    "kubernetes.azure.com/scalesetpriority": ("spot", 30.0),
}
"""Label of a spot node: its value, and the seconds of notice (GKE keeps 5 of its 30)."""


def budget(subject: Subject) -> Iterator[Finding]:
    """PodDisruptionBudgets: one that blocks, two that collide, none."""
    if subject.facts.budgets is None:
        return
    found = selecting(subject, subject.facts.budgets)
    if not found:
        yield subject.info(
            "pdb-missing",
            "no PodDisruptionBudget: a drain of several nodes may evict all pods at once",
            "add one with maxUnavailable: 1",
        )
    if len(found) > 1:
        yield subject.warning(
            "pdb-overlap",
            f"{len(found)} PodDisruptionBudgets select the pods ({', '.join(map(name_of, found))}):"
            " the API server then refuses every eviction",
            "keep one of them",
        )
    for one in found:
        yield from blocking(subject, one)


def blocking(subject: Subject, body: Any) -> Iterator[Finding]:
    """A budget under which no pod may ever go, or none right now."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    replicas = fewest(subject)
    why = blocks(spec, replicas)
    if why is not None:
        yield subject.warning(
            "pdb-blocks",
            f"PodDisruptionBudget {name_of(body)} allows 0 disruptions ({why}): a node drain waits"
            " until somebody forces it, and then the pods are cut",
            "set maxUnavailable to 1 instead",
        )
    elif status.get("disruptionsAllowed") == 0 and status.get("expectedPods"):
        yield subject.info(
            "pdb-allows-none-now",
            f"PodDisruptionBudget {name_of(body)} allows 0 disruptions now:"
            f" {status.get('currentHealthy', 0)} of {status['expectedPods']} pods are healthy",
        )


def fewest(subject: Subject) -> int | None:
    """The fewest replicas that there may be: what a scaler may go down to, else what is asked."""
    scaled = [one.get("spec", {}).get("minReplicas") for one in scalers_of(subject)]
    bounds = [count for count in scaled if isinstance(count, int) and count > 0]
    return min(bounds) if bounds else subject.replicas


def blocks(spec: Any, replicas: int | None) -> str | None:
    """Why a budget never allows a disruption; None where it does, or where that is not known.

    Percentages round up, as in Kubernetes.
    """
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        return f"maxUnavailable {most}" if str(most) in {"0", "0%"} else None
    if least is None:
        return None
    if str(least) == "100%":
        return "minAvailable 100%"
    if replicas is None:
        return None
    text = str(least)
    share = text[:-1] if text.endswith("%") else ""
    wanted = (
        ceil(int(share) * replicas / 100)
        if share.isdigit()
        else int(least)
        if text.isdigit()
        else 0
    )
    return f"minAvailable {least} of {replicas}" if wanted >= replicas > 0 else None


def name_of(body: Any) -> str:
    """An object's name."""
    return str((body.get("metadata") or {}).get("name", ""))


def node_autoscaler(subject: Subject) -> Iterator[Finding]:
    """The cluster-autoscaler gives a pod at most its own limit, whatever the pod asks for."""
    annotations = (subject.workload.template.get("metadata") or {}).get("annotations") or {}
    scaler = subject.facts.autoscaler
    if scaler.present is False or str(annotations.get(SAFE_TO_EVICT)).lower() == "false":
        return
    if scaler.grace_cap_s is None:
        if subject.grace > CAP_S:
            yield subject.info(
                "node-autoscaler-unknown",
                f"the grace period is {subject.grace} s, and the limit of a cluster-autoscaler"
                f" ({CAP_FLAG}) is not known; its default is {CAP_S:g} s",
                f"set {CAP_FLAG} to {subject.grace} where there is one",
            )
        return
    yield from capped(subject, scaler.grace_cap_s)


def capped(subject: Subject, cap: float) -> Iterator[Finding]:
    """A grace period over the cap; case 054: min(1800, 600) = 600, 300 s short of 900."""
    effective = min(float(subject.grace), cap)
    if effective >= subject.grace:
        return
    longest, before = subject.facts.longest_request_s, 0.0
    if subject.hook.kind is HookKind.SLEEP:
        before = subject.hook.seconds or 0.0
    message = (
        f"when a node is scaled down the pod gets min({subject.grace}, {cap:g}) = {effective:g} s"
        f" ({CAP_FLAG})"
    )
    fix = (
        f'set {CAP_FLAG} to {subject.grace}, or annotate the pods with {SAFE_TO_EVICT}: "false"'
        " while they are busy"
    )
    if longest is None or longest + before > effective:
        if longest is not None:
            short = longest + before - effective
            message += f", and the longest requests take {longest:g} s: {short:g} s short"
        yield subject.warning("node-autoscaler-cap", message, fix)
    else:
        yield subject.info(
            "node-autoscaler-cap", f"{message}; the longest requests ({longest:g} s) fit", ""
        )


def node_shutdown(subject: Subject) -> Iterator[Finding]:
    """A node that shuts down, or is taken away, waits as long as it wants to."""
    given, grace = subject.facts.kubelet_grace_s, subject.grace
    if given is None and subject.facts.from_cluster:
        yield subject.info(
            "kubelet-shutdown-unknown",
            "how long the kubelets wait when their node shuts down can't be read (nodes/proxy); by"
            " default not at all",
            f"set shutdownGracePeriod of the kubelets to more than {grace} s",
        )
    elif given is not None and 0 < given < grace:
        yield subject.warning(
            "kubelet-shutdown",
            f"a node that shuts down gives pods {given:g} s, and this one asks for {grace} s",
            f"set shutdownGracePeriod of the kubelets to more than {grace} s",
        )
    elif given == 0:
        yield subject.info(
            "kubelet-shutdown-off",
            "the kubelets' graceful shutdown is off: a node that is shut down without a drain kills"
            " its pods",
            f"set shutdownGracePeriod of the kubelets to more than {grace} s, or drain nodes first",
        )


def spot(subject: Subject) -> Iterator[Finding]:
    """Spot nodes go at short notice."""
    notice = subject.facts.spot_notice_s
    if notice is None:
        notice = spot_notice_s(subject.workload.spec.get("nodeSelector") or {})
    if notice is None or notice >= subject.grace:
        return
    longest = subject.facts.longest_request_s
    if longest is not None and longest <= notice:
        return
    yield subject.warning(
        "spot-notice",
        f"the pods may run on spot nodes, which go at {notice:g} s notice, and a pod asks for"
        f" {subject.grace} s: what runs longer is cut",
        "run it on nodes that stay, or bound the length of requests",
    )


def spot_notice_s(labels: Any) -> float | None:
    """The notice that a node with these labels gets; None for one that stays."""
    notices = (s for key, (value, s) in SPOT_LABELS.items() if str(labels.get(key)) == value)
    return min(notices, default=None)


def vertical(subject: Subject) -> Iterator[Finding]:
    """A VerticalPodAutoscaler that evicts pods to change their requests."""
    for one in aimed_at(subject, subject.facts.vertical, "targetRef"):
        mode = ((one.get("spec") or {}).get("updatePolicy") or {}).get("updateMode", "Auto")
        if mode in EVICTING:
            yield subject.warning(
                "vpa-evicts",
                f"VerticalPodAutoscaler {name_of(one)} has updateMode {mode}: it evicts pods to"
                " give them other requests, each a cold start",
                "set updateMode to Initial or Off",
            )
