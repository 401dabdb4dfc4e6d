"""GPUs: what the vendors' datasheets say of memory, bandwidth and arithmetic."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


class UnknownGpuError(ValueError):
    """One clear line: the field, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        name: The name that commands take.
        vendor: `NVIDIA` or `AMD`.
        memory_gib: Installed memory, as sold. What the driver leaves is less: by 1 % with HBM,
            by up to 8 % where GDDR6 carries its own error correction (T4, A10, L4, L40S).
        bandwidth_gb_s: Memory bandwidth at its peak, 10^9 bytes a second.
        tflops: Dense peak by dtype, 10^12 operations a second; matrix units for all but fp32.
            A dtype that is absent is not one the hardware multiplies matrices in, or the
            datasheet doesn't tell.
        link_gb_s: To other GPUs, both directions together, as datasheets count: NVLink or
            Infinity Fabric, else PCIe. NVLink bridges that join two cards are not counted.
        capability: CUDA's compute capability (`8.0`) or AMD's target (`gfx942`).
        source: The datasheet.
        confirmed: Where the same figures were read elsewhere, and what was found nowhere else.
            Datasheets move and change; where one says `as quoted`, others' copies were read.
    """

    name: str
    vendor: str
    memory_gib: float
    bandwidth_gb_s: float
    tflops: Mapping[str, float]
    link_gb_s: float
    capability: str
    source: str
    confirmed: str

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """CUDA's compute capability as numbers that compare; None for other vendors."""
        if self.vendor != "NVIDIA":
            return None
        major, minor = self.capability.split(".")
        return int(major), int(minor)

    def ridge(self, dtype: str) -> float | None:
        """FLOPs per byte from which on arithmetic is the limit, not memory; None if no `dtype`."""
        peak = self.tflops.get(dtype)
        return None if peak is None else peak * 1000 / self.bandwidth_gb_s


def _rates(**tflops: float) -> Mapping[str, float]:
    """Rates by dtype; `half` stands for bf16 and fp16, which run alike from Ampere on."""
    half = tflops.pop("half", None)
    both = {} if half is None else {"bf16": half, "fp16": half}
    return MappingProxyType({**both, **tflops})


_HOPPER: Final = _rates(half=989.5, fp8=1979, int8=1979, fp32=67)
_CDNA3: Final = _rates(half=1307.4, fp8=2614.9, int8=2614.9, fp32=163.4)
_AMPERE: Final = _rates(half=312, int8=624, fp32=19.5)

_CUDA: Final = "capability: NVIDIA's CUDA GPUs page"
_ROCM: Final = "memory, target: AMD's ROCm GPU specifications"
_ML: Final = "github.com/stas00/ml-engineering"
_SPECS: Final = "github.com/winston-zhang-orz/gpu-specs"
_TORCH: Final = "PyTorch's torch/_inductor/analysis/device_info.py"

