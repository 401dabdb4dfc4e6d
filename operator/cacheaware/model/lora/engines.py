"""Which keys of an adapter the engines bind, refuse or drop without a word.

Read from sources: PEFT's `set_peft_model_state_dict`; vLLM's `lora/utils.py`
(`parse_fine_tuned_lora_name`), `lora/lora_model.py` and `lora/peft_helper.py` of 0.6 to 0.32;
SGLang's `srt/lora/lora.py` and `utils.py` of 0.4 and 0.5. What vLLM compares before it loads is the
last word of a module's name alone: a key with the right word at a wrong place loads, binds nothing,
and nothing is said above the log level DEBUG.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cacheaware.model.lora.base_model import Base, Found, core_of
from cacheaware.model.lora.keys import PEFT_PREFIX, Key, Part, peft_name

VLLM_ENDING = re.compile(r"\.(?:lora_[AB]\.weight|lora_embedding_[AB])$")
VLLM_SKIPS = re.compile(r"\.(?:embed_tokens|lm_head)\.base_layer\.weight$")
VLLM_FULL = {"score", "classifier"}
HARMLESS_INITS = {"gaussian", "eva", "orthogonal", "mica", "lora_ga"}


class Verdict(StrEnum):
    """What becomes of a key."""

    BINDS = "binds"
    REFUSED = "refused"
    """The whole adapter is not loaded."""
    DROPPED = "dropped"
    """It loads, and the tensor changes nothing."""
    UNSURE = "unsure"
    """It depends on how the engine's class of this model renames."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine does with an adapter; `reason` is the first that it would give."""

    engine: str
    binds: int
    refused: int
    dropped: int
    unsure: int
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """One tensor's key, what it means, and the base model."""

    raw: str
    key: Key | None
    found: Found | str
    base: Base


Judge = Callable[[Case], tuple[Verdict, str]]


def peft(case: Case) -> tuple[Verdict, str]:
    """PEFT loads with strict=False: an unexpected key is a warning."""
    key, found = case.key, case.found
    if key and key.part is Part.BASE:
        return Verdict.BINDS, ""
    if key and isinstance(found, Found) and len(found.modules) == 1 and found.part is None:
        wanted = peft_name(found.modules[0].name, key.part)
        if case.raw == wanted:
            return Verdict.BINDS, ""
        return Verdict.DROPPED, f"{case.raw} should be {wanted}"
    return Verdict.DROPPED, f"{case.raw} is no key of this model"


def vllm_old(case: Case) -> tuple[Verdict, str]:
    """Up to 0.7.3 the prefix has to be there."""
    if not case.raw.startswith(PEFT_PREFIX):
        return Verdict.REFUSED, f"{case.raw} is unsupported LoRA weight"
    return vllm(case, VLLM_ENDING.sub("", case.raw).removeprefix(PEFT_PREFIX))


def vllm_new(case: Case) -> tuple[Verdict, str]:
    """From 0.8.5 on it may be there, and more than once."""
    parts = case.raw.split(".")
    if len(parts) > 1 and parts[-2] in VLLM_FULL:
        return Verdict.BINDS, ""
    return vllm(case, VLLM_ENDING.sub("", case.raw).replace(PEFT_PREFIX, ""))


def vllm(case: Case, name: str) -> tuple[Verdict, str]:
    """What all its versions do with a key whose module they call so."""
    if VLLM_SKIPS.search(case.raw) or (VLLM_ENDING.search(case.raw) and name in case.base.modules):
        return Verdict.BINDS, ""
    if not VLLM_ENDING.search(case.raw):
        return Verdict.REFUSED, f"{case.raw} is unsupported LoRA weight"
    if name.rsplit(".", maxsplit=1)[-1] not in {one.split(".")[-1] for one in case.base.modules}:
        return Verdict.REFUSED, f"{name} is not among the expected target modules"
    if any("language_model." in one for one in case.base.modules):
        return Verdict.UNSURE, f"{name}: renamed by some multimodal classes only"
    return Verdict.DROPPED, f"{name} loads and binds to nothing, without a warning"


def sglang(case: Case) -> tuple[Verdict, str]:
    """SGLang looks for `layers.N.`, a module's name, and lora_A or lora_B anywhere in the key."""
    key, found, raw = case.key, case.found, case.raw
    core = core_of(key.path) if key else None
    if key is None or key.part not in {Part.A, Part.B} or str(key.part) not in raw:
        return Verdict.DROPPED, f"{raw} holds neither lora_A nor lora_B"
    if core is None or f"layers.{core[0]}." not in raw:
        return Verdict.DROPPED, f"{raw} has no layers.N in it"
    if isinstance(found, str):
        return Verdict.REFUSED, f"{raw}: {found}"
    if found.part is not None:
        return Verdict.UNSURE, f"{raw} is a part of {found.modules[0].name}"
    return Verdict.BINDS, ""


ENGINES: Mapping[str, Judge] = {
    "peft": peft,
    "vllm <= 0.7.3": vllm_old,
    "vllm >= 0.8.5": vllm_new,
    "sglang 0.4, 0.5": sglang,
}


def outcomes(cases: Sequence[Case]) -> list[Outcome]:
    """What each engine does with the keys of an adapter."""
    told = []
    for engine, judge in ENGINES.items():
        judged = [judge(case) for case in cases]
        counts = Counter(verdict for verdict, _ in judged)
        reasons = [
            reason
            for wanted in (Verdict.REFUSED, Verdict.DROPPED, Verdict.UNSURE)
            for verdict, reason in judged
            if verdict is wanted
        ]
        told.append(
            Outcome(
                engine,
                counts[Verdict.BINDS], counts[Verdict.REFUSED],
                counts[Verdict.DROPPED], counts[Verdict.UNSURE],
                reasons[0] if reasons else "",
            )
        )  # fmt: skip
    return told


def refused_by_vllm(config: Mapping[str, Any]) -> list[str]:
    """Settings of adapter_config.json that vLLM refuses (`peft_helper.py`, 0.32)."""
    told = [
        f"{field} is {config[field]!r}"
        for field in ("use_dora", "lora_bias", "layer_replication", "use_qalora", "use_bdlora")
        if config.get(field)
    ]
    if config.get("bias", "none") != "none":
        told.append(f"bias is {config['bias']!r}")
    saved = config.get("modules_to_save")
    if isinstance(saved, list) and (other := [one for one in saved if one not in VLLM_FULL]):
        told.append(f"modules_to_save is {', '.join(map(str, other))}")
    init = config.get("init_lora_weights")
    if isinstance(init, str) and init.lower() not in HARMLESS_INITS:
        told.append(f"init_lora_weights is {init!r}, which changed the base model's weights too")
    return told
