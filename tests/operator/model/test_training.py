"""The training side: gradients, buckets, ZeRO."""

import pytest
from tests.operator.model.configs import LLAMA_2_7B

from cacheaware.model.architecture import architecture
from cacheaware.model.training import BUCKET, FIRST_BUCKET, Ring, training, zero_bytes
from cacheaware_sidecar.kv import ConfigError

MIXED = {
    "model_type": "qwen2_moe",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 64,
    "mlp_only_layers": [0],
    "vocab_size": 100,
}
COUNT = 6_738_415_616


def test_each_rank_sends_almost_twice_the_gradients_and_no_bucket_is_lost() -> None:
    found = training(architecture(LLAMA_2_7B), Ring(8, 25))
    assert found.payload == 2 * COUNT
    assert sum(one.layers * one.payload for one in found.gradients) == 2 * COUNT
    assert found.seconds == pytest.approx(2 * 7 / 8 * 2 * COUNT / 25e9)


def test_one_rank_alone_sends_nothing() -> None:
    found = training(architecture(LLAMA_2_7B), Ring(1, 25))
    assert found.seconds == 0
    assert all(one.volume == 0 for one in found.gradients)


def test_layers_are_told_apart_by_kind() -> None:
    found = training(architecture(MIXED), Ring(2, 1))
    assert [(one.kind, one.layers) for one in found.gradients] == [
        ("embedding and head", 1),
        ("GQA + FFN", 1),
        ("GQA + experts", 3),
    ]
    assert found.sparse


def test_buckets_fill_from_the_last_layer_on_and_never_cut_a_tensor() -> None:
    found = training(architecture(LLAMA_2_7B), Ring(8, 25))
    head = 32000 * 4096 * 2
    assert found.buckets[0] == head > FIRST_BUCKET
    assert all(size >= BUCKET for size in found.buckets[1:-1])
    assert max(found.buckets) < head + BUCKET
    assert len(found.buckets) == 226


def test_the_least_timeout_leaves_room_above_the_slowest_bucket() -> None:
    fast, slow = (training(architecture(LLAMA_2_7B), Ring(64, gb)) for gb in (50, 0.1))
    assert fast.least_timeout_s == 1.0
    assert slow.least_timeout_s == pytest.approx(10 * slow.slowest_s)
    assert slow.slowest_s == pytest.approx(2 * 63 / 64 * max(slow.buckets) / 1e8)


def test_zero_divides_states_then_gradients_then_weights() -> None:
    # 7.5 B parameters on 64 ranks, the example of the ZeRO paper: 120, 31.4, 16.6, 1.9 GB
    gigabytes = [size / 1e9 for size in zero_bytes(7_500_000_000, 64)]
    assert gigabytes == pytest.approx([120, 31.4, 16.6, 1.9], abs=0.05)


@pytest.mark.parametrize(
    ("ranks", "bandwidth", "line"),
    [
        (0, 1.0, "dp is 0"),
        (2, 0.0, "train-bandwidth is 0.0: allowed are 1e-06..1,000,000 GB/s"),
        (2, float("nan"), "train-bandwidth is nan"),
        (2, float("inf"), "train-bandwidth is inf"),
    ],
)
def test_a_ring_that_cannot_be_is_refused(ranks: int, bandwidth: float, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        Ring(ranks, bandwidth)
