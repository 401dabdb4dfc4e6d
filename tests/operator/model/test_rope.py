"""Rotary positions: each kind of scaling by numbers worked out by hand, hashes, bad fields."""

import hashlib
import math
import struct

import pytest

from cacheaware.model.rope import (
    RopeError,
    checkpoints,
    fingerprint,
    hashes,
    narrowed,
    rope_of,
    rounded,
    table,
)

BASE = {
    "hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 128,
    "rope_theta": 10000.0,
}  # fmt: skip
PLAIN = [1.0, 0.1, 0.01, 0.001]
"""10000^(-2i/8)."""


def scaled(length=None, **scaling):
    return rope_of({**BASE, "rope_scaling": scaling}, length)


def close(got, wanted):
    assert list(got) == pytest.approx(wanted, rel=1e-12)


def test_without_scaling_frequencies_fall_by_the_base():
    rope = rope_of(BASE)
    close(rope.frequencies, PLAIN)
    assert (rope.kind, rope.scale) == ("default", 1.0)


def test_linear_scaling_divides():
    close(scaled(rope_type="linear", factor=4.0).frequencies, [one / 4 for one in PLAIN])


def test_the_old_and_the_new_fields_mean_the_same():
    new = {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}
    old = scaled(type="linear", factor=4.0)
    assert rope_of({**BASE, **new}) == old


def test_dynamic_scaling_starts_beyond_the_trained_length():
    close(scaled(rope_type="dynamic", factor=2.0).frequencies, PLAIN)
    base = 10000.0 * (2.0 * 256 / 128 - 1) ** (8 / 6)
    close(
        scaled(256, rope_type="dynamic", factor=2.0).frequencies,
        [base ** (-at / 8) for at in (0, 2, 4, 6)],
    )


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def test_llama3_leaves_short_waves_divides_long_ones_and_ramps_between():
    rope = scaled(**LLAMA3, original_max_position_embeddings=128)
    waves = [128 * one / (2 * math.pi) for one in PLAIN]
    assert waves[0] > 4 > waves[1] > 1 > waves[2]
    share = (waves[1] - 1) / 3
    close(rope.frequencies, [1.0, 0.1 * ((1 - share) / 8 + share), 0.01 / 8, 0.001 / 8])


def test_yarn_interpolates_by_turns_and_scales_attention():
    rope = scaled(rope_type="yarn", factor=4.0, original_max_position_embeddings=128)
    # 8 x ln(128 / (32 x 2 pi)) / (2 ln 10000) < 0, and 1.31 rounded up for one turn
    ramp = [0.0, 0.5, 1.0, 1.0]
    close(rope.frequencies, [f / 4 * r + f * (1 - r) for f, r in zip(PLAIN, ramp, strict=True)])
    assert rope.scale == pytest.approx(0.1 * math.log(4) + 1)


@pytest.mark.parametrize(
    ("more", "scale"),
    [
        ({"attention_factor": 0.7}, 0.7),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        (
            {"mscale": 0.7, "mscale_all_dim": 1.0},
            (0.07 * math.log(4) + 1) / (0.1 * math.log(4) + 1),
        ),
        ({"factor": 1.0}, 1.0),
    ],
)
def test_yarns_attention_factor_is_the_files_or_the_papers_or_deepseeks(more, scale):
    told = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, **more}
    assert scaled(**told).scale == pytest.approx(scale)


LONG = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0, 2.0, 4.0, 8.0]}


def test_longrope_takes_another_list_beyond_the_original_length():
    told = {**BASE, "original_max_position_embeddings": 64, "rope_scaling": LONG}
    close(rope_of(told, 64).frequencies, PLAIN)
    close(rope_of(told, 65).frequencies, [1.0, 0.05, 0.0025, 0.000125])
    assert rope_of(told).scale == pytest.approx(math.sqrt(1 + math.log(2) / math.log(64)))


def test_longrope_takes_the_files_factor_and_none_below_one():
    told = {**BASE, "original_max_position_embeddings": 64}
    assert rope_of({**told, "rope_scaling": {**LONG, "attention_factor": 1.5}}).scale == 1.5
    assert scaled(**LONG).scale == 1.0


def test_a_part_of_the_head_may_turn():
    close(rope_of({**BASE, "partial_rotary_factor": 0.5}).frequencies, [1.0, 0.01])
    rope = scaled(rope_type="proportional", partial_rotary_factor=0.5)
    close(rope.frequencies, [1.0, 0.1, 0.0, 0.0])
    latent = {**BASE, "qk_rope_head_dim": 4, "head_dim": 24}
    close(rope_of(latent).frequencies, [1.0, 0.01])


def test_a_multimodal_file_has_sections_in_its_text_part():
    text = {**BASE, "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}}
    rope = rope_of({"model_type": "qwen2_5_vl", "text_config": text})
    assert (rope.kind, rope.sections) == ("default", (2, 1, 1))
    close(rope.frequencies, PLAIN)


def test_a_file_with_a_table_for_each_kind_of_layer_wants_to_know_which():
    told = {**BASE, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 10000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    }}  # fmt: skip
    with pytest.raises(RopeError, match="full_attention, sliding_attention: name one"):
        rope_of(told)
    close(rope_of(told, layer_type="sliding_attention").frequencies, PLAIN)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("rope_theta", "x", "rope_theta is 'x'"),
        ("rope_theta", 1, "above 1"),
        ("max_position_embeddings", 0, "max_position_embeddings is 0"),
        ("num_attention_heads", None, "num_attention_heads is None"),
        ("head_dim", 7, "7 dimensions"),
        ("partial_rotary_factor", 2, "partial_rotary_factor is 2"),
        ("rope_scaling", [1], "allowed is an object"),
        ("rope_scaling", {"type": "magic"}, "allowed are default"),
        ("rope_scaling", {"type": "linear"}, None),
        ("rope_scaling", {"type": "linear", "factor": True}, "factor is True"),
        ("rope_scaling", {"type": "longrope", "short_factor": [1]}, "list of 4"),
        ("rope_scaling", {"type": "mrope", "mrope_section": [9]}, "its sum must be 4"),
    ],
)
def test_a_field_that_cannot_be_is_named(field, value, says):
    if says is None:
        says = "factor is missing"
    with pytest.raises(RopeError, match=says):
        rope_of({**BASE, field: value})


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
HUGE = 10**400


