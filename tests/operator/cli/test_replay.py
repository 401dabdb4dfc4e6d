"""`cacheaware replay`: what would be decided today, given what was seen."""

import gzip
import io
import json
import sys

import pytest
from tests.operator.cli.conftest import example, ran
from tests.operator.recording.played import play

from cacheaware.cli.policy_options import changed
from cacheaware.recording.lines import written

STEP_KEYS = {
    "at_s", "current", "desired", "raw", "reason", "message", "serving", "starting", "overdue",
    "cordoned", "unknown", "limited_by", "terms", "victims", "cordons", "uncordons",
}  # fmt: skip
SUMMARY_KEYS = {
    "rounds", "seconds", "cut", "mode", "recorded", "desired", "growing_rounds",
    "shrinking_rounds", "reasons",
}  # fmt: skip
REGRET_KEYS = {
    "cold_start_s", "cold_start_source", "seconds", "unwatched_s", "recorded_replica_hours",
    "hindsight_replica_hours", "over_replica_hours", "gpus_per_replica", "recorded_gpu_hours",
    "hindsight_gpu_hours", "regret_percent", "short_s", "beyond_max_s", "unknown_s", "shrinks",
    "regretted_shrinks",
}  # fmt: skip
SCALER = """
apiVersion: cacheaware.dev/v1alpha1
kind: CacheAwareScaler
metadata: {name: chat}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  maxReplicas: 3
"""


@pytest.fixture(scope="module")
def wave():
    """The lines of a short wave."""
    with pytest.MonkeyPatch.context() as patch:
        played = play(patch, (4, 30, 2), seconds=60.0)
    return [written(one) for one in (played.header, *played.rounds)]


@pytest.fixture
def recording(wave, tmp_path):
    path = tmp_path / "wave.jsonl"
    path.write_text("".join(wave))
    return path


def page(usage, waiting=0):
    label = '{model_name="m"}'
    return (
        f"vllm:num_requests_running{label} 3\nvllm:num_requests_waiting{label} {waiting}\n"
        f"vllm:kv_cache_usage_perc{label} {usage}\n"
    )


def state(usage, waiting=0.0):
    return {
        "schema": 1, "phase": "serving", "sample_age_s": 0.2, "running": 3.0, "waiting": waiting,
        "kv": {"usage": usage, "used_tokens": usage * 1000, "capacity_tokens": 1000.0},
    }  # fmt: skip


def as_json(capsys, *args):
    code, out, err = ran(capsys, "replay", *map(str, args), "-o", "json")
    return code, json.loads(out), err


def test_json_has_every_round_under_stable_keys(capsys, recording, wave):
    code, found, err = as_json(capsys, recording, "--regret")

    assert (code, err) == (0, "")
    assert found.keys() == {"file", "open_loop", "spec", "steps", "summary", "regret"}
    assert len(found["steps"]) == found["summary"]["rounds"] == len(wave) - 1
    assert {frozenset(one) for one in found["steps"]} == {frozenset(STEP_KEYS)}
    assert found["summary"].keys() == SUMMARY_KEYS
    assert found["regret"].keys() == REGRET_KEYS
    assert found["open_loop"] is True
    terms = {frozenset(term) for one in found["steps"] for term in one["terms"]}
    assert terms == {frozenset({"signal", "demand", "per_replica", "unit", "replicas", "note"})}


def test_without_regret_there_is_none(capsys, recording):
    assert as_json(capsys, recording)[1]["regret"] is None


def test_the_table_shows_the_rounds_in_which_something_changes(capsys, recording, wave):
    _, some, _ = ran(capsys, "replay", str(recording))
    _, every, _ = ran(capsys, "replay", str(recording), "--all")

    assert "Open loop" in some
    assert "ScaledUp" in some
    assert "0:00:20" in every
    assert "0:00:20" not in some
    assert some.count("\n") < every.count("\n")
    assert every.count("\n") >= len(wave) - 1


def test_a_packed_recording_and_standard_input_are_read_alike(
    capsys, recording, tmp_path, monkeypatch
):
    packed = tmp_path / "wave.gz"
    packed.write_bytes(gzip.compress(recording.read_bytes()))
    plain = as_json(capsys, recording)[1]["steps"]

    class Input:
        buffer = io.BytesIO(packed.read_bytes())

    assert as_json(capsys, packed)[1]["steps"] == plain
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Input)
        assert as_json(capsys, "-")[1]["steps"] == plain


