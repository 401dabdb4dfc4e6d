import pytest

from cacheaware.model.gpus import GPUS, UnknownGpuError, gpu_named


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a100", "A100"),
        ("A100-80GB", "A100"),
        ("a100 40gb", "A100-40"),
        ("NVIDIA H100 SXM", "H100"),
        ("nvidia-l40s", "L40S"),
        ("GeForce RTX 4090", "RTX-4090"),
        ("rtx_pro_6000", "RTX-PRO-6000"),
        ("Tesla T4", "T4"),
        ("AMD MI300X", "MI300X"),
        ("3090", "RTX-3090"),
    ],
)
def test_a_gpu_is_found_however_its_name_is_written(written: str, name: str) -> None:
    assert gpu_named(written).name == name


@pytest.mark.parametrize("written", ["", "H300", "nvidia", "A100x", "10"])
def test_an_unknown_gpu_is_refused_in_one_line_with_what_is_allowed(written: str) -> None:
    with pytest.raises(UnknownGpuError) as refused:
        gpu_named(written)
    line = str(refused.value)
    assert line.startswith(f"gpu is {written!r}: allowed are T4, V100, ")
    assert "\n" not in line
    assert all(gpu.name in line for gpu in GPUS)


def test_every_row_names_its_source_and_finds_itself() -> None:
    assert all(gpu.source for gpu in GPUS)
    assert all(gpu_named(gpu.name) is gpu for gpu in GPUS)


def test_cards_before_ampere_have_no_bf16_and_those_before_ada_no_fp8() -> None:
    without_bf16 = {gpu.name for gpu in GPUS if "bf16" not in gpu.tflops}
    assert without_bf16 == {"T4", "V100"}
    for gpu in GPUS:
        if gpu.compute_capability:
            assert ("bf16" in gpu.tflops) == (gpu.compute_capability >= (8, 0)), gpu.name
            assert ("fp8" in gpu.tflops) == (gpu.compute_capability >= (8, 9)), gpu.name


def test_figures_are_dense_fp8_is_at_most_twice_bf16() -> None:
    for gpu in GPUS:
        if "fp8" in gpu.tflops:
            assert 1.9 < gpu.tflops["fp8"] / gpu.tflops["bf16"] < 2.1, gpu.name


def test_the_ridge_of_an_a100_lies_at_153_flops_a_byte() -> None:
    assert gpu_named("a100").ridge("bf16") == pytest.approx(153.0, abs=0.1)
    assert gpu_named("v100").ridge("bf16") is None
    assert gpu_named("mi300x").compute_capability is None
