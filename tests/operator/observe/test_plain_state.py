"""The quick reader of states gives what the careful one gives, or leaves it to that one."""

import json
from copy import deepcopy
from dataclasses import asdict, fields, is_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from cacheaware.observe.plain_state import part, plain_state
from cacheaware.observe.sidecar import careful_state, look_of
from cacheaware.observe.warmup_speed import prefill_tokens_per_s
from cacheaware_sidecar.engines import Histogram, Rates
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import (
    CanaryState,
    Counters,
    DrainState,
    FindingState,
    KvState,
    Latency,
    PodState,
    ShapeState,
    StartState,
    WarmupState,
)
from cacheaware_sidecar.state_json import StateError, pod_state_to_json

HISTOGRAM = Histogram(9.0, 2.5, ((0.1, 3.0), (1.0, 8.0), (float("inf"), 9.0)))
STATE = pod_state_to_json(
    PodState(
        phase=Phase.CORDONED,
        phase_age_s=5_000.0,
        sample_age_s=0.4,
        sample_seq=17,
        engine="vllm",
        version="0.19.0",
        models=("m",),
        running=3.0,
        waiting=1.0,
        kv=KvState(usage=0.5, usage_max=0.6, used_tokens=10.0, capacity_tokens=20.0, block_size=16),
        rates=Rates(prompt_tokens_per_s=5.0, prefix_hit_ratio=0.3, prompt_tokens_per_request=8.0),
        counters=Counters(prompt_tokens=100.0, requests=4.0),
        latency=Latency(ttft_s=HISTOGRAM, tpot_s=HISTOGRAM, e2e_s=HISTOGRAM),
        warmup=WarmupState(
            step=2,
            steps=2,
            verdict="Warm",
            shapes=(
                ShapeState(name="short", requests=1, tokens=16, first_s=0.3, last_s=0.25),
                ShapeState(name="chunked", requests=1, tokens=2064, last_s=0.45),
            ),
        ),
        start=StartState(loading_s=61.0, warming_s=21.0),
        drain=DrainState(cordoned_by="uid", cordoned_s=3.0, lease_s=50.0, empty=False),
        adapters=("lora",),
        findings=(FindingState(id="kv-full", severity="error", message="why"),),
        canary=CanaryState(verdict="Drifted", tokens=120, changed_ratio=0.5, drifted_runs=3),
        problems=("slow",),
    )
)
OFTEN = (None, 0, 1, -1, 0.5, 7, 1e300, 1e301, 2**60, True, "", "+Inf", "serving", [], {}, [1, 2])


def places(value, path=()):
    """Where something could be otherwise."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, one in inner:
        yield (*path, name)
        if isinstance(one, (dict, list)):
            yield from places(one, (*path, name))


PLACES = list(places(STATE))


def read(reader, content):
    """A look at a state, and its warm-up's speed, as this reader reads it; None where it can't.

    The quick reader gives what has the fields of the contract's classes: those are compared.
    """
    try:
        state = reader(content)
    except StateError:
        return None
    if state is None:
        return None
    look = look_of(state, Phase(state.phase), 1.0)
    whole = replace(look, shapes=(), start=shown(look.start), counters=shown(look.counters))
    return whole, prefill_tokens_per_s(look.shapes)


def shown(value):
    return asdict(value) if is_dataclass(value) else structs.asdict(value)


def changed(body, path, how):
    """A state with one thing otherwise."""
    body = deepcopy(body)
    inner = body
    for name in path[:-1]:
        inner = inner[name]
    if how == "gone":
        del inner[path[-1]]
    else:
        inner[path[-1]] = how
    return body


def test_a_usual_state_is_read_quickly():
    content = json.dumps(STATE).encode()
    found, speed = read(plain_state, content)
    assert found.load.usage == 0.5
    assert speed == 10240.0
    assert (found, speed) == read(careful_state, content)


def test_a_latency_that_nobody_asks_for_is_not_read():
    content = json.dumps(STATE).encode()
    found, _ = read(lambda body: plain_state(body, latency=False), content)
    whole, _ = read(careful_state, content)
    assert found.ttft is None
    assert replace(found, ttft=whole.ttft) == whole


@pytest.mark.parametrize(
    "kind", [KvState, Rates, Counters, WarmupState, ShapeState, DrainState, CanaryState]
)
def test_every_field_of_the_contract_is_checked(kind):
    assert sorted(part(kind).__struct_fields__) == sorted(one.name for one in fields(kind))


@pytest.mark.parametrize("how", ["gone", *OFTEN], ids=str)
def test_whatever_is_otherwise_it_reads_as_the_careful_reader_does_or_not_at_all(how):
    for path in PLACES:
        content = json.dumps(changed(STATE, path, how)).encode()
        found = read(plain_state, content)
        assert found is None or found == read(careful_state, content), path


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(OFTEN)), max_size=6))
def test_whatever_things_are_otherwise_it_reads_as_the_careful_reader_does(changes):
    body = STATE
    for path, how in changes:
        try:
            body = changed(body, path, how)
        except (LookupError, TypeError):
            continue  # another change has taken the place away
    content = json.dumps(body).encode()
    found = read(plain_state, content)
    assert found is None or found == read(careful_state, content)


@pytest.mark.parametrize("bounds", [[2, 1, "+Inf"], [1, "+Inf", 2], ["+Inf", "+Inf"], [1, 1]])
def test_bounds_that_do_not_rise_are_left_to_the_careful_reader(bounds):
    latency = {"ttft_s": {"count": 1, "sum": 1, "buckets": [[one, 1] for one in bounds]}}
    content = json.dumps({**STATE, "latency": latency}).encode()
    assert plain_state(content) is None
    assert read(careful_state, content)[0].ttft is None


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b"[" * 100_000, b"\xff\xfe{}"])
def test_what_is_no_state_is_left_to_the_careful_reader(content):
    assert plain_state(content) is None
