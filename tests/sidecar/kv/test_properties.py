"""What holds for every model: round trips, monotony, splits, and no surprise on garbage."""

import json
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.sidecar.kv import configs
from tests.sidecar.kv.configs import plain

from cacheaware_sidecar.kv import ConfigError, Geometry, Parallel, geometry
from cacheaware_sidecar.kv.arithmetic import arithmetic

NAMED = {
    name: value
    for name, value in vars(configs).items()
    if isinstance(value, dict) and name.isupper() and name != "DEEPSEEK_V4"
}
MODELS = list(NAMED.values())
steady = settings(deadline=None)
"""Machines of tests are shared: time is measured elsewhere."""

models = st.sampled_from(MODELS)
tokens = st.integers(0, 10**9)
dtypes = st.sampled_from(["auto", "bf16", "fp8", "int8"])

kv_heads = st.sampled_from([1, 2, 4, 8])
plain_models = st.builds(
    plain,
    layers=st.integers(1, 200),
    heads=st.sampled_from([8, 16, 64]),
    kv_heads=kv_heads,
    head_dim=st.sampled_from([64, 80, 128, 256]),
)


@steady
@given(config=models, dtype=dtypes, count=tokens)
def test_tokens_to_bytes_and_back_are_the_same_tokens(config, dtype, count):
    sized = geometry(config, kv_dtype=dtype)
    assert sized.tokens_from_bytes(sized.bytes_from_tokens(count)) == count


@steady
@given(count=tokens, ranks=st.sampled_from([2, 4, 8]))
def test_with_decode_context_ranks_less_than_one_round_is_gained(count, ranks):
    sized = geometry(configs.KIMI_K2, Parallel(8, 1, ranks))
    back = sized.tokens_from_bytes(sized.bytes_from_tokens(count))
    assert count <= back < count + ranks


@steady
@given(config=models, less=tokens, more=tokens)
def test_more_tokens_never_take_less(config, less, more):
    assume(less <= more)
    sized = geometry(config)
    assert sized.bytes_from_tokens(less) <= sized.bytes_from_tokens(more)
    if sized.bytes_per_request(0) is not None:
        assert sized.bytes_per_request(less) <= sized.bytes_per_request(more)
        assert sized.blocks_per_request(less) <= sized.blocks_per_request(more)


@steady
@given(config=models, count=st.integers(1, 10**6))
def test_a_request_lies_between_its_rates(config, count):
    sized = geometry(config)
    size = sized.bytes_per_request(count)
    assume(size is not None)
    constant = sized.state_bytes_per_sequence + sized.cross_bytes_per_sequence
    assert sized.bytes_per_token_growing * count <= size - constant
    assert size - constant <= sized.bytes_per_token_all_layers * count


@steady
@given(config=models, dtype=dtypes)
def test_growing_is_a_part_of_all_layers_and_reserved_lies_between(config, dtype):
    sized = geometry(config, kv_dtype=dtype)
    assert sized.bytes_per_token_growing <= sized.bytes_per_token_reserved
    assert sized.bytes_per_token_reserved <= sized.bytes_per_token_all_layers


@steady
@given(config=models, ranks=st.sampled_from([2, 4]))
def test_ranks_together_hold_at_least_the_model(config, ranks):
    one = geometry(config)
    try:
        many = geometry(config, Parallel(ranks))
    except ConfigError:
        assume(False)
    assert many.pod_bytes_per_token_growing >= one.bytes_per_token_growing
    assert many.bytes_per_token_growing <= one.bytes_per_token_growing
    if one.state_bytes_per_sequence is not None:
        assert many.pod_state_bytes_per_sequence >= one.state_bytes_per_sequence


@steady
@given(config=plain_models, ranks=st.sampled_from([1, 2, 4, 8]), stages=st.integers(1, 9))
def test_ranks_up_to_the_kv_heads_and_any_stages_split_exactly(config, ranks, stages):
    assume(ranks <= config["num_key_value_heads"] and stages <= config["num_hidden_layers"])
    one, many = geometry(config), geometry(config, Parallel(ranks, stages))
    assert many.pod_bytes_per_token_growing == one.bytes_per_token_growing
    assert many.pod_bytes_per_block == one.bytes_per_block
    held = [layer.index for stage in many.stages for layer in stage.layers]
    assert held == list(range(one.layers))


