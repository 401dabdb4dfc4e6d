"""Ten manifests that differ: what inject makes of them, byte for byte, and back again.

The golden files are what `cacheaware inject --image docker.io/cacheaware/sidecar:dev -f FILE`
printed when a person last read them through.
"""

from pathlib import Path

import kubernetes_validate
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cacheaware.doctor.examine import examine
from cacheaware.doctor.facts import Facts
from cacheaware.doctor.findings import Severity
from cacheaware.doctor.subject import Subject
from cacheaware.inject.injection import injected
from cacheaware.inject.manifest import changed, workloads_in
from cacheaware.inject.options import Options
from cacheaware.inject.removal import removed
from cacheaware.workload.engine import engine_of, kind_of, takes_gpu
from cacheaware.workload.template import workload_of

HERE = Path(__file__).parent
MANIFESTS = sorted((HERE / "manifests").iterdir())
IMAGE = "docker.io/cacheaware/sidecar:dev"
PLAIN = Options(image=IMAGE)
manifests = pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)


def serves(workload):
    return workload.name == "json" or any(kind_of(x) or takes_gpu(x) for x in workload.containers)


def inject(text, options=PLAIN):
    def change(body):
        outcome = injected(body, options)
        return outcome.body, outcome.notes

    result = changed(text, change, serves)
    assert not result.failed
    return result


def remove(text):
    return changed(text, lambda body: (removed(body), ()), lambda _: True).text


def engines(text):
    found = [one for one in workloads_in(text) if serves(one)]
    return [(one, engine_of(one)) for one in found]


def test_objects_that_stay_do_not_make_it_read_the_text_again(monkeypatch):
    text = "---\n".join(["kind: ConfigMap\ndata: {a: b}\n"] * 40) + "---\n"
    text += next(path for path in MANIFESTS if path.suffix == ".yaml").read_text()
    loads = []
    load_all = YAML.load_all
    monkeypatch.setattr(YAML, "load_all", lambda *args: loads.append(1) or load_all(*args))

    assert inject(text).text != text
    assert len(loads) <= 1 + len(engines(text))


def test_there_are_ten_that_differ():
    kinds = {one.kind for path in MANIFESTS for one in workloads_in(path.read_text())}

    assert len(MANIFESTS) == 10
    assert kinds == {"Deployment", "StatefulSet", "LeaderWorkerSet"}


@manifests
def test_the_result_is_what_was_read_through(path):
    assert inject(path.read_text()).text == (HERE / "golden" / path.name).read_text()


@manifests
def test_a_second_run_changes_nothing(path):
    once = inject(path.read_text()).text

    assert inject(once).text == once
    assert inject(once, Options()).text == once, "options of the first run are kept"


@manifests
def test_remove_brings_every_byte_back(path):
    assert remove(inject(path.read_text()).text) == path.read_text()


@manifests
def test_remove_leaves_what_was_never_injected(path):
    assert remove(path.read_text()) == path.read_text()


@manifests
def test_comments_stay_and_hardly_a_line_is_another(path):
    before, after = path.read_text().splitlines(), inject(path.read_text()).text
    comments = [line.partition("#")[2] for line in before if "#" in line]

    assert all(comment in after for comment in comments)
    assert len([line for line in before if line not in after.splitlines()]) <= 4


@manifests
def test_the_doctor_has_nothing_to_warn_of(path):
    for workload, engine in engines(inject(path.read_text()).text):
        found = examine(Subject(workload, engine, Facts()))
        assert [one for one in found if one.severity is not Severity.INFO] == []


@manifests
def test_the_sidecar_is_the_last_init_container_and_restricted(path):
    for workload, _ in engines(inject(path.read_text()).text):
        made = workload.init_containers[-1]
        context = made["securityContext"]

        assert made["name"] == "cacheaware"
        assert made["restartPolicy"] == "Always"
        assert "startupProbe" not in made
        assert context["runAsNonRoot"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "'host':" not in str(made)


@manifests
def test_kubernetes_knows_every_field(path):
    for document in YAML(typ="safe", pure=True).load_all(inject(path.read_text()).text):
        for body in document.get("items", [document]):
            checked = pod_of(body) if body["kind"] == "LeaderWorkerSet" else body
            kubernetes_validate.validate(checked, "1.35", strict=True)


def pod_of(body):
    template = workload_of(body).template
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "leader"}, **template}


def test_the_worker_of_a_group_is_left_as_it_is():
    path = HERE / "manifests" / "04-leaderworkerset.yaml"
    ((workload, _),) = engines(inject(path.read_text()).text)
    group = workload.body["spec"]["leaderWorkerTemplate"]

    assert "initContainers" not in group["workerTemplate"]["spec"]
    assert "livenessProbe" not in workload.init_containers[-1]


OPTIONS = st.builds(
    Options,
    image=st.sampled_from([None, "mirror.example.com/sidecar:1"]),
    port=st.sampled_from([None, 9555]),
    grace=st.sampled_from([None, 700]),
    hook=st.sampled_from([None, "exec", "http"]),
    replace_hook=st.sampled_from([None, True, False]),
    gate_engine=st.sampled_from([None, True]),
    mesh=st.sampled_from([None, True, False]),
    project_token=st.sampled_from([None, True]),
    env=st.sampled_from([None, {"CACHEAWARE_WARMUP": "off", "CACHEAWARE_MODEL": "a b"}]),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from(MANIFESTS), options=OPTIONS, second=OPTIONS)
def test_whatever_the_options_it_can_be_repeated_changed_and_undone(path, options, second):
    text = path.read_text()
    once = inject(text, options).text
    other = inject(once, second).text

    assert inject(once, options).text == once
    assert data(remove(once)) == data(text)
    assert data(remove(other)) == data(text)


def data(text):
    return list(YAML(typ="safe", pure=True).load_all(text))
