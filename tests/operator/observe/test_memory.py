"""What is remembered of a pod, and how it becomes a view."""

import pytest
from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.decide.prefill_speed import Prefilled
from cacheaware.observe.look import DIRECT, SIDECAR, Look
from cacheaware.observe.memory import PodMemory, idle, measured, pod_view, remember
from cacheaware.pods import PodRecord
from cacheaware_sidecar.engines import Histogram
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import Counters, ShapeState

BUSY = PodLoad(running=3, waiting=9, usage=0.5)
EMPTY = PodLoad(running=0, waiting=0, usage=0.0)
RECORD = PodRecord(
    namespace="demo", name="p", uid="u", labels={}, ready=True, ready_since=100.0, created=50.0
)
UNREADY = replace(RECORD, ready=False, ready_since=None)


def look(at, load=BUSY, **known):
    return Look(at=at, way=known.pop("way", SIDECAR), load=load, **known)


def silent(at, unknown):
    return Look(at=at, way=SIDECAR, unknown=unknown, detail="why")


def after(*looks, record=RECORD):
    memory = PodMemory()
    for one in looks:
        memory = remember(memory, record, one)
    return memory


def view(memory, now, record=RECORD, stale_s=15.0):
    return pod_view(record, memory, now=now, wall=1000.0, stale_s=stale_s)


def test_clocks_of_nodes_do_not_matter_but_a_repeated_sample_is_stale(case):
    """Only our own receive time and the sample's number count."""
    first, second, third = case("016", "input.reports.json")
    stale_s = case("016", "input.state.json")["staleAfterSeconds"]
    seen = {}
    memory = after(look(0.0, PodLoad(waiting=first["waiting"]), seq=first["seq"]))
    seen[1] = view(memory, 0.0, stale_s=stale_s)
    other = after(look(0.0, PodLoad(waiting=second["waiting"]), seq=second["seq"]))
    seen[2] = view(other, 0.0, stale_s=stale_s)
    memory = remember(memory, RECORD, look(90.0, PodLoad(waiting=9), seq=third["seq"]))
    seen[3] = view(memory, 90.0, stale_s=stale_s)
    expected = case("016", "expect.json")
    assert [n for n, pod in seen.items() if pod.unknown is None] == expected["fresh"]
    assert [n for n, pod in seen.items() if pod.unknown is Unknown.STALE] == expected["stale"]


def test_a_sample_that_was_old_when_it_came_ages_from_there():
    memory = after(look(0.0, sample_age_s=14.0, seq=1))
    assert view(memory, 0.5).unknown is None
    assert view(memory, 2.0).unknown is Unknown.STALE
    assert view(memory, 2.0).load is None


def test_without_numbers_the_reported_age_counts():
    memory = after(look(0.0), look(100.0))
    assert view(memory, 101.0).load.running == 3


def test_a_pod_never_asked_is_not_yet_seen():
    assert view(after(None), 0.0).unknown is Unknown.NOT_YET_SEEN


def test_a_timeout_keeps_the_last_load_for_growth_only():
    memory = after(look(0.0), silent(5.0, Unknown.TIMED_OUT))
    found = view(memory, 500.0)
    assert (found.load, found.unknown) == (None, Unknown.TIMED_OUT)
    assert found.stale_load.waiting == 9


@pytest.mark.parametrize("unknown", [Unknown.REFUSED, Unknown.UNAUTHORIZED, Unknown.INVALID])
def test_any_other_silence_keeps_nothing(unknown):
    memory = after(look(0.0), silent(5.0, unknown), silent(10.0, Unknown.TIMED_OUT))
    assert view(memory, 10.0).stale_load is None


def test_idle_rounds_count_only_new_samples_and_start_anew_with_load():
    memory = after(look(0.0, EMPTY, seq=1), look(5.0, EMPTY, seq=1))
    assert view(memory, 5.0).idle_rounds == 1
    memory = remember(memory, RECORD, look(10.0, EMPTY, seq=2))
    assert view(memory, 10.0).idle_rounds == 2
    assert view(remember(memory, RECORD, look(15.0, BUSY, seq=3)), 15.0).idle_rounds == 0
    assert view(remember(memory, RECORD, None), 15.0).idle_rounds == 0
    assert view(remember(memory, RECORD, silent(15.0, Unknown.ERROR)), 15.0).idle_rounds == 0


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (EMPTY, True),
        (PodLoad(running=0, waiting=0), True),
        (PodLoad(running=0, waiting=0, usage=0.001), True),
        (PodLoad(running=0, waiting=0, usage=0.02), False),
        (PodLoad(running=0, usage=0.0), False),
        (PodLoad(usage=0.0), False),
        (BUSY, False),
    ],
)
def test_what_is_not_known_is_not_idle(load, expected):
    assert idle(load) is expected


