"""Install, refuse nonsense, test, upgrade."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.e2e.release import CHART, Release
from tests.e2e.workload import Fleet, documents, eventually

pytestmark = pytest.mark.e2e

BAD = {
    "minReplicas above maxReplicas": ({"minReplicas": 5, "maxReplicas": 2}, "maxReplicas"),
    "a mode that does not exist": ({"mode": "Yolo"}, "Advise"),
    "a KV target above 100 %": ({"targets": {"kvUtilizationPercent": 180}}, "100"),
    "a fallback above maxReplicas": (
        {"maxReplicas": 3, "fallback": {"afterSeconds": 60, "replicas": 9}},
        "maxReplicas",
    ),
    "no target name": ({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment"}}, "name"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_scaler_is_refused_by_the_api_server_with_a_message_that_helps(
    name: str, fleet: Fleet
):
    change, hint = BAD[name]
    (scaler,) = documents("kind/scaler.yaml")
    scaler["spec"] |= change
    with pytest.raises(subprocess.CalledProcessError) as refused:
        fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump(scaler))
    message = f"{refused.value.stderr}"
    print(message)
    assert hint in message


def test_each_line_that_the_operator_logs_is_json(fleet: Fleet, release: Release):
    fleet.start(1, engine=("--cold-start", "1"))
    fleet.scale_by()
    eventually(
        lambda: fleet.get("cacheawarescaler", fleet.name).get("status"), within=30, what="a status"
    )
    lines = release.log(1000).splitlines()
    assert lines
    for line in lines:
        assert isinstance(json.loads(line), dict), line


def test_helm_test_passes(release: Release):
    print(release.helm("test", release.name, "--logs", "--timeout", "90s"))


def test_an_upgrade_from_the_previous_chart_keeps_resources_and_status(
    fleet: Fleet, release: Release, tmp_path: Path
):
    previous = older_chart(tmp_path)
    release.uninstall()
    release.install(previous)
    fleet.start(1, engine=("--cold-start", "1"))
    fleet.scale_by()
    before = eventually(
        lambda: (o := fleet.get("cacheawarescaler", fleet.name)).get("status") and o,
        within=30,
        what="a status under the previous chart",
    )
    release.install()
    after = fleet.get("cacheawarescaler", fleet.name)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["desiredReplicas"] == before["status"]["desiredReplicas"]
    crd = fleet.get("crd", "cacheawarescalers.cacheaware.dev")
    assert "fallback" in json.dumps(crd), "the upgrade brought the new schema"
    assert fleet.get("deployment", fleet.name)["spec"]["replicas"] == 1


def older_chart(folder: Path) -> Path:
    """A chart as a release before this one would have been: another version, a field less."""
    chart = folder / "cacheaware"
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    about["version"] = "0.0.9"
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about))
    crd = yaml.safe_load((chart / "files" / "crd.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["fallback"]
    spec["x-kubernetes-validations"] = [
        rule for rule in spec.get("x-kubernetes-validations", []) if "fallback" not in rule["rule"]
    ]
    (chart / "files" / "crd.yaml").write_text(yaml.safe_dump(crd))
    return chart
