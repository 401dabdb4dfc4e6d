"""The frozen contract: what a sidecar says, and how an operator of any version reads it."""

import json
import math
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sidecar.kv.configs import LLAMA_31_8B

from cacheaware_sidecar.engines import EngineSample, Histogram, Rates, scan
from cacheaware_sidecar.kv import Geometry, Parallel, geometry
from cacheaware_sidecar.state import (
    SCHEMA,
    CanaryState,
    Counters,
    DrainState,
    KvState,
    Latency,
    PodState,
    ShapeState,
    StartState,
    WarmupState,
    kv_state,
)
from cacheaware_sidecar.state_json import (
    StateError,
    UnknownSchemaError,
    pod_state_from_json,
    pod_state_to_json,
)

FULL = PodState(
    phase="serving",
    phase_age_s=12.5,
    sample_age_s=0.4,
    sample_seq=7,
    engine="vllm",
    version=">0.21",
    models=("m",),
    running=3,
    waiting=1.0,
    kv=KvState(
        usage=0.5,
        usage_max=0.75,
        used_bytes=5e9,
        capacity_bytes=1e10,
        used_tokens=500.5,
        capacity_tokens=1001,
        page_bytes=65536,
        block_size=16,
        estimated=True,
    ),
    rates=Rates(prompt_tokens_per_s=1.5, prefix_hit_ratio=0.25),
    counters=Counters(
        prompt_tokens=6e6,
        generation_tokens=2e5,
        requests=900,
        prefill_seconds=70.5,
        prefilled_tokens=5e5,
    ),
    latency=Latency(ttft_s=Histogram(3, 1.5, ((0.1, 1), (math.inf, 3)))),
    warmup=WarmupState(
        step=2,
        steps=6,
        verdict="Warm",
        duration_s=3.5,
        requests=5,
        prompt_tokens=600,
        generation_tokens=40,
        shapes=(
            ShapeState(name="long", requests=4, tokens=529, first_s=2.1, last_s=0.3),
            ShapeState(name="image", note="skipped: why"),
        ),
    ),
    start=StartState(loading_s=40.0, warming_s=9.0),
    drain=DrainState(
        deadline_s=50,
        running=1,
        waiting=0,
        cordoned_by="operator",
        cordoned_s=12.0,
        lease_s=55.0,
        empty=False,
        arrival_age_s=3.0,
    ),
    adapters=("sql",),
    sleeping=False,
    canary=CanaryState(
        verdict="Drifted",
        baseline="file",
        age_s=30.0,
        answered=9,
        failed=1,
        skipped=2,
        tokens=120,
        difference_nats=0.2,
        tolerance_nats=0.05,
        largest_nats=0.9,
        changed_ratio=0.5,
        first_changed=8,
        drifted_runs=3,
    ),
    problems=("a problem",),
)


def through_json(state: PodState) -> PodState:
    return pod_state_from_json(json.loads(json.dumps(pod_state_to_json(state), allow_nan=False)))