def test_a_folder_of_recordings_is_each_of_them(capsys, recording):
    (recording.parent / "wave-2.jsonl").write_bytes(recording.read_bytes())
    _, found, _ = as_json(capsys, recording.parent)

    assert [one["file"] for one in found] == [
        str(recording.parent / "wave-2.jsonl"),
        str(recording),
    ]


def test_a_recording_that_was_cut_is_answered_and_said_to_be(capsys, recording):
    recording.write_bytes(recording.read_bytes()[:-30])
    code, found, _ = as_json(capsys, recording)
    _, table, _ = ran(capsys, "replay", str(recording))

    assert (code, found["summary"]["cut"]) == (0, True)
    assert "the recording was cut there" in table


def test_the_policy_can_be_changed(capsys, recording):
    _, before, _ = as_json(capsys, recording)
    _, after, _ = as_json(
        capsys, recording, "--set", "targets.kvUtilizationPercent=20", "--set", "maxReplicas=12"
    )

    assert after["spec"]["targets"] == {"kvUtilizationPercent": 20}
    assert max(one["desired"] for one in after["steps"] if one["current"] < 12) == 12
    raw = [sum(one["raw"] or 0 for one in found["steps"]) for found in (before, after)]
    assert raw[1] > 2 * raw[0]


def test_a_manifest_takes_the_place_of_the_recorded_spec(capsys, recording, tmp_path):
    manifest = tmp_path / "scaler.yaml"
    manifest.write_text(SCALER)
    _, found, _ = as_json(capsys, recording, "-f", manifest, "--set", "mode=Advise")

    assert found["summary"]["mode"] == "Advise"
    assert found["spec"]["maxReplicas"] == 3
    assert found["spec"]["behavior"]["scaleUp"]["policies"], "as the API server would fill it in"
    assert any("maxReplicas" in one["limited_by"] for one in found["steps"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Service\n", "holds 0 of CacheAwareScaler; allowed: one"),
        (SCALER + "---" + SCALER, "holds 2 of CacheAwareScaler; allowed: one"),
        (SCALER.replace("maxReplicas", "maxReplica"), "spec has no field maxReplica; allowed: "),
        ("kind: CacheAwareScaler\nspec: 3\n", "spec is 3; allowed: an object"),
        ("a: [", "scaler.yaml: "),
    ],
    ids=["none", "two", "field", "no spec", "no yaml"],
)
def test_a_manifest_that_cannot_be_used_is_one_line(capsys, recording, tmp_path, text, says):
    manifest = tmp_path / "scaler.yaml"
    manifest.write_text(text)
    code, out, err = ran(capsys, "replay", str(recording), "-f", str(manifest))

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("maxReplicas", "--set maxReplicas: allowed is path.to.field=value"),
        ("targets.kv=70", "--set targets.kv=70: spec.targets has no field kv; allowed: kvUtil"),
        ("maxReplica=5", "--set maxReplica=5: spec has no field maxReplica; allowed: "),
        ("maxReplicas=many", "spec.maxReplicas is 'many'; allowed: valid integer"),
        ("minReplicas=30", "minReplicas 30 must not be greater than maxReplicas 20"),
        ("targets=5", "spec.targets is 5; allowed: "),
    ],
)
def test_a_setting_that_is_wrong_is_one_line(capsys, recording, setting, says):
    code, out, err = ran(capsys, "replay", str(recording), "--set", setting)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_a_field_is_set_beside_the_others():
    spec = {"targets": {"kvUtilizationPercent": 70, "pendingPerReplica": 3}}

    assert changed(spec, ["targets.pendingPerReplica=9", "mode=Scale"]) == {
        "targets": {"kvUtilizationPercent": 70, "pendingPerReplica": 9},
        "mode": "Scale",
    }
    assert spec["targets"]["pendingPerReplica"] == 3


# Pages and states


def test_pages_in_the_order_of_their_numbers_are_one_pods_rounds(capsys, tmp_path):
    for number, usage in ((2, 0.5), (10, 0.9), (1, 0.1)):
        (tmp_path / f"page-{number}.txt").write_text(page(usage))
    _, found, _ = as_json(capsys, tmp_path, "--interval", "15")

    assert [one["at_s"] for one in found["steps"]] == [0, 15, 30]
    assert [round(one["terms"][0]["demand"], 3) for one in found["steps"]] == [0.1, 0.5, 0.9]
    assert found["steps"][-1]["desired"] == 2


