"""Relief: off by default, only of what is known to be full for long enough, rarely, and undone."""

import pytest

from cacheaware_sidecar import relief_abort
from cacheaware_sidecar.engine_answers import Answer
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.lifecycle import Healthy, Lifecycle, Verdict, WarmupEnded
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.pod import Pod
from cacheaware_sidecar.settings import Settings, SettingsError, load

FULL = EngineSample(engine="vllm", running=40, waiting=9, usage=0.99, usage_max=0.99)
ROOM = EngineSample(engine="vllm", running=4, waiting=0, usage=0.3, usage_max=0.3)
ON = {"relief": True, "relief_every_seconds": 300}


@pytest.fixture
def serving(tmp_path):
    def make(**settings):
        pod = Pod(Settings(shared_dir=str(tmp_path), **settings), Lifecycle(since=0.0), boot="b")
        pod.apply(Healthy(), 0.0)
        pod.apply(WarmupEnded(1, Verdict.WARM), 0.0)
        return pod

    return make


def look(pod, sample, now):
    pod.scraped(sample, now)
    return pod.relieve(now)


def hold(pod, sample, begin, end):
    """Looks each second; the seconds at which an abort was due."""
    found = []
    for second in range(begin, end):
        pod.pass_time(float(second))
        if look(pod, sample, float(second)):
            found.append(second)
    return found


def test_it_is_off_by_default(serving):
    pod = serving()
    assert hold(pod, FULL, 1000, 2000) == []
    assert pod.phase is Phase.SERVING
    assert pod.view(2000.0).reliefs is None


def test_a_pod_that_is_full_for_long_enough_cordons_itself_and_says_so(serving):
    pod = serving(**ON)
    hold(pod, FULL, 1000, 1060)
    assert pod.phase is Phase.SERVING
    hold(pod, FULL, 1060, 1061)
    assert pod.phase is Phase.CORDONED
    state = pod.pod_state(1061.0)
    assert state.drain.cordoned_by == "relief"
    assert [one.severity for one in state.findings if one.id == "relief"] == ["error"]
    assert "health: relief (error)" in state.problems
    assert pod.view(1061.0).reliefs == 1


def test_the_cordon_is_a_lease_and_the_next_is_rate_limited(serving):
    pod = serving(**ON)
    hold(pod, FULL, 1000, 1125)
    assert pod.phase is Phase.SERVING  # from 1060 to 1120
    hold(pod, FULL, 1125, 1360)
    assert pod.phase is Phase.SERVING
    hold(pod, FULL, 1360, 1362)
    assert pod.phase is Phase.CORDONED


def test_a_sidecar_that_has_just_started_waits_as_after_a_relief(serving):
    pod = serving(**ON)
    hold(pod, FULL, 1, 299)
    assert pod.phase is Phase.SERVING


def test_room_that_lasts_gives_the_pod_back_early(serving):
    pod = serving(**ON)
    hold(pod, FULL, 1000, 1062)
    hold(pod, ROOM, 1062, 1067)
    assert pod.phase is Phase.CORDONED
    look(pod, ROOM, 1067.0)
    assert pod.phase is Phase.SERVING


def test_an_engine_that_is_empty_between_two_waves_of_requests_stays_out(serving):
    pod = serving(**ON)
    hold(pod, FULL, 1000, 1062)
    for second in range(1062, 1110, 4):
        hold(pod, ROOM, second, second + 3)
        hold(pod, FULL, second + 3, second + 4)
    assert pod.phase is Phase.CORDONED


@pytest.mark.parametrize(
    "sample",
    [
        EngineSample(engine="vllm", running=40, waiting=0, usage=0.99, usage_max=0.99),
        EngineSample(engine="vllm", running=40, waiting=9),
        EngineSample(engine="vllm", running=40, usage=0.99, usage_max=0.99),
        ROOM,
    ],
    ids=["nothing waits", "usage unknown", "waiting unknown", "room"],
)
def test_what_is_not_known_to_be_trouble_is_none(serving, sample):
    pod = serving(**ON)
    hold(pod, sample, 1000, 1500)
    assert pod.phase is Phase.SERVING


def test_one_look_without_the_trouble_begins_anew(serving):
    pod = serving(**ON)
    hold(pod, FULL, 1000, 1050)
    pod.scrape_failed("timed_out", "late", 1050.0)
    pod.relieve(1050.0)
    hold(pod, FULL, 1051, 1110)
    assert pod.phase is Phase.SERVING


def test_nothing_is_aborted_that_was_not_allowed(serving):
    pod = serving(**ON)
    assert hold(pod, FULL, 1000, 1110) == []


def test_where_it_is_allowed_it_aborts_once_after_the_cordon_is_known(serving):
    pod = serving(**ON, relief_abort=True)
    assert hold(pod, FULL, 1000, 1115) == [1070]
    uneven = serving(**ON, relief_abort=True)
    hold(uneven, FULL, 1000, 1066)
    look(uneven, ROOM, 1066.0)
    assert hold(uneven, FULL, 1067, 1115) == [1077]
    calm = serving(**ON, relief_abort=True)
    hold(calm, FULL, 1000, 1062)
    busy = EngineSample(engine="vllm", running=40, waiting=0, usage=0.9, usage_max=0.9)
    assert hold(calm, busy, 1062, 1115) == []


