"""The lines that a person checks with a calculator."""

import re

import pytest
from tests.sidecar.kv.configs import (
    DEEPSEEK_V4,
    DEEPSEEK_V32,
    GEMMA_3_27B,
    GEMMA_4_31B,
    GRANITE_4,
    JAMBA,
    KIMI_K2,
    KIMI_LINEAR,
    LLAMA_4,
    LLAMA_31_8B,
    MINIMAX_01,
    MINIMAX_M3,
    MLLAMA,
    NEMOTRON_NANO,
    QWEN35_27B,
    WHISPER,
    plain,
)

from cacheaware_sidecar.kv import Parallel, geometry
from cacheaware_sidecar.kv.arithmetic import arithmetic


def test_a_plain_model_is_one_product():
    assert arithmetic(geometry(LLAMA_31_8B)) == (
        "full: 32 layers x 8 KV heads x (128 + 128) x 2 B = 131,072 B/token",
        "page: 16 tokens x 4,096 B = 65,536 B",
        "block: 2,097,152 B behind one block id (one group of layers)",
    )


def test_each_kind_of_layer_has_a_line():
    sliding = "sliding: 52 layers x 16 KV heads x (128 + 128) x 2 B = 425,984 B/token"
    assert arithmetic(geometry(GEMMA_3_27B))[:3] == (
        f"{sliding}, x 1,024 tokens at most = 436,207,616 B/request",
        "full: 10 layers x 16 KV heads x (128 + 128) x 2 B = 81,920 B/token",
        "sum: 507,904 B/token in all layers, 81,920 B/token growing",
    )


LINES = {
    "layers without KV": (NEMOTRON_NANO, {}, "none: 23 layers keep no KV"),
    "a page for the state": (QWEN35_27B, {}, "page: 784 tokens x 4,096 B = 3,211,264 B"),
    "groups": (QWEN35_27B, {}, "one block id (4 groups of layers in turn)"),
    "a latent vector": (KIMI_K2, {}, "mla: 61 layers x (512 + 64) x 2 B = 70,272 B/token"),
    "an indexer": (
        DEEPSEEK_V32,
        {},
        "mla: 61 layers x ((512 + 64) x 2 B + 132 B indexer) = 78,324 B/token",
    ),
    "an index beside heads": (
        MINIMAX_M3,
        {},
        "full: 57 layers x (4 KV heads x (128 + 128) x 2 B + 256 B indexer) = 131,328 B/token",
    ),
    "a packed vector": (
        KIMI_K2,
        {"kv_dtype": "fp8_ds_mla"},
        "mla: 61 layers x 656 B (fp8_ds_mla, 512 + 64 values) = 40,016 B/token",
    ),
    "a half byte": (
        LLAMA_31_8B,
        {"kv_dtype": "int4"},
        "x (128 + 128) x 0.5 B = 32,768 B/token",
    ),
    "scales per head": (
        LLAMA_31_8B,
        {"kv_dtype": "fp8_per_token_head"},
        "x ((128 + 128) x 1 B + 2 x 4 B scale) = 67,584 B/token",
    ),
    "scales per block": (
        LLAMA_31_8B,
        {"kv_dtype": "nvfp4"},
        "x ((128 + 128) / 2 + (128 + 128) / 16) B = 36,864 B/token",
    ),
    "pages that differ": (GEMMA_4_31B, {}, "page: 16 tokens, 131,072 to 262,144 B by layer"),
    "a window beyond the model": (
        plain(2, 4, 4, 64, "phi3", sliding_window=9000, max_position_embeddings=8192),
        {},
        "= 2,048 B/token (window 9,000 is never reached)",
    ),
    "audio": (
        WHISPER,
        {},
        "cross: 4 layers x 20 KV heads x (64 + 64) x 2 B x 1,500 source tokens = 30,720,000 B/",
    ),
    "an image": (MLLAMA, {}, "x 2 B x unknown source tokens"),
    "a state of unknown size": (
        plain(4, 4, 1, 64, "qwen3_next"),
        {},
        "state: 3 layers x (a constant state of unknown size)",
    ),
    "a model of states alone": (
        {
            "model_type": "mamba",
            "num_hidden_layers": 2,
            "hidden_size": 64,
            "state_size": 16,
            "conv_kernel": 4,
        },
        {},
        "page: one state = 4,864 B",
    ),
    "a pod": (
        KIMI_K2,
        {"parallel": Parallel(8, 2)},
        "pod (TP 8, PP 2, DCP 1): 562,176 B/token growing, 8,994,816 B behind one block id",
    ),
    "a pod without known blocks": (
        plain(4, 4, 1, 64, "qwen3_next"),
        {"parallel": Parallel(2)},
        "pod (TP 2, PP 1, DCP 1): 512 B/token growing",
    ),
}


@pytest.mark.parametrize(("config", "options", "text"), LINES.values(), ids=LINES)
def test_a_line_shows_its_factors(config, options, text):
    assert any(text in line for line in arithmetic(geometry(config, **options)))


def test_an_encoder_has_no_page():
    assert arithmetic(geometry(plain(2, 4, 4, 64, "bert"))) == (
        "encoder-only: 2 layers keep no KV",
    )


def test_an_unknown_layout_has_no_arithmetic():
    assert arithmetic(geometry(DEEPSEEK_V4)) == ()


PRODUCT = re.compile(r"^\w+: (\d+ layers x .*?) = ([\d,]+) B/(?:token|request)")
PER_HEAD = re.compile(r" (layers|KV heads|B indexer|B scale|B)")


@pytest.mark.parametrize(
    "config",
    [
        LLAMA_31_8B,
        KIMI_K2,
        DEEPSEEK_V32,
        GEMMA_4_31B,
        QWEN35_27B,
        NEMOTRON_NANO,
        JAMBA,
        GRANITE_4,
        KIMI_LINEAR,
        MINIMAX_01,
        MINIMAX_M3,
        LLAMA_4,
    ],
)
@pytest.mark.parametrize("dtype", ["bf16", "fp8", "int4"])
def test_every_product_comes_out_when_it_is_calculated(config, dtype):
    """The text is the proof: its factors, multiplied, give its own result."""
    products = [PRODUCT.match(line) for line in arithmetic(geometry(config, kv_dtype=dtype))]
    found = [match.groups() for match in products if match]
    assert found
    for factors, result in found:
        expression = PER_HEAD.sub("", factors).replace(" x ", " * ")
        assert set(expression) <= set("0123456789.+*() ")
        assert eval(expression) == int(result.replace(",", ""))
