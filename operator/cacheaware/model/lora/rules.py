"""The rules about an adapter: its keys, shapes, ranks and values, and its adapter_config.json."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.model.lora.adapter import Adapter
from cacheaware.model.lora.adapter_config import faults, layers_of, missing
from cacheaware.model.lora.base_model import OUTSIDE, Base, Found, core_of
from cacheaware.model.lora.engines import refused_by_vllm
from cacheaware.model.lora.keys import Key, Part, Style, peft_name
from cacheaware.model.lora.matches import OTHER_HALF, Match, feature_side, features, rank_of
from cacheaware.model.lora.tensors import EIGHT_BIT_FLOATS, EXPONENTS, Values


@dataclass(frozen=True, slots=True)
class Seen:
    """What the rules look at."""

    matches: tuple[Match, ...]
    adapter: Adapter
    base: Base
    values: Mapping[str, Values]
    """By the tensor's name."""

    @property
    def config(self) -> Mapping[str, Any]:
        """adapter_config.json; empty where there is none."""
        return self.adapter.config or {}

    def error(self, kind: str, message: str, fix: str) -> Finding:
        """It is served wrongly or not at all."""
        return Finding(kind, Severity.ERROR, self.adapter.weights.name, message, fix)

    def warning(self, kind: str, message: str, fix: str) -> Finding:
        """Some engine doesn't take it as it is."""
        return Finding(kind, Severity.WARNING, self.adapter.weights.name, message, fix)

    def info(self, kind: str, message: str, fix: str) -> Finding:
        """What couldn't be checked."""
        return Finding(kind, Severity.INFO, self.adapter.weights.name, message, fix)


def example(matches: Sequence[Match]) -> str:
    """How many tensors, and one of them."""
    return f"{len(matches)} tensor{'s' * (len(matches) != 1)}, such as {matches[0].tensor.name}"


def names(seen: Seen) -> Iterator[Finding]:
    """Keys that mean a module and are written in another way than PEFT's."""
    groups: dict[str, list[Match]] = defaultdict(list)
    wanted: dict[str, str] = {}
    for one in seen.matches:
        found, key = one.found, one.key
        if key is None or isinstance(found, str) or len(found.modules) > 1:
            continue
        if one.binds or one.helper:
            continue
        how = manner(one, key)
        groups[how].append(one)
        if found.part is None:
            wanted.setdefault(how, peft_name(found.modules[0].name, key.part))
    for how, group in groups.items():
        if how in wanted:
            yield seen.warning(
                "lora-key",
                f"{how}: {example(group)}; PEFT's key is {wanted[how]}",
                "cacheaware lora fix writes a copy with the right keys",
            )


def manner(match: Match, key: Key) -> str:
    """In what way a key differs from PEFT's."""
    if match.transposed:
        return "rows and columns are exchanged"
    if key.style not in {Style.PEFT, Style.FULL}:
        return f"the key is {key.style}"
    if key.prefixes > 1:
        return f"base_model.model. stands {key.prefixes} times before it"
    if key.prefixes == 0:
        return "base_model.model. is missing before it"
    return "the path to the module is another model's"


def unbound(seen: Seen) -> Iterator[Finding]:
    """Keys that mean nothing in this model."""
    groups: dict[str, list[Match]] = defaultdict(list)
    known_outside = any(OUTSIDE.search(one) for one in seen.base.modules)
    for one in seen.matches:
        if isinstance(one.found, str) and not one.helper:
            outside = OUTSIDE.search(one.tensor.name) and not known_outside
            groups["" if outside else one.found].append(one)
    for reason, group in groups.items():
        if not reason:
            yield seen.info(
                "lora-unchecked",
                f"not checked: {example(group)}: the configuration tells the language model's"
                " modules only",
                "",
            )
            continue
        yield seen.error(
            "lora-unbound",
            f"{reason}: {example(group)}: vLLM refuses the adapter or drops them silently",
            "check that --config is the model that the adapter was trained on",
        )


def fusions(seen: Seen) -> Iterator[Finding]:
    """Keys of a fused matrix where the model has parts, and the other way round."""
    fused = [
        one for one in seen.matches if isinstance(one.found, Found) and len(one.found.modules) > 1
    ]
    parts = [
        one for one in seen.matches if isinstance(one.found, Found) and one.found.part is not None
    ]
    if fused:
        yield seen.error(
            "lora-fused",
            f"the key names a fusion of {fused[0].shown}, which the model has apart:"
            f" {example(fused)}",
            "cacheaware lora fix cuts lora_B by rows and gives each part the same lora_A",
        )
    if parts:
        yield seen.error(
            "lora-split",
            f"the key names {parts[0].shown}, which the model has in one: {example(parts)}",
            "cacheaware lora fix joins the parts: lora_A stacked, lora_B block by block, at the sum"
            " of their ranks",
        )


