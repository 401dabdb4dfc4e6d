"""Adapter files that torch and safetensors wrote, read without them."""

import os
import subprocess
import sys

import pytest

from cacheaware.model.lora.safetensors_file import read_safetensors, write_safetensors
from cacheaware.model.lora.tensors import LoraFileError
from cacheaware.model.lora.torch_file import read_torch

pytestmark = pytest.mark.probe


@pytest.fixture(scope="module")
def tensors(torch):
    torch.manual_seed(0)
    wide = torch.randn(6, 8)
    return {
        "a": wide,
        "half": wide.half(),
        "brain": wide.bfloat16(),
        "turned": wide.t(),
        "part": wide[2:4, 1:5],
        "count": torch.tensor(7),
        "whole": torch.arange(5),
        "parameter": torch.nn.Parameter(wide[:2]),
    }


def same(torch, one, wanted):
    held = torch.frombuffer(bytearray(one.read()), dtype=wanted.dtype).reshape(one.shape)
    return torch.equal(held, wanted.detach().contiguous())


def test_what_torch_saved_is_read_to_the_bit(torch, tensors, tmp_path):
    torch.save(tensors, tmp_path / "a.bin")
    told = {one.name: one for one in read_torch(tmp_path / "a.bin")}
    assert set(told) == set(tensors)
    assert all(same(torch, told[name], wanted) for name, wanted in tensors.items())


def test_what_safetensors_saved_is_read_and_the_other_way_round(torch, tensors, tmp_path):
    safe = pytest.importorskip("safetensors.torch")
    flat = {name: one.detach().contiguous().clone() for name, one in tensors.items()}
    safe.save_file(flat, tmp_path / "a")
    told = read_safetensors(tmp_path / "a")
    assert all(same(torch, one, flat[one.name]) for one in told)
    write_safetensors(tmp_path / "b", told, {"format": "pt"})
    again = safe.load_file(tmp_path / "b")
    assert all(torch.equal(again[name], one) for name, one in flat.items())


class Plant:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_plant_among_tensors_is_refused_and_not_run(torch, tensors, tmp_path):
    planted = tmp_path / "planted"
    torch.save({**tensors, "x": Plant(planted)}, tmp_path / "a.bin")
    with pytest.raises(LoraFileError, match=r"would import posix\.system: refused"):
        read_torch(tmp_path / "a.bin")
    assert not planted.exists()


def test_torchs_old_format_is_refused(torch, tensors, tmp_path):
    torch.save(tensors, tmp_path / "a.bin", _use_new_zipfile_serialization=False)
    with pytest.raises(LoraFileError, match=r"before 1\.6"):
        read_torch(tmp_path / "a.bin")


def test_a_whole_module_is_refused(torch, tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "a.bin")
    with pytest.raises(LoraFileError, match="would import"):
        read_torch(tmp_path / "a.bin")


def test_reading_an_adapter_loads_no_torch(tmp_path):
    code = "import sys, cacheaware.model.lora.fix; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
