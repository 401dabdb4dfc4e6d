"""A model from a local folder and the canary that goes through it.

The canary is fixed: what differs between two runs is then the model. Token ids are made by rule
rather than from a text, so that no tokeniser has to agree; a text of the user's own may be given.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from cacheaware.model.lora.adapter import CONFIG, read_adapter
from cacheaware.model.lora.adapter_config import faults
from cacheaware.model.lora.base_model import Base
from cacheaware.model.lora.check import check
from cacheaware.model.lora.keys import Part
from cacheaware.model.lora.tensors import LoraFileError, Tensor
from cacheaware.model.modules import Form, Module, Role

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
TORCH_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
               "BF16": torch.bfloat16}  # fmt: skip
MULTIPLIER, INCREMENT = 1_103_515_245, 12_345


class ProbeError(Exception):
    """The model can't be probed, in one line."""


@dataclass(frozen=True, slots=True)
class Canary:
    """Token ids [1, length] and what identifies them."""

    ids: Any
    digest: str

    @property
    def length(self) -> int:
        """Tokens."""
        return int(self.ids.shape[1])


def load(folder: Path, dtype: str = "float32", device: str = "cpu") -> Any:
    """The model in a folder, in evaluation mode; nothing is fetched, no code of the folder is run.

    Raises:
        ProbeError: it is none that transformers knows, or has no weights there.
    """
    if dtype not in DTYPES:
        raise ProbeError(f"--dtype is {dtype!r}: allowed are {', '.join(DTYPES)}")
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True,
            dtype=DTYPES[dtype], attn_implementation="sdpa",
        )  # fmt: skip
        return model.to(device).eval()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise ProbeError(f"{folder}: can't be loaded: {said[:300]}") from error


def canary(model: Any, length: int) -> Canary:
    """Token ids by a linear congruential rule: the same on every host."""
    state, ids = 1, []
    vocabulary = int(model.config.get_text_config().vocab_size)
    for _ in range(length):
        state = (state * MULTIPLIER + INCREMENT) % (1 << 31)
        ids.append((state >> 8) % vocabulary)
    return made(ids, model)


def text_canary(model: Any, folder: Path, text: str, length: int) -> Canary:
    """The first tokens of a text, by the folder's tokeniser.

    Raises:
        ProbeError: there is no tokeniser, or the text is shorter than two tokens.
    """
    try:
        tokeniser = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        ids = list(tokeniser(text)["input_ids"])[:length]
    except (OSError, ValueError, KeyError) as error:
        raise ProbeError(f"{folder}: has no tokeniser for --prompt: {error}") from error
    if len(ids) < 2:
        raise ProbeError(f"--prompt has {len(ids)} tokens: allowed are 2 or more")
    return made(ids, model)


def made(ids: list[int], model: Any) -> Canary:
    """Token ids as a tensor on the model's device."""
    digest = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]
    return Canary(torch.tensor([ids], device=model.device), digest)


def adapted(model: Any, folder: Path) -> tuple[int, int]:
    """Add an adapter to the model's weights as an engine would: by exactly PEFT's keys.

    Returns:
        How many modules were changed, and how many of the adapter's tensors found no place.

    Raises:
        LoraFileError: the adapter can't be read.
    """
    adapter = read_adapter(folder)
    modules = {name: one for name, one in model.named_modules() if isinstance(one, torch.nn.Linear)}
    report = check(adapter, base_of_model(modules))
    halves: dict[str, dict[Part, Tensor]] = {}
    for one in report.matches:
        if one.binds and one.key is not None and one.key.part in {Part.A, Part.B}:
            halves.setdefault(one.key.path, {})[one.key.part] = one.tensor
    config = adapter.config or {}
    if wrong := faults(config):
        raise LoraFileError(f"{CONFIG}: {wrong[0]}")
    changed = 0
    for name, both in halves.items():
        if name in modules and len(both) == 2:
            add(modules[name], both, config)
            changed += 1
    return changed, len(report.matches) - 2 * changed


def base_of_model(modules: dict[str, Any]) -> Base:
    """The modules of a loaded model, as an adapter sees them."""
    layers = {int(part) for name in modules for part in name.split(".") if part.isdigit()}
    named = {
        name: Module(name, Role.FFN, Form.LINEAR, one.in_features, one.out_features)
        for name, one in modules.items()
    }
    return Base(named, max(layers, default=-1) + 1)


def add(module: Any, both: dict[Part, Tensor], config: dict[str, Any]) -> None:
    """W + alpha / r x B A, in the weight's own precision at the end."""
    down, up = as_torch(both[Part.A]), as_torch(both[Part.B])
    rank = down.shape[0]
    alpha = config.get("lora_alpha", rank)
    scale = alpha / (rank**0.5 if config.get("use_rslora") else rank)
    with torch.no_grad():
        delta = (scale * up @ down).to(module.weight.device)
        module.weight.copy_((module.weight.float() + delta).to(module.weight.dtype))


def as_torch(tensor: Tensor) -> Any:
    """A tensor of an adapter as float32."""
    data = bytearray(tensor.read())
    return torch.frombuffer(data, dtype=TORCH_TYPES[tensor.dtype]).reshape(tensor.shape).float()
