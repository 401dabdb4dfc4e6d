"""Files of tensors: what is read, and what is refused."""

import json
import os
import pickle
import struct
import zipfile

import pytest
from tests.operator.model.adapters import (
    dictionary,
    imported,
    number,
    ramp,
    read_back,
    rebuilt,
    safetensors,
    storage,
    tensor,
    text,
    torch_file,
)

from cacheaware.model.lora.safetensors_file import read_safetensors, write_safetensors
from cacheaware.model.lora.tensors import LoraFileError, Tensor, rows_of, transposed, values_of
from cacheaware.model.lora.torch_file import read_torch


def floats(one):
    return list(struct.unpack(f"<{one.size // 4}f", one.read()))


def raw_file(path, header, data=b"", length=None):
    body = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(body) if length is None else length
    path.write_bytes(struct.pack("<Q", size) + body + data)
    return path


def entry(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_tensors_come_with_names_shapes_and_bytes(tmp_path):
    path = safetensors(tmp_path / "a", {"x": tensor([2, 3]), "y": tensor([1], 9)})
    x, y = read_safetensors(path)
    assert (x.name, x.dtype, x.shape, floats(x)) == ("x", "F32", (2, 3), ramp(6))
    assert (y.name, y.shape, floats(y)) == ("y", (1,), [9.0])


def test_what_is_written_is_read_back(tmp_path):
    given = read_safetensors(safetensors(tmp_path / "a", {"x": tensor([2, 3]), "y": tensor([4])}))
    write_safetensors(tmp_path / "b", given, {"format": "pt"})
    again = read_safetensors(tmp_path / "b")
    assert {one.name: (one.shape, one.read()) for one in again} == {
        one.name: (one.shape, one.read()) for one in given
    }
    assert (int.from_bytes((tmp_path / "b").read_bytes()[:8], "little")) % 8 == 0
    assert read_back(tmp_path / "b")["x"] == ([2, 3], ramp(6))


@pytest.mark.parametrize(
    ("header", "data", "says"),
    [
        pytest.param({"x": entry([2], 0, 8), "y": entry([2], 4, 12)}, 12, "overlap", id="overlap"),
        pytest.param({"x": entry([2], 0, 8), "y": entry([1], 12, 16)}, 16, "before it", id="hole"),
        pytest.param({"x": entry([2], 0, 8)}, 4, "end at byte 8", id="out of range"),
        pytest.param({"x": entry([2], 0, 8)}, 12, "end at byte 8", id="bytes left over"),
        pytest.param({"x": entry([3], 0, 8)}, 8, "takes 12", id="shape and offsets"),
        pytest.param({"x": entry([2], 8, 0)}, 8, "allowed is [begin, end]", id="reversed"),
        pytest.param({"x": entry([-2], 0, 8)}, 8, "whole numbers", id="negative"),
        pytest.param({"x": entry([True], 0, 4)}, 4, "whole numbers", id="boolean"),
        pytest.param({"x": entry([2], 0, 8, "F7")}, 8, "allowed are BOOL", id="type"),
        pytest.param({"x": entry([2], 0, 8, ["F32"])}, 8, "allowed are BOOL", id="type's type"),
        pytest.param({"x": [1]}, 0, "dtype is None", id="entry"),
        pytest.param([1], 0, "no JSON object", id="list"),
        pytest.param({"__metadata__": []}, 0, "__metadata__ is []", id="metadata's list"),
        pytest.param({"__metadata__": "x"}, 0, "__metadata__ is 'x'", id="metadata's text"),
        pytest.param({"__metadata__": {"a": 5}}, 0, "'a' is 5: allowed is a string", id="metadata"),
        pytest.param({"__metadata__": {"a": None}}, 0, "'a' is None", id="metadata's null"),
        pytest.param(b"{ ", 0, "no JSON", id="broken"),
        pytest.param(b"[" * 100_000, 0, "nested too deeply", id="deep"),
        pytest.param(b'{"x": 1, "x": 2}', 0, "'x' twice", id="twice"),
    ],
)
def test_a_header_that_cannot_be_is_refused(tmp_path, header, data, says):
    with pytest.raises(LoraFileError, match=says.replace("[", r"\[")):
        read_safetensors(raw_file(tmp_path / "a", header, b"\0" * data))


@pytest.mark.parametrize("length", [10**9, 2**63, 3], ids=["oversized", "absurd", "cut off"])
def test_a_header_longer_than_the_file_or_cut_off_is_refused(tmp_path, length):
    with pytest.raises(LoraFileError, match="header"):
        read_safetensors(raw_file(tmp_path / "a", {"x": entry([0], 0, 0)}, length=length))


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(LoraFileError, match="file of 0"):
        read_safetensors(tmp_path / "a")


@pytest.mark.parametrize(
    ("dtype", "form", "numbers", "zero", "finite"),
    [
        ("F32", "<f", [0.0, -0.0], True, True),
        ("F32", "<f", [0.0, 1e-40], False, True),
        ("F32", "<f", [1.0, float("nan")], False, False),
        ("F16", "<e", [0.0, 0.0], True, True),
        ("F16", "<e", [float("inf"), 0.0], False, False),
        ("F64", "<d", [0.0, 5e-324], False, True),
        ("F64", "<d", [0.0, float("-inf")], False, False),
    ],
)
def test_zero_and_not_finite_are_told_from_the_bytes(dtype, form, numbers, zero, finite):
    data = b"".join(struct.pack(form, one) for one in numbers)
    told = values_of(Tensor("x", dtype, (2,), lambda: data))
    assert (told.zero, told.finite) == (zero, finite)


@pytest.mark.parametrize(
    ("word", "zero", "finite"), [(0x8000, True, True), (0x7F80, False, False), (1, False, True)]
)
def test_bfloat16_is_judged_by_its_own_exponent(word, zero, finite):
    told = values_of(Tensor("x", "BF16", (1,), lambda: struct.pack("<H", word)))
    assert (told.zero, told.finite) == (zero, finite)


def test_of_eight_bits_nothing_is_claimed():
    told = values_of(Tensor("x", "F8_E4M3", (1,), lambda: b"\0"))
    assert (told.zero, told.finite) == (None, None)


def test_rows_are_picked_in_the_order_asked_for_and_matrices_transposed():
    data = struct.pack("<6f", *ramp(6))
    one = Tensor("x", "F32", (3, 2), lambda: data)
    assert floats(rows_of(one, "y", ((2, 3), (0, 1)))) == [5, 6, 1, 2]
    assert rows_of(one, "y", ((2, 3), (0, 1))).shape == (2, 2)
    assert floats(transposed(one, "y")) == [1, 3, 5, 2, 4, 6]
    assert transposed(one, "y").shape == (2, 3)


def test_a_torch_file_is_read_without_torch(tmp_path):
    entries = {
        "x": rebuilt("0", [2, 3], [3, 1], 6),
        "part": rebuilt("0", [2], [1], 6, offset=4),
        "turned": rebuilt("0", [3, 2], [1, 3], 6),
    }
    path = torch_file(tmp_path / "a.bin", dictionary(entries), {"0": ramp(6)})
    x, part, turned = read_torch(path)
    assert (x.name, x.dtype, x.shape, floats(x)) == ("x", "F32", (2, 3), ramp(6))
    assert floats(part) == [5.0, 6.0]
    assert (turned.shape, floats(turned)) == ((3, 2), [1, 4, 2, 5, 3, 6])


def test_a_state_dict_inside_a_checkpoint_is_found(tmp_path):
    inner = dictionary({"x": rebuilt("0", [1], [1], 1)}).removeprefix(b"\x80\x02")[:-1]
    path = torch_file(tmp_path / "a", dictionary({"state_dict": inner}), {"0": [7.0]})
    assert [one.name for one in read_torch(path)] == ["x"]


class Planted:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_and_not_executed(tmp_path, protocol):
    planted = tmp_path / "planted"
    pickled = pickle.dumps({"x": Planted(planted)}, protocol=protocol)
    path = torch_file(tmp_path / "a.bin", pickled)
    with pytest.raises(LoraFileError, match="refused"):
        read_torch(path)
    assert not planted.exists()
    pickle.loads(pickled)
    assert planted.exists(), "the plant itself works"


def call(module, name, *arguments):
    return imported(module, name) + b"(" + b"".join(map(text, arguments)) + b"tR"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (call("os", "system", "touch planted"), "would import os.system: refused"),
        (call("builtins", "eval", "1"), "would import builtins.eval: refused"),
        (call("torch", "load", "x"), "would import torch.load: refused"),
        (imported("torch._utils", "_rebuild_tensor"), "would import"),
        (b"(" + text("os") + text("system") + b"\x93", "uses STACK_GLOBAL"),
        (b"P1\n", "uses PERSID"),
        (b"(" + text("other") + b"tQ", "no storage"),
        (b"(" + text("storage") + text("F9") + text("0") + text("cpu") + number(1) + b"tQ", "type"),
        (b"r\xff\xff\xff\xff", "memo"),
        (imported("torch._utils", "_rebuild_tensor_v2") + b")R", "broken"),
        (imported("torch._utils", "_rebuild_tensor_v2") + b"(K\x01K\x01))tR", "can't be"),
        (number(1), "is no tensor"),
    ],
)
def test_a_pickle_that_asks_for_more_than_tensors_is_refused(tmp_path, value, says):
    with pytest.raises(LoraFileError, match=says):
        read_torch(torch_file(tmp_path / "a", dictionary({"x": value})))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (rebuilt("0", [3], [1], 2), "beyond its storage"),
        (rebuilt("0", [2], [2], 2), "beyond its storage"),
        (rebuilt("0", [1], [1], 2, offset=9), "beyond its storage"),
        (rebuilt("1", [1], [1], 2), "not in the file"),
        (rebuilt("0", [1 << 15, 1 << 15], [0, 0], 2), "too large to be put in order"),
        (rebuilt("0", [1], [1, 1], 2), "can't be"),
        (rebuilt("0", [-1], [1], 2), "can't be"),
    ],
)
def test_a_tensor_that_is_not_in_its_storage_is_refused(tmp_path, value, says):
    path = torch_file(tmp_path / "a", dictionary({"x": value}), {"0": [1.0, 2.0]})
    with pytest.raises(LoraFileError, match=says):
        read_torch(path)