def test_the_sidecars_phase_is_kept_while_it_is_silent():
    memory = after(look(0.0, phase=Phase.CORDONED), silent(5.0, Unknown.TIMED_OUT))
    assert view(memory, 5.0).phase is Phase.CORDONED


def test_in_direct_readiness_tells_the_phase_and_observation_never_unserves():
    assert view(after(look(0.0, way=DIRECT), record=UNREADY), 0.0, UNREADY).phase is Phase.LOADING
    memory = after(look(0.0, way=DIRECT))
    assert view(memory, 0.0).phase is Phase.SERVING
    assert view(remember(memory, UNREADY, look(5.0)), 5.0, UNREADY).phase is Phase.SERVING


def test_what_served_before_this_operator_came_is_not_taken_for_a_start():
    """Its requests are not known, so none of them may be given up with it."""
    overloaded = replace(UNREADY, was_ready=True)
    memory = after(silent(0.0, Unknown.TIMED_OUT), record=overloaded)
    assert view(memory, 0.0, overloaded).phase is Phase.SERVING


def test_a_container_that_restarted_begins_anew():
    memory = after(look(0.0, EMPTY))
    restarted = replace(UNREADY, restarts=1)
    memory = remember(memory, restarted, silent(5.0, Unknown.REFUSED))
    found = view(memory, 5.0, restarted)
    assert (found.phase, found.idle_rounds, found.stale_load) == (Phase.LOADING, 0, None)


def test_ages_come_from_the_apis_clock_and_are_never_negative():
    found = view(after(look(0.0)), 0.0)
    assert (found.age_s, found.serving_age_s) == (950.0, 900.0)
    future = replace(RECORD, created=2000.0, ready_since=2000.0)
    found = view(after(look(0.0), record=future), 0.0, future)
    assert (found.age_s, found.serving_age_s) == (0.0, 0.0)
    assert view(after(None, record=UNREADY), 0.0, UNREADY).serving_age_s is None


def test_a_drain_that_was_called_off_makes_no_pod_young_again():
    memory = after(look(0.0))
    memory = remember(memory, UNREADY, look(5.0, phase=Phase.CORDONED))
    back = replace(RECORD, ready_since=990.0)
    memory = remember(memory, back, look(10.0, phase=Phase.SERVING))
    assert view(memory, 10.0, back).serving_age_s == 900.0


def test_latency_is_measured_over_the_last_half_minute_or_more():
    def at(second, count):
        return look(second, ttft=Histogram(count, 0.0, ((1.0, count), (2.0, count))), seq=second)

    memory = after(at(0, 0))
    assert view(memory, 0).load.ttft_p90_s is None
    memory = remember(memory, RECORD, at(5, 10))
    assert view(memory, 5).load.ttft_p90_s == pytest.approx(0.9)
    for second in range(10, 70, 5):
        memory = remember(memory, RECORD, at(second, 10))
    assert view(memory, 65).load.ttft_p90_s is None
    assert 30 <= 65 - measured(memory, 65).at <= 65


def counted(prompts, ended, seconds=None, tokens=None):
    return Counters(
        prompt_tokens=prompts, requests=ended, prefill_seconds=seconds, prefilled_tokens=tokens
    )


def test_what_came_and_what_ended_is_counted_between_two_looks():
    memory = after(
        look(0.0, seq=1, counters=counted(1000.0, 5.0, 2.0, 800.0)),
        look(5.0, seq=2, counters=counted(1600.0, 8.0, 3.5, 1200.0)),
    )

    assert memory.load.new_prompt_tokens == 600.0
    assert memory.prefilled == Prefilled(seconds=1.5, tokens=400.0, requests=3.0)


def test_the_first_look_the_same_sample_and_silence_bring_nothing_new():
    first = after(look(0.0, seq=1, counters=counted(1000.0, 5.0, 2.0, 800.0)))
    again = remember(first, RECORD, look(5.0, seq=1, counters=counted(1000.0, 5.0, 2.0, 800.0)))
    ended = after(
        look(0.0, seq=1, counters=counted(0.0, 0.0, 0.0, 0.0)),
        look(5.0, seq=2, counters=counted(9.0, 9.0, 9.0, 9.0)),
    )

    assert (first.load.new_prompt_tokens, first.prefilled) == (None, Prefilled())
    assert (again.load.new_prompt_tokens, again.prefilled) == (0.0, Prefilled())
    for why in (Unknown.TIMED_OUT, Unknown.ERROR):
        assert remember(ended, RECORD, silent(10.0, why)).prefilled == Prefilled()
    assert remember(ended, RECORD, None).prefilled == Prefilled()


