"""The vocabulary: padding, ranks, special tokens, and whether input and output share a matrix."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.families import ALWAYS_TIED, TIED
from cacheaware.model.audit.view import Serving, View, error, info, warning

PADDING: Final = 64
"""vLLM's and SGLang's `DEFAULT_VOCAB_PADDING_SIZE`."""
SPECIAL: Final = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


def padding(view: View, serving: Serving) -> Iterator[Finding]:
    """Engines pad the vocabulary themselves; what counts is that the ranks share it evenly."""
    size = view.vocabulary
    if size is None or size < 1:
        return
    padded = -(-size // PADDING) * PADDING
    if padded % serving.tensor:
        yield error(
            view, "tp-vocabulary",
            f"the vocabulary of {size:,}, padded to {padded:,}, can't be split over "
            f"{serving.tensor} tensor ranks",
            "Choose --tp from the powers of two up to 64, or another divisor.",
        )  # fmt: skip
    elif padded != size:
        rows = padded - size
        each = f", {rows * 2 * view.hidden:,} B in 16 bit" if view.hidden else ""
        yield info(
            view, "vocabulary-padding",
            f"{size:,} is no multiple of {PADDING}: the engine pads it to {padded:,} ({rows} rows "
            f"in each matrix{each}), nothing to do",
        )  # fmt: skip


def special_tokens(view: View, _serving: Serving) -> Iterator[Finding]:
    """Ids that the embedding has no row for; engines ask the tokenizer first."""
    size = view.vocabulary
    if size is None:
        return
    for name in SPECIAL:
        value = view.text.get(name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int) and not isinstance(one, bool) and one >= size:
                yield warning(
                    view, "token-outside-vocabulary",
                    f"{view.named(name)} is {one:,}, the vocabulary ends at {size - 1:,}: the "
                    f"model can neither read nor write it",
                    "Take both from the same release; added tokens need added rows.",
                )  # fmt: skip


def tied(view: View, _serving: Serving) -> Iterator[Finding]:
    """One matrix for input and output, or two: told once, and as the checkpoint has it."""
    name = "tie_word_embeddings"
    inner, outer = _flag(view.text, name), _flag(view.whole, name)
    nested = view.text is not view.whole
    if nested and inner is not None and outer is not None and inner != outer:
        yield info(
            view, "tie-twice",
            f"{name} is {_word(outer)}, and {view.named(name)} is {_word(inner)}: loaders disagree",
            "Set both to what the checkpoint has: is there an lm_head.weight?",
        )  # fmt: skip
    told = inner if inner is not None else outer
    if told is False and view.layout in ALWAYS_TIED:
        yield warning(
            view, "tie-family",
            f"{view.named(name)} is false; {view.layout} checkpoints have no output matrix of "
            f"their own: it would be filled at random",
            "Set it to true, unless the checkpoint has an lm_head.weight.",
        )  # fmt: skip
    elif told is None and view.layout in TIED:
        yield info(
            view, "tie-missing",
            f"{name} is missing: {view.layout} takes {_word(TIED[view.layout])}{_matrix(view)}",
        )  # fmt: skip


def _flag(values: Mapping[str, Any], name: str) -> bool | None:
    value = values.get(name)
    return value if isinstance(value, bool) else None


def _word(value: bool) -> str:
    return "true" if value else "false"


def _matrix(view: View) -> str:
    if not view.vocabulary or not view.hidden:
        return ""
    return f"; a second matrix takes {view.vocabulary * view.hidden * 2:,} B in 16 bit"


RULES: Final = (padding, special_tokens, tied)
