"""The canary in the real process, its schedule in tenths of a second."""

import json

import pytest
from tests.sidecar.canary.fakes import completion, run
from tests.sidecar.conftest import ROOT, Sidecar

QUICK = f"""\
import sys
sys.path.insert(0, {str(ROOT / "sidecar")!r})
from cacheaware_sidecar.canary import keeper, watch
watch.STEP_S = 0.1
keeper.Canary.pause_s = property(lambda self: 0.1)
from cacheaware_sidecar.__main__ import main
sys.exit(main([]))
"""


@pytest.fixture
def quick(engine, tmp_path):
    one = Sidecar(engine, tmp_path, program=("-c", QUICK), canary_seconds=60, warmup="off")
    try:
        yield one.start()
    finally:
        one.process.kill()
        one.process.wait(10)


def canary(sidecar):
    return sidecar.get("/v1/state").json()["canary"]


def test_it_learns_finds_a_drift_and_never_makes_the_pod_unready(engine, quick):
    usual, model = engine._content, {"run": run}

    def answers(path, body):
        if body and body.get("logprobs"):
            return 200, json.dumps(completion(model["run"]()))
        return usual(path, body)

    engine._content = answers
    quick.until(lambda: canary(quick)["baseline"] == "learned")
    quick.until(lambda: canary(quick)["tokens"] == 55)
    assert canary(quick)["verdict"] == "Same"
    assert json.loads((quick.folder / "canary.json").read_text())["model"] == "m"

    model["run"] = lambda: run(shift=0.2)
    quick.until(lambda: canary(quick)["drifted_runs"] >= 3)
    state = quick.get("/v1/state").json()
    assert [one["id"] for one in state["findings"] if one["id"] == "canary-drift"]
    assert (
        'cacheaware_finding{id="canary-drift",severity="warning"} 1.0' in quick.get("/metrics").text
    )
    assert quick.is_ready

    engine.waiting = 2.0
    quick.until(lambda: canary(quick)["reason"] == "the last run was skipped: 2 requests wait")
    assert quick.is_ready


def test_an_engine_without_log_probabilities_is_said_to_be(engine, quick):
    quick.until(lambda: canary(quick)["verdict"] == "NotApplicable")

    assert "no log probabilities" in canary(quick)["reason"]
    assert quick.is_ready
    assert quick.stop() == 0