def test_after_an_engine_began_anew_its_totals_count_from_the_next_look():
    """Of two engines with 500 prompt tokens each one is replaced: the other's 500 are old."""
    fell = after(
        look(0.0, seq=1, counters=counted(1000.0, 50.0, 20.0, 800.0)),
        look(5.0, seq=2, counters=counted(500.0, 25.0, 10.0, 900.0)),
    )
    rose = remember(fell, RECORD, look(10.0, seq=3, counters=counted(800.0, 27.0, 11.0, 1150.0)))

    assert (fell.load.new_prompt_tokens, fell.prefilled) == (None, Prefilled())
    assert rose.load.new_prompt_tokens == 300.0
    assert rose.prefilled == Prefilled(seconds=1.0, tokens=250.0, requests=2.0)


def test_impossible_totals_are_unknown():
    memory = after(
        look(0.0, seq=1, counters=counted(1000.0, 5.0, 2.0, 800.0)),
        look(5.0, seq=2, counters=counted(1600.0, 8.0, 1e300, 1200.0)),
    )

    assert memory.prefilled == Prefilled()


def test_an_engine_that_does_not_tell_its_prefill_adds_nothing():
    memory = after(
        look(0.0, seq=1, counters=counted(1000.0, 5.0)),
        look(5.0, seq=2, counters=counted(1600.0, 8.0)),
    )

    assert memory.prefilled == Prefilled()


def test_after_an_error_what_came_meanwhile_is_not_known():
    memory = after(
        look(0.0, seq=1, counters=counted(1000.0, 5.0)),
        silent(5.0, Unknown.ERROR),
        look(10.0, seq=2, counters=counted(9000.0, 8.0)),
    )

    assert memory.load.new_prompt_tokens is None


def test_the_prompts_of_a_warm_up_are_nobodys_though_the_engine_counts_them():
    """A sample may be older than the end of the warm-up that the same answer tells."""

    def at(second, tokens, phase, **known):
        told = Counters(prompt_tokens=tokens)
        return look(float(second), EMPTY, phase=phase, seq=second, counters=told, **known)

    memory = after(at(0, 0.0, Phase.LOADING), at(5, 700.0, Phase.WARMING))
    came = []
    for second, tokens in ((10, 900.0), (15, 1500.0), (20, 1600.0)):
        memory = remember(memory, RECORD, at(second, tokens, Phase.SERVING, sample_age_s=0.5))
        came.append(memory.load.new_prompt_tokens)
    assert came == [None, None, 100.0]

    for second, tokens in ((25, 1650.0), (30, 1700.0)):
        memory = remember(memory, RECORD, at(second, tokens, Phase.CORDONED))
    memory = remember(memory, RECORD, at(35, 1800.0, Phase.SERVING))
    assert memory.load.new_prompt_tokens == 100.0, "a cordon is no start"

    memory = remember(memory, RECORD, at(40, 300.0, Phase.WARMING))
    memory = remember(memory, RECORD, at(45, 800.0, Phase.SERVING))
    assert memory.load.new_prompt_tokens is None, "an engine that was replaced warms up anew"


def test_a_warm_up_that_was_over_before_the_first_look_is_no_load_either():
    looks = [
        look(at, EMPTY, phase=Phase.SERVING, seq=at, sample_age_s=0.5, counters=counted(n, 0.0))
        for at, n in ((10.0, 900.0), (15.0, 1500.0), (20.0, 1600.0))
    ]
    assert after(*looks[:2]).load.new_prompt_tokens is None
    assert after(*looks).load.new_prompt_tokens == 100.0
    direct = [replace(one, phase=None, way=DIRECT) for one in looks]
    assert after(*direct[:2]).load.new_prompt_tokens == 600.0


def test_a_warm_up_is_measured_once_and_anew_after_another():
    def warm(at, phase, tokens):
        ends = (
            ShapeState(name="short", tokens=0, last_s=0.1),
            ShapeState(name="chunked", tokens=tokens, last_s=1.1),
        )
        return look(at, phase=phase, seq=int(at), shapes=ends if tokens else ())

    memory = after(warm(0.0, Phase.SERVING, 9000))
    assert memory.prefill_tokens_per_s == 9000.0
    assert remember(memory, RECORD, warm(5.0, Phase.SERVING, 0)).prefill_tokens_per_s == 9000.0
    anew = remember(memory, RECORD, warm(5.0, Phase.WARMING, 0))
    assert remember(anew, RECORD, warm(10.0, Phase.SERVING, 5000)).prefill_tokens_per_s == 5000.0