def test_the_json_is_what_the_contract_says():
    assert pod_state_to_json(FULL) == {
        "schema": 1,
        "phase": "serving",
        "phase_age_s": 12.5,
        "sample_age_s": 0.4,
        "sample_seq": 7,
        "engine": "vllm",
        "version": ">0.21",
        "models": ["m"],
        "running": 3,
        "waiting": 1.0,
        "kv": {
            "usage": 0.5,
            "usage_max": 0.75,
            "used_bytes": 5e9,
            "capacity_bytes": 1e10,
            "used_tokens": 500.5,
            "capacity_tokens": 1001,
            "page_bytes": 65536,
            "block_size": 16,
            "estimated": True,
        },
        "rates": {
            "prompt_tokens_per_s": 1.5,
            "generation_tokens_per_s": None,
            "requests_per_s": None,
            "prompt_tokens_per_request": None,
            "generation_tokens_per_request": None,
            "prefix_hit_ratio": 0.25,
            "preemptions_per_s": None,
        },
        "counters": {
            "prompt_tokens": 6e6,
            "generation_tokens": 2e5,
            "requests": 900,
            "prefill_seconds": 70.5,
            "prefilled_tokens": 5e5,
        },
        "latency": {
            "ttft_s": {"count": 3, "sum": 1.5, "buckets": [[0.1, 1], ["+Inf", 3]]},
            "tpot_s": None,
            "e2e_s": None,
        },
        "warmup": {
            "step": 2,
            "steps": 6,
            "verdict": "Warm",
            "duration_s": 3.5,
            "requests": 5,
            "prompt_tokens": 600,
            "generation_tokens": 40,
            "shapes": [
                {
                    "name": "long",
                    "requests": 4,
                    "tokens": 529,
                    "first_s": 2.1,
                    "last_s": 0.3,
                    "note": None,
                },
                {
                    "name": "image",
                    "requests": 0,
                    "tokens": None,
                    "first_s": None,
                    "last_s": None,
                    "note": "skipped: why",
                },
            ],
        },
        "start": {"loading_s": 40.0, "warming_s": 9.0},
        "drain": {
            "deadline_s": 50,
            "running": 1,
            "waiting": 0,
            "cordoned_by": "operator",
            "cordoned_s": 12.0,
            "lease_s": 55.0,
            "empty": False,
            "arrival_age_s": 3.0,
        },
        "adapters": ["sql"],
        "sleeping": False,
        "findings": [],
        "canary": {
            "verdict": "Drifted",
            "reason": None,
            "baseline": "file",
            "age_s": 30.0,
            "answered": 9,
            "failed": 1,
            "skipped": 2,
            "tokens": 120,
            "difference_nats": 0.2,
            "tolerance_nats": 0.05,
            "largest_nats": 0.9,
            "changed_ratio": 0.5,
            "first_changed": 8,
            "drifted_runs": 3,
        },
        "problems": ["a problem"],
    }


@pytest.mark.parametrize("state", [FULL, PodState(phase="loading")], ids=["full", "empty"])
def test_a_state_comes_back_as_it_went(state):
    assert through_json(state) == state


NUMBERS = st.none() | st.floats(0, 1e15)
RATIOS = st.none() | st.floats(0, 1)
HISTOGRAMS = st.none() | st.builds(
    lambda counts: Histogram(
        float(sum(counts)),
        1.5,
        (*((float(n), float(sum(counts[: n + 1]))) for n in range(len(counts))),
         (math.inf, float(sum(counts)))),
    ),
    st.lists(st.integers(0, 100), max_size=4),
)  # fmt: skip


def some(kind, **special):
    """Any value of a dataclass whose fields are numbers, but for the special ones."""
    return st.builds(kind, **{each.name: NUMBERS for each in fields(kind)} | special)


