import pytest
from msgspec.structs import replace

from cacheaware.decide.cold_start import ColdStart, Stage, Starting
from cacheaware.decide.learned import Learned
from cacheaware.observe.cold_starts import cold_start_of, learned_from, starting_of
from cacheaware.observe.memory import PodMemory
from cacheaware.pods import PodRecord
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import StartState

POD = PodRecord(
    namespace="demo",
    name="a",
    uid="a",
    labels={},
    node="node-1",
    created=100.0,
    scheduled_at=101.0,
    started_at=121.0,
    ready=True,
    ready_since=170.0,
)
WARMED = PodMemory(sidecar=True, served=True, start=StartState(loading_s=60.0, warming_s=9.0))


def test_the_stages_add_up_to_the_time_from_created_to_ready():
    start = cold_start_of(POD, WARMED)
    assert start == ColdStart(schedule=1.0, pull=20.0, load=40.0, warm=9.0)
    assert start.total == 70.0


def test_without_a_sidecar_nothing_warms_up():
    assert cold_start_of(POD, PodMemory(served=True)) == ColdStart(
        schedule=1.0, pull=20.0, load=49.0, warm=0.0
    )


@pytest.mark.parametrize(
    ("record", "memory"),
    [
        pytest.param(replace(POD, restarts=1), WARMED, id="its containers have restarted"),
        pytest.param(replace(POD, scheduled_at=None), WARMED, id="no node is known"),
        pytest.param(replace(POD, started_at=None), WARMED, id="no start is known"),
        pytest.param(POD, PodMemory(sidecar=True), id="its sidecar does not tell the warm-up"),
    ],
)
def test_a_start_that_was_not_seen_whole_teaches_nothing(record, memory):
    assert cold_start_of(record, memory) is None
    learned, fresh = learned_from(Learned(), [record], {"a": memory})
    assert (learned.starts, fresh) == ((), ())


def test_each_pod_teaches_once_and_its_node_is_known_from_then_on():
    learned, fresh = learned_from(Learned(), [POD], {"a": WARMED})
    assert [one.total for one in fresh] == [70.0]
    assert learned.nodes == ("node-1",)
    again, none = learned_from(learned, [POD], {"a": WARMED})
    assert (again, none) == (learned, ())


def test_a_pod_that_is_not_ready_teaches_nothing_yet():
    learned, fresh = learned_from(Learned(), [replace(POD, ready=False)], {"a": WARMED})
    assert (learned, fresh) == (Learned(), ())


def test_pods_that_are_gone_are_forgotten_and_what_they_taught_stays():
    learned, _ = learned_from(Learned(), [POD], {"a": WARMED})
    later, _ = learned_from(learned, [], {})
    assert later.counted == frozenset()
    assert later.starts == learned.starts


@pytest.mark.parametrize(
    ("changes", "memory", "expected"),
    [
        pytest.param(
            {"scheduled_at": None, "node": None},
            PodMemory(),
            Starting(Stage.SCHEDULE, 100.0),
            id="no node",
        ),
        pytest.param(
            {"started_at": None}, PodMemory(), Starting(Stage.PULL, 99.0, new_node=True), id="pull"
        ),
        pytest.param({}, PodMemory(), Starting(Stage.LOAD, 79.0, new_node=True), id="load"),
        pytest.param(
            {"startup_budget_s": 600.0},
            PodMemory(phase=Phase.WARMING, phase_at=45.0),
            Starting(Stage.WARM, 5.0, new_node=True, budget_s=600.0),
            id="warm",
        ),
    ],
)
def test_where_a_start_stands(changes, memory, expected):
    record = replace(POD, ready=False, **changes)
    assert starting_of(record, memory, Learned(), now=50.0, wall=200.0) == expected


def test_a_node_that_has_served_is_not_new():
    starting = starting_of(
        replace(POD, ready=False), PodMemory(), Learned(nodes=("node-1",)), now=0.0, wall=200.0
    )
    assert not starting.new_node


@pytest.mark.parametrize("memory", [PodMemory(served=True), PodMemory()])
def test_a_pod_that_has_served_is_not_starting(memory):
    assert starting_of(POD, memory, Learned(), now=0.0, wall=200.0) is None
