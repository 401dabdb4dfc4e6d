"""Whether an adapter binds: every tensor against the modules of the base model."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cacheaware.doctor.findings import Finding, Severity, worst_first
from cacheaware.model.lora.adapter import Adapter
from cacheaware.model.lora.adapter_config import faults, layers_of, missing
from cacheaware.model.lora.base_model import OUTSIDE, Base, Found, core_of
from cacheaware.model.lora.engines import Case, Outcome, outcomes, refused_by_vllm
from cacheaware.model.lora.keys import Key, Part, Style, key_of, peft_name
from cacheaware.model.lora.tensors import (
    EIGHT_BIT_FLOATS,
    EXPONENTS,
    Tensor,
    Values,
    values_of,
)

HALVES = {Part.A: Part.B, Part.B: Part.A}
EMBEDDING_HALVES = {Part.EMBEDDING_A: Part.EMBEDDING_B, Part.EMBEDDING_B: Part.EMBEDDING_A}
OTHER_HALF = {**HALVES, **EMBEDDING_HALVES}
REPAIR = "cacheaware lora fix writes a copy with the right keys"


@dataclass(frozen=True, slots=True)
class Line:
    """One tensor: what its key means and where it belongs."""

    tensor: Tensor
    key: Key | None
    found: Found | str
    """The modules, or why there are none."""
    transposed: bool = False
    """Rows and columns are exchanged against PEFT's."""

    @property
    def binds(self) -> bool:
        """Whether it is where PEFT would look for it."""
        return (
            self.key is not None
            and isinstance(self.found, Found)
            and len(self.found.modules) == 1
            and self.found.part is None
            and not self.transposed
            and self.tensor.name == peft_name(self.found.modules[0].name, self.key.part)
        )

    @property
    def helper(self) -> bool:
        """Whether it changes no module: a scale, or a weight of the base that was saved along."""
        return self.key is not None and self.key.part in {Part.ALPHA, Part.BASE}

    @property
    def shown(self) -> str:
        """The modules that it means."""
        if isinstance(self.found, str):
            return self.found
        names = ", ".join(one.name for one in self.found.modules)
        return names if self.found.part is None else f"part {self.found.part + 1} of {names}"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found about an adapter."""

    lines: tuple[Line, ...]
    findings: tuple[Finding, ...]
    engines: tuple[Outcome, ...]

    @property
    def well(self) -> bool:
        """Whether nothing but information was found."""
        return all(one.severity is Severity.INFO for one in self.findings)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the rules look at."""

    lines: tuple[Line, ...]
    config: Mapping[str, Any]
    base: Base
    values: Mapping[str, Values]


def check(adapter: Adapter, base: Base) -> Report:
    """Check an adapter against a base model; reads every tensor's values once."""
    lines = tuple(line_of(one, base) for one in adapter.tensors)
    values = {one.name: values_of(one) for one in adapter.tensors}
    seen = Seen(lines, adapter.config or {}, base, values)
    subject = adapter.weights.name
    rules = (names, unbound, fusions, shapes, ranks, pairs, doubles, zeros, types, settings, layers)
    told = [replace(one, subject=subject) for rule in rules for one in rule(seen)]
    if adapter.config is None:
        told.append(
            Finding(
                "lora-config", Severity.ERROR, subject,
                "there is no adapter_config.json beside it: no engine knows rank and alpha",
                "cacheaware lora fix writes one from the tensors",
            )
        )  # fmt: skip
    else:
        told += [replace(one, subject=subject) for one in values_told(adapter.config)]
    cases = [Case(one.tensor.name, one.key, one.found, base) for one in lines]
    return Report(lines, tuple(worst_first(told)), tuple(outcomes(cases)))


def line_of(tensor: Tensor, base: Base) -> Line:
    """A tensor with its place."""
    key = key_of(tensor.name)
    if key is None:
        return Line(tensor, None, "its ending is no LoRA's")
    found = base.find(key.path)
    return Line(tensor, key, found, is_transposed(tensor, key, found))


def is_transposed(tensor: Tensor, key: Key, found: Found | str) -> bool:
    """Whether a matrix lies the other way round: MLX keeps A as [in, rank] and B as [rank, out]."""
    wanted = features(key, found)
    if wanted is None or len(tensor.shape) != 2:
        return False
    side = 1 if key.part in {Part.A, Part.EMBEDDING_A} else 0
    return tensor.shape[side] != wanted and tensor.shape[1 - side] == wanted