COUNTS = st.none() | st.integers(0, 10**9)
SHAPES = some(
    ShapeState,
    name=st.text(),
    requests=st.integers(0, 99),
    tokens=COUNTS,
    note=st.none() | st.text(),
)
STATES = st.builds(
    PodState,
    schema=st.just(SCHEMA),
    phase=st.sampled_from(["loading", "warming", "serving", "cordoned", "draining", "drained"]),
    phase_age_s=NUMBERS,
    sample_age_s=NUMBERS,
    sample_seq=st.none() | st.integers(0, 10**9),
    engine=st.none() | st.text(),
    version=st.none() | st.text(),
    models=st.lists(st.text()).map(tuple),
    running=NUMBERS,
    waiting=NUMBERS,
    kv=some(
        KvState,
        usage=RATIOS,
        usage_max=RATIOS,
        page_bytes=st.none() | st.integers(1, 10**9),
        block_size=st.none() | st.integers(1, 4096),
        estimated=st.booleans(),
    ),
    rates=some(Rates, prefix_hit_ratio=RATIOS),
    latency=some(Latency, ttft_s=HISTOGRAMS, tpot_s=HISTOGRAMS, e2e_s=HISTOGRAMS),
    warmup=some(
        WarmupState,
        step=st.integers(0, 9),
        steps=st.integers(0, 9),
        verdict=st.none() | st.text(),
        requests=COUNTS,
        prompt_tokens=COUNTS,
        generation_tokens=COUNTS,
        shapes=st.lists(SHAPES, max_size=2).map(tuple),
    ),
    start=some(StartState),
    drain=some(DrainState, cordoned_by=st.none() | st.text(), empty=st.none() | st.booleans()),
    adapters=st.lists(st.text(), max_size=3).map(tuple),
    sleeping=st.none() | st.booleans(),
    canary=st.none()
    | some(
        CanaryState,
        **dict.fromkeys(("verdict", "reason", "baseline"), st.none() | st.text()),
        **dict.fromkeys(("answered", "failed", "skipped", "drifted_runs"), st.integers(0, 99)),
        **dict.fromkeys(("tokens", "first_changed"), COUNTS),
        changed_ratio=RATIOS,
    ),
    problems=st.lists(st.text()).map(tuple),
)


@given(STATES)
def test_any_state_comes_back_as_it_went(state):
    assert through_json(state) == state


def test_a_number_that_json_cannot_hold_is_null():
    state = replace(FULL, running=math.nan, kv=KvState(usage=math.inf))
    body = pod_state_to_json(state)
    assert body["running"] is None
    assert body["kv"]["usage"] is None


PHASES = "loading, warming, serving, cordoned, draining, drained"


def body(**changes) -> dict:
    return {"schema": 1, "phase": "serving"} | changes


@pytest.mark.parametrize("schema", [0, 2, -1, "1", 1.0, True, None])
def test_an_unknown_schema_is_said_to_be(schema):
    with pytest.raises(UnknownSchemaError, match=r"state\.schema is .*; this version reads 1 to 1"):
        pod_state_from_json(body(schema=schema))


def test_fields_from_the_future_are_ignored():
    future = body(running=3, sparkle=[1], kv={"usage": 0.5, "shine": {}}, latency={"itl_s": 4})
    state = pod_state_from_json(future)
    assert (state.running, state.kv.usage) == (3, 0.5)


def test_fields_that_an_old_sidecar_lacks_are_unknown():
    assert pod_state_from_json(body()) == PodState(phase="serving")
    assert pod_state_from_json(body(kv=None, rates={}, problems=None, models=None)) == PodState(
        phase="serving"
    )


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        pytest.param({"running": math.nan}, lambda state: state.running, id="NaN"),
        pytest.param({"running": math.inf}, lambda state: state.running, id="infinite"),
        pytest.param({"waiting": -1}, lambda state: state.waiting, id="negative"),
        pytest.param({"waiting": 10**400}, lambda state: state.waiting, id="huge"),
        pytest.param({"kv": {"usage": 1.2}}, lambda state: state.kv.usage, id="usage above 1"),
        pytest.param(
            {"kv": {"usage_max": -0.1}}, lambda state: state.kv.usage_max, id="usage below 0"
        ),
        pytest.param(
            {"rates": {"prefix_hit_ratio": 2}},
            lambda state: state.rates.prefix_hit_ratio,
            id="ratio",
        ),
        pytest.param({"sample_seq": -1}, lambda state: state.sample_seq, id="count below 0"),
    ],
)
def test_a_number_out_of_its_range_is_unknown(changes, read):
    assert read(pod_state_from_json(body(**changes))) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"running": "3"}, "state.running is '3'; a number or null is allowed"),
        ({"running": True}, "state.running is True; a number or null is allowed"),
        ({"sample_seq": 1.5}, "state.sample_seq is 1.5; a whole number or null is allowed"),
        ({"engine": 3}, "state.engine is 3; a string or null is allowed"),
        (
            {"phase": "happy"},
            "state.phase is 'happy'; allowed: " + PHASES,
        ),
        (
            {"phase": None},
            "state.phase is None; allowed: " + PHASES,
        ),
        ({"kv": []}, "state.kv is []; an object is allowed"),
        ({"kv": {"estimated": 1}}, "state.kv.estimated is 1; true, false or null is allowed"),
        ({"problems": "x"}, "state.problems is 'x'; a list of strings is allowed"),
        ({"models": [1]}, "state.models is [1]; a list of strings is allowed"),
        (
            {"warmup": {"shapes": {}}},
            "state.warmup.shapes is {}; a list of objects is allowed",
        ),
        (
            {"warmup": {"shapes": [{}, 3]}},
            "state.warmup.shapes[1] is 3; an object is allowed",
        ),
        ({"latency": {"ttft_s": 3}}, "state.latency.ttft_s is 3; an object is allowed"),
    ],
)
def test_a_wrong_type_is_one_clear_line(changes, message):
    with pytest.raises(StateError) as error:
        pod_state_from_json(body(**changes))
    assert str(error.value) == message


