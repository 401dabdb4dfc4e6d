"""Rotary positions in float64, from a config.json alone: frequencies, tables, and their hashes.

Ranks and pods that turn positions differently answer fluently and wrongly. What they use must come
from the same numbers; this is the reference that tables of devices and hosts are compared with.

Formulas: transformers' `modeling_rope_utils.py`; YaRN arXiv:2309.00071; LongRoPE arXiv:2402.13753.
"""

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_BASE = 10_000.0
FORMS = {"float64": "<d", "float32": "<f", "float16": "<e"}
PRECISIONS = ("float64", "float32", "bfloat16", "float16")
LARGEST = 1e30
"""Of any field; what is beyond has no float32 table."""
LARGEST_FREQUENCY = 1e6
LARGEST_SCALE = 65_504.0
"""The largest float16."""
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")


class RopeError(Exception):
    """A field that no table can be made of, in one line."""


@dataclass(frozen=True, slots=True)
class Rope:
    """What turns queries and keys.

    Attributes:
        kind: `default`, `linear`, `dynamic`, `yarn`, `llama3`, `longrope`, `proportional`.
        frequencies: Radians per position, one for each pair of dimensions.
        scale: What cos and sin are multiplied with (YaRN's and LongRoPE's attention factor).
        sections: How many pairs follow time, height and width (mrope); empty otherwise.
    """

    kind: str
    frequencies: tuple[float, ...]
    scale: float
    sections: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """The fields of a configuration that the tables come from; `length` in tokens."""

    kind: str
    base: float
    dim: int
    head_dim: int
    maximum: int
    length: int
    scaling: Mapping[str, Any]

    def number(self, name: str, default: float | None = None) -> float:
        """A number of the scaling.

        Raises:
            RopeError: it is none, and there is no default.
        """
        value = self.scaling.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise RopeError(f"{name} is missing: allowed are numbers above 0")
        return number_of(name, value)

    def weight(self, name: str) -> float:
        """A number of the scaling; 0 where it is not used.

        Raises:
            RopeError: it is no number.
        """
        value = self.scaling.get(name)
        unused = value is None or (value == 0 and not isinstance(value, bool))
        return 0.0 if unused else number_of(name, value)

    @property
    def original(self) -> float:
        """The length that the model was trained for before scaling."""
        return self.number("original_max_position_embeddings", float(self.maximum))

    @property
    def factor(self) -> float:
        """By how much the length was scaled; without a field, the ratio of the two lengths."""
        return self.number("factor", self.maximum / self.original)


def rope_of(config: Mapping[str, Any], length: int | None = None, layer_type: str = "") -> Rope:
    """The rotary positions of a model for requests of up to `length` tokens.

    Args:
        config: config.json; the text part of a multimodal one is found.
        length: Tokens; dynamic scaling and LongRoPE depend on it. The trained length if None.
        layer_type: Which of several tables, where the file has one per kind of layer.

    Raises:
        RopeError: a field is missing or can't be right.
    """
    told = settings_of(config, length, layer_type)
    make = KINDS.get(told.kind)
    if make is None:
        raise RopeError(f"rope_type is {told.kind!r}: allowed are {', '.join(KINDS)}")
    try:
        frequencies, scale = make(told)
    except (ArithmeticError, ValueError) as error:
        raise RopeError(
            f"rope_scaling is {dict(told.scaling)!r}: no {told.kind} table comes of it ({error})"
        ) from error
    if isinstance(scale, complex) or not 0 < scale <= LARGEST_SCALE:
        raise RopeError(f"the attention factor is {scale}: allowed are up to {LARGEST_SCALE:g}")
    if not all(0 <= one <= LARGEST_FREQUENCY for one in frequencies):
        raise RopeError(f"frequencies reach {max(frequencies):g}: allowed are those near 1 or less")
    return Rope(told.kind, tuple(frequencies), scale, sections_of(told, len(frequencies)))


def sections_of(told: Settings, pairs: int) -> tuple[int, ...]:
    """How the pairs are shared out (mrope).

    Raises:
        RopeError: they are no whole numbers, or not of this sum.
    """
    given = told.scaling.get("mrope_section") or []
    if not isinstance(given, list) or any(type(one) is not int or one < 0 for one in given):
        raise RopeError(f"mrope_section is {given!r}: allowed is a list of whole numbers")
    if sum(given) not in {0, pairs}:
        raise RopeError(f"mrope_section is {given!r}: its sum must be {pairs}")
    return tuple(given)


