"""The end of a pod: grace period, hook, the engine's own shutdown."""

import copy

import pytest
from tests.operator.inject.workloads import SCRIPT, Result, deployment, engine, refusal

from cacheaware.inject.removal import removed


def test_the_workload_that_was_given_is_not_changed():
    body = deployment()
    before = copy.deepcopy(body)

    Result(body)

    assert body == before


@pytest.mark.parametrize(
    ("found", "options", "grace"),
    [
        pytest.param({}, {}, 135, id="two minutes of work, a margin, and the teardown"),
        pytest.param({"terminationGracePeriodSeconds": 60}, {}, 135, id="a short one is raised"),
        pytest.param({"terminationGracePeriodSeconds": 900}, {}, 900, id="a long one stays"),
        pytest.param({}, {"grace": 300}, 300, id="told"),
        pytest.param({"terminationGracePeriodSeconds": 900}, {"grace": 200}, 200, id="shorter"),
    ],
)  # fmt: skip
def test_the_grace_period_and_what_the_sidecar_is_told_agree(found, options, grace):
    made = Result(deployment(**found), **options)

    assert made.spec.get("terminationGracePeriodSeconds") == grace
    assert made.env["GRACE_SECONDS"] == str(grace)


def test_the_engines_own_shutdown_comes_on_top():
    made = Result(deployment(engine(args=["--shutdown-timeout", "60"])))

    assert made.env["ENGINE_SHUTDOWN_SECONDS"] == "60"
    assert made.env["GRACE_SECONDS"] == "195"


def test_pods_that_hand_kv_over_get_the_time_that_this_takes():
    transfer = '{"kv_role": "kv_consumer"}'
    made = Result(deployment(engine(args=["--kv-transfer-config", transfer])))

    assert made.env["ROLE"] == "Decode"
    assert made.env["GRACE_SECONDS"] == "495"


@pytest.mark.parametrize(
    ("args", "role"),
    [
        (["--disaggregation-mode", "prefill"], "Prefill"),
        (["--disaggregation-mode=decode"], "Decode"),
        (['--kv-transfer-config={"kv_role":"kv_both"}'], None),
    ],
)  # fmt: skip
def test_the_role_is_read_from_the_flags(args, role):
    assert Result(deployment(engine(args=args))).env.get("ROLE") == role


def test_a_grace_period_without_time_to_drain_is_refused():
    assert "at least 10" in refusal(deployment(), grace=9)


def test_the_engine_waits_before_sigterm():
    assert Result(deployment()).engine["lifecycle"] == {"preStop": SCRIPT}


@pytest.mark.parametrize(
    ("hook", "floor"),
    [
        ({"sleep": {"seconds": 20}}, "20"),
        ({"exec": {"command": ["sh", "-c", "sleep 12.5"]}}, "13"),
        ({"sleep": {"seconds": 1}}, "5"),
    ],
)
def test_a_hook_that_only_sleeps_is_replaced_and_its_time_kept(hook, floor):
    body = deployment(engine(lifecycle={"preStop": hook}))
    made = Result(body)

    assert made.engine["lifecycle"] == {"preStop": SCRIPT}
    assert made.env["DRAIN_FLOOR_SECONDS"] == floor
    assert removed(made.body) == body


def test_a_hook_of_ones_own_is_left_alone_and_said():
    own = {"exec": {"command": ["/leave.sh"]}}
    made = Result(deployment(engine(lifecycle={"preStop": own})))

    assert made.engine["lifecycle"]["preStop"] == own
    assert "terminationGracePeriodSeconds" not in made.spec
    assert made.env["GRACE_SECONDS"] == "30"
    assert "--replace-hook" in made.notes[0]


def test_a_hook_of_ones_own_is_replaced_when_that_is_asked_for():
    own = {"exec": {"command": ["/leave.sh"]}}
    body = deployment(engine(lifecycle={"preStop": own}))
    made = Result(body, replace_hook=True)

    assert made.engine["lifecycle"]["preStop"] == SCRIPT
    assert removed(made.body) == body


def test_an_image_without_python_asks_the_sidecar():
    made = Result(deployment(engine(image="ghcr.io/ggml-org/llama.cpp:server")))

    assert made.engine["lifecycle"]["preStop"] == {"httpGet": {"path": "/drain/wait", "port": 9440}}


def test_behind_a_request_vllm_gets_time_to_finish_by_itself():
    body = deployment()
    made = Result(body, hook="http")

    assert made.engine["args"] == ["--model", "m", "--shutdown-timeout=130"]
    assert made.env["ENGINE_SHUTDOWN_SECONDS"] == "130"
    assert made.env["GRACE_SECONDS"] == "265"
    assert removed(made.body) == body


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"image": "vllm/vllm-openai:v0.11.0"}, "has no --shutdown-timeout"),
        ({"image": "vllm/vllm-openai:latest"}, "may not know --shutdown-timeout"),
        ({"command": ["sh", "-c", "exec vllm serve m"], "args": []}, "could not be put"),
        ({"args": None}, "could not be put"),
    ],
)
def test_where_vllm_can_not_be_given_time_that_is_said(fields, said):
    made = Result(deployment(engine(**fields)), hook="http")

    assert said in made.notes[0]
    assert made.engine["args"] == fields.get("args", ["--model", "m"])
