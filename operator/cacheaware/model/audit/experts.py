"""Mixtures of experts: how many, how many a token takes, and how they lie on ranks."""

from collections.abc import Iterator
from typing import Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.view import EXPERTS, Serving, View, error, info, warning
from cacheaware_sidecar.kv.errors import shown

TOP_K: Final = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk",
                "moe_k", "top_k_experts")  # fmt: skip
SHARED: Final = ("n_shared_experts", "num_shared_experts")


def top_k(view: View, _serving: Serving) -> Iterator[Finding]:
    """A token takes at least one expert, and no more than there are."""
    experts, name = view.experts, view.first(*TOP_K)
    if experts is None:
        return
    if name is None:
        yield info(
            view, "experts-top-k-missing",
            f"{experts} experts, and nothing tells how many a token takes: the class's default "
            f"counts",
        )  # fmt: skip
        return
    taken = view.integer(name)
    if taken is None or not 1 <= taken <= experts:
        yield error(
            view, "experts-top-k",
            f"{view.named(name)} is {shown(view.text[name])}: allowed is 1 to {experts}, the "
            f"number of experts",
            "Take it from the model's own release.",
        )  # fmt: skip


def two_names(view: View, _serving: Serving) -> Iterator[Finding]:
    """One count of experts."""
    told = {name: count for name in EXPERTS if (count := view.integer(name)) is not None}
    if len(set(told.values())) > 1:
        yield warning(
            view, "experts-twice",
            "the file has " + ", ".join(f"{name} {count}" for name, count in told.items())
            + ": only one of them counts",
            "Keep the one that the type reads.",
        )  # fmt: skip


def groups(view: View, _serving: Serving) -> Iterator[Finding]:
    """DeepSeek's router picks groups first, and experts inside them."""
    experts, count = view.experts, view.integer("n_group")
    taken, picked = view.integer(*TOP_K), view.integer("topk_group")
    if experts is None or not count or count < 1:
        return
    if experts % count:
        yield error(
            view, "experts-groups",
            f"{experts} experts can't be split into n_group {count} even groups",
            f"n_group must divide {experts}.",
        )  # fmt: skip
    elif picked is not None and not 1 <= picked <= count:
        yield error(
            view, "experts-groups",
            f"topk_group is {picked}: allowed is 1 to n_group {count}",
            "Take both from the model's own release.",
        )  # fmt: skip
    elif picked and taken and taken > picked * (experts // count):
        yield error(
            view, "experts-groups",
            f"a token takes {taken} experts, but {picked} of {count} groups hold "
            f"{picked * (experts // count)}",
            "Take top-k, n_group and topk_group from one release.",
        )  # fmt: skip


def layers(view: View, _serving: Serving) -> Iterator[Finding]:
    """Which layers have experts: inside the model."""
    count = view.layers
    if view.experts is None or count is None:
        return
    dense = view.integer("first_k_dense_replace")
    if dense is not None and dense >= count:
        yield warning(
            view, "experts-unused",
            f"first_k_dense_replace {dense} makes all {count} layers dense: no layer has experts",
            "Take it from the model's own release.",
        )  # fmt: skip
    listed = view.text.get("mlp_only_layers")
    outside = [
        one for one in listed if isinstance(one, int) and not 0 <= one < count
    ] if isinstance(listed, list) else []  # fmt: skip
    if outside:
        yield error(
            view, "experts-layers",
            f"{view.named('mlp_only_layers')} names layer {outside[0]}, the model has 0 to "
            f"{count - 1}",
            "Count layers from 0.",
        )  # fmt: skip


def shared(view: View, _serving: Serving) -> Iterator[Finding]:
    """Shared experts are few: each token goes through all of them."""
    experts, name = view.experts, view.first(*SHARED)
    count = view.integer(name) if name else None
    if experts and count and count >= experts:
        yield warning(
            view, "experts-shared",
            f"{view.named(name or '')} is {count} beside {experts} routed experts: each token goes "
            f"through all of the shared ones; releases have 1 or 2",
            "Are the two counts swapped?",
        )  # fmt: skip


def parallel(view: View, serving: Serving) -> Iterator[Finding]:
    """Ranks of expert parallelism hold whole experts."""
    experts, ranks = view.experts, serving.experts
    if ranks == 1:
        return
    if experts is None:
        yield warning(
            view, "ep-dense", f"--ep {ranks}, and the model has no experts", "Leave --ep out."
        )
    elif ranks > experts:
        yield error(
            view, "ep-experts",
            f"{experts} experts on {ranks} ranks: {ranks - experts} would hold none",
            f"Use at most {experts} ranks.",
        )  # fmt: skip
    elif experts % ranks:
        most = -(-experts // ranks)
        yield warning(
            view, "ep-uneven",
            f"{experts} experts on {ranks} ranks: some hold {most}, others {experts // ranks}, and "
            f"all wait for the fullest; vLLM's expert load balancer (EPLB) refuses it",
            f"Use a divisor of {experts}.",
        )  # fmt: skip


RULES: Final = (top_k, two_names, groups, layers, shared, parallel)