def number_of(name: str, value: Any) -> float:
    """A finite number above 0.

    Raises:
        RopeError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise RopeError(f"{name} is {value!r}: allowed are numbers above 0")
    return float(value)


def settings_of(config: Mapping[str, Any], length: int | None, layer_type: str) -> Settings:
    """The fields, whatever version of transformers wrote them.

    Raises:
        RopeError: one is missing or can't be right.
    """
    text = next((config[one] for one in NESTED if isinstance(config.get(one), dict)), config)
    given: Any = text.get("rope_parameters") or text.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise RopeError(f"rope_scaling is {given!r}: allowed is an object")
    if isinstance(given.get(layer_type), dict):
        given = given[layer_type]
    elif any(isinstance(one, dict) for one in given.values()):
        names = [name for name, one in given.items() if isinstance(one, dict)]
        raise RopeError(f"there is a table for each of {', '.join(names)}: name one")
    kind = given.get("rope_type") or given.get("type") or "default"
    scaling: dict[str, Any] = {
        "original_max_position_embeddings": text.get("original_max_position_embeddings")
    }
    scaling |= {str(name): one for name, one in given.items() if one is not None}
    maximum = whole(text, "max_position_embeddings", 2048)
    head_dim = head_dim_of(text)
    share = scaling.get("partial_rotary_factor", text.get("partial_rotary_factor", 1.0))
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise RopeError(f"partial_rotary_factor is {share!r}: allowed are numbers up to 1")
    rotary = text.get("qk_rope_head_dim")
    dim = int(head_dim * share) if rotary is None else whole(text, "qk_rope_head_dim", 0)
    base = scaling.get("rope_theta", text.get("rope_theta", DEFAULT_BASE))
    if isinstance(base, bool) or not isinstance(base, int | float) or not 1 < base <= LARGEST:
        raise RopeError(f"rope_theta is {base!r}: allowed are numbers above 1")
    if dim < 2 or dim % 2:
        raise RopeError(f"{dim} dimensions are turned: allowed are even numbers from 2 on")
    aliases = {"mrope": "default", "su": "longrope"}
    kind = aliases.get(str(kind), str(kind))
    return Settings(kind, float(base), dim, head_dim, maximum, length or maximum, scaling)


def whole(text: Mapping[str, Any], name: str, default: int) -> int:
    """A whole number above 0.

    Raises:
        RopeError: it is none, or it is missing and `default` is 0.
    """
    if name not in text and not default:
        raise RopeError(f"{name} is missing: allowed are whole numbers above 0")
    value = text.get(name, default)
    if type(value) is not int or not 1 <= value <= LARGEST:
        raise RopeError(f"{name} is {value!r}: allowed are whole numbers above 0")
    return value


def head_dim_of(text: Mapping[str, Any]) -> int:
    """The field, else hidden size over heads."""
    if text.get("head_dim") is not None:
        return whole(text, "head_dim", 1)
    return whole(text, "hidden_size", 0) // whole(text, "num_attention_heads", 0)


def plain(told: Settings, base: float | None = None) -> list[float]:
    """base^(-2i / dim)."""
    return [(base or told.base) ** (-at / told.dim) for at in range(0, told.dim, 2)]


def default(told: Settings) -> tuple[list[float], float]:
    """No scaling."""
    return plain(told), 1.0


def linear(told: Settings) -> tuple[list[float], float]:
    """Positions divided by the factor."""
    return [one / told.number("factor") for one in plain(told)], 1.0


def dynamic(told: Settings) -> tuple[list[float], float]:
    """NTK: the base grows with the length, beyond the trained one."""
    length = max(told.length, told.maximum)
    factor = told.number("factor")
    grown = factor * length / told.maximum - (factor - 1)
    return plain(told, told.base * grown ** (told.dim / (told.dim - 2))), 1.0


def llama3(told: Settings) -> tuple[list[float], float]:
    """Long waves are divided by the factor, short ones stay, between them a ramp."""
    low, high = told.number("low_freq_factor"), told.number("high_freq_factor")
    old, factor = told.original, told.number("factor")
    frequencies = []
    for one in plain(told):
        waves = old * one / (2 * math.pi)
        share = min(1.0, max(0.0, (waves - low) / (high - low)))
        frequencies.append((1 - share) * one / factor + share * one)
    return frequencies, 1.0


def yarn(told: Settings) -> tuple[list[float], float]:
    """Interpolation for long waves, none for short ones, by how often each turns."""
    factor, old = told.factor, told.original

    def turning(times: float) -> float:
        return told.dim * math.log(old / (times * 2 * math.pi)) / (2 * math.log(told.base))

    low, high = turning(told.number("beta_fast", 32.0)), turning(told.number("beta_slow", 1.0))
    if told.scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, told.dim - 1)
    width = (high - low) or 0.001
    frequencies = []
    for at, one in enumerate(plain(told)):
        ramp = min(1.0, max(0.0, (at - low) / width))
        frequencies.append(one / factor * ramp + one * (1 - ramp))
    return frequencies, yarn_scale(told, factor)


def yarn_scale(told: Settings, factor: float) -> float:
    """The attention factor: the file's, else by the paper, else by DeepSeek's two fields."""
    if told.scaling.get("attention_factor") is not None:
        return told.number("attention_factor")

    def mscale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    own, all_dim = told.weight("mscale"), told.weight("mscale_all_dim")
    return mscale(own) / mscale(all_dim) if own and all_dim else mscale(1.0)


def longrope(told: Settings) -> tuple[list[float], float]:
    """A factor for each pair; another list beyond the original length."""
    name = "long_factor" if told.length > told.original else "short_factor"
    factors = told.scaling.get(name)
    if not isinstance(factors, list) or len(factors) != told.dim // 2:
        raise RopeError(f"{name} must be a list of {told.dim // 2} numbers")
    factors = [number_of(name, one) for one in factors]
    if told.scaling.get("attention_factor") is not None:
        scale = told.number("attention_factor")
    else:
        factor = told.factor
        scale = math.sqrt(1 + math.log(factor) / math.log(told.original)) if factor > 1 else 1.0
    return [one / factor for one, factor in zip(plain(told), factors, strict=True)], scale


def proportional(told: Settings) -> tuple[list[float], float]:
    """A share of the pairs turns, at the frequencies of the whole head; the rest stands still."""
    turned = told.dim // 2
    factor = told.number("factor", 1.0)
    own = [told.base ** (-2 * at / told.head_dim) / factor for at in range(turned)]
    return own + [0.0] * (told.head_dim // 2 - turned), 1.0


KINDS: Mapping[str, Callable[[Settings], tuple[list[float], float]]] = {
    "default": default, "linear": linear, "dynamic": dynamic, "yarn": yarn,
    "llama3": llama3, "longrope": longrope, "proportional": proportional,
}  # fmt: skip


def rounded(value: float, precision: str) -> bytes:
    """The bytes of a number at a precision, rounded to the nearest, ties to even."""
    if precision != "bfloat16":
        return struct.pack(FORMS[precision], value)
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


def narrowed(value: float) -> float:
    """The nearest float32."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def table(rope: Rope, positions: Iterable[int], *, steps32: bool = False) -> list[float]:
    """Cos of each pair, then sin of each pair, position by position, times the scale.

    Args:
        rope: The frequencies.
        positions: Which rows.
        steps32: Round each step to float32, as engines compute it, rather than the end alone.
    """
    keep = narrowed if steps32 else float
    frequencies = [keep(one) for one in rope.frequencies]
    told = []
    for position in positions:
        angles = [keep(position * one) for one in frequencies]
        told += [keep(keep(math.cos(one)) * keep(rope.scale)) for one in angles]
        told += [keep(keep(math.sin(one)) * keep(rope.scale)) for one in angles]
    return told


def checkpoints(length: int) -> list[int]:
    """Rows that stand for a table: the first 256, and around each power of two up to the end."""
    powers = [1 << at for at in range(8, max(length, 1).bit_length())]
    around = {one + by for one in (*powers, length) for by in (-2, -1, 0, 1)}
    return sorted(one for one in {*range(256), *around} if 0 <= one < length)


def fingerprint(values: Iterable[float], precision: str) -> str:
    """SHA-256 of numbers at a precision."""
    digest = hashlib.sha256()
    for one in values:
        digest.update(rounded(one, precision))
    return digest.hexdigest()


def hashes(rope: Rope, length: int) -> dict[str, str]:
    """What hosts compare: frequencies, and the table by each precision.

    float64 tables depend on the host's libm in the last bit; from float32 down they agree.
    """
    rows = table(rope, checkpoints(length))
    told = {"frequencies": fingerprint(rope.frequencies, "float32")}
    for precision in PRECISIONS:
        told[precision] = fingerprint(rows, precision)
    stepped = table(rope, checkpoints(length), steps32=True)
    told["float32 at each step"] = fingerprint(stepped, "float32")
    return told