def shapes(seen: Seen) -> Iterator[Finding]:
    """Matrices whose features are not the module's."""
    wrong = []
    for one in seen.matches:
        wanted = one.key and features(one.key, one.found)
        if wanted is None or one.key is None or one.transposed:
            continue
        side = feature_side(one.key)
        if len(one.tensor.shape) != 2 or one.tensor.shape[side] != wanted:
            wrong.append((one, wanted, side))
    if wrong:
        one, wanted, side = wrong[0]
        shape = f"[rank, {wanted}]" if side else f"[{wanted}, rank]"
        yield seen.error(
            "lora-shape",
            f"{example([match for match, _, _ in wrong])}: its shape is {list(one.tensor.shape)},"
            f" that of {one.shown} takes {shape}",
            "check that --config is the model that the adapter was trained on",
        )


def told_rank(config: Mapping[str, Any], path: str) -> int | None:
    """The rank that adapter_config.json gives: `rank_pattern`, by suffix, goes before `r`."""
    patterns = config.get("rank_pattern")
    for pattern, rank in patterns.items() if isinstance(patterns, dict) else ():
        plain = str(pattern).removeprefix("^").removesuffix("$").replace("\\.", ".")
        if path == plain or path.endswith(f".{plain}"):
            return rank if type(rank) is int else None
    rank = config.get("r")
    return rank if type(rank) is int else None


def ranks(seen: Seen) -> Iterator[Finding]:
    """Matrices whose rank is not what adapter_config.json says."""
    wrong = []
    for one in seen.matches:
        rank, told = rank_of(one), told_rank(seen.config, one.key.path if one.key else "")
        if rank is not None and told is not None and rank != told:
            wrong.append((one, rank, told))
    if wrong:
        one, rank, told = wrong[0]
        yield seen.error(
            "lora-rank",
            f"{example([match for match, _, _ in wrong])}: its rank is {rank}, adapter_config.json"
            f" says {told}; vLLM's buffers and the scale alpha / r follow the file",
            "cacheaware lora fix writes r and rank_pattern from the tensors; check lora_alpha",
        )


def pairs(seen: Seen) -> Iterator[Finding]:
    """Halves without the other, and halves of different ranks."""
    by_path = {(one.key.path, one.key.part): one for one in seen.matches if one.key}
    alone = [
        one
        for (path, part), one in by_path.items()
        if part in OTHER_HALF and (path, OTHER_HALF[part]) not in by_path
    ]
    if alone:
        yield seen.error(
            "lora-pair",
            f"the other half is missing: {example(alone)}",
            "take the adapter from its source again",
        )
    for (path, part), one in by_path.items():
        other = by_path.get((path, Part.B)) if part is Part.A else None
        if other and rank_of(one) != rank_of(other):
            yield seen.error(
                "lora-pair",
                f"{path}: lora_A has rank {rank_of(one)}, lora_B {rank_of(other)}",
                "take the adapter from its source again",
            )
            return


def doubles(seen: Seen) -> Iterator[Finding]:
    """Two keys that mean the same tensor: the last one read wins, which is luck."""
    taken: dict[tuple[str, Part, int | None], Match] = {}
    for one in seen.matches:
        if one.key is None or isinstance(one.found, str) or one.helper:
            continue
        for module in one.found.modules:
            place = (module.name, one.key.part, one.found.part)
            if other := taken.get(place):
                yield seen.error(
                    "lora-double",
                    f"{one.tensor.name} and {other.tensor.name} both mean {module.name}",
                    "remove the one that is not meant",
                )
                return
            taken[place] = one


def zeros(seen: Seen) -> Iterator[Finding]:
    """Products that are zero, and values that are no numbers."""
    halves = [one for one in seen.matches if one.key and one.key.part in OTHER_HALF]
    zero = [one for one in halves if seen.values[one.tensor.name].zero]
    changed = {one.key.path for one in halves if one.key}
    still = {one.key.path for one in zero if one.key}
    if zero and still == changed:
        yield seen.error(
            "lora-zero",
            f"every product is zero ({example(zero)}): the adapter changes nothing; lora_B starts"
            " at zero, so it was saved before training, or its gradients never arrived",
            "train it, or serve the base model",
        )
    elif zero:
        yield seen.warning(
            "lora-zero",
            f"{len(still)} of {len(changed)} products are zero: {example(zero)}: these modules are"
            " not changed; under DeepSpeed ZeRO-3 or FSDP this is how a partly gathered save looks",
            "check how the adapter was saved",
        )
    broken = [one for one in seen.matches if seen.values[one.tensor.name].finite is False]
    if broken:
        yield seen.error(
            "lora-finite",
            f"NaN or Inf: {example(broken)}: every answer with this adapter is corrupt",
            "take an earlier checkpoint",
        )


