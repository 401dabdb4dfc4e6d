import pytest

from cacheaware_sim.first_shapes import Shape
from cacheaware_sim.settings import SettingError, parse, parser, stalls
from cacheaware_sim.termination import Habit


def test_the_defaults_are_a_small_vllm():
    settings = parse([], {})

    assert (settings.host, settings.port, settings.model) == ("0.0.0.0", 8000, "mock")
    assert (settings.config.num_blocks, settings.config.max_model_len) == (512, 4096)
    assert settings.config.termination.habit is Habit.ABORT
    assert settings.config.termination.timeout_s == 0
    assert not settings.faults
    assert settings.api_key is None


def test_flags_of_the_task_are_taken():
    flags = {
        "profile": "tiny",
        "port": 8001,
        "model": "m",
        "time-scale": 2,
        "cold-start": 5,
        "blocks": 128,
        "block-size": 32,
        "max-model-len": 1024,
        "max-num-seqs": 16,
        "max-num-batched-tokens": 512,
        "shutdown-timeout": 20,
        "sigterm": "close",
        "first-shape-stall": 2.0,
        "api-key": "k",
        "answer-tokens": 7,
    }
    given = [part for name, value in flags.items() for part in (f"--{name}", str(value))]
    settings = parse([*given, "--no-prefix-caching", "--faults"], {})
    config = settings.config

    assert (settings.port, settings.model, settings.api_key) == (8001, "m", "k")
    assert (config.num_blocks, config.block_size, config.max_model_len) == (128, 32, 1024)
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (16, 512)
    assert (config.cold_start_s, config.cost.c0_ms) == (5, 2)
    assert (config.termination.habit, config.termination.timeout_s) == (Habit.CLOSE, 20)
    assert config.stalls_s == {
        Shape.LONG_PROMPT: 2.0,
        Shape.CHUNKED_PREFILL: 2.0,
        Shape.BATCHED_DECODE: 2.0,
    }
    assert (config.prefix_caching, settings.faults, settings.answer_tokens) == (False, True, 7)


def test_the_environment_sets_what_flags_do_not():
    environment = {"CACHEAWARE_SIM_PORT": "9000", "CACHEAWARE_SIM_FAULTS": "true"}
    environment |= {"CACHEAWARE_SIM_BLOCKS": "100", "CACHEAWARE_SIM_RAW": "no"}

    settings = parse(["--blocks", "200"], environment)

    assert (settings.port, settings.faults, settings.config.num_blocks) == (9000, True, 200)


def test_time_scale_speeds_up_the_profile_and_nothing_that_was_said_in_seconds():
    scaled = parse(["--time-scale", "4"], {}).config
    said = parse(["--time-scale", "4", "--cold-start", "3"], {}).config

    assert (scaled.cold_start_s, scaled.cost.c0_ms) == (0.5, 1)
    assert said.cold_start_s == 3


def test_a_small_pool_shortens_what_the_profile_allows():
    assert parse(["--blocks", "11"], {}).config.max_model_len == 160


def test_kernel_sums_are_raised_unless_they_are_wanted_raw():
    flags = ["--profile", "llama-3.1-8b-h100"]

    assert parse(flags, {}).config.cost.c0_ms == pytest.approx(6.41 * 1.08)
    assert parse([*flags, "--raw"], {}).config.cost.c0_ms == 6.41


def test_a_stall_can_be_set_for_each_shape():
    assert stalls("long-prompt=3, prefill=0.5") == {Shape.LONG_PROMPT: 3.0, Shape.PREFILL: 0.5}


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        (["--profile", "x"], {}, "profile x: must be one of cpu-tiny, llama"),
        (["--sigterm", "x"], {}, "sigterm x: must be one of abort, finish, close, never"),
        (["--time-scale", "0"], {}, "time-scale 0.0: must be above 0"),
        (["--port", "70000"], {}, "port 70000: must be 0 to 65535"),
        (["--answer-tokens", "0"], {}, "answer-tokens 0: must be at least 1"),
        (["--stream-interval", "0"], {}, "stream-interval 0: must be at least 1"),
        (["--blocks", "1"], {}, "num_blocks 1: must be at least 2"),
        (["--blocks", "x"], {}, "argument --blocks: invalid int value: 'x'"),
        (["--bloks", "1"], {}, "unrecognized arguments: --bloks 1"),
        (["--first-shape-stall", "x=1"], {}, "first-shape-stall x=1: must be seconds"),
        (["--max-model-len", "9000"], {}, "max_model_len 9000: the KV pool holds 8176 tokens"),
        ([], {"CACHEAWARE_SIM_FAULTS": "maybe"}, "CACHEAWARE_SIM_FAULTS maybe: must be true or"),
        ([], {"CACHEAWARE_SIM_PORT": "x"}, "argument --port: invalid int value: 'x'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_in_one_line(flags, environment, message):
    with pytest.raises(SettingError) as error:
        parse(flags, environment)

    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_help_names_every_flag():
    text = parser().format_help()

    assert all(f"--{name}" in text for name in ("sigterm", "time-scale", "first-shape-stall"))