def features(key: Key, found: Found | str) -> int | None:
    """The side of a LoRA matrix that the module gives; None where it isn't known."""
    if isinstance(found, str) or found.part is not None:
        return None
    module = found.modules[0]
    if key.part in {Part.A, Part.EMBEDDING_A}:
        return module.inputs
    if key.part in {Part.B, Part.EMBEDDING_B}:
        return sum(one.outputs for one in found.modules)
    return None


def some(lines: list[Line]) -> str:
    """How many tensors, and one of them."""
    return f"{len(lines)} tensor{'s' * (len(lines) != 1)}, such as {lines[0].tensor.name}"


def names(seen: Seen) -> Iterator[Finding]:
    """Keys that mean a module and are written in another way than PEFT's."""
    groups: dict[str, list[Line]] = defaultdict(list)
    for one in seen.lines:
        plain = isinstance(one.found, Found) and len(one.found.modules) == 1
        if plain and not one.binds and not one.helper:
            groups[manner(one)].append(one)
    for manner_of, some_lines in groups.items():
        first = next((one for one in some_lines if one.found.part is None), None)  # type: ignore[union-attr]
        if first is None or first.key is None or isinstance(first.found, str):
            continue
        wanted = peft_name(first.found.modules[0].name, first.key.part)
        yield Finding(
            "lora-key", Severity.WARNING, "",
            f"{manner_of}: {some(some_lines)}; PEFT's key is {wanted}", REPAIR,
        )  # fmt: skip


def manner(line: Line) -> str:
    """In what way a key differs from PEFT's."""
    key = line.key
    if key is None:
        return "unknown"
    if line.transposed:
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
    groups: dict[str, list[Line]] = defaultdict(list)
    known_outside = any(OUTSIDE.search(one) for one in seen.base.modules)
    for one in seen.lines:
        if isinstance(one.found, str) and not one.helper:
            outside = OUTSIDE.search(one.tensor.name) and not known_outside
            groups["" if outside else one.found].append(one)
    for reason, some_lines in groups.items():
        if not reason:
            yield Finding(
                "lora-unchecked", Severity.INFO, "",
                f"not checked: {some(some_lines)}: the configuration tells the language model's"
                " modules only", "",
            )  # fmt: skip
            continue
        yield Finding(
            "lora-unbound", Severity.ERROR, "",
            f"{reason}: {some(some_lines)}: vLLM refuses the adapter or drops them silently",
            "check that --config is the model that the adapter was trained on",
        )  # fmt: skip


def fusions(seen: Seen) -> Iterator[Finding]:
    """Keys of a fused matrix where the model has parts, and the other way round."""
    fused = [
        one for one in seen.lines if isinstance(one.found, Found) and len(one.found.modules) > 1
    ]
    parts = [
        one for one in seen.lines if isinstance(one.found, Found) and one.found.part is not None
    ]
    if fused:
        yield Finding(
            "lora-fused", Severity.ERROR, "",
            f"the key names a fusion of {fused[0].shown}, which the model has apart: {some(fused)}",
            "cacheaware lora fix cuts lora_B by rows and gives each part the same lora_A",
        )  # fmt: skip
    if parts:
        yield Finding(
            "lora-split", Severity.ERROR, "",
            f"the key names {parts[0].shown}, which the model has in one: {some(parts)}",
            "cacheaware lora fix joins the parts: lora_A stacked, lora_B block by block, at the sum"
            " of their ranks",
        )  # fmt: skip


def shapes(seen: Seen) -> Iterator[Finding]:
    """Matrices whose features are not the module's."""
    wrong = []
    for one in seen.lines:
        wanted = one.key and features(one.key, one.found)
        if wanted is None or one.key is None or one.transposed:
            continue
        side = 1 if one.key.part in {Part.A, Part.EMBEDDING_A} else 0
        if len(one.tensor.shape) != 2 or one.tensor.shape[side] != wanted:
            wrong.append((one, wanted, side))
    if wrong:
        one, wanted, side = wrong[0]
        shape = f"[rank, {wanted}]" if side else f"[{wanted}, rank]"
        yield Finding(
            "lora-shape", Severity.ERROR, "",
            f"{some([line for line, _, _ in wrong])}: its shape is {list(one.tensor.shape)}, that"
            f" of {one.shown} takes {shape}",
            "check that --config is the model that the adapter was trained on",
        )  # fmt: skip


