"""Whether a LoRA changes anything on a model: the plainest sign that it didn't bind."""

from pathlib import Path
from typing import Any

import torch

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.model.probes.loaded import Canary, adapted


def said(model: Any, canary: Canary, folder: Path) -> list[Finding]:
    """Put an adapter on the model, by exactly the keys that an engine looks for, and compare.

    Raises:
        LoraFileError: the adapter can't be read.
        OSError: the same.
    """
    before = logits(model, canary)
    changed, homeless = adapted(model, folder)
    gap = float((logits(model, canary) - before).abs().max())
    if changed and gap > 0:
        text = f"{changed} modules were changed; the canary's logits move by up to {gap:.3g}"
        told = [Finding("probe-adapter", Severity.INFO, folder.name, text, "")]
    else:
        text = (
            f"the adapter changes nothing: {changed} modules were found by their keys, and the"
            " canary's logits are the base model's to the bit"
        )
        fix = "cacheaware lora check says which keys don't bind"
        told = [Finding("probe-adapter", Severity.ERROR, folder.name, text, fix)]
    if homeless:
        text = f"{homeless} of its tensors found no module"
        fix = "cacheaware lora check says which"
        told.append(Finding("probe-adapter", Severity.WARNING, folder.name, text, fix))
    return told


def logits(model: Any, canary: Canary) -> Any:
    """The logits of the last position in float32."""
    with torch.no_grad():
        return model(input_ids=canary.ids, use_cache=False, logits_to_keep=1).logits.float()