def test_pages_named_one_by_one_are_in_the_order_of_the_command_line(capsys, tmp_path):
    first, second = tmp_path / "b.txt", tmp_path / "a.txt"
    first.write_text(page(0.2))
    second.write_text(page(0.4))
    _, found, _ = as_json(capsys, first, second)

    assert [one["terms"][0]["demand"] for one in found[0]["steps"]] == [0.2, 0.4]
    assert found[0]["file"] == f"{first} and 1 more"


def test_a_folder_for_each_pod_is_a_fleet(capsys, tmp_path):
    for pod, usage in (("a", 0.9), ("b", 0.9), ("c", 0.1)):
        (tmp_path / pod).mkdir()
        (tmp_path / pod / "1.txt").write_text(page(usage))
    (tmp_path / "a" / "2.txt").write_text(page(0.5))
    _, found, _ = as_json(capsys, tmp_path)

    assert [one["current"] for one in found["steps"]] == [3, 3]
    assert found["steps"][0]["serving"] == 3
    assert found["steps"][0]["terms"][0]["demand"] == pytest.approx(1.9)


def test_states_are_read_from_a_file_each_or_from_lines(capsys, tmp_path):
    one, many = tmp_path / "one.json", tmp_path / "many.jsonl"
    one.write_text(json.dumps(state(0.95), indent=2))
    many.write_text("".join(json.dumps(state(usage)) + "\n" for usage in (0.95, 0.3)))

    (alone,) = as_json(capsys, one)[1]["steps"]
    lines = as_json(capsys, many)[1]["steps"]
    assert alone == lines[0]
    assert alone["terms"][0] | {"note": ""} == {
        "signal": "kv-tokens", "demand": 950.0, "per_replica": 800.0, "unit": "tokens",
        "replicas": 2, "note": "",
    }  # fmt: skip
    assert lines[1]["terms"][0]["demand"] == 300.0


def test_a_state_of_a_newer_schema_is_unknown_data(capsys, tmp_path):
    path = tmp_path / "new.json"
    path.write_text(json.dumps(state(0.5) | {"schema": 99}))
    code, found, _ = as_json(capsys, path)

    assert (code, found["steps"][0]["reason"]) == (0, "MetricsUnknown")


# Bad input


def test_good_files_among_bad_ones_are_answered(capsys, recording, tmp_path):
    bad, new = tmp_path / "bad.jsonl", tmp_path / "new.jsonl"
    lines = recording.read_text().splitlines(keepends=True)
    bad.write_text("".join([*lines[:5], lines[5].replace('"replicas":4', '"replicas":-4')]))
    new.write_text(lines[0].replace('"schema":1', '"schema":7'))
    missing = tmp_path / "missing"
    code, found, err = as_json(capsys, bad, new, missing, recording)

    assert code == 2
    assert [one["file"] for one in found] == [str(recording)]
    assert err.splitlines() == [
        f"cacheaware: {bad}: line 6: replicas is -4; allowed: greater than or equal to 0",
        f"cacheaware: {new}: line 1: schema is 7; this version reads 1 to 1",
        f"cacheaware: {missing}: can't be read: No such file or directory",
    ]


def test_of_one_input_that_cannot_be_read_json_is_null(capsys, tmp_path):
    assert as_json(capsys, tmp_path / "missing")[:2] == (2, None)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b'{"phase": "serving"}', "state.schema is None"),
        (b'{"schema": 1, "phase": "asleep"}', "state.phase is 'asleep'; allowed: loading, "),
        (b'{"schema": 1, "phase": "serving"}\n{"schema"', "line 2: not JSON: "),
        (b"\x1f\x8b\x08 broken", "line 1: the gzip in it is damaged"),
        (b'{"schema": ' * 100_000, "not JSON: maximum recursion depth"),
        (b'{"kind": "Pod"}\n', "line 1: kind is 'Pod'; allowed: 'cacheaware-recording'"),
    ],
    ids=["empty", "no schema", "phase", "line", "gzip", "deep", "manifest"],
)
def test_a_file_that_is_nothing_of_all_that_is_one_line(capsys, tmp_path, content, says):
    path = tmp_path / "what"
    path.write_bytes(content)
    code, out, err = ran(capsys, "replay", str(path))

    if "schema is None" in says:
        assert (code, "UnknownSchema" in out) == (0, True)
        return
    assert code == 2
    assert err.startswith(f"cacheaware: {path}: {says}")