def test_other_files_than_torchs_zip_are_refused(tmp_path):
    old = tmp_path / "old.bin"
    old.write_bytes(b"\x80\x02" + storage("0", 1) + b".")
    with pytest.raises(LoraFileError, match=r"before 1\.6"):
        read_torch(old)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(LoraFileError, match=r"0 data\.pkl"):
        read_torch(other)
    packed = torch_file(tmp_path / "c", dictionary({}), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(LoraFileError, match="compressed"):
        read_torch(packed)
    with pytest.raises(LoraFileError, match="no dictionary"):
        read_torch(torch_file(tmp_path / "d", b"\x80\x02]."))
    with pytest.raises(LoraFileError, match="broken"):
        read_torch(torch_file(tmp_path / "e", b"\x80\x02}"))
    with pytest.raises(LoraFileError, match="broken"):
        read_torch(torch_file(tmp_path / "f", b"\x80\x02tR."))


@pytest.mark.parametrize("metadata", [{"format": "pt"}, {}, None])
def test_metadata_of_strings_is_read_over(tmp_path, metadata):
    header = {"__metadata__": metadata, "x": entry([1], 0, 4)}
    path = raw_file(tmp_path / "a", header, b"\0" * 4)
    assert [one.name for one in read_safetensors(path)] == ["x"]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9])
def test_a_file_too_short_for_a_header_is_told_as_such(tmp_path, size):
    (tmp_path / "a").write_bytes(b"\1" * size)
    with pytest.raises(LoraFileError, match=f"a file of {size} bytes: allowed are 10 or more"):
        read_safetensors(tmp_path / "a")