def rank_of(line: Line) -> int | None:
    """The rank that a matrix has; None where it has none."""
    if line.key is None or len(line.tensor.shape) != 2 or line.key.part not in OTHER_HALF:
        return None
    first = line.key.part in {Part.A, Part.EMBEDDING_A}
    return line.tensor.shape[0 if first is not line.transposed else 1]


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
    for one in seen.lines:
        rank, told = rank_of(one), told_rank(seen.config, one.key.path if one.key else "")
        if rank is not None and told is not None and rank != told:
            wrong.append((one, rank, told))
    if wrong:
        one, rank, told = wrong[0]
        yield Finding(
            "lora-rank", Severity.ERROR, "",
            f"{some([line for line, _, _ in wrong])}: its rank is {rank}, adapter_config.json says"
            f" {told}; vLLM's buffers and the scale alpha / r follow the file",
            "cacheaware lora fix writes r and rank_pattern from the tensors; check lora_alpha",
        )  # fmt: skip


def pairs(seen: Seen) -> Iterator[Finding]:
    """Halves without the other, and halves of different ranks."""
    by_path = {(one.key.path, one.key.part): one for one in seen.lines if one.key}
    alone = [
        one
        for (path, part), one in by_path.items()
        if part in OTHER_HALF and (path, OTHER_HALF[part]) not in by_path
    ]
    if alone:
        yield Finding(
            "lora-pair", Severity.ERROR, "",
            f"the other half is missing: {some(alone)}", "take the adapter from its source again",
        )  # fmt: skip
    for (path, part), one in by_path.items():
        other = by_path.get((path, Part.B)) if part is Part.A else None
        if other and rank_of(one) != rank_of(other):
            yield Finding(
                "lora-pair", Severity.ERROR, "",
                f"{path}: lora_A has rank {rank_of(one)}, lora_B {rank_of(other)}",
                "take the adapter from its source again",
            )  # fmt: skip
            return


def doubles(seen: Seen) -> Iterator[Finding]:
    """Two keys that mean the same tensor: the last one read wins, which is luck."""
    taken: dict[tuple[str, Part, int | None], Line] = {}
    for one in seen.lines:
        if one.key is None or isinstance(one.found, str) or one.helper:
            continue
        for module in one.found.modules:
            place = (module.name, one.key.part, one.found.part)
            if other := taken.get(place):
                yield Finding(
                    "lora-double", Severity.ERROR, "",
                    f"{one.tensor.name} and {other.tensor.name} both mean {module.name}",
                    "remove the one that is not meant",
                )  # fmt: skip
                return
            taken[place] = one


def zeros(seen: Seen) -> Iterator[Finding]:
    """Products that are zero, and values that are no numbers."""
    halves = [one for one in seen.lines if one.key and one.key.part in OTHER_HALF]
    zero = [one for one in halves if seen.values[one.tensor.name].zero]
    changed = {one.key.path for one in halves if one.key}
    still = {one.key.path for one in zero if one.key}
    if zero and still == changed:
        yield Finding(
            "lora-zero", Severity.ERROR, "",
            f"every product is zero ({some(zero)}): the adapter changes nothing; lora_B starts at"
            " zero, so it was saved before training, or its gradients never arrived",
            "train it, or serve the base model",
        )  # fmt: skip
    elif zero:
        yield Finding(
            "lora-zero", Severity.WARNING, "",
            f"{len(still)} of {len(changed)} products are zero: {some(zero)}: these modules are not"
            " changed; under DeepSpeed ZeRO-3 or FSDP this is how a partly gathered save looks",
            "check how the adapter was saved",
        )  # fmt: skip
    broken = [one for one in seen.lines if seen.values[one.tensor.name].finite is False]
    if broken:
        yield Finding(
            "lora-finite", Severity.ERROR, "",
            f"NaN or Inf: {some(broken)}: every answer with this adapter is corrupt",
            "take an earlier checkpoint",
        )  # fmt: skip


