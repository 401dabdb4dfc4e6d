"""Plans: what fits, the best tensor-parallel size, replicas."""

from dataclasses import replace
from typing import Any

import pytest
from tests.operator.model.configs import DEEPSEEK_R1, LLAMA_8B, LLAMA_70B

from cacheaware.model.architecture import UnknownArchitectureError
from cacheaware.model.engine_memory import GIB
from cacheaware.model.estimates import exactly
from cacheaware.model.gpus import gpu_named
from cacheaware.model.plan import Plan, Wish, best, least_ranks, plan, pool_of, requests_in
from cacheaware.model.plan_reasons import reasons
from cacheaware.model.serving_load import Limit, Load
from cacheaware_sidecar.kv import ConfigError, Parallel, geometry

HYBRID: dict[str, Any] = {
    "model_type": "qwen3_next",
    "decoder_sparse_step": 1,
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 262144,
    "mlp_only_layers": [],
    "moe_intermediate_size": 512,
    "norm_topk_prob": True,
    "num_attention_heads": 16,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "num_hidden_layers": 48,
    "num_key_value_heads": 2,
    "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
}
LOAD = Load(rate=8, prompt=1500, output=300)


def planned(config: dict[str, Any], gpu: str, load: Load = LOAD, **wish: Any) -> Plan:
    peak = wish.pop("peak", 2 * load.rate)
    return plan(config, Wish(gpu_named(gpu), load, peak, **wish))


def test_a_small_model_takes_one_gpu():
    made = planned(LLAMA_8B, "h100")
    assert made.chosen.tensor == 1
    assert [one.tensor for one in made.candidates] == [1, 2, 4, 8]
    assert made.replicas.now == 1


def test_a_large_model_is_split_as_far_as_it_pays():
    made = planned(LLAMA_70B, "h100", replace(LOAD, rate=1))
    fitting = [one.tensor for one in made.candidates if one.fits]
    assert fitting == [2, 4, 8]
    assert made.chosen.tensor == 4


def test_sizes_beyond_the_gpus_there_are_not_looked_at():
    assert [one.tensor for one in planned(LLAMA_8B, "h100", count=3).candidates] == [1, 2]


def test_sizes_that_the_heads_do_not_allow_are_told_with_the_reason():
    made = planned({**LLAMA_8B, "num_attention_heads": 12, "head_dim": 128,
                    "num_key_value_heads": 4}, "h100")  # fmt: skip
    assert [tensor for tensor, _ in made.refused] == [8]
    assert "num_attention_heads is 12" in made.refused[0][1]
    made = planned({**LLAMA_8B, "num_attention_heads": 24, "head_dim": 128,
                    "num_key_value_heads": 6}, "h100")  # fmt: skip
    assert [tensor for tensor, _ in made.refused] == [4, 8]


def test_nothing_is_chosen_where_nothing_fits():
    made = planned(DEEPSEEK_R1, "h100")
    assert made.chosen is None
    assert made.replicas is None
    assert made.candidates[-1].memory.pool.expected < 0
    assert made.candidates[-1].pool.at_expected.high == 0


def test_the_latent_cache_takes_blocks_of_64():
    chosen = planned(DEEPSEEK_R1, "h200").chosen
    assert (chosen.tensor, chosen.kept.block_size) == (8, 64)


def test_a_hybrid_is_planned_by_its_groups():
    chosen = planned(HYBRID, "h200").chosen
    assert chosen.kept.block_size > 16
    assert chosen.pool.at_expected.expected > 100


def test_an_fp8_cache_holds_twice_as_much():
    half = planned(LLAMA_8B, "l40s").chosen.pool.tokens.expected
    assert planned(LLAMA_8B, "l40s", kv_dtype="fp8").chosen.pool.tokens.expected == pytest.approx(
        2 * half, rel=1e-3
    )


def test_eight_bit_weights_leave_more_to_the_cache():
    whole, small = (
        planned(LLAMA_8B, "l40s", weights=stored).candidates[0] for stored in ("auto", "fp8")
    )
    tables = 2 * 128256 * 4096  # embedding and head stay in 16 bit
    norms = 4096 * 65
    assert small.memory.weights == whole.memory.weights / 2 + tables + norms
    assert small.pool.tokens.expected > whole.pool.tokens.expected


def test_the_longest_request_is_what_the_pool_holds():
    made = planned(LLAMA_70B, "h100", count=2)
    assert made.chosen.longest % 1024 == 0
    assert made.chosen.longest < 131072
    assert 1 <= made.chosen.pool.at_longest.expected < 1.1


def test_the_longest_request_is_as_told():
    assert planned(LLAMA_8B, "h100", max_model_len=4096).chosen.longest == 4096


def test_a_told_length_that_does_not_fit_rules_a_size_out():
    made = planned(LLAMA_70B, "h100", max_model_len=131072)
    assert [one.tensor for one in made.candidates if one.fits] == [4, 8]


