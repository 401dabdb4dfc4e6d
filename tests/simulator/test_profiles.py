import json

import pytest

from cacheaware_sim.profiles import PROFILES, kv_tokens


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_profile_makes_an_engine(name):
    profile = PROFILES[name]

    config = profile.engine()

    assert config.kv_tokens >= profile.max_model_len
    assert (config.cost, config.cold_start_s) == (profile.cost, 0)


def test_an_engine_may_differ_from_its_profile_in_what_is_named():
    config = PROFILES["tiny"].engine(max_num_seqs=7, prefix_caching=False)

    assert (config.max_num_seqs, config.prefix_caching) == (7, False)
    assert config.num_blocks == PROFILES["tiny"].num_blocks


@pytest.mark.parametrize(
    ("model", "gpu", "tokens"),
    [("llama-3.1-8b", "H100", 420_000), ("llama-3.1-8b", "L40S", 185_000)],
)
def test_kv_capacity_is_what_is_left_beside_the_weights(model, gpu, tokens):
    assert kv_tokens(model, gpu, 1) == pytest.approx(tokens, rel=0.005)


def test_kernel_sums_are_raised_and_what_was_measured_is_not():
    raw, raised = PROFILES["llama-3.1-8b-h100"], PROFILES["llama-3.1-8b-h100"].recommended()
    fitted = PROFILES["llama-3.1-8b-rtx4090"]

    assert raised.cost.c0_ms == pytest.approx(raw.cost.c0_ms * 1.08)
    assert raised.cost.a1_ms_per_ktok == pytest.approx(raw.cost.a1_ms_per_ktok * 1.2)
    assert raised.cost.c2_ms_per_ktok == raw.cost.c2_ms_per_ktok
    assert fitted.recommended() is fitted


@pytest.mark.parametrize(
    ("gpu", "batched", "seqs"),
    [("h100", 8192, 1024), ("h200", 8192, 1024), ("a100", 2048, 256), ("l40s", 2048, 256)],
)
def test_the_scheduler_is_that_of_vllms_api_server_on_the_gpu(gpu, batched, seqs):
    profile = PROFILES[f"llama-3.1-8b-{gpu}"]

    assert (profile.max_num_batched_tokens, profile.max_num_seqs) == (batched, seqs)


@pytest.mark.parametrize(
    ("name", "model", "system", "tensor_parallel"),
    [
        ("llama-3.1-8b-h100", "Meta-Llama-3.1-8B", "h100_sxm", 1),
        ("llama-3.1-8b-h200", "Meta-Llama-3.1-8B", "h200_sxm", 1),
        ("llama-3.1-8b-a100", "Meta-Llama-3.1-8B", "a100_sxm", 1),
        ("llama-3.1-8b-l40s", "Meta-Llama-3.1-8B", "l40s", 1),
        ("llama-3.1-70b-h100-tp4", "Meta-Llama-3.1-70B", "h100_sxm", 4),
        ("llama-3.1-70b-h100-tp8", "Meta-Llama-3.1-70B", "h100_sxm", 8),
        ("llama-3.1-70b-a100-tp4", "Meta-Llama-3.1-70B", "a100_sxm", 4),
        ("llama-3.1-70b-a100-tp8", "Meta-Llama-3.1-70B", "a100_sxm", 8),
    ],
)
def test_the_coefficients_are_those_of_the_fits(shared, name, model, system, tensor_parallel):
    rows = json.loads((shared / "data/latency/aic_fit.json").read_text())
    (row,) = [
        row
        for row in rows
        if (row["model"], row["sys"], row["tp"]) == (model, system, tensor_parallel)
    ]
    cost = PROFILES[name].cost

    assert cost.c0_ms == pytest.approx(row["dec_c0_ms"], rel=0.01)
    assert cost.c1_ms_per_seq == pytest.approx(row["dec_c1_ms_per_seq"], rel=0.01)
    assert cost.c2_ms_per_ktok == pytest.approx(row["dec_c2_ms_per_ktok"], rel=0.01)
    assert cost.a1_ms_per_ktok == pytest.approx(row["pre_a1_ms_per_ktok"], rel=0.01)
    assert cost.a2_ms_per_mtok2 == pytest.approx(max(0, row["pre_a2_ms_per_Mtok2"]), rel=0.02)
