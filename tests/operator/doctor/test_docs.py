"""The table of findings in docs/doctor.md is what the rules can say."""

import re
from pathlib import Path

import cacheaware.doctor
import cacheaware_sidecar.health

ROOT = Path(__file__).parents[3]
SAID = re.compile(r'subject\.(error|warning|info)\(\s*"([a-z-]+)"')
EITHER = re.compile(r'(?:Severity\.WARNING if scaled else Severity\.INFO|severity),\s*"([a-z-]+)"')
OF_ENGINES = re.compile(r'(?:Symptom|Finding)\(\s*"([a-z-]+)",\s*([^,]+),')
"""A rule about engines: its id, and an expression that names the severities."""
ROW = re.compile(r"^\| `([a-z-]+)` \| ([a-z, ]+) \|", re.MULTILINE)
ORDER = ("error", "warning", "info")


def said_in_code():
    found: dict[str, set[str]] = {}
    folders = (cacheaware.doctor, cacheaware_sidecar.health)
    for path in [file for one in folders for file in Path(one.__file__).parent.glob("*.py")]:
        text = path.read_text()
        for id_, severity in OF_ENGINES.findall(text):
            named = {one for one in ORDER if one.upper() in severity}
            found.setdefault(id_, set()).update(named or {"error", "warning"})
        for severity, id_ in SAID.findall(text):
            found.setdefault(id_, set()).add(severity)
        for id_ in EITHER.findall(text):
            found.setdefault(id_, set()).update({"warning", "info"})
    return {id_: ", ".join(s for s in ORDER if s in found[id_]) for id_ in found}


def test_every_finding_is_in_the_docs_with_its_severity():
    rows = ROW.findall((ROOT / "docs" / "doctor.md").read_text())
    assert len(rows) == len(dict(rows))
    assert dict(rows) == said_in_code()


def test_the_reading_of_the_code_finds_what_is_there():
    assert said_in_code()["engine-aborts"] == "error"
    assert said_in_code()["grace-mismatch"] == "error, warning"
    assert said_in_code()["kv-full"] == "error, warning"
    assert said_in_code()["pod-sick"] == "warning"
    assert len(said_in_code()) > 90