def test_a_model_without_positions_is_planned_for_what_is_asked():
    config = {key: value for key, value in LLAMA_8B.items() if key != "max_position_embeddings"}
    made = planned(config, "h100")
    assert made.chosen.longest == 1800
    assert "tells no positions" in why(made)["max-model-len"][1]


def test_a_card_of_two_dies_is_two_gpus():
    made = planned(LLAMA_8B, "mi250x")
    assert made.wish.gpu.memory_gib == 64
    assert made.wish.gpu.tflops["bf16"] == gpu_named("mi250x").tflops["bf16"] / 2
    assert made.candidates[0].memory.visible.high < 64 * GIB


def test_replicas_follow_the_rate():
    few, many = (planned(LLAMA_8B, "l40s", replace(LOAD, rate=rate)).replicas for rate in (5, 50))
    assert few.now < many.now
    least, most = many.now_span
    assert least <= many.now <= most
    assert many.now <= many.peak


def test_a_cautious_end_that_can_not_serve_is_no_number():
    speed = planned(LLAMA_8B, "l40s").chosen.speed
    made = planned(LLAMA_8B, "l40s", replace(LOAD, tpot_s=speed.step(1) * 1.25), count=1)
    assert made.replicas.now_span[1] is None


def test_targets_that_no_size_meets_leave_the_largest():
    made = planned(LLAMA_8B, "l40s", replace(LOAD, tpot_s=0.0001))
    assert made.chosen.tensor == 8
    assert made.chosen.point is None
    assert made.chosen.slow is Limit.TPOT
    assert made.replicas is None


def test_the_fewest_gpus_win():
    made = planned(LLAMA_8B, "l40s", replace(LOAD, rate=30, tpot_s=0.05))
    gpus = {one.tensor: one.gpus_for(60) for one in made.candidates}
    assert gpus[made.chosen.tensor] == min(gpus.values())
    assert best([], 1) is None


def test_the_smallest_size_that_fits_is_found():
    wish = Wish(gpu_named("h100"), LOAD, 16)
    assert least_ranks(LLAMA_70B, wish).tensor == 2
    assert least_ranks(LLAMA_70B, wish, (1,)) is None
    assert least_ranks(LLAMA_70B, wish, (3, 5)) is None


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ({"max_model_len": 1000}, "max-model-len is 1000: prompt and output together are 1,800"),
        ({"max_model_len": 200_000}, "max-model-len is 200000: the model has 131,072 positions"),
        ({"kv_dtype": "fp7"}, "KV dtype is 'fp7'"),
        ({"weights": "fp7"}, "weights is 'fp7'"),
        ({"load": Load(1, 131_000, 100)}, "prompt \\+ output is 131100: the model has"),
    ],
)
def test_what_can_not_be_is_refused(wish, text):
    load = wish.pop("load", LOAD)
    with pytest.raises(ConfigError, match=text):
        planned(LLAMA_8B, "h100", load, **wish)


def test_a_model_that_no_rule_covers_is_not_guessed():
    with pytest.raises(UnknownArchitectureError):
        planned({"model_type": "deepseek_v4", "num_hidden_layers": 43}, "h100")


def test_a_pool_without_known_groups_is_counted_in_bytes():
    kept = replace(geometry(LLAMA_8B, Parallel()), groups=None, stages=())
    assert requests_in(kept, 10**9, 100) == 0
    kept = replace(geometry(LLAMA_8B, Parallel()), groups=None)
    assert requests_in(kept, 131_072 * 1000, 100) == 10
    kept = replace(kept, stages=tuple(replace(one, bytes_per_block=None) for one in kept.stages))
    pool = pool_of(kept, exactly(131_072 * 1000), LOAD, 1000)
    assert pool.blocks is None
    assert pool.tokens == exactly(1000)


def why(made: Plan) -> dict[str, tuple[str, str]]:
    return {choice: (value, text) for choice, value, text in reasons(made, made.chosen)}


def test_each_choice_has_its_reason():
    told = why(planned(LLAMA_70B, "h100", replace(LOAD, rate=1)))
    assert told["tensor parallel"][0] == "4"
    assert "TP 1 does not fit" in told["tensor parallel"][1]
    assert told["block size"][0] == "16 tokens"
    assert told["max-model-len"] == (
        "131,072",
        "all positions of the model; it sets no pages aside, one such request has to fit",
    )
    assert "as asked" in why(planned(LLAMA_8B, "h100", max_model_len=4096))["max-model-len"][1]
    assert (
        "longest request that fits" in why(planned(LLAMA_70B, "h100", count=2))["max-model-len"][1]
    )
    missed = why(planned(LLAMA_8B, "h100", replace(LOAD, tpot_s=0.0001)))
    assert "no size meets" in missed["tensor parallel"][1]


