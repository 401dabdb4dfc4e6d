"""When a pod's cache is lost while the pod goes on."""

from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.observe.look import DIRECT, SIDECAR, Look
from cacheaware.observe.lost_cache import ANEW, WOKE
from cacheaware.observe.memory import PodMemory, pod_view, remember
from cacheaware.pods import PodRecord
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import Counters

LOAD = PodLoad(usage=0.5, running=1.0, waiting=0.0)
RECORD = PodRecord(
    namespace="demo", name="p", uid="u", labels={}, ready=True, ready_since=100.0, created=50.0
)


SILENT = Look(at=0.0, way=DIRECT, unknown=Unknown.REFUSED)


def seen(prompt_tokens=1000.0, **fields):
    counted = Counters(prompt_tokens=prompt_tokens)
    return Look(at=0.0, way=DIRECT, load=replace(LOAD, **fields), counters=counted)


def told(*looks):
    """What a pod tells after looks five seconds apart, at the last one."""
    memory, now = PodMemory(), 0.0
    for place, look in enumerate(looks):
        now = 5.0 * place
        memory = remember(memory, RECORD, replace(look, at=now))
    view = pod_view(RECORD, memory, now=now, wall=now, stale_s=15.0)
    return view.emptied_s, view.emptied_by


def test_a_pod_that_goes_on_has_lost_nothing():
    assert told(seen(), seen(2000.0), seen(2000.0)) == (None, "")


def test_a_counter_that_fell_is_another_engines():
    assert told(seen(), seen(20.0)) == (0.0, ANEW)
    assert told(seen(), seen(20.0), seen(30.0)) == (5.0, ANEW)


def test_the_counter_is_remembered_while_the_pod_is_silent():
    assert told(seen(), SILENT, seen(20.0)) == (0.0, ANEW)
    assert told(seen(), seen(None), seen(20.0)) == (0.0, ANEW)


def test_a_first_look_tells_of_no_loss():
    assert told(SILENT, seen(20.0)) == (None, "")
    assert told(seen(sleeping=False)) == (None, "")


def test_an_engine_that_wakes_has_an_empty_cache():
    asleep, awake = seen(sleeping=True), seen(sleeping=False)

    assert told(awake, asleep) == (None, "")
    assert told(asleep, awake) == (0.0, WOKE)
    assert told(asleep, SILENT, seen(sleeping=None), awake, awake) == (5.0, WOKE)


def test_a_sidecar_that_waits_for_its_engine_again_has_lost_the_cache():
    memory = PodMemory()
    for at, phase in enumerate((Phase.LOADING, Phase.WARMING, Phase.SERVING)):
        memory = remember(memory, RECORD, Look(at=at, way=SIDECAR, load=LOAD, phase=phase))
    assert memory.cache.emptied_at is None

    lost = Look(at=9.0, way=SIDECAR, unknown=Unknown.NOT_YET_SEEN, phase=Phase.LOADING)
    memory = remember(memory, RECORD, lost)

    assert (memory.cache.emptied_at, memory.cache.emptied_by) == (9.0, ANEW)


def test_the_counter_outlives_a_restart_of_the_container():
    memory = remember(PodMemory(), RECORD, seen())
    restarted = replace(RECORD, restarts=1)
    memory = remember(memory, restarted, replace(seen(20.0), at=5.0))

    assert memory.cache.emptied_by == ANEW