@pytest.mark.parametrize("value", [[], "x", 3, True])
def test_what_is_no_object_is_no_state(value):
    with pytest.raises(StateError, match=r"state is .*; an object is allowed"):
        pod_state_from_json(value)


def test_a_long_value_is_shown_short():
    with pytest.raises(StateError) as error:
        pod_state_from_json(body(running="x" * 500))
    assert len(str(error.value)) < 120


def histogram(**changes):
    told = {"count": 3, "sum": 1.5, "buckets": [[0.1, 1], ["+Inf", 3]]} | changes
    return pod_state_from_json(body(latency={"ttft_s": told})).latency.ttft_s


def test_a_histogram_is_read():
    assert histogram() == Histogram(3, 1.5, ((0.1, 1), (math.inf, 3)))
    assert histogram(buckets=None) == Histogram(3, 1.5, ())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"count": None}, id="no count"),
        pytest.param({"sum": None}, id="no sum"),
        pytest.param({"buckets": [[0.2, 1], [0.1, 2]]}, id="bounds that fall"),
        pytest.param({"buckets": [[0.1, -1]]}, id="negative"),
        pytest.param({"buckets": [[0.1, math.nan]]}, id="NaN"),
        pytest.param({"buckets": [[math.nan, 1]]}, id="NaN bound"),
    ],
)
def test_a_histogram_that_cannot_be_is_unknown(changes):
    assert histogram(**changes) is None


@pytest.mark.parametrize(
    "buckets", [3, [3], [[1]], [[1, 2, 3]], [["x", 1]], [[1, "x"]], [[True, 1]]]
)
def test_buckets_of_a_wrong_type_are_an_error(buckets):
    with pytest.raises(StateError, match=r"state\.latency\.ttft_s\.buckets is"):
        histogram(buckets=buckets)


SAMPLE = EngineSample(
    engine="vllm",
    usage=0.25,
    usage_max=0.5,
    used_tokens=400,
    capacity_tokens=1600,
    num_blocks=100,
    block_size=16,
)


def llama(tensor=1, pipeline=1, block_size=16):
    """65,536 bytes a page, 2,097,152 a block of 16 tokens, 131,072 a token."""
    return geometry(LLAMA_31_8B, Parallel(tensor, pipeline), "auto", block_size)


def test_bytes_are_blocks_times_bytes_per_block():
    kv = kv_state(SAMPLE, llama())
    assert (kv.capacity_bytes, kv.used_bytes) == (100 * 2_097_152, 25 * 2_097_152)
    assert (kv.page_bytes, kv.block_size, kv.estimated) == (65_536, 16, False)
    assert (kv.usage, kv.usage_max, kv.used_tokens, kv.capacity_tokens) == (0.25, 0.5, 400, 1600)