@steady
@given(config=plain_models, size=st.integers(1, 4096))
def test_pages_are_linear_in_the_block_size(config, size):
    one, many = geometry(config, block_size=1), geometry(config, block_size=size)
    assert many.page_bytes == size * one.page_bytes
    assert many.bytes_per_block == size * one.bytes_per_block == many.page_bytes * many.layers


@steady
@given(config=models, data=st.data())
def test_order_and_irrelevant_keys_change_nothing(config, data):
    noise = {"vocab_size": 9, "rope_theta": 1.0, "_comment": "x", "eos_token_id": [1, 2]}
    shuffled = data.draw(st.permutations([*config.items(), *noise.items()]))
    assert geometry(dict(shuffled)) == geometry(config)


@steady
@given(config=models, dtype=dtypes, size=st.none() | st.integers(1, 5000))
def test_the_state_fits_into_the_page_of_a_hybrid(config, dtype, size):
    sized = geometry(config, kv_dtype=dtype, block_size=size)
    assume(sized.groups)
    states = [layer.state_bytes for layer in sized.layer_list if layer.state_bytes]
    assert sized.largest_page_bytes >= max(states, default=0)
    assert sized.block_size >= (size or 16)
    if len(sized.groups) > 1:
        assert len({page for group in sized.groups for page in group.page_bytes}) == 1


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["full_attention", "sliding_attention", "mamba", "fp8", "float32", 10**40])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text(max_size=6) | st.sampled_from(["attention", "num_bits"]), inner)
    ),
    max_leaves=8,
)
names = st.sampled_from(
    sorted(
        {name for model in MODELS for name in model}
        | {name for model in MODELS for name in model.get("text_config", {})}
        | {"quantization_config", "text_config", "thinker_config", "block_configs", "attn_config"}
        | {"index_head_dim", "indexer_types", "sliding_window_size", "use_sliding_window"}
    )
)
types = st.sampled_from(sorted({model["model_type"] for model in MODELS} | {"", "x", "bert"}))
rubbish = st.dictionaries(names | st.text(max_size=10) | st.integers(), values, max_size=12)


def sized_or_refused(config: object, **options: object) -> Geometry | None:
    try:
        return geometry(config, **options)
    except ConfigError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 500
    return None


@steady
@given(config=rubbish, model_type=types)
def test_garbage_is_sized_or_refused_and_nothing_else(config, model_type):
    sized = sized_or_refused({"model_type": model_type} | config)
    if sized is not None:
        json.dumps([arithmetic(sized), sized.page_bytes, sized.warnings], allow_nan=False)


@steady
@given(config=models, damage=rubbish, inside=st.booleans())
def test_a_damaged_model_is_sized_or_refused_and_nothing_else(config, damage, inside):
    if inside and "text_config" in config:
        damaged = config | {"text_config": config["text_config"] | damage}
    else:
        damaged = config | damage
    sized = sized_or_refused(damaged)
    if sized is not None and sized.known:
        assert sized.bytes_per_token_growing >= 0
        arithmetic(sized)


ABSURD = (
    None,
    0,
    -1,
    True,
    1.5,
    math.nan,
    10**30,
    "",
    "x",
    "\n",
    [],
    [[]],
    [3, "x"],
    {},
    {"a": []},
)


def set_in(config: dict, path: tuple[str, ...], value: object) -> dict:
    name, *rest = path
    return config | {name: set_in(config[name], tuple(rest), value) if rest else value}


def paths(config: dict) -> list[tuple[str, ...]]:
    inner = [
        (name, *path)
        for name in config
        if isinstance(config[name], dict)
        for path in paths(config[name])
    ]
    return [(name,) for name in config] + inner


@pytest.mark.parametrize("config", MODELS, ids=NAMED)
def test_any_field_set_to_anything_absurd_is_sized_or_refused(config):
    for path in paths(config):
        for value in ABSURD:
            sized = sized_or_refused(set_in(config, path, value))
            if sized is not None:
                json.dumps([arithmetic(sized), sized.warnings], allow_nan=False)


@steady
@given(value=values, dtype=values, size=values)
def test_arguments_of_any_kind_are_sized_or_refused(value, dtype, size):
    sized_or_refused(value)
    sized_or_refused(configs.LLAMA_31_8B, kv_dtype=dtype)
    sized_or_refused(configs.LLAMA_31_8B, block_size=size)
