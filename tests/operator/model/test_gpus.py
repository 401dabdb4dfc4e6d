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


def test_every_row_names_its_source_what_confirms_it_and_finds_itself() -> None:
    assert all(gpu.source.startswith(gpu.vendor) and gpu.confirmed for gpu in GPUS)
    assert all(gpu_named(gpu.name) is gpu for gpu in GPUS)


@pytest.mark.parametrize(
    ("name", "units", "ghz", "fp32", "half"),
    [
        ("T4", 40, (1.59, 1.59), 128, 1024),
        ("V100", 80, (1.53, 1.53), 128, 1024),
        ("A10", 72, (1.695, 1.695), 256, 1024),
        ("L4", 58, (2.04, 2.04), 256, 1024),
        ("L40S", 142, (2.52, 2.52), 256, 1024),
        ("A100-40", 108, (1.41, 1.41), 128, 2048),
        ("A100", 108, (1.41, 1.41), 128, 2048),
        ("H100", 132, (1.98, 1.83), 256, 4096),
        ("H200", 132, (1.98, 1.83), 256, 4096),
        ("B200", 148, (1.98, 1.855), 256, 8192),
        ("RTX-3090", 82, (1.695, 1.695), 256, 512),
        ("RTX-A5000", 64, (1.695, 1.695), 256, 1024),
        ("RTX-4090", 128, (2.52, 2.52), 256, 512),
        ("RTX-PRO-6000", 188, (2.617, 2.617), 256, 1024),
        ("MI250X", 220, (1.7, 1.7), 128, 1024),
        ("MI300X", 304, (2.1, 2.1), 256, 2048),
        ("MI325X", 304, (2.1, 2.1), 256, 2048),
    ],
)
def test_peaks_are_what_the_units_do_at_the_boost_clock(
    name: str, units: int, ghz: tuple[float, float], fp32: int, half: int
) -> None:
    tflops = gpu_named(name).tflops
    assert tflops["fp32"] == pytest.approx(units * fp32 * ghz[0] / 1000, rel=0.015)
    assert tflops["fp16"] == pytest.approx(units * half * ghz[1] / 1000, rel=0.015)


@pytest.mark.parametrize(
    ("name", "bits", "gbit_s"),
    [
        ("T4", 256, 10),
        ("V100", 4096, 2 * 0.8775),
        ("A10", 384, 12.5),
        ("L4", 192, 12.5),
        ("L40S", 384, 18),
        ("A100-40", 5120, 2 * 1.215),
        ("B200", 7680, 2 * 3.996),
        ("RTX-3090", 384, 19.5),
        ("RTX-A5000", 384, 16),
        ("RTX-4090", 384, 21),
        ("RTX-PRO-6000", 512, 28),
        ("MI250X", 8192, 3.2),
    ],
)
def test_bandwidth_is_what_the_memory_bus_carries(name: str, bits: int, gbit_s: float) -> None:
    assert gpu_named(name).bandwidth_gb_s == pytest.approx(bits * gbit_s / 8, rel=0.005)


@pytest.mark.parametrize(
    ("name", "memory_gib", "bandwidth_gb_s", "link_gb_s"),
    [
        ("A100", 80, 2039, 600),
        ("H100", 80, 3350, 900),
        ("H200", 141, 4800, 900),
        ("H20", 96, 4000, 900),
        ("B200", 180, 7700, 1800),
        ("V100", 32, 900, 300),
        ("L40S", 48, 864, 64),
        ("RTX-PRO-6000", 96, 1792, 128),
        ("MI300X", 192, 5300, 896),
        ("MI325X", 256, 6000, 896),
    ],
)
def test_memory_and_links_are_the_datasheets(
    name: str, memory_gib: float, bandwidth_gb_s: float, link_gb_s: float
) -> None:
    gpu = gpu_named(name)
    assert (gpu.memory_gib, gpu.bandwidth_gb_s, gpu.link_gb_s) == (
        memory_gib, bandwidth_gb_s, link_gb_s
    )  # fmt: skip


def test_int8_runs_at_twice_fp16_but_for_geforce_cards_and_cdna2() -> None:
    """GeForce halves FP16 with FP32 accumulation, not INT8; CDNA 2 has one rate for both."""
    ratios = {
        gpu.name: round(gpu.tflops["int8"] / gpu.tflops["fp16"])
        for gpu in GPUS
        if "int8" in gpu.tflops
    }
    assert {name: ratio for name, ratio in ratios.items() if ratio != 2} == {
        "RTX-3090": 4, "RTX-4090": 4, "MI250X": 1
    }  # fmt: skip
    assert {gpu.name for gpu in GPUS} - set(ratios) == {"V100"}


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