def test_a_page_that_is_gone_among_others_is_told_and_the_others_are_answered(capsys, tmp_path):
    good = tmp_path / "good.txt"
    good.write_text(page(0.5))
    code, found, err = as_json(capsys, tmp_path / "gone.txt", good)

    assert (code, len(found), len(found[0]["steps"])) == (2, 1, 1)
    assert "gone.txt: can't be read" in err


@pytest.mark.parametrize("mixed", [False, True], ids=["empty", "mixed"])
def test_a_folder_that_is_no_history_is_one_line(capsys, tmp_path, mixed):
    if mixed:
        (tmp_path / "page.txt").write_text(page(0.5))
        (tmp_path / "pod").mkdir()
    code, _, err = ran(capsys, "replay", str(tmp_path))

    says = "holds files and folders" if mixed else "holds no files"
    assert (code, err.startswith(f"cacheaware: {tmp_path}: {says}")) == (2, True)


def test_a_recording_without_a_round_is_one_line(capsys, recording):
    recording.write_text(recording.read_text().splitlines(keepends=True)[0])
    code, _, err = ran(capsys, "replay", str(recording))

    assert (code, err) == (2, f"cacheaware: {recording}: holds no round\n")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--interval", "0", "--interval is 0; allowed: more than 0"),
        ("--cold-start", "-1", "--cold-start is -1; allowed: 0 to 86400"),
    ],
)
def test_bad_options_are_one_line(capsys, recording, option, value, says):
    code, _, err = ran(capsys, "replay", str(recording), option, value)

    assert (code, err.startswith(f"cacheaware: {says}")) == (2, True)


@pytest.mark.parametrize("step", ["answers", "changed"], ids=["reading", "an option"])
def test_where_the_extra_is_missing_it_says_what_to_install(capsys, recording, monkeypatch, step):
    from cacheaware.cli import replay

    def missing(*_):
        raise ModuleNotFoundError(name="pydantic")

    monkeypatch.setattr(replay, step, missing)
    code, _, err = ran(capsys, "replay", str(recording))

    assert code == 2
    assert err == (
        "cacheaware: pydantic is missing: replay needs pip install 'cacheaware[operator]'\n"
    )


# Regret


def test_regret_tells_what_was_ordered_and_what_would_have_done(capsys, recording):
    _, found, _ = as_json(capsys, recording, "--regret", "--cold-start", "30")
    regret, steps = found["regret"], found["steps"]

    ordered = sum(one["current"] for one in steps) * 5 / 3600
    assert regret["recorded_replica_hours"] == pytest.approx(ordered, abs=1e-3)
    assert regret["recorded_gpu_hours"] == pytest.approx(2 * ordered, abs=2e-3)
    assert regret["cold_start_source"] == "given"
    assert regret["hindsight_replica_hours"] > 0
    assert regret["short_s"] > 0, "the wave came faster than pods start"


def test_the_cold_start_is_the_recorded_one_else_assumed_and_said_to_be(
    capsys, recording, tmp_path
):
    alone = tmp_path / "page.txt"
    alone.write_text(page(0.5))
    _, wave, _ = as_json(capsys, recording, "--regret")
    _, pages, _ = as_json(capsys, alone, "--regret", "--gpus-per-replica", "8")

    assert wave["regret"]["cold_start_source"] == "recorded"
    assert wave["regret"]["cold_start_s"] == pytest.approx(30, abs=10)
    assert (pages["regret"]["cold_start_source"], pages["regret"]["cold_start_s"]) == (
        "assumed", 60.0,
    )  # fmt: skip
    assert pages["regret"]["gpus_per_replica"] == 8


def test_regret_is_told_in_a_table_too(capsys, recording):
    lines = recording.read_text().splitlines(keepends=True)
    recording.write_text("".join(lines[:20] + lines[30:]))
    _, table, _ = ran(capsys, "replay", str(recording), "--regret")

    for words in ("GPU-h", "with hindsight", "recorded cold start", "short of need", "not watched"):
        assert words in table


def test_the_example_of_the_help_runs(recording, capsys, monkeypatch):
    monkeypatch.chdir(recording.parent)
    assert ran(capsys, *example("replay"))[0] == 0
