"""Reads the tensors of a file that torch.save wrote, without running what a pickle may ask for.

torch's file is a zip: `data.pkl` describes the tensors, `data/KEY` holds the bytes of a storage. A
pickle is a program. Two guards stand before it: its opcodes are read first and only those
that torch.save writes are allowed, each name it would import is on a short list; and the unpickler
itself gives inert descriptions in place of those names, and nothing else.
"""

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from cacheaware.model.lora.tensors import SIZES, LoraFileError, Tensor

LARGEST_PICKLE = 64 * 1024 * 1024
"""Bytes of data.pkl; that of an adapter with 10,000 tensors has 2 MB."""
LARGEST_GATHER = 1 << 24
"""Elements of a tensor that isn't contiguous: they are picked one by one."""
STORAGES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16",
    "BFloat16Storage": "BF16", "LongStorage": "I64", "IntStorage": "I32",
    "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8", "BoolStorage": "BOOL",
}  # fmt: skip
NAMES = {
    "collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter",
    *(f"torch {name}" for name in STORAGES),
}  # fmt: skip
OPCODES = {
    "PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "BINPERSID",
    "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "APPEND", "APPENDS",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BININT", "BININT1", "BININT2", "LONG1",
    "BINFLOAT", "NEWTRUE", "NEWFALSE", "NONE",
    "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "MEMOIZE", "POP", "POP_MARK",
}  # fmt: skip
"""What torch.save writes (protocol 2), and plain values beside it."""


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage that the pickle refers to: which member of the zip, of what type, how long."""

    key: str
    dtype: str
    elements: int


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as the pickle describes it: a view of a storage. Strides in elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def read_torch(path: Path) -> list[Tensor]:
    """The tensors of a torch file.

    Raises:
        LoraFileError: it isn't torch's zip, or its pickle asks for more than tensors.
        OSError: it can't be read.
    """
    with path.open("rb") as file:
        zipped = zipfile.is_zipfile(file)
    if not zipped:
        raise LoraFileError(
            "is no zip: torch's format from before 1.6 is one long pickle and isn't read; load it"
            " where you trust it and save it as safetensors"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            members = {one.filename: one for one in archive.infolist()}
            root = root_of(members)
            check_stored(members)
            order = members.get(f"{root}byteorder")
            if order and archive.read(order) != b"little":
                raise LoraFileError("is big-endian, which isn't read")
            described = unpickled(archive.read(f"{root}data.pkl"))
    except zipfile.BadZipFile as error:
        raise LoraFileError(f"is a broken zip: {error}") from error
    return [
        checked(name, view, members.get(f"{root}data/{view.storage.key}"), path)
        for name, view in views_of(described)
    ]


def root_of(members: dict[str, zipfile.ZipInfo]) -> str:
    """The folder in the zip that holds data.pkl, with its slash.

    Raises:
        LoraFileError: there is no one such folder.
    """
    found = [name for name in members if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(found) != 1:
        raise LoraFileError(f"is a zip with {len(found)} data.pkl: torch.save writes one")
    if members[found[0]].file_size > LARGEST_PICKLE:
        raise LoraFileError(f"data.pkl is larger than {LARGEST_PICKLE:,} bytes")
    return found[0].removesuffix("data.pkl")


def check_stored(members: dict[str, zipfile.ZipInfo]) -> None:
    """Refuse compressed members: torch writes none, and they may unpack to any size.

    Raises:
        LoraFileError: there is one.
    """
    for name, one in members.items():
        if one.compress_type != zipfile.ZIP_STORED:
            raise LoraFileError(f"{name!r} in it is compressed, which torch.save never does")


def unpickled(data: bytes) -> Any:
    """What the pickle describes, with inert descriptions in place of tensors.

    Raises:
        LoraFileError: it asks for anything else, or is broken.
    """
    check_opcodes(data)
    try:
        return Inert(io.BytesIO(data)).load()
    except LoraFileError:
        raise
    except Exception as error:  # a broken pickle raises whatever it likes
        raise LoraFileError(f"its pickle is broken: {type(error).__name__}") from error


def check_opcodes(data: bytes) -> None:
    """Refuse a pickle by its opcodes, before any of it runs.

    Raises:
        LoraFileError: an opcode or a name that torch.save doesn't write.
    """
    try:
        for place, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if opcode.name == "GLOBAL" and argument not in NAMES:
                raise LoraFileError(refusal(str(argument).replace(" ", ".")))
            if opcode.name not in OPCODES:
                raise LoraFileError(
                    f"its pickle uses {opcode.name}, which no tensor needs: refused"
                )
            if opcode.name == "LONG_BINPUT" and int(argument or 0) > place:
                raise LoraFileError("its pickle counts its memo wrongly: refused")
    except ValueError as error:
        raise LoraFileError(f"its pickle is broken: {error}") from error


def refusal(name: str) -> str:
    """Why a pickle is not read."""
    return f"its pickle would import {name}: refused, only tensors are read; nothing of it was run"


class Inert(pickle.Unpickler):
    """An unpickler that knows tensors, and nothing that does anything."""

    def find_class(self, module: str, name: str) -> Any:
        """The inert stand-in of a name.

        Raises:
            LoraFileError: the name is not one that tensors need.
        """
        stand_ins: dict[str, Callable[..., Any]] = {
            "collections OrderedDict": OrderedDict,
            "torch._utils _rebuild_tensor_v2": view_of,
            "torch._utils _rebuild_parameter": lambda view, *_: view,
        }
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if found := stand_ins.get(f"{module} {name}"):
            return found
        raise LoraFileError(refusal(f"{module}.{name}"))

    def persistent_load(self, pid: Any) -> Storage:
        """The storage that the pickle refers to.

        Raises:
            LoraFileError: it is none.
        """
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            raise LoraFileError("its pickle refers to something that is no storage: refused")
        _, dtype, key, _, elements = pid[:5]
        if dtype not in SIZES or not isinstance(key, str) or type(elements) is not int:
            raise LoraFileError("its pickle refers to a storage of an unknown type: refused")
        return Storage(key, dtype, elements)


def view_of(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> View:
    """A tensor, by torch's own arguments.

    Raises:
        LoraFileError: they describe none.
    """
    numbers = [offset, *shape, *stride]
    if (
        not isinstance(storage, Storage)
        or len(shape) != len(stride)
        or not all(type(one) is int and one >= 0 for one in numbers)
    ):
        raise LoraFileError("its pickle describes a tensor that can't be: refused")
    return View(storage, offset, tuple(shape), tuple(stride))


def views_of(described: Any) -> Iterator[tuple[str, View]]:
    """Names and tensors of a state dict; the layer `state_dict` around it is taken off.

    Raises:
        LoraFileError: it is no dictionary of tensors.
    """
    if isinstance(described, dict) and isinstance(described.get("state_dict"), dict):
        described = described["state_dict"]
    if not isinstance(described, dict):
        raise LoraFileError("holds no dictionary of tensors")
    for name, one in described.items():
        if not isinstance(name, str) or not isinstance(one, View):
            raise LoraFileError(f"{name!r} in it is no tensor")
        yield name, one


def checked(name: str, view: View, member: zipfile.ZipInfo | None, path: Path) -> Tensor:
    """A tensor whose bytes are there.

    Raises:
        LoraFileError: they aren't.
    """
    if member is None:
        raise LoraFileError(f"{name!r}: its storage {view.storage.key!r} is not in the file")
    size = SIZES[view.storage.dtype]
    steps = zip(view.shape, view.stride, strict=True)
    last = view.offset + sum((count - 1) * step for count, step in steps)
    if prod(view.shape) and (last + 1) * size > member.file_size:
        raise LoraFileError(f"{name!r}: reaches beyond its storage of {member.file_size:,} bytes")
    if not contiguous(view) and prod(view.shape) > LARGEST_GATHER:
        raise LoraFileError(f"{name!r}: isn't contiguous and too large to be put in order")
    read = partial(bytes_of, path, member.filename, view)
    return Tensor(name, view.storage.dtype, view.shape, read)


def bytes_of(path: Path, member: str, view: View) -> bytes:
    """The elements of a view, row by row."""
    size = SIZES[view.storage.dtype]
    with zipfile.ZipFile(path) as archive:
        data = archive.read(member)
    if contiguous(view):
        return data[view.offset * size : (view.offset + prod(view.shape)) * size]
    places = (
        view.offset + sum(at * step for at, step in zip(index, view.stride, strict=True))
        for index in product(*map(range, view.shape))
    )
    return b"".join(data[at * size : (at + 1) * size] for at in places)


def contiguous(view: View) -> bool:
    """Whether the elements lie row by row without gaps; dimensions of 1 have any stride."""
    step = 1
    for count, stride in zip(reversed(view.shape), reversed(view.stride), strict=True):
        if count != 1 and stride != step:
            return False
        step *= count
    return True
