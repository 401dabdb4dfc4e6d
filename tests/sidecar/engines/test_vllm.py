"""vLLM over its versions: ranks, capacity, imitations, Ray."""

import pytest

from cacheaware_sidecar.engines import scan

INFO = "vllm:cache_config_info"


def page(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def load(engine: str = "0", running=1, waiting=0, usage=0.5) -> list[str]:
    labels = f'{{engine="{engine}",model_name="m"}}'
    return [
        f"vllm:num_requests_running{labels} {running}",
        f"vllm:num_requests_waiting{labels} {waiting}",
        f"vllm:kv_cache_usage_perc{labels} {usage}",
    ]


def info(engine: str | None = "0", **labels: object) -> str:
    if engine is not None:
        labels["engine"] = engine
    return INFO + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "} 1.0"


def test_one_engine():
    sample = scan(
        page(
            *load(running=3, waiting=2), info(num_gpu_blocks=100, block_size=16, cache_dtype="fp8")
        )
    )
    assert (sample.engine, sample.engines, sample.models) == ("vllm", 1, ("m",))
    assert (sample.running, sample.waiting, sample.usage) == (3, 2, 0.5)
    assert (sample.num_blocks, sample.block_size, sample.kv_dtype) == (100, 16, "fp8")
    assert (sample.capacity_tokens, sample.used_tokens) == (1600, 800)
    assert sample.problems == ()


def test_blocks_are_already_the_sum_over_the_engines():
    both = {"num_gpu_blocks": 54246, "block_size": 16, "cache_dtype": "auto"}
    sample = scan(
        page(*load("0", usage=0.2), *load("1", usage=0.6), info("0", **both), info("1", **both))
    )
    assert (sample.num_blocks, sample.capacity_tokens, sample.engines) == (54246, 867936, 2)
    assert sample.usage == pytest.approx(0.4)
    assert sample.usage_max == 0.6


def test_tokens_are_per_engine_and_weigh_the_usage():
    config = {"num_gpu_blocks": 400, "block_size": 16, "cache_dtype": "auto"}
    sample = scan(
        page(
            *load("0", usage=1.0),
            *load("1", usage=0.0),
            info("0", kv_cache_size_tokens=1000, **config),
            info("1", kv_cache_size_tokens=3000, **config),
        )
    )
    assert (sample.capacity_tokens, sample.usage, sample.usage_max) == (4000, 0.25, 1.0)
    assert sample.used_tokens == 1000


def test_the_engines_own_count_beats_blocks_times_block_size():
    config = {"num_gpu_blocks": 208, "block_size": 784, "kv_cache_size_tokens": 141994}
    sample = scan(page(*load(), info(**config, cache_dtype="auto")))
    assert sample.capacity_tokens == 141994


def test_an_info_without_engine_is_about_all():
    sample = scan(
        page(*load("0"), *load("1"), info(None, num_gpu_blocks=10, block_size=16, cache_dtype="x"))
    )
    assert (sample.capacity_tokens, sample.usage) == (160, 0.5)
    sized = info(None, num_gpu_blocks=10, block_size=16, kv_cache_size_tokens=150)
    assert scan(page(*load("0"), *load("1"), sized)).capacity_tokens == 150


@pytest.mark.parametrize(
    ("infos", "problem"),
    [
        pytest.param([], "not on the page", id="absent"),
        pytest.param(
            [info(num_gpu_blocks=None, block_size=16, cache_dtype="a")],
            "not yet profiled",
            id="None",
        ),
        pytest.param(
            [info(num_gpu_blocks=0, block_size=16, cache_dtype="a")], "whole number", id="zero"
        ),
        pytest.param(
            [info(num_gpu_blocks=-5, block_size=16, cache_dtype="a")], "whole number", id="negative"
        ),
        pytest.param(
            [info(num_gpu_blocks="²", block_size=16, cache_dtype="a")],
            "whole number",
            id="superscript",
        ),
        pytest.param(
            [info(num_gpu_blocks="9" * 20, block_size=16, cache_dtype="a")],
            "whole number",
            id="huge",
        ),
        pytest.param(
            [info(num_gpu_blocks=5, block_size="x", cache_dtype="a")],
            "block_size 'x'",
            id="no block size",
        ),
        pytest.param(
            [
                info("0", num_gpu_blocks=5, block_size=16),
                info("1", num_gpu_blocks=6, block_size=16),
            ],
            "num_gpu_blocks differs",
            id="engines that disagree",
        ),
        pytest.param(
            [info("0", num_gpu_blocks=5, block_size=16, kv_cache_size_tokens="x")],
            "kv_cache_size_tokens 'x'",
            id="tokens no number",
        ),
        pytest.param([INFO + '{engine="0} 1'], "not well formed", id="broken"),
    ],
)
def test_a_capacity_that_cannot_be_read_is_unknown_and_said(infos, problem):
    sample = scan(page(*load(), *infos))
    assert sample.capacity_tokens is None
    assert sample.used_tokens is None
    assert sample.usage == 0.5
    assert problem in " ".join(sample.problems)


def test_tokens_of_one_engine_alone_are_no_capacity():
    sized = info("0", num_gpu_blocks=10, block_size=16, kv_cache_size_tokens=100)
    sample = scan(page(*load("0"), *load("1"), sized))
    assert sample.capacity_tokens is None
    assert "kv_cache_size_tokens is not known for every engine" in " ".join(sample.problems)


def test_a_missing_rank_is_not_empty():
    lines = [*load("0"), *load("1")]
    sample = scan(page(*[line for line in lines if 'waiting{engine="1"' not in line]))
    assert sample.waiting is None
    assert sample.running == 2
    assert "vllm:num_requests_waiting: engine 1 is missing" in sample.problems


def test_a_missing_usage_of_one_rank_is_unknown():
    lines = [*load("0", usage=0.9), *load("1")]
    sample = scan(page(*[line for line in lines if 'perc{engine="1"' not in line]))
    assert (sample.usage, sample.usage_max, sample.used_tokens) == (None, None, None)


def test_models_of_one_engine_add_up():
    sample = scan(
        page(
            'vllm:num_requests_running{model_name="base"} 3',
            'vllm:num_requests_waiting{model_name="base"} 2',
            'vllm:num_requests_waiting{model_name="lora"} 3',
            'vllm:gpu_cache_usage_perc{model_name="base"} 0.1',
        )
    )
    assert (sample.running, sample.waiting, sample.usage) == (3, 5, 0.1)
    assert sample.models == ("base", "lora")


def test_swapped_requests_wait():
    swapped = 'vllm:num_requests_swapped{engine="0",model_name="m"} 4'
    assert scan(page(*load(waiting=2), swapped)).waiting == 6


def test_one_bad_part_of_waiting_makes_it_unknown():
    assert scan(page(*load(waiting=2), "vllm:num_requests_swapped NaN")).waiting is None


def test_waiting_by_reason():
    name = "vllm:num_requests_waiting_by_reason"
    reasons = [
        f'{name}{{engine="{engine}",reason="{reason}"}} {count}'
        for engine, reason, count in [
            ("0", "deferred", 1),
            ("0", "capacity", 2),
            ("1", "capacity", 3),
        ]
    ]
    assert scan(page(*load(), *reasons)).waiting_by_reason == (("capacity", 5), ("deferred", 1))


def test_the_new_name_of_usage_wins():
    assert scan(page(*load(usage=0.3), "vllm:gpu_cache_usage_perc 0.9")).usage == 0.3


@pytest.mark.parametrize(("value", "ratio"), [("-1.0", None), ("0.25", 0.25), ("0.0", 0.0)])
def test_a_hit_rate_of_minus_one_means_off(value, ratio):
    sample = scan(page(*load(), f"vllm:gpu_prefix_cache_hit_rate {value}"))
    assert sample.prefix_hit_ratio == ratio
    assert "hit_rate" not in " ".join(sample.problems)


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("num_requests_running", "NaN", "running"),
        ("num_requests_running", "-1", "running"),
        ("num_requests_waiting", "+Inf", "waiting"),
        ("num_requests_waiting", "-Inf", "waiting"),
        ("num_requests_waiting", "x", "waiting"),
        ("kv_cache_usage_perc", "NaN", "usage"),
        ("kv_cache_usage_perc", "1.01", "usage"),
        ("kv_cache_usage_perc", "-0.1", "usage"),
    ],
)
def test_a_value_that_cannot_be_is_unknown_and_named(name, value, field):
    lines = [line for line in load() if name not in line]
    sample = scan(page(*lines, f'vllm:{name}{{engine="0"}} {value}'))
    assert getattr(sample, field) is None
    assert any(problem.startswith(f"vllm:{name}: ") for problem in sample.problems)
    others = {"running", "waiting", "usage"} - {field}
    assert all(getattr(sample, other) is not None for other in others)


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        pytest.param(
            [info(cache_hit_alignment_tokens=16, kv_cache_size_tokens=9)], ">0.30", id="0.33"
        ),
        pytest.param([info(kv_cache_size_tokens=9)], ">0.21", id="0.24"),
        pytest.param(["vllm:num_requests_waiting_by_reason 0"], ">0.19", id="0.21"),
        pytest.param(["vllm:gpu_cache_usage_perc 0"], ">0.8.5, <0.12", id="0.10"),
        pytest.param([], ">0.8.5", id="kv name alone"),
    ],
)
def test_a_version_is_only_what_the_names_prove(lines, version):
    assert scan(page(*load(), *lines)).version == version


