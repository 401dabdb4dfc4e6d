"""Options of a run are checked before anything is done."""

import math
from pathlib import Path

import pytest

from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.profiles import PROFILES, profile_of
from cacheaware_sim.run_spec import RunSpec, SpecError


@pytest.fixture
def spec():
    def make(**options) -> RunSpec:
        return RunSpec(**{"trace": Path("trace.csv"), "policy": "cacheaware", **options})

    return make


def test_the_defaults_are_an_8b_model_on_an_l40s(spec):
    one = spec()

    assert one.profile() == PROFILES["llama-3.1-8b-l40s"].recommended()
    assert one.limits == Limits(1, 40)
    assert one.targets == LatencyTargets(1.0, 0.1)
    assert (one.cold_start_s, one.scale, one.seed, one.from_s, one.to_s) == (60, 1, 0, 0, math.inf)


def test_raw_coefficients_are_those_of_the_kernels(spec):
    raw = spec(coefficients="raw").profile().cost

    assert raw == PROFILES["llama-3.1-8b-l40s"].cost
    assert spec().profile().cost.c0_ms == pytest.approx(raw.c0_ms * 1.08)
    assert spec().profile().cost.a1_ms_per_ktok == pytest.approx(raw.a1_ms_per_ktok * 1.2)


def test_the_ends_of_the_band_are_dearer_than_the_recommended_ones(spec):
    recommended, prefill, decode = (
        spec(coefficients=name).profile().cost
        for name in ("recommended", "slow-prefill", "slow-decode")
    )

    assert prefill.a1_ms_per_ktok == pytest.approx(recommended.a1_ms_per_ktok * 1.25)
    assert prefill.c2_ms_per_ktok == recommended.c2_ms_per_ktok
    assert decode.c2_ms_per_ktok == pytest.approx(recommended.c2_ms_per_ktok * 1.8)
    assert decode.a1_ms_per_ktok == recommended.a1_ms_per_ktok


@pytest.mark.parametrize(("seconds", "deviation"), [(0, 0), (15, 3), (50, 10), (60, 10), (240, 30)])
def test_cold_starts_differ_by_what_was_seen(spec, seconds, deviation):
    assert spec(cold_start_s=seconds).cold_start_deviation_s == deviation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "csv"}, "format csv: must be one of auto, azure, "),
        ({"coefficients": "best"}, "coefficients best: must be one of recommended, raw, slow-"),
        ({"variant": "x"}, "variant x: must be one of default, tuned"),
        ({"router": "x"}, "router x: must be one of least-queue, random, round-robin, "),
        ({"shutdown": "x"}, "shutdown x: must be one of finish, abort"),
        ({"prefix_caching": "x"}, "prefix-caching x: must be one of auto, on, off"),
        ({"faults": "x"}, "faults x: must be one of none, pod-killed, "),
        ({"cold_start_s": -1}, "cold-start -1: must be 0 to 86400"),
        ({"cold_start_s": math.nan}, "cold-start nan: must be 0 to 86400"),
        ({"scale": 0}, "scale 0: must be above 0 and at most 1000"),
        ({"scale": 1001}, "scale 1001: must be above 0 and at most 1000"),
        ({"jitter_s": -1}, "jitter -1: must be 0 to 60"),
        ({"slo_ttft_ms": 0}, "slo-ttft-ms 0: must be above 0"),
        ({"slo_tpot_ms": math.inf}, "slo-tpot-ms inf: must be above 0"),
        ({"from_s": -1}, "from -1: must be at least 0"),
        ({"from_s": 9, "to_s": 9}, "to 9: must be above from, 9"),
        ({"min_replicas": 0}, "min-replicas 0: must be at least 1"),
        ({"min_replicas": 5, "max_replicas": 4}, r"max-replicas 4: must be 5 \(min-replicas\)"),
        ({"max_replicas": 1001}, "max-replicas 1001: must be .* to 1000"),
        ({"start_replicas": 41}, "start-replicas 41: must be 1 to 40"),
        ({"start_replicas": 0}, "start-replicas 0: must be 1 to 40"),
        ({"gpu": "tpu"}, r"on gpu tpu with tp 1: must be one of llama-3\.1-8b-h100, .*-tp4, "),
        ({"tp": 0}, "with tp 0: must be one of "),
    ],
    ids=lambda one: (
        " ".join(f"{name}={at}" for name, at in one.items()) if isinstance(one, dict) else ""
    ),
)
def test_a_bad_option_gets_one_line(spec, options, message):
    with pytest.raises(SpecError, match=message) as told:
        spec(**options)
    assert "\n" not in str(told.value)


def test_profiles_are_found_by_model_gpu_and_tensor_parallel():
    assert profile_of("Llama-3.1-70B", "h100", 8) is PROFILES["llama-3.1-70b-h100-tp8"]
    assert profile_of("llama-3.1-8b", "rtx4090").source == "FIT"


def test_profiles_made_for_tests_are_no_models():
    with pytest.raises(ValueError, match="must be one of") as told:
        profile_of("cpu", "tiny")
    assert "cpu-tiny" not in str(told.value)