def test_block_sizes_are_explained_by_what_the_model_keeps():
    assert "latent" in why(planned(DEEPSEEK_R1, "h200"))["block size"][1]
    assert "covers the state" in why(planned(HYBRID, "h200"))["block size"][1]


@pytest.mark.parametrize(
    ("config", "gpu", "wish", "text"),
    [
        (LLAMA_8B, "h100", {"kv_dtype": "fp8"}, "as asked"),
        (LLAMA_8B, "a100", {}, "A100 has no FP8"),
        (LLAMA_8B, "h100", {}, "not what limits"),
        (LLAMA_8B, "rtx-4090", {}, "fp8 would hold about"),
        (
            {**LLAMA_8B, "quantization_config": {"quant_method": "fp8", "kv_cache_scheme": "FP8"}},
            "h100", {}, "declared by the checkpoint",
        ),
    ],
)  # fmt: skip
def test_the_kv_dtype_is_explained(config, gpu, wish, text):
    assert text in why(planned(config, gpu, **wish))["KV dtype"][1]


# What engines logged: KV memory -> blocks or tokens. GiB are logged with two decimals (one where
# marked), so that a fact agrees if it lies between the results of both ends.
def gqa(layers: int, heads: int, head_dim: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "num_attention_heads": 64,
        "num_key_value_heads": heads,
        "head_dim": head_dim,
        "hidden_size": 64 * head_dim,
        "torch_dtype": "bfloat16",
        **more,
    }


QWEN_1_5B, QWEN_0_5B = gqa(28, 2, 128), gqa(24, 2, 64)
OPT, PHI_4 = gqa(12, 12, 64, num_attention_heads=12), gqa(40, 10, 128, num_attention_heads=40)
KIMI = {**DEEPSEEK_R1, "num_attention_heads": 64}
QWEN_235B = gqa(94, 4, 128)
FACTS = [
    ("Llama-3.1-8B, RTX 3090", gqa(32, 8, 128), Parallel(), "auto", 3.81, "blocks", 1952),
    ("Llama-3.1-8B, RTX A5000", gqa(32, 8, 128), Parallel(), "auto", 5.29, "tokens", 43296),
    ("8B class, A100-40GB", gqa(32, 8, 128), Parallel(), "auto", 19.92, "tokens", 163168),
    ("Llama-3.3-70B, fp8 cache", gqa(80, 8, 128), Parallel(), "fp8", 5.11, "tokens", 33504),
    ("Qwen2.5-1.5B", QWEN_1_5B, Parallel(), "auto", 2.36, "blocks", 5519),
    ("Llama-3.2-3B", gqa(28, 8, 128), Parallel(), "auto", 2.38, "blocks", 1395),
    ("OPT-125m", OPT, Parallel(), "auto", 20.33, "blocks", 37011),
    ("Qwen2.5-0.5B", QWEN_0_5B, Parallel(), "auto", 2.32, "blocks", 12652),
    ("Phi-4", PHI_4, Parallel(), "auto", 2.18, "blocks", 715),
    ("Llama-3.1-8B, swap", gqa(32, 8, 128), Parallel(), "auto", 4, "swap", 2048),
    ("Qwen2.5-1.5B, CPU", QWEN_1_5B, Parallel(), "auto", 4, "swap", 9362),
    ("OPT-125m, swap", OPT, Parallel(), "auto", 4, "swap", 7281),
    ("Phi-4, swap", PHI_4, Parallel(), "auto", 4, "swap", 1310),
    ("Qwen3-235B, TP 4", QWEN_235B, Parallel(4), "auto", 8.11, "tokens", 178880),
    ("Qwen3-235B, SGLang TP 4", QWEN_235B, Parallel(4), "auto", 2 * 8.23, "page 1", 367404),
    ("Kimi-K2, TP 8", KIMI, Parallel(8), "auto", 46.8, "page 64", 715072),
    ("Kimi-K2, TP 8 DCP 8", KIMI, Parallel(8, 1, 8), "auto", 46.8, "page 64", 5721088),
    ("Qwen3-Coder-30B-A3B, needed", gqa(48, 4, 128), Parallel(), "auto", 24.0, "needed", 262144),
    ("Qwen2.5-3B, needed", gqa(36, 2, 128), Parallel(), "auto", 1.1, "needed", 32000),
    ("R1-Distill-Qwen-14B, TP 2", gqa(48, 8, 128), Parallel(2), "auto", 8.69, "tokens", 81536),
]
DISAGREE = {
    "Qwen3-235B, TP 4": "the pool is the least over ranks, the log shows another rank's memory",
    "R1-Distill-Qwen-14B, TP 2": "the log shows rank 0 alone; the pool follows the smaller rank",
}