def test_old_versions_are_known_by_the_old_name():
    assert scan(page("vllm:gpu_cache_usage_perc 0")).version == "<0.9.2"
    assert scan(page("vllm:num_requests_running 0")).version is None


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(
            'vllm:request_success_total{finish_reason="stop",model_name="m"} 1', id="finish_reason"
        ),
        pytest.param(INFO + '{block_size="16",num_gpu_blocks="1024"} 1', id="bare config"),
    ],
)
def test_the_simulator_is_told_apart(evidence):
    sample = scan(page(*load(), evidence))
    assert (sample.engine, sample.version) == ("inference-sim", None)


@pytest.mark.parametrize("broken", ["vllm:request_success_total{", INFO + "{"])
def test_a_broken_line_is_no_evidence(broken):
    assert scan(page(*load(), broken)).engine == "vllm"


@pytest.mark.parametrize("prefix", ["ray_vllm_", "ray_vllm:"])
def test_ray_has_names_of_its_own_and_sums_its_workers(prefix):
    def worker(name: str, blocks: int) -> list[str]:
        labels = f'ReplicaId="r",WorkerId="{name}",engine="0"'
        return [
            f'{prefix}num_requests_running{{{labels},model_name="m"}} 2',
            f'{prefix}num_requests_waiting{{{labels},model_name="m"}} 1',
            f'{prefix}kv_cache_usage_perc{{{labels},model_name="m"}} 0.5',
            f'{prefix}cache_config_info{{{labels},block_size="16",num_gpu_blocks="{blocks}"}} 1',
            f'{prefix}prompt_tokens{{{labels},model_name="m"}} 50',
            f'{prefix}prompt_tokens_total{{{labels},model_name="m"}} 70',
        ]

    sample = scan(page(*worker("a", 10), *worker("b", 30), "process_start_time_seconds 1"))
    assert (sample.engine, sample.engines) == ("vllm", 2)
    assert (sample.running, sample.waiting, sample.usage) == (4, 2, 0.5)
    assert (sample.num_blocks, sample.capacity_tokens) == (40, 640)
    assert sample.prompt_tokens == 140
    assert sample.started_at is None


