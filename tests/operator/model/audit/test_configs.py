"""The audit on the 129 real configurations: what it says, and why each alarm is right."""

import json
from collections import Counter

import pytest
from tests.operator.model.audit.plants import on, tp

from cacheaware.doctor.findings import Severity
from cacheaware.model.audit.examine import audit
from cacheaware.model.audit.view import Serving

BY_ID = {
    "rope-type": (Severity.ERROR, 1),
    "dtype-float32": (Severity.WARNING, 4),
    "architectures-missing": (Severity.INFO, 1),
    "dtype-missing": (Severity.INFO, 8),
    "head-dim-wide": (Severity.INFO, 4),
    "layout-unsized": (Severity.INFO, 4),
    "length-missing": (Severity.INFO, 2),
    "rope-theta-missing": (Severity.INFO, 10),
    "tie-missing": (Severity.INFO, 17),
    "vocabulary-padding": (Severity.INFO, 7),
    "window-long": (Severity.INFO, 3),
    "window-off": (Severity.INFO, 11),
}
"""Findings over all files, nothing asked of GPUs or ranks."""

REASONS = {
    ("rope-type", "EleutherAI__gpt-j-6b"):
        "a preset: the type gptj marks that repository's own code, no engine and no release has it",
    ("dtype-float32", "Alibaba-NLP__gte-Qwen2-7B-instruct"):
        "released in FP32: twice the download, vLLM casts it",
    ("dtype-float32", "LGAI-EXAONE__EXAONE-3.0-7.8B-Instruct"): "released with float32 left in",
    ("dtype-float32", "allenai__OLMo-2-1124-7B"): "released in FP32",
    ("dtype-float32", "google__gemma-2-9b"): "the base model was released in FP32",
}  # fmt: skip
"""Why each error and warning is no false alarm."""

ELSEWHERE = "its quantisation lies in hf_quant_config.json, which the collection lacks"
H100_TP8 = {
    ("weights-gpu", "Qwen__Qwen3.5-397B-A17B"): "397 billion x 2 B / 8 = 92 GiB",
    ("weights-gpu", "deepseek-ai__DeepSeek-R1"): "671 GB / 8 = 78 GiB: it is served on 8 H200",
    ("weights-gpu", "meta-llama__Llama-4-Maverick-17B-128E-Instruct"): "401 billion x 2 B",
    ("weights-gpu", "moonshotai__Kimi-K2-Instruct"): "1 TB in FP8: 16 H100 at least",
    ("weights-gpu", "nvidia__DeepSeek-V3.1-NVFP4"): ELSEWHERE,
    ("weights-gpu", "nvidia__DeepSeek-V3.2-NVFP4"): ELSEWHERE,
    ("weights-gpu", "nvidia__GLM-5-NVFP4"): ELSEWHERE,
    ("weights-gpu", "nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"): "550 billion x 2 B",
    ("weights-gpu", "nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4"): ELSEWHERE,
    ("weights-gpu", "zai-org__GLM-5-FP8"): "744 GB / 8 = 87 GiB",
    ("weights-gpu", "zai-org__GLM-5.1-FP8"): "744 GB / 8 = 87 GiB",
    ("weights-gpu", "zai-org__GLM-5.1"): "744 billion x 2 B",
    ("weights-gpu", "zai-org__GLM-5.2-FP8"): "744 GB / 8 = 87 GiB",
    ("length-kv", "RedHatAI__Llama-4-Scout-17B-16E-Instruct-FP8-dynamic"):
        "10 million positions: nobody serves it without --max-model-len",
    ("length-kv", "nvidia__GLM-5.2-NVFP4"): "1 million positions, the latent vector on each rank",
    ("tp-heads", "Alibaba-NLP__gte-Qwen2-7B-instruct"): "28 heads",
    ("tp-heads", "OpenGVLab__InternVL3-8B"): "28 heads",
    ("tp-heads", "Qwen__Qwen2-7B"): "28 heads",
    ("tp-heads", "Qwen__Qwen2-VL-7B-Instruct"): "28 heads",
    ("tp-heads", "Qwen__Qwen2.5-0.5B"): "14 heads",
    ("tp-heads", "Qwen__Qwen2.5-1.5B"): "12 heads",
    ("tp-heads", "Qwen__Qwen2.5-VL-7B-Instruct"): "28 heads",
    ("tp-heads", "bigcode__starcoder2-7b"): "36 heads",
    ("tp-heads", "deepseek-ai__deepseek-vl2-tiny"): "10 heads",
    ("tp-kv-heads", "deepseek-ai__deepseek-vl2-tiny"): "10 KV heads",
    ("tp-heads", "google__gemma-3-1b-it"): "4 heads",
    ("tp-kv-heads", "microsoft__phi-4"): "10 KV heads",
    ("tp-heads", "openbmb__MiniCPM-2B-sft"): "36 heads",
    ("tp-kv-heads", "openbmb__MiniCPM-2B-sft"): "36 KV heads",
    ("tp-heads", "tiiuae__falcon-7b"): "71 heads",
}  # fmt: skip
"""Errors of all files on eight H100 with tensor parallelism of 8."""


@pytest.fixture(scope="module")
def configs(shared):
    files = sorted((shared / "data/model-configs").glob("*.json"))
    assert len(files) == 129
    return {file.stem: json.loads(file.read_text()) for file in files}


def findings(configs, serving=Serving()):  # noqa: B008 - frozen
    return [(name, one) for name, config in configs.items() for one in audit(name, config, serving)]


def test_findings_by_id_over_all_files(configs):
    found = findings(configs)
    counts = Counter((one.id, one.severity) for _, one in found)
    for (rule, severity), count in sorted(counts.items(), key=lambda item: (item[0][1], item[0])):
        print(f"{rule:<24} {severity:<8} {count:>4}")
    assert counts == {(rule, severity): count for rule, (severity, count) in BY_ID.items()}


def test_each_error_and_warning_has_its_reason(configs):
    alarms = {(one.id, name) for name, one in findings(configs) if one.severity != Severity.INFO}
    assert alarms == set(REASONS)


def test_no_verbatim_copy_of_a_release_has_an_error(configs, shared):
    table = (shared / "data/model-configs/expected.tsv").read_text().splitlines()
    rows = (line.split("\t")[:2] for line in table)
    copies = {file.removesuffix(".json") for file, kind in rows if kind == "verbatim-copy"}
    assert len(copies) == 90
    errors = {name for name, one in findings(configs) if one.severity == Severity.ERROR}
    assert not errors & copies


def test_each_error_on_eight_cards_has_its_reason(configs):
    found = findings(configs, on("h100", tensor=8))
    errors = {(one.id, name) for name, one in found if one.severity == Severity.ERROR}
    assert errors - {("rope-type", "EleutherAI__gpt-j-6b")} == set(H100_TP8)


def test_fp8_experts_in_blocks_of_128_are_told_where_eight_ranks_cut_them(configs):
    """MiniMax-M2 asks for expert parallelism on eight GPUs for this reason."""
    found = {name for name, one in findings(configs, tp(8)) if one.id == "tp-quantization-block"}
    assert found == {
        "MiniMaxAI__MiniMax-M2.5", "MiniMaxAI__MiniMax-M2.7", "Qwen__Qwen3-30B-A3B-FP8",
        "stepfun-ai__Step-3.7-Flash-FP8",
    }  # fmt: skip
    apart = findings(configs, tp(8, experts=8))
    assert "tp-quantization-block" not in {one.id for _, one in apart}
