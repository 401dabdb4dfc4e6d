"""KV cache dtypes: how many bytes a cached head takes, and what a checkpoint asks for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cacheaware_sidecar.kv.errors import ConfigError, UnknownLayoutError, refusal
from cacheaware_sidecar.kv.fields import Fields

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class KvDtype:
    """A storage format of the KV cache.

    Attributes:
        name: The name shown.
        bits: Bits per value.
        scale_bytes: Per head, token and side (K, V): an fp32 scale of the per-token-head modes.
        block_scale: Values that share a one-byte scale (nvfp4: 16); 0 for none.
        latent_bytes: A packed format for MLA alone: bytes of a token of one layer.
    """

    name: str
    bits: int
    scale_bytes: int = 0
    block_scale: int = 0
    latent_bytes: int | None = None

    def side(self, field: str, size: int) -> int:
        """Bytes of K or of V for one head and token.

        Raises:
            ConfigError: A head size that the format can't pack.
        """
        values_per_unit = self.block_scale or max(1, 8 // self.bits)
        if size % values_per_unit:
            allowed = f"allowed are multiples of {values_per_unit} with KV dtype {self.name}"
            raise refusal(field, size, allowed)
        scales = size // self.block_scale if self.block_scale else 0
        return size * self.bits // 8 + scales + self.scale_bytes

    def factors(self, key: int, value: int) -> str:
        """The same as a person writes it: `(128 + 128) x 2 B`."""
        sizes = f"({key} + {value})"
        if self.block_scale:
            return f"({sizes} / 2 + {sizes} / {self.block_scale}) B"
        if self.scale_bytes:
            return f"({sizes} x {self.value_bytes} B + 2 x {self.scale_bytes} B scale)"
        return f"{sizes} x {self.value_bytes} B"

    @property
    def value_bytes(self) -> str:
        """Bytes per value as text: 2, 1 or 0.5."""
        return f"{self.bits / 8:g}"


_SIXTEEN = {name: KvDtype(name, 16) for name in ("bfloat16", "float16")}
_EIGHT = {name: KvDtype(name, 8) for name in ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8")}
_PACKED = {
    "fp8_per_token_head": KvDtype("fp8_per_token_head", 8, scale_bytes=4),
    "int8_per_token_head": KvDtype("int8_per_token_head", 8, scale_bytes=4),
    "int4": KvDtype("int4", 4),
    "int4_per_token_head": KvDtype("int4_per_token_head", 4, scale_bytes=4),
    "nvfp4": KvDtype("nvfp4", 4, block_scale=16),
    "fp8_ds_mla": KvDtype("fp8_ds_mla", 8, latent_bytes=656),
    "nvfp4_ds_mla": KvDtype("nvfp4_ds_mla", 4, latent_bytes=352),
}
DTYPES: Final = _SIXTEEN | _EIGHT | _PACKED
ALIASES: Final = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp8_e4m3fn": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
}
NAMES: Final = (AUTO, *DTYPES, *ALIASES)
_SERVED_AS: Final = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float16",  # vLLM serves it in 16 bit
    "float": "float16",
}
_DECLARED: Final = {"fp8": "fp8", "fp8_e4m3": "fp8_e4m3", "int8": "int8", "nvfp4": "nvfp4"}
_SCHEMES: Final = {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "nvfp4"}
_QUANTISATIONS: Final = ("quantization_config", "compression_config")


def kv_dtype_of(name: str, model: Fields, text: Fields) -> tuple[KvDtype, str | None]:
    """The dtype the cache is stored in, and a note where `auto` did not mean 16 bit as written.

    Args:
        name: What the engine was told (`--kv-cache-dtype`), or auto.
        model: The whole config.json.
        text: Its text configuration (may be the same).

    Raises:
        ConfigError: A name that is not known, or a declaration in the file that is not.
    """
    dtype = named_dtype(name)
    return _automatic(model, text) if dtype is None else (dtype, None)


def named_dtype(name: str) -> KvDtype | None:
    """The dtype of this name; None for auto.

    Raises:
        ConfigError: A name that is not known.
    """
    key = name.lower().removeprefix("torch.") if isinstance(name, str) else ""
    key = ALIASES.get(key, key)
    if key != AUTO and key not in DTYPES:
        raise refusal("KV dtype", name, f"allowed are {', '.join(NAMES)}")
    return DTYPES.get(key)


def _automatic(model: Fields, text: Fields) -> tuple[KvDtype, str | None]:
    for field, declared in _declarations(model, text):
        return DTYPES[declared], f"KV dtype {declared}: declared by {field} of the checkpoint"
    for fields in (text, model):
        if name := fields.first("torch_dtype", "dtype"):
            return _served(fields, name)
    return DTYPES["bfloat16"], "dtype is missing: 16 bit assumed, as engines serve"


def _served(fields: Fields, name: str) -> tuple[KvDtype, str | None]:
    dtype = (fields.text(name) or "").lower().removeprefix("torch.")
    if dtype not in _SERVED_AS:
        allowed = f"allowed are {', '.join(_SERVED_AS)} (or name a KV dtype)"
        raise refusal(fields.path + name, fields.values[name], allowed)
    note = None if dtype in DTYPES or dtype == "half" else f"{dtype} in the file serves as 16 bit"
    return DTYPES[_SERVED_AS[dtype]], note


def _declarations(*objects: Fields) -> Iterator[tuple[str, str]]:
    """Where a checkpoint declares a quantised KV cache: (field, dtype), outermost first.

    compressed-tensors writes `kv_cache_scheme` as an object, modelopt `kv_cache_quant_algo`
    (or the scheme, or its bare name), sometimes one level deeper in `quantization`.
    """
    for fields in objects:
        for name in _QUANTISATIONS:
            if section := fields.child(name):
                yield from _declared_in(section)
                if inner := section.child("quantization"):
                    yield from _declared_in(inner)


def _declared_in(section: Fields) -> Iterator[tuple[str, str]]:
    for name in ("kv_cache_scheme", "kv_cache_quant_algo"):
        value = section.values.get(name)
        if value is not None:
            yield section.path + name, _declared(section, name, value)


def _declared(section: Fields, name: str, value: Any) -> str:
    if isinstance(value, str):
        dtype = _DECLARED.get(value.lower())
    else:
        scheme = section.child(name)
        bits = scheme.integer("num_bits") if scheme else None
        dtype = _SCHEMES.get((bits or 0, (scheme.text("type") if scheme else None) or "float"))
    if dtype is None:
        allowed = f"understood are {', '.join(_DECLARED)} and 8-bit schemes (or name a KV dtype)"
        raise refusal(section.path + name, value, allowed)
    return dtype


def latent_bytes(dtype: KvDtype, rank: int, rope: int) -> int:
    """Bytes of one token of one MLA layer: a single vector of rank + rope values.

    Raises:
        ConfigError: A scale mode that exists for separate heads alone.
        UnknownLayoutError: A packed format whose size is known for 512 + 64 values alone.
    """
    if dtype.scale_bytes or dtype.block_scale:
        raise ConfigError(
            f"KV dtype is {dtype.name}: for a latent (MLA) cache allowed are 16 bit, fp8, int8, "
            f"int4, fp8_ds_mla and nvfp4_ds_mla"
        )
    if dtype.latent_bytes is None:
        return dtype.side("kv_lora_rank + qk_rope_head_dim", rank + rope)
    if (rank, rope) != (512, 64):
        raise UnknownLayoutError(
            f"the size of {dtype.name} is known for 512 + 64 values a token, not {rank} + {rope}"
        )
    return dtype.latent_bytes