def types(seen: Seen) -> Iterator[Finding]:
    """Types that hold a weight only together with a scale, for which LoRA's files have no key."""
    matches = [one for one in seen.matches if one.key and not one.helper]
    whole = [one for one in matches if one.tensor.dtype not in {*EXPONENTS, *EIGHT_BIT_FLOATS}]
    eight = [one for one in matches if one.tensor.dtype in EIGHT_BIT_FLOATS]
    if whole:
        yield seen.error(
            "lora-dtype",
            f"their type is {whole[0].tensor.dtype}, which has no fractions: {example(whole)}: no"
            " engine knows a scale for them and takes the whole numbers as the weights",
            "save the adapter in BF16, F16 or F32, with its scales multiplied in",
        )
    if eight:
        yield seen.warning(
            "lora-dtype",
            f"their type is {eight[0].tensor.dtype}: {example(eight)}: no engine knows a scale for"
            " them; whether they are zero, NaN or Inf was not checked",
            "save the adapter in BF16, F16 or F32, with its scales multiplied in",
        )


def layers(seen: Seen) -> Iterator[Finding]:
    """Layers that have tensors, against those that adapter_config.json names."""
    told = layers_of(seen.config)
    if told is None:
        return
    have: dict[int, Match] = {}
    for one in seen.matches:
        half = one.key is not None and one.key.part in OTHER_HALF
        place = core_of(one.found.modules[0].name) if isinstance(one.found, Found) else None
        if half and place:
            have.setdefault(place[0], one)
    if missed := sorted(set(have) - told):
        yield seen.error(
            "lora-target",
            f"layers_to_transform leaves out layer {missed[0]}, which has tensors, such as"
            f" {have[missed[0]].tensor.name}: PEFT makes no place for them and drops them",
            "name in layers_to_transform every layer that was trained",
        )
    if unused := sorted(told - set(have)):
        yield seen.warning(
            "lora-target",
            f"layers_to_transform names layer {unused[0]}, for which there is no tensor",
            "remove what was never trained; or tensors of it were lost when it was saved",
        )


def unsupported(seen: Seen) -> Iterator[Finding]:
    """What vLLM refuses, by adapter_config.json and by the tensors."""
    refused = refused_by_vllm(seen.config)
    if any(
        one.key and one.key.part is Part.MAGNITUDE for one in seen.matches
    ) and not seen.config.get("use_dora"):
        refused.append("the tensors hold DoRA magnitudes, and use_dora is not set")
    if refused:
        yield seen.warning(
            "lora-feature",
            f"vLLM refuses it: {'; '.join(refused)}",
            "merge the adapter into the base model, or serve it with PEFT",
        )


def targets(seen: Seen) -> Iterator[Finding]:
    """The modules that have tensors, against those that adapter_config.json names."""
    told = seen.config.get("target_modules")
    if not isinstance(told, list):
        return
    words = {str(one) for one in told}
    called = called_in(seen.matches)
    unused = sorted(word for word in words if not any(names_one(word, one) for one in called))
    if unused:
        yield seen.warning(
            "lora-target",
            f"target_modules names {', '.join(unused)}, for which there is no tensor",
            "remove what was never trained; or tensors of it were lost when it was saved",
        )
    missed = [one for one in called if not any(names_one(word, one) for word in words)]
    if missed:
        yield seen.warning(
            "lora-target",
            f"{len(missed)} modules have tensors and are not in target_modules, such as"
            f" {min(missed[0])}: PEFT makes no place for them and drops them",
            "cacheaware lora fix writes target_modules from the tensors",
        )


def names_one(word: str, names: frozenset[str]) -> bool:
    """Whether an entry of target_modules, a name or its last words, means a module."""
    return any(name == word or name.endswith(f".{word}") for name in names)


def called_in(matches: tuple[Match, ...]) -> list[frozenset[str]]:
    """The modules that low-rank tensors are for, each by its names: as written, and the model's."""
    told: dict[frozenset[str], None] = {}
    for one in matches:
        if one.key and one.key.part in OTHER_HALF and isinstance(one.found, Found):
            told[frozenset({one.key.path, *(module.name for module in one.found.modules)})] = None
    return list(told)


def configuration(seen: Seen) -> Iterator[Finding]:
    """An adapter_config.json that isn't there, can't be understood or leaves things out."""
    if seen.adapter.config is None:
        yield seen.error(
            "lora-config",
            "there is no adapter_config.json beside it: no engine knows rank and alpha",
            "cacheaware lora fix writes one from the tensors",
        )
        return
    for fault in faults(seen.config):
        yield seen.error(
            "lora-config",
            f"adapter_config.json: {fault}",
            "write what the adapter was trained with",
        )
    if lacking := missing(seen.config):
        yield seen.error(
            "lora-config",
            f"adapter_config.json has no {', '.join(lacking)}: vLLM refuses it",
            "cacheaware lora fix writes them from the tensors; check lora_alpha",
        )


RULES: Final[tuple[Callable[[Seen], Iterator[Finding]], ...]] = (
    names, unbound, fusions, shapes, ranks, pairs, doubles, zeros, types, unsupported, targets,
    layers, configuration,
)  # fmt: skip