def test_a_start_is_told_by_the_process_else_by_a_counter():
    created = "vllm:prompt_tokens_created 1.7e9"
    assert scan(page(*load(), created)).started_at == 1.7e9
    assert scan(page(*load(), created, "process_start_time_seconds 5")).started_at == 5


def state(engine: str, awake: int) -> list[str]:
    """vLLM 0.33's one-hot gauge of an engine that is awake, or sleeps at level 1."""
    labels = f'engine="{engine}",model_name="m",sleep_state='
    ones = {"awake": awake, "weights_offloaded": 1 - awake, "discard_all": 0}
    return [f'vllm:engine_sleep_state{{{labels}"{one}"}} {n}.0' for one, n in ones.items()]


@pytest.mark.parametrize(
    ("lines", "sleeping"),
    [
        ([], None),
        (state("0", 1), False),
        (state("0", 0), True),
        (["vllm:engine_sleep_state{} 1"], None),
        (['vllm:engine_sleep_state{sleep_state="awake"} NaN'], None),
    ],
)
def test_an_engine_tells_whether_it_sleeps_or_nothing_is_known(lines, sleeping):
    assert scan(page(*load(), *lines)).sleeping is sleeping


@pytest.mark.parametrize(("other", "sleeping"), [(0, True), (1, False)])
def test_a_pod_sleeps_when_all_its_engines_do(other, sleeping):
    both = page(*load("0"), *load("1"), *state("0", 0), *state("1", other))

    assert scan(both).sleeping is sleeping


def test_a_tier_below_the_gpu_is_not_the_cache_that_requests_pin():
    """vLLM 0.33 with an offloading connector: the CPU's store fills and stays full."""
    tier = 'vllm:kv_offload_cpu_cache_usage_perc{engine="0",model_name="m"} 1.0'
    sample = scan(page(tier, *load(usage=0.2)))

    assert (sample.usage, sample.usage_max) == (0.2, 0.2)