def reckoned(fact: tuple[Any, ...], gib: float) -> float:
    """Blocks, tokens or, where the log tells what a length needs, GiB."""
    _, config, parallel, dtype, _, quantity, logged = fact
    block = {"page 1": 1, "page 64": 64}.get(quantity, 16)
    kept = geometry(config, parallel, dtype, block)
    if quantity == "needed":
        return kept.bytes_per_request(logged) / GIB
    blocks = kept.blocks_from_bytes(int(gib * GIB))
    return blocks if quantity in {"blocks", "swap"} else kept.tokens_in_blocks(blocks)


def agreement(fact: tuple[Any, ...]) -> tuple[bool, float]:
    """Whether the log lies within its own rounding, and how far the middle is off in percent."""
    _, _, _, _, gib, quantity, logged = fact
    if quantity == "needed":
        needed = reckoned(fact, gib)
        return round(needed, 1) == gib, 100 * (needed / gib - 1)
    half = 0.0 if quantity == "swap" else 0.01 if quantity == "page 1" else 0.005
    low, high = reckoned(fact, gib - half), reckoned(fact, gib + half)
    return low <= logged <= high, 100 * (reckoned(fact, gib) / logged - 1)


def test_what_engines_logged_is_what_a_pool_holds():
    results = {fact[0]: agreement(fact) for fact in FACTS}
    for name, (agrees, percent) in results.items():
        said = "agrees" if agrees else f"does not agree: {DISAGREE.get(name)}"
        print(f"{name:28} {percent:+.2f} %  {said}")
    agreeing = {name for name, (agrees, _) in results.items() if agrees}
    print(f"{len(agreeing)} of {len(FACTS)} agree within the two decimals of the log")
    assert len(FACTS) == 20
    assert set(results) - agreeing == set(DISAGREE)
    assert all(abs(results[name][1]) < 0.3 for name in agreeing - {"Qwen2.5-3B, needed"})


def test_the_typed_facts_are_those_of_the_logs(shared):
    lines = (shared / "data/log-facts.tsv").read_text().splitlines()[1:]
    told = [line.split("\t") for line in lines]
    assert sorted(float(row[7]) for row in told if row[6] != "K bytes") == sorted(
        float(fact[6]) for fact in FACTS if fact[5] != "page 1"
    )
    assert sorted(float(row[5]) for row in told if row[5]) == sorted(
        fact[4] for fact in FACTS if fact[5] != "page 1"
    )


GEMMA_3_27B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "head_dim": 128,
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
    },
    "torch_dtype": "bfloat16",
}


def test_positions_that_a_multimodal_file_leaves_to_its_text_class_are_those_of_the_class():
    """52 sliding layers in 6 groups of 577 blocks each, 10 full ones of 8,192: 11,654 a request."""
    made = planned(GEMMA_3_27B, "h100")
    assert made.model.max_positions == 131_072
    alone = made.candidates[0]
    assert alone.longest == 131_072
    assert alone.kept.blocks_per_request(131_072) == 8_192 + 6 * 577
    assert alone.memory.weights == pytest.approx(2 * 27.0e9, rel=0.005)


def test_told_storage_of_four_and_of_eight_bits_is_what_the_linear_layers_take():
    """6.979e9 weights in the layers, 1.051e9 in the embedding and the head."""
    for method, each in (("awq", 0.5 + 2 / 128), ("gptq", 0.5 + 2 / 128), ("fp8", 1)):
        told = {"quant_method": method} | ({} if method == "fp8" else {"bits": 4})
        made = planned(LLAMA_8B | {"quantization_config": told}, "h100")
        found = made.candidates[0].memory.weights
        assert found == pytest.approx(6.979e9 * each + 1.051e9 * 2, rel=0.001)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"ignore": ["re:*x"], "quant_method": "fp8"}, r"ignore is 're:\*x'"),
        ({"config_groups": {"a": {"targets": ["re:("], "weights": {"num_bits": 8}}}}, "targets is"),
        ({"config_groups": {"a": None}}, "config_groups.a is None"),
        ({"config_groups": {"a": {}}}, "config_groups.a is an object of 0 keys"),
        ({"quant_method": ["awq"]}, "quant_method is a list of 1"),
    ],
)
def test_a_quantisation_that_cant_be_read_is_refused_and_not_taken_for_16_bit(section, said):
    with pytest.raises(ConfigError, match=said):
        planned(LLAMA_8B | {"quantization_config": section}, "h100")


@pytest.mark.parametrize("config", [HYBRID, DEEPSEEK_R1])
def test_a_mixture_that_does_not_tell_its_experts_is_refused_and_not_sized_as_dense(config):
    untold = {k: v for k, v in config.items() if k not in ("num_experts", "n_routed_experts")}
    with pytest.raises(ConfigError, match=r"num_local_experts is missing: .* n_routed_experts"):
        planned(untold, "h200")