@pytest.mark.parametrize(
    ("scaling", "says"),
    [
        ({**YARN, "mscale": [{}], "mscale_all_dim": 1.0}, r"mscale is \[{}\]"),
        ({**YARN, "mscale": 1.0, "mscale_all_dim": "x"}, "mscale_all_dim is 'x'"),
        ({**YARN, "mscale": True, "mscale_all_dim": 1.0}, "mscale is True"),
        ({**YARN, "factor": math.nan}, "factor is nan"),
        ({**YARN, "factor": math.inf}, "factor is inf"),
        ({**YARN, "factor": HUGE}, "factor is 1000"),
        ({**YARN, "attention_factor": 1e9}, "attention factor is 1000000000.0"),
        ({"type": "linear", "factor": 1e-29}, "frequencies reach 1e[+]29"),
        ({**LLAMA3, "high_freq_factor": 1.0}, "no llama3 table comes of it"),
        ({"type": "dynamic", "factor": 2.0, "partial_rotary_factor": 0.25}, "no dynamic table"),
        ({**LONG, "short_factor": [1.0, 0, 1.0, 1.0]}, "short_factor is 0"),
        ({**LONG, "short_factor": [1.0, "x", 1.0, 1.0]}, "short_factor is 'x'"),
        ({"type": "mrope", "mrope_section": "abcd"}, "mrope_section is 'abcd'"),
        ({"type": "mrope", "mrope_section": [2, "x"]}, "allowed is a list of whole numbers"),
    ],
)
def test_a_scaling_of_a_wrong_type_or_size_is_named(scaling, says):
    with pytest.raises(RopeError, match=says):
        rope_of({**BASE, "rope_scaling": scaling})


def test_a_weight_of_zero_is_not_used():
    assert scaled(**YARN, mscale=0, mscale_all_dim=0).scale == scaled(**YARN).scale


@pytest.mark.parametrize("name", ["hidden_size", "num_attention_heads"])
def test_a_missing_field_is_said_to_be_missing(name):
    with pytest.raises(RopeError, match=f"{name} is missing: allowed are whole numbers above 0"):
        rope_of({key: one for key, one in BASE.items() if key != name})


@pytest.mark.parametrize(
    ("field", "value"), [("head_dim", "x"), ("qk_rope_head_dim", "x"), ("rope_theta", math.nan)]
)
def test_a_field_of_a_wrong_type_is_not_passed_over(field, value):
    with pytest.raises(RopeError, match=f"{field} is {value!r}"):
        rope_of({**BASE, field: value})


def test_bfloat16_rounds_to_the_nearest_even():
    def bits(value):
        return struct.unpack("<H", rounded(value, "bfloat16"))[0]

    assert bits(1.0) == 0x3F80
    assert bits(1.0 + 2**-8) == 0x3F80
    assert bits(1.0 + 3 * 2**-8) == 0x3F82
    assert bits(1.0 + 2**-8 + 2**-20) == 0x3F81


def test_a_table_holds_cos_and_sin_of_each_row():
    rope = rope_of(BASE)
    rows = table(rope, [0, 3])
    assert rows[:8] == [1.0] * 4 + [0.0] * 4
    close(rows[8:], [math.cos(3 * f) for f in PLAIN] + [math.sin(3 * f) for f in PLAIN])


def test_steps_in_float32_lose_far_positions():
    rope = rope_of({**BASE, "max_position_embeddings": 1 << 20})
    far = [(1 << 20) - 1]
    exact, stepped = table(rope, far), table(rope, far, steps32=True)
    assert max(abs(a - b) for a, b in zip(exact, stepped, strict=True)) > 1e-5
    assert all(one == narrowed(one) for one in stepped)


def test_rows_stand_for_the_whole_table():
    assert checkpoints(4) == [0, 1, 2, 3]
    rows = checkpoints(4096)
    assert len(rows) < 300
    assert {0, 255, 511, 512, 513, 2048, 4095} <= set(rows)
    assert max(rows) == 4095


def test_hashes_are_the_same_for_the_same_table_and_differ_with_any_field():
    one = hashes(rope_of(BASE), 128)
    assert hashes(rope_of({**BASE, "rope_scaling": {"type": "default"}}), 128) == one
    for other in (
        rope_of({**BASE, "rope_theta": 10001.0}),
        scaled(rope_type="linear", factor=1.001),
    ):
        changed = hashes(other, 128)
        assert all(changed[name] != one[name] for name in ("frequencies", "float64", "float32"))
    assert len(set(one.values())) == len(one)


def test_a_hash_is_that_of_the_bytes():
    first = table(rope_of(BASE), [0])
    wanted = hashlib.sha256(struct.pack("<8f", *[1.0] * 4, *[0.0] * 4)).hexdigest()
    assert fingerprint(first, "float32") == wanted