GPUS: Final[tuple[Gpu, ...]] = (
    Gpu("T4", "NVIDIA", 16, 320, _rates(fp16=65, int8=130, fp32=8.1), 32, "7.5",
        "NVIDIA T4 datasheet; link: PCIe 3.0 x16",
        f"memory, rates: {_SPECS}; bandwidth: 256 bits of 10 Gbit/s, while some versions of the "
        f"datasheet round down to 300; capability: {_SPECS}"),
    Gpu("V100", "NVIDIA", 32, 900, _rates(fp16=125, fp32=15.7), 300, "7.0",
        "NVIDIA V100 datasheet, SXM2 32 GB",
        "memory, bandwidth, rates: V100's column in NVIDIA's A100 whitepaper, as quoted; "
        f"link: {_ML}; capability: NVIDIA's page of legacy CUDA GPUs"),
    Gpu("A10", "NVIDIA", 24, 600, _rates(half=125, int8=250, fp32=31.2), 64, "8.6",
        "NVIDIA A10 datasheet; link: PCIe 4.0 x16",
        f"all: {_SPECS}, github.com/astroC86/gpu-datasheet; {_CUDA}"),
    Gpu("L4", "NVIDIA", 24, 300, _rates(half=121, fp8=242.5, int8=242.5, fp32=30.3), 64, "8.9",
        "NVIDIA L4 datasheet, sparse figures halved; link: PCIe 4.0 x16",
        f"all: {_SPECS}; rates: {_TORCH}, which gives the sparse ones; {_CUDA}"),
    Gpu("L40S", "NVIDIA", 48, 864, _rates(half=362.05, fp8=733, int8=733, fp32=91.6), 64, "8.9",
        "NVIDIA L40S datasheet; link: PCIe 4.0 x16",
        f"all but fp32: NVIDIA's github.com/ai-dynamo/aiconfigurator; fp32: {_ML}; {_CUDA}"),
    Gpu("A100-40", "NVIDIA", 40, 1555, _AMPERE, 600, "8.0",
        "NVIDIA A100 datasheet, 40 GB SXM",
        f"memory, rates: NVIDIA's A100 whitepaper, as quoted; link: {_ML}; "
        f"bandwidth, capability: {_SPECS}"),
    Gpu("A100", "NVIDIA", 80, 2039, _AMPERE, 600, "8.0",
        "NVIDIA A100 datasheet, 80 GB SXM",
        f"memory, bandwidth, rates: {_TORCH}; link: {_ML}; capability: {_SPECS}"),
    Gpu("H100", "NVIDIA", 80, 3350, _HOPPER, 900, "9.0",
        "NVIDIA H100 datasheet, SXM, sparse figures halved",
        f"memory, bandwidth, sparse rates: {_TORCH}; dense rates, link: {_ML}; {_CUDA}"),
    Gpu("H200", "NVIDIA", 141, 4800, _HOPPER, 900, "9.0",
        "NVIDIA H200 datasheet, SXM, sparse figures halved",
        "memory, link: NVIDIA's system descriptions in MLPerf Inference 4.1; "
        f"bandwidth, rates: {_ML}; {_CUDA}"),
    Gpu("H20", "NVIDIA", 96, 4000, _rates(half=148, fp8=296, int8=296, fp32=44), 900, "9.0",
        "NVIDIA HGX H20 product brief",
        "bandwidth, half, link, capability: NVIDIA's github.com/ai-dynamo/aiconfigurator, which "
        "has 294 for fp8 and int8; memory, int8: github.com/citsjtu2020/LLM-Prof; fp32: the press; "
        "a variant of 141 GB exists, which this is not"),
    Gpu("B200", "NVIDIA", 180, 7700,
        _rates(half=2250, fp8=4500, fp4=9000, int8=4500, fp32=75), 1800, "10.0",
        "NVIDIA Blackwell datasheet, HGX B200, sparse figures halved",
        "memory, bandwidth, fp4: pull request 193471 of PyTorch, which cites that datasheet; half, "
        "fp8: pytorch/ao; int8, fp32: that datasheet, as quoted; bandwidth: pull request 4002 of "
        "pytorch/ao, 7,680 bits at 3,996 MHz by the driver (8 TB/s was announced, and is the DGX "
        f"B200 datasheet's eighth); link: {_ML}; {_CUDA}"),
    Gpu("RTX-3090", "NVIDIA", 24, 936, _rates(half=71, int8=284, fp32=35.6), 64, "8.6",
        "NVIDIA Ampere GA102 whitepaper, FP32 accumulation; link: PCIe 4.0 x16",
        "bandwidth, half, fp32: that whitepaper, as quoted; memory, int8 (285): "
        f"github.com/astroC86/gpu-datasheet; {_CUDA}"),
    Gpu("RTX-A5000", "NVIDIA", 24, 768, _rates(half=111.1, int8=222.2, fp32=27.8), 64, "8.6",
        "NVIDIA RTX A5000 datasheet, sparse figure halved; link: PCIe 4.0 x16",
        "memory, bandwidth, sparse FP16, fp32, link: that datasheet, as quoted; int8 is not in it: "
        f"twice FP16, as with A10 and A40 of the same chip; {_CUDA}"),
    Gpu("RTX-4090", "NVIDIA", 24, 1008,
        _rates(half=165.2, fp8=330.3, int8=660.6, fp32=82.6), 64, "8.9",
        "NVIDIA Ada whitepaper, FP32 accumulation; link: PCIe 4.0 x16",
        "half, fp8: NVIDIA's RTX Blackwell whitepaper, as quoted; memory, bandwidth, int8, fp32: "
        f"github.com/VladislavDuma/gpu_specs; {_CUDA}"),
    Gpu("RTX-PRO-6000", "NVIDIA", 96, 1792,
        _rates(half=500, fp8=1000, fp4=2000, int8=1000, fp32=125), 128, "12.0",
        "NVIDIA RTX PRO 6000 Blackwell Workstation datasheet: a half (dense), a quarter and an "
        "eighth of its 4,000 AI TOPS (sparse FP4); link: PCIe 5.0 x16",
        "memory, bandwidth, AI TOPS, fp32, link: that datasheet, as quoted; the ratios of the "
        "dtypes, int8 as fp8: NVIDIA's github.com/ai-dynamo/aiconfigurator, which has 467.8 for "
        f"half at the 2,430 MHz of a Server Edition; {_CUDA}"),
    Gpu("MI250X", "AMD", 128, 3277, _rates(half=383, int8=383, fp32=47.9), 800, "gfx90a",
        "AMD Instinct MI250X datasheet, both dies (an engine sees two GPUs of half the size)",
        f"{_ROCM}; rates: {_ML}, and 220 units by the table for MI250 in AMD's ROCm documentation, "
        "which also has 100 GB/s a link; bandwidth: the same, 1.6 TB/s a die; not confirmed: eight "
        f"links to other GPUs, {_ML} counts seven"),
    Gpu("MI300X", "AMD", 192, 5300, _CDNA3, 896, "gfx942",
        "AMD Instinct MI300X datasheet",
        f"{_ROCM}; bandwidth, rates: {_TORCH}; link: {_ML}"),
    Gpu("MI325X", "AMD", 256, 6000, _CDNA3, 896, "gfx942",
        "AMD Instinct MI325X datasheet",
        f"{_ROCM}; bandwidth, half: Vultr's hardware pages; fp8, fp32: awesomeagents.ai; "
        f"int8 (2,600), link: {_ML}"),
)  # fmt: skip
"""From the datasheets; figures that they give `with sparsity` are halved."""

_OTHER_NAMES: Final = {
    "A10080": "A100",
    "A10080GB": "A100",
    "A10040GB": "A100-40",
    "H100SXM": "H100",
    "H10080": "H100",
    "H10080GB": "H100",
    "H200141GB": "H200",
    "3090": "RTX-3090",
    "4090": "RTX-4090",
    "A5000": "RTX-A5000",
    "PRO6000": "RTX-PRO-6000",
}


def gpu_named(text: str) -> Gpu:
    """The GPU of that name; case, spaces, dashes and the vendor's name don't matter.

    >>> gpu_named("rtx 4090").bandwidth_gb_s
    1008

    Raises:
        UnknownGpuError: No such row.
    """
    wanted = _plain(_OTHER_NAMES.get(_plain(text), text))
    for gpu in GPUS:
        if _plain(gpu.name) == wanted:
            return gpu
    allowed = ", ".join(gpu.name for gpu in GPUS)
    raise UnknownGpuError(f"gpu is {text[:40]!a}: allowed are {allowed}")


def _plain(name: str) -> str:
    return re.sub(r"[^A-Z0-9]|NVIDIA|AMD|GEFORCE|TESLA", "", name.upper())
