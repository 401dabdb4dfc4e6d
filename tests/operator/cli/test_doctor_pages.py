"""`cacheaware doctor --page`: what goes in, what comes out, and the exit code."""

import json
import re
import shlex

import pytest
from tests.operator.cli.conftest import ran
from tests.sidecar.health.pages import AFTER, BEFORE, page


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """before.prom and after.prom in the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(before=None, after=None, **more):
        (tmp_path / "before.prom").write_bytes(page(BEFORE | (before or {}), **more))
        (tmp_path / "after.prom").write_bytes(page(AFTER | (after or {}), **more))
        return ("--page", "before.prom", "--page-after", "after.prom", "--seconds", "60")

    return write


def test_the_example_of_the_help_runs(pages, capsys, monkeypatch):
    pages()
    monkeypatch.setenv("COLUMNS", "200")
    _, told, _ = ran(capsys, "doctor", "--help")
    example = re.search(r"Example: cacheaware (.*?--seconds \d+)", " ".join(told.split()))[1]
    code, out, _ = ran(capsys, *shlex.split(example))
    assert code == 0
    assert out.startswith("before.prom: nothing found; vllm, 20 running")


def test_a_storm_is_an_error_in_both_forms(pages, capsys):
    args = pages({}, {"num_preemptions_total": 1240})
    code, out, _ = ran(capsys, "doctor", *args)
    assert code == 1
    assert "error    preemption-storm\n         240 preemptions in 60 s" in out
    code, out, _ = ran(capsys, "doctor", *args, "-o", "json")
    told = json.loads(out)
    assert code == 1
    assert told["findings"][0]["id"] == "preemption-storm"
    assert told["findings"][0]["subject"] == "before.prom"


def test_the_json_keys_are_stable(pages, capsys):
    slow = {"time_to_first_token_seconds": [0.04] * 190 + [4.0] * 10}
    pages(histograms=slow)
    _, out, _ = ran(capsys, "doctor", "--page", "after.prom", "-o", "json")
    told = json.loads(out)
    assert set(told) == {"workloads", "findings", "looks", "causes", "ruled_out", "open"}
    assert set(told["looks"][0]) == {
        "subject", "engine", "seconds", "running", "waiting", "usage", "latency", "findings",
    }  # fmt: skip
    assert told["looks"][0]["seconds"] is None
    assert {one["id"] for one in told["ruled_out"]} >= {"queueing", "kv-starvation"}
    assert set(told["open"][0]) == {"subject", "id", "why"}


CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def test_stored_probes_are_taken_into_account(pages, capsys, tmp_path):
    slow = {"time_to_first_token_seconds": [0.04] * 190 + [4.0] * 10}
    pages(histograms=slow)
    finding = {"id": "x", "severity": "error", "message": "layer 3, head 2: entropy 0.1"}
    (tmp_path / "probe.json").write_text(json.dumps({"findings": [finding]}))
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"tokens": 64, "hashes": {"float64": f"{name}123"}})
        )
    _, out, _ = ran(
        capsys, "doctor", "--page", "after.prom", "--attention", "probe.json",
        "--rope", "a.json", "--rope", "b.json", "-o", "json",
    )  # fmt: skip
    causes = {one["id"]: one["evidence"] for one in json.loads(out)["causes"]}
    assert causes == {
        "attention": "layer 3, head 2: entropy 0.1",
        "positions": "RoPE tables differ: a a123, b b123",
    }


def test_tables_that_the_rope_probe_wrote_are_compared(pages, capsys, tmp_path):
    pages(histograms={"time_to_first_token_seconds": [0.04] * 190 + [4.0] * 10})
    for name, theta in (("a", 10_000.0), ("b", 10_000.0), ("c", 500_000.0)):
        config = {**CONFIG, "rope_theta": theta}
        (tmp_path / f"{name}.config.json").write_text(json.dumps(config))
        _, out, _ = ran(
            capsys, "probe", "rope", f"{name}.config.json", "--tokens", "64", "-o", "json"
        )
        (tmp_path / f"{name}.json").write_text(out)
    _, out, _ = ran(capsys, "probe", "rope", "a.config.json", "--tokens", "32", "-o", "json")
    (tmp_path / "short.json").write_text(out)

    def judged(*names):
        options = [word for name in names for word in ("--rope", f"{name}.json")]
        return ran(capsys, "doctor", "--page", "after.prom", *options, "-o", "json")

    same, other = json.loads(judged("a", "b")[1]), json.loads(judged("a", "c")[1])
    assert "positions" in {one["id"] for one in same["ruled_out"]}
    assert "positions" in {one["id"] for one in other["causes"]}
    code, _, err = judged("a", "short")
    assert code == 2
    assert "tokens is 64 in a.json, 32 in short.json: allowed are tables of one length" in err


def stored(folder, name, **fields):
    (folder / name).write_text(json.dumps(fields))


def table(folder, name, tokens=64, **hashes):
    stored(folder, name, tokens=tokens, hashes={"float32": "f", "float64": "d", **hashes})


@pytest.mark.parametrize(
    ("first", "others", "told"),
    [
        (200, 200, "none; first token"),
        (5, 200, "not known: fewer than 20 first tokens were seen; other tokens"),
        (200, 0, "not known: fewer than 20 other tokens were seen; first token"),
        (5, 5, "not known: fewer than 20 tokens were timed"),
    ],
)
def test_too_few_tokens_are_not_taken_for_fast_ones(pages, capsys, first, others, told):
    pages(
        histograms={
            "time_to_first_token_seconds": [0.04] * first,
            "inter_token_latency_seconds": [0.01] * others,
        }
    )
    _, out, _ = ran(capsys, "doctor", "--page", "after.prom")
    assert f"slow requests: {told}" in out


def test_what_stored_probes_found_is_told_when_no_request_is_slow(pages, capsys, tmp_path):
    args = pages()
    found = {"id": "probe-drift", "severity": "error", "message": "head 2 drifted", "fix": "look"}
    stored(tmp_path, "probe.json", findings=[found])
    table(tmp_path, "a.json")
    table(tmp_path, "b.json", float32="g")
    probes = ("--attention", "probe.json", "--rope", "a.json", "--rope", "b.json")
    code, out, _ = ran(capsys, "doctor", *args, *probes, "-o", "json")
    told = json.loads(out)
    assert code == 1
    assert [(one["id"], one["subject"]) for one in told["findings"]] == [
        ("probe-drift", "probe.json"), ("rope-differs", "a, b"),
    ]  # fmt: skip
    assert [one["subject"] for one in told["looks"]] == ["before.prom"]
    code, out, _ = ran(capsys, "doctor", *args, *probes)
    assert code == 1
    assert "stored probes: 2 errors" in out


def test_tables_that_are_not_judged_are_told_and_another_libm_is_no_fault(pages, capsys, tmp_path):
    args = pages()
    table(tmp_path, "a.json")
    table(tmp_path, "b.json", float64="of another libm")
    _, out, _ = ran(capsys, "doctor", *args, "--rope", "a.json", "-o", "json")
    assert [one["id"] for one in json.loads(out)["findings"]] == ["rope-not-compared"]
    code, out, _ = ran(capsys, "doctor", *args, "--rope", "a.json", "--rope", "b.json")
    assert code == 0
    assert "nothing found" in out


@pytest.mark.parametrize(
    ("args", "subjects", "said"),
    [
        (
            ("--page", "absent.prom", "--page", "before.prom", "--page", "after.prom"),
            ["before.prom", "after.prom"], "--page absent.prom: No such file",
        ),
        (
            ("--page", "before.prom", "--page", "before.prom"),
            ["before.prom"], "--page before.prom: named twice",
        ),
        (
            ("--page", "before.prom", "--page-after", "absent.prom"),
            ["before.prom"], "--page-after absent.prom: No such file",
        ),
        (
            ("--page", "absent.prom", "--page-after", "after.prom"),
            ["absent.prom"], "--page absent.prom: No such file",
        ),
    ],
)  # fmt: skip
def test_a_page_that_can_not_be_read_does_not_hold_back_the_others(
    pages, capsys, args, subjects, said
):
    pages()
    code, out, err = ran(capsys, "doctor", *args, "-o", "json")
    assert code == 2
    told = json.loads(out)["looks"]
    assert [one["subject"] for one in told] == subjects
    assert all((one["running"], one["seconds"]) == (20, None) for one in told)
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        ({"severity": []}, "findings[0].severity is []: allowed are error, warning, info"),
        ({"severity": "fatal", "id": "x", "message": "y"}, "findings[0].severity is 'fatal'"),
        ({"severity": "error", "id": "x"}, "findings[0].message is None: allowed is text"),
        ({"severity": "error", "id": {}, "message": "y"}, "findings[0].id is {}"),
    ],
)
def test_a_stored_finding_of_a_wrong_type_does_not_hold_back_the_page(
    pages, capsys, tmp_path, finding, said
):
    args = pages()
    stored(tmp_path, "probe.json", findings=[finding])
    code, out, err = ran(capsys, "doctor", *args, "--attention", "probe.json")
    assert code == 2
    assert out.startswith("before.prom: nothing found")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--page-after", "after.prom"), "--page-after is given without --page"),
        (
            ("--page", "before.prom", "--page-after", "after.prom", "--page-after", "x"),
            "--page-after is given 2 times and --page 1",
        ),
        (("--page", "before.prom", "--seconds", "0"), "--seconds is 0; allowed: more than 0"),
        (("--page", "before.prom", "--seconds", "3"), "--seconds is given without --page-after"),
        (("--page", "absent.prom"), "absent.prom: No such file"),
        (("--page", "before.prom", "--page", "before.prom"), "before.prom: named twice"),
        (("--page", "before.prom", "--attention", "before.prom"), "before.prom: not JSON"),
        (
            ("--page", "before.prom", "--rope", "empty.json"),
            "hashes.float64 is None: allowed is the text",
        ),
        (("--page", "before.prom", "--attention", "empty.json"), "findings is missing"),
        (("--page", "before.prom", "--attention", "list.json"), "a JSON object is allowed"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(pages, capsys, tmp_path, args, said):
    pages()
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "list.json").write_text("[]")
    code, _, err = ran(capsys, "doctor", *args)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_two_pods_of_one_kind_are_not_told_as_a_restart(pages, capsys):
    fewer = {name: 5 for name in AFTER if name.endswith("_total")}
    args = pages({"process_start_time_seconds": 100}, fewer | {"process_start_time_seconds": 160})
    _, out, _ = ran(capsys, "doctor", *args, "-o", "json")
    told = json.loads(out)
    ids = {one["id"] for one in told["findings"]}
    assert "restart-or-two-engines" in ids
    assert "engine-restarted" not in ids
    assert told["looks"][0]["seconds"] is None