def test_the_operators_cordon_is_left_alone(serving):
    pod = serving(**ON, relief_abort=True)
    from cacheaware_sidecar.lifecycle import UsedToken

    pod.cordon("uid", 300.0, UsedToken("t", 1.0), wall=0.0, now=1000.0)
    assert hold(pod, FULL, 1001, 1200) == []
    look(pod, ROOM, 1200.0)
    assert pod.state.cordon.by == "uid"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"CACHEAWARE_RELIEF_ABORT": "on"}, "CACHEAWARE_RELIEF_ABORT: on is not allowed"),
        (
            {"CACHEAWARE_RELIEF_EVERY_SECONDS": "60"},
            "CACHEAWARE_RELIEF_EVERY_SECONDS: 60 would keep the pod out for ever",
        ),
        ({"CACHEAWARE_RELIEF_USAGE_PERCENT": "0.98"}, "an integer from 50 to 100"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given, said):
    with pytest.raises(SettingsError, match=said.replace("(", r"\(")):
        load(given)


class Engine:
    """Answers by method and path; remembers what was asked."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    async def __call__(self, method, path, payload=None):
        self.asked.append((method, path.partition("?")[0], payload))
        told = self.answers.get(path.strip("/").partition("?")[0], Answer(404))
        return told.pop(0) if isinstance(told, list) else told


async def no_sleep(seconds):
    pass


YES, NO = Answer(200, {}), Answer(200, {"is_paused": False})


async def aborted(engine, folder, kind="vllm"):
    return await relief_abort.abort(kind, engine, folder, no_sleep)


async def test_vllm_aborts_all_without_a_pause_where_it_can(tmp_path):
    told = Answer(200, {"status": "aborted", "aborted": 26})
    engine = Engine(is_paused=NO, abort_requests=told)
    assert await aborted(engine, tmp_path) == "aborted"
    assert engine.asked == [("GET", "/is_paused", None), ("POST", "/abort_requests", {})]


async def test_an_engine_with_nothing_in_flight_is_told_as_such(tmp_path):
    engine = Engine(is_paused=NO, abort_requests=Answer(200, {"aborted": 0}))
    assert await aborted(engine, tmp_path) == "nothing_in_flight"
    assert len(engine.asked) == 2


async def test_no_answer_to_an_abort_is_not_followed_by_a_pause(tmp_path):
    engine = Engine(is_paused=NO, abort_requests=Answer(None, error="late"), pause=YES)
    assert await aborted(engine, tmp_path) == "failed"
    assert len(engine.asked) == 2


@pytest.mark.parametrize("other", [Answer(404), Answer(400, {}), Answer(200), Answer(200, {})])
async def test_vllm_is_else_paused_with_abort_and_resumed_at_once(tmp_path, other):
    late = [Answer(None, error="late"), YES]
    engine = Engine(is_paused=NO, abort_requests=other, pause=YES, resume=late)
    assert await aborted(engine, tmp_path) == "aborted"
    asked = [path for _, path, _ in engine.asked]
    assert asked == ["/is_paused", "/abort_requests", "/pause", "/resume", "/resume"]
    assert not relief_abort.is_marked(tmp_path)


async def test_a_vllm_without_the_routes_is_left_alone(tmp_path):
    engine = Engine()
    assert await aborted(engine, tmp_path) == "no_route"
    assert engine.asked == [("GET", "/is_paused", None)]


async def test_a_vllm_that_others_have_paused_is_neither_paused_nor_resumed(tmp_path):
    engine = Engine(is_paused=Answer(200, {"is_paused": True}), pause=YES, resume=YES)
    assert await aborted(engine, tmp_path) == "paused_by_others"
    assert len(engine.asked) == 1


@pytest.mark.parametrize("told", [Answer(200, []), Answer(500), Answer(None), Answer(200, {})])
async def test_an_answer_that_is_not_clear_stops_it(tmp_path, told):
    assert await aborted(Engine(is_paused=told), tmp_path) == "failed"


async def test_a_pause_that_fails_is_resumed_all_the_same(tmp_path):
    engine = Engine(is_paused=NO, pause=Answer(None, error="late"), resume=YES)
    assert await aborted(engine, tmp_path) == "failed"
    assert engine.asked[-1][1] == "/resume"


async def test_an_engine_that_does_not_resume_leaves_a_mark_for_later(tmp_path):
    engine = Engine(is_paused=NO, pause=YES, resume=Answer(503))
    assert await aborted(engine, tmp_path) == "not_resumed"
    assert relief_abort.is_marked(tmp_path)
    assert await relief_abort.resume(Engine(resume=YES), tmp_path, no_sleep)
    assert not relief_abort.is_marked(tmp_path)


@pytest.mark.parametrize("told", [Answer(404), Answer(None, error="refused")])
async def test_an_engine_that_is_gone_or_another_is_not_paused(tmp_path, told):
    (tmp_path / relief_abort.MARK).touch()
    assert await relief_abort.resume(Engine(resume=told), tmp_path, no_sleep)
    assert not relief_abort.is_marked(tmp_path)


async def test_sglang_aborts_all_by_its_own_route(tmp_path):
    engine = Engine(abort_request=YES)
    assert await aborted(engine, tmp_path, "sglang") == "aborted"
    assert engine.asked == [("POST", "/abort_request", {"rid": "", "abort_all": True})]
    assert await aborted(Engine(), tmp_path, "sglang") == "no_route"


async def test_other_engines_are_asked_nothing(tmp_path):
    engine = Engine()
    assert await aborted(engine, tmp_path, "tgi") == "unsupported_engine"
    assert engine.asked == []