def test_blocks_that_were_overridden_count_and_not_the_memory_that_was_asked_for():
    """vLLM 0.32 with --num-gpu-blocks-override 64 shows both labels."""
    page = (
        b'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5\n'
        b'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",'
        b'kv_cache_memory_bytes="4294967296",kv_cache_size_tokens="1024",num_gpu_blocks="64",'
        b'num_gpu_blocks_override="64"} 1.0\n'
    )
    kv = kv_state(scan(page), llama())
    assert (kv.capacity_bytes, kv.used_bytes) == (64 * 2_097_152, 32 * 2_097_152)
    assert (kv.capacity_tokens, kv.estimated) == (1024, False)


@pytest.mark.parametrize("ranks", [{"tensor": 4}, {"pipeline": 2}, {"tensor": 2, "pipeline": 2}])
def test_the_bytes_of_a_pod_are_those_of_all_its_ranks(ranks):
    assert kv_state(SAMPLE, llama(**ranks)).capacity_bytes == 100 * 2_097_152


@pytest.mark.parametrize(
    ("sample", "sized"),
    [
        pytest.param(replace(SAMPLE, num_blocks=None), llama(), id="no blocks"),
        pytest.param(SAMPLE, llama(block_size=32), id="blocks of another size"),
    ],
)
def test_without_its_blocks_bytes_are_an_estimate_from_tokens(sample, sized):
    kv = kv_state(sample, sized)
    assert (kv.capacity_bytes, kv.used_bytes, kv.estimated) == (1600 * 131_072, 400 * 131_072, True)


def test_without_a_config_bytes_are_unknown():
    kv = kv_state(SAMPLE, None)
    assert (kv.capacity_bytes, kv.used_bytes, kv.page_bytes, kv.estimated) == (
        None,
        None,
        None,
        False,
    )
    assert (kv.capacity_tokens, kv.block_size) == (1600, 16)


def test_an_unknown_architecture_has_no_bytes():
    unknown = Geometry(
        model_type="x",
        unknown_reason="no rule",
        parallel=Parallel(),
        kv_dtype="auto",
        layers=None,
        heads=None,
    )
    kv = kv_state(SAMPLE, unknown)
    assert (kv.capacity_bytes, kv.used_bytes, kv.page_bytes) == (None, None, None)


def test_without_capacity_there_are_no_bytes():
    kv = kv_state(EngineSample(engine="llamacpp", usage=0.5), llama())
    assert (kv.capacity_bytes, kv.used_bytes) == (None, None)


def test_without_usage_nothing_is_said_to_be_used():
    kv = kv_state(replace(SAMPLE, usage=None, used_tokens=None), llama())
    assert (kv.capacity_bytes, kv.used_bytes) == (100 * 2_097_152, None)


def test_a_page_needs_the_engines_block_size():
    assert kv_state(replace(SAMPLE, block_size=None), llama()).page_bytes is None


def test_bytes_that_the_engine_tells_are_taken_as_they_are():
    sample = EngineSample(engine="generic", usage=0.5, used_bytes=50, capacity_bytes=100)
    kv = kv_state(sample, llama())
    assert (kv.used_bytes, kv.capacity_bytes, kv.estimated) == (50, 100, False)
    assert kv_state(replace(sample, used_bytes=None), None).used_bytes == 50


def test_the_blocks_of_a_hybrid_model_give_its_pool(shared):
    """10 GiB asked for: 208 blocks of 784 tokens fit, a 209th does not."""
    path = shared / "data" / "model-configs" / "Qwen__Qwen3.5-27B.json"
    sized = geometry(json.loads(path.read_text()), Parallel(), "auto", 784)
    sample = EngineSample(usage=0.5, capacity_tokens=141_994, num_blocks=208, block_size=784)
    kv = kv_state(sample, sized)
    assert kv.capacity_bytes == 208 * 51_380_224 <= 10 * 2**30 < 209 * 51_380_224
    assert kv.estimated is False
