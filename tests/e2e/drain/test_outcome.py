"""The table of what was lost, and the watch that times are taken from: no cluster needed."""

import io
import json

from tests.e2e.drain.endpoints import Endpoints
from tests.e2e.drain.outcome import Outcome, keep, kept, markdown, outcome, rows, text
from tests.e2e.drain.page import with_table
from tests.e2e.drain.scenarios import Scenario


def found(*, system=True, scenario=Scenario.SCALE_DOWN, **more):
    values = {"habit": "abort", "client": "fresh", "sent": 1000, "ok": 1000, "failed": {}}
    return Outcome(scenario=str(scenario), system=system, **{**values, **more})


def result(**more):
    return {"sent": 3, "ok": 2, "failed": {"cut": 1}, "not_sent": 0, "e2e_s": {"max": 2.0}, **more}


def test_the_generators_of_a_client_are_counted_together():
    one = outcome(
        scenario="s", system=True, habit="h", client="c", facts={},
        results=[result(), result(failed={"refused": 1, "cut": 1}, ok=1, e2e_s=None, not_sent=4)],
    )  # fmt: skip
    assert (one.sent, one.ok, one.lost, one.not_sent) == (6, 3, 3, 4)
    assert one.failed == {"cut": 2, "refused": 1}
    assert one.longest_s == 2.0


def test_with_and_without_stand_side_by_side_in_the_order_of_the_scenarios():
    outcomes = [
        found(scenario=Scenario.CALLED_OFF, system=False, ok=990, failed={"cut": 10}),
        found(system=False, ok=900, failed={"refused": 60, "cut": 40}),
        found(),
    ]
    assert rows(outcomes) == [
        (
            "scale-down to one pod",
            "abort",
            "fresh",
            "1,000",
            "0",
            "1,000",
            "100",
            "cut 40, refused 60",
        ),
        ("drain called off", "abort", "fresh", "", "", "1,000", "10", "cut 10"),
    ]
    assert "| scale-down to one pod | abort | fresh | 1,000 | 0 |" in markdown(outcomes)
    assert "scale-down to one pod" in text(outcomes)


def test_a_loss_with_the_system_tells_its_kind_and_what_was_not_sent_is_told():
    (row,) = rows([found(ok=999, failed={"cut": 1}, not_sent=2)])
    assert row[4] == "1 (cut 1), 2 not sent"


def test_of_several_runs_of_the_same_the_last_counts(tmp_path):
    file = tmp_path / "build" / "drain.jsonl"
    assert kept(file) == []
    keep(found(ok=1), file)
    keep(found(ok=2), file)
    assert [one.ok for one in kept(file)] == [2]


def test_the_table_of_a_page_is_replaced_and_the_rest_stays():
    page = "a\n<!-- table: begin -->\nold\n<!-- table: end -->\nb\n"
    once = with_table(page, [found()])
    assert once.startswith("a\n<!-- table: begin -->\n\n| scenario |")
    assert once.endswith("<!-- table: end -->\nb\n")
    assert "old" not in once
    assert with_table(once, [found()]) == once


def test_the_watch_tells_who_left_and_came_after_a_moment():
    def line(*pods):
        ends = [
            {"conditions": {"ready": ready}, "targetRef": {"name": name}} for name, ready in pods
        ]
        return json.dumps({"endpoints": ends}, indent=4) + "\n"

    watch = Endpoints()
    assert watch.ready() == frozenset()
    watch.follow(io.StringIO(line(("a", True), ("b", True)) + line(("a", False), ("b", True))))
    watch.follow(io.StringIO('{\n    "endpoints": null\n}\n' + line(("a", True))))
    assert [sorted(pods) for _, pods in watch.history] == [["a", "b"], ["b"], [], ["a"]]
    times = [when for when, _ in watch.history]
    assert watch.left("a") == times[1]
    assert watch.came("a", after=times[1] + 1e-9) == times[3]
