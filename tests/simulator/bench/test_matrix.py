"""What parts of the benchmark are made of."""

import re
from pathlib import Path

import pytest

from cacheaware_sim.bench.matrix import BAND, MAIN, QUICK_PEERS, Wanted, cases
from cacheaware_sim.bench.workloads import ALL, R1_DAY, STANDARD
from cacheaware_sim.policies.registry import PEERS
from cacheaware_sim.run_spec import SpecError


def names(some, attribute):
    return {getattr(case, attribute) for case in some}


def test_the_standard_part_has_all_policies_on_five_workloads_in_five_seeds():
    some = cases(Wanted())

    assert {case.workload for case in some} == set(STANDARD)
    assert names(some, "seed") == set(range(5))
    assert {case.setting for case in some} == {MAIN}
    for load in STANDARD:
        here = {(case.policy, case.variant) for case in some if case.workload == load}
        assert {(name, variant) for name in PEERS for variant in ("default", "tuned")} <= here
        assert {("cacheaware", "default"), ("oracle", "default"), ("bound", "default")} <= here
        assert {(f"constant-{number}", "default") for number in load.constants} <= here


def test_no_run_is_asked_for_twice():
    some = cases(Wanted(part="full"))
    assert len(set(some)) == len(some)


def test_the_full_part_adds_the_day_and_a_band_of_settings():
    standard, full = set(cases(Wanted())), cases(Wanted(part="full"))

    assert standard < set(full)
    assert R1_DAY in {case.workload for case in full}
    assert {case.setting for case in full} == {MAIN, *BAND}
    assert {case.setting.coefficients for case in full} == {
        "recommended", "raw", "slow-prefill", "slow-decode",
    }  # fmt: skip
    assert names([case for case in full if case.setting != MAIN], "seed") == {0, 1}


def test_a_workload_alone_can_be_asked_for_though_it_is_of_another_part():
    some = cases(Wanted(only=("r1-day",), seeds=2))

    assert {case.workload for case in some} == {R1_DAY}
    assert names(some, "seed") == {0, 1}


def test_policies_alone_can_be_asked_for():
    some = cases(Wanted(policies=("constant", "cacheaware"), only=("conv",), seeds=1))

    assert {case.policy.split("-")[0] for case in some} == {"constant", "cacheaware"}


def test_the_oracle_has_each_level_of_a_workload_as_its_target():
    some = cases(Wanted(only=("code",), policies=("oracle", "bound")))

    assert [case.target for case in some if case.policy == "oracle"] == [90, 95, 99]
    assert [case.policy for case in some].count("bound") == 1


def test_quick_is_ours_the_constants_and_two_tuned_peers():
    some = cases(Wanted(part="quick"))
    peers = {(case.policy, case.variant) for case in some if case.policy in PEERS}

    assert peers == {(name, "tuned") for name in QUICK_PEERS}
    assert "cacheaware" in names(some, "policy")
    assert names(some, "seed") == {0, 1}
    assert max(case.workload.to_s for case in some) == 1200


def test_without_files_quick_generates_its_traces():
    assert all(case.workload.generated for case in cases(Wanted(part="quick"), files=False))
    assert not any(case.workload.generated for case in cases(Wanted(part="quick")))


def test_the_first_seed_comes_first_so_that_an_interrupted_bench_says_something():
    seeds = [case.seed for case in cases(Wanted())]
    assert seeds == sorted(seeds)


@pytest.mark.parametrize("part", ["quick", "full"])
def test_every_run_can_be(part):
    for case in cases(Wanted(part=part)):
        spec = case.spec(Path("/data"))
        assert (spec.seed, spec.policy) == (case.seed, case.policy)
        assert spec.prefix_caching == "on"  # as vLLM ships


def test_files_lie_in_the_data_folder():
    paths = {load.name: load.path(Path("/data")) for load in ALL}

    assert paths["conv"] == Path("/data/traces/azure2023/AzureLLMInferenceTrace_conv.csv")
    assert paths["prefill-heavy"] == Path("prefill-heavy")


def test_the_traces_lie_beside_the_clone(shared):
    assert all(load.generated or load.path(shared / "data").is_file() for load in ALL)


def test_seeds_differ_on_every_workload():
    for load in ALL:
        jittered = load.scale != 1 or load.jitter_s > 0 or load.generated
        assert jittered or load.trace.startswith("mooncake/"), load.name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "half"}, "part half: must be one of quick, standard, full"),
        ({"only": ("conf",)}, "only conf: must be one of conv, code, mooncake, r1, "),
        ({"policies": ("constant-7",)}, "policies constant-7: must be one of cacheaware, constant"),
        ({"seeds": 0}, "seeds 0: must be 1 to 100"),
    ],
    ids=["part", "workload", "policy", "seeds"],
)
def test_what_there_is_not_gets_one_line(options, message):
    with pytest.raises(SpecError, match="^" + re.escape(message)):
        Wanted(**options)