def types(seen: Seen) -> Iterator[Finding]:
    """Types that hold a weight only together with a scale, for which LoRA's files have no key."""
    lines = [one for one in seen.lines if one.key and not one.helper]
    whole = [one for one in lines if one.tensor.dtype not in {*EXPONENTS, *EIGHT_BIT_FLOATS}]
    eight = [one for one in lines if one.tensor.dtype in EIGHT_BIT_FLOATS]
    if whole:
        yield Finding(
            "lora-dtype", Severity.ERROR, "",
            f"their type is {whole[0].tensor.dtype}, which has no fractions: {some(whole)}: no"
            " engine knows a scale for them and takes the whole numbers as the weights",
            "save the adapter in BF16, F16 or F32, with its scales multiplied in",
        )  # fmt: skip
    if eight:
        yield Finding(
            "lora-dtype", Severity.WARNING, "",
            f"their type is {eight[0].tensor.dtype}: {some(eight)}: no engine knows a scale for"
            " them; whether they are zero, NaN or Inf was not checked",
            "save the adapter in BF16, F16 or F32, with its scales multiplied in",
        )  # fmt: skip


def values_told(config: Mapping[str, Any]) -> Iterator[Finding]:
    """What adapter_config.json says in a way that nobody can read, or doesn't say."""
    for fault in faults(config):
        yield Finding(
            "lora-config", Severity.ERROR, "", f"adapter_config.json: {fault}",
            "write what the adapter was trained with",
        )  # fmt: skip
    if lacking := missing(config):
        yield Finding(
            "lora-config", Severity.ERROR, "",
            f"adapter_config.json has no {', '.join(lacking)}: vLLM refuses it",
            "cacheaware lora fix writes them from the tensors; check lora_alpha",
        )  # fmt: skip


def layers(seen: Seen) -> Iterator[Finding]:
    """Layers that have tensors, against those that adapter_config.json names."""
    told = layers_of(seen.config)
    if told is None:
        return
    have: dict[int, Line] = {}
    for one in seen.lines:
        half = one.key is not None and one.key.part in OTHER_HALF
        place = core_of(one.found.modules[0].name) if isinstance(one.found, Found) else None
        if half and place:
            have.setdefault(place[0], one)
    if missed := sorted(set(have) - told):
        yield Finding(
            "lora-target", Severity.ERROR, "",
            f"layers_to_transform leaves out layer {missed[0]}, which has tensors, such as"
            f" {have[missed[0]].tensor.name}: PEFT makes no place for them and drops them",
            "name in layers_to_transform every layer that was trained",
        )  # fmt: skip
    if unused := sorted(told - set(have)):
        yield Finding(
            "lora-target", Severity.WARNING, "",
            f"layers_to_transform names layer {unused[0]}, for which there is no tensor",
            "remove what was never trained; or tensors of it were lost when it was saved",
        )  # fmt: skip


def settings(seen: Seen) -> Iterator[Finding]:
    """What adapter_config.json says, against the tensors and the engines."""
    refused = refused_by_vllm(seen.config)
    if any(
        one.key and one.key.part is Part.MAGNITUDE for one in seen.lines
    ) and not seen.config.get("use_dora"):
        refused.append("the tensors hold DoRA magnitudes, and use_dora is not set")
    if refused:
        yield Finding(
            "lora-feature", Severity.WARNING, "",
            f"vLLM refuses it: {'; '.join(refused)}",
            "merge the adapter into the base model, or serve it with PEFT",
        )  # fmt: skip
    targets = seen.config.get("target_modules")
    if not isinstance(targets, list):
        return
    words = {str(one) for one in targets}
    called = called_in(seen.lines)
    unused = sorted(word for word in words if not any(names_one(word, one) for one in called))
    if unused:
        yield Finding(
            "lora-target", Severity.WARNING, "",
            f"target_modules names {', '.join(unused)}, for which there is no tensor",
            "remove what was never trained; or tensors of it were lost when it was saved",
        )  # fmt: skip
    missed = [one for one in called if not any(names_one(word, one) for word in words)]
    if missed:
        yield Finding(
            "lora-target", Severity.WARNING, "",
            f"{len(missed)} modules have tensors and are not in target_modules, such as"
            f" {min(missed[0])}: PEFT makes no place for them and drops them",
            "cacheaware lora fix writes target_modules from the tensors",
        )  # fmt: skip


def names_one(word: str, names: frozenset[str]) -> bool:
    """Whether an entry of target_modules, a name or its last words, means a module."""
    return any(name == word or name.endswith(f".{word}") for name in names)


def called_in(lines: tuple[Line, ...]) -> list[frozenset[str]]:
    """The modules that low-rank tensors are for, each by its names: as written, and the model's."""
    told: dict[frozenset[str], None] = {}
    for one in lines:
        if one.key and one.key.part in OTHER_HALF and isinstance(one.found, Found):
            told[frozenset({one.key.path, *(module.name for module in one.found.modules)})] = None
    return list(told)
