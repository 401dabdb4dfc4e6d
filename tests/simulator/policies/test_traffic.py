import pytest

from cacheaware_sidecar.engines import EngineSample
from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.scrapes import Scrapes
from cacheaware_sim.policies.traffic import Traffic, TrafficMeter, between
from cacheaware_sim.policies.window import TimeWindow


def test_arrivals_are_what_ended_and_what_came_on_top(page):
    before = page(requests=10, running=4, waiting=1)
    after = page(requests=16, running=2, waiting=3)

    assert between(before, after).arrived == 6 - 2 + 2
    assert between(before, after).began == 6 - 2


def test_after_a_restart_all_that_the_engine_counts_is_new(page):
    before = page(requests=100, running=4, prompt_tokens=9000)
    after = page(requests=2, running=1, prompt_tokens=300)

    assert between(before, after).arrived == 3
    assert between(before, after).prompt_tokens == 300


def test_lengths_are_unknown_below_one_request():
    assert Traffic(prompt_tokens=100, began=0.5).prompt_tokens_per_request() is None
    assert Traffic(generation_tokens=100, began=1).generation_tokens_per_request() is None
    assert Traffic().prefix_hit_ratio() is None
    assert Traffic(prefix_queries=200, prefix_hits=50).prefix_hit_ratio() == 0.25


def test_a_count_that_a_page_lacks_adds_nothing(page):
    assert between(page(waiting=None), page(waiting=3, requests=2)).arrived == 2


@pytest.fixture
def meter():
    return TrafficMeter(60)


def test_the_first_sight_of_a_serving_pod_is_where_counting_begins(meter, serving):
    meter.see(Observation(0, 1, (serving("a", at=0, requests=500),)))
    assert meter.last(60, 0) is None

    meter.see(Observation(5, 1, (serving("a", at=5, requests=510),)))
    window = meter.last(60, 5)
    assert (window.seconds, window.traffic.arrived) == (5, 10)


def test_a_pod_that_was_seen_starting_counts_from_0(meter, serving, starting):
    meter.see(Observation(0, 1, (starting("a"),)))
    meter.see(Observation(5, 1, (serving("a", at=5, requests=3, running=2),)))

    assert meter.last(60, 5).traffic.arrived == 5


def test_the_same_scrape_seen_twice_counts_once(meter, serving):
    for now in (0, 5, 10):
        meter.see(Observation(now, 1, (serving("a", at=min(now, 5), requests=now and 7),)))

    assert meter.last(60, 10).traffic.ended == 7


def test_a_silent_pod_catches_up_when_it_answers_again(meter, serving):
    meter.see(Observation(0, 1, (serving("a", at=0, requests=1),)))
    meter.see(Observation(5, 1, (serving("a", silent=True),)))
    meter.see(Observation(10, 1, (serving("a", silent=True, terminating=True),)))
    meter.see(Observation(15, 1, (serving("a", at=15, requests=9, terminating=True),)))

    assert meter.last(60, 15).traffic.ended == 8


def test_what_a_pod_did_before_it_went_still_counts_for_a_while(meter, serving):
    meter.see(Observation(0, 1, (serving("a", at=0),)))
    meter.see(Observation(5, 1, (serving("a", at=5, requests=4),)))
    meter.see(Observation(10, 0, ()))
    assert meter.last(60, 10).traffic.ended == 4

    meter.see(Observation(65, 0, ()))
    assert meter.last(60, 65).traffic.ended == 0


def test_scrapes_are_kept_for_their_time_and_pods_while_they_exist(serving):
    scrapes = Scrapes(60)
    for now in range(0, 100, 5):
        scrapes.see(Observation(now, 1, (serving("a", at=now, waiting=now),)))

    assert [each.waiting for each in scrapes.last("a", 15, 95)] == [85, 90, 95]
    assert len(scrapes.last("a", 600, 95)) == 12
    assert scrapes.rates("a").requests_per_s == 0
    scrapes.see(Observation(100, 0, ()))
    assert scrapes.last("a", 600, 100) == ()
    assert scrapes.rates("a").requests_per_s is None


def test_a_window_of_time_has_a_mean_of_what_is_left():
    window = TimeWindow(10)
    for at, value in ((0, 5.0), (4, 7.0), (8, 9.0)):
        window.add(at, value)

    assert window.mean(10, 8) == 7
    assert window.mean(5, 8) == 8
    assert window.mean(5, 30) is None
    window.add(12, 1.0)
    assert window.last(100, 12) == (7.0, 9.0, 1.0)


def test_a_counter_that_fell_alone_adds_nothing_and_the_others_go_on():
    before = EngineSample(requests=10, running=2, waiting=0, prompt_tokens=5000, started_at=1.0)
    after = EngineSample(requests=12, running=2, waiting=0, prompt_tokens=400, started_at=1.0)

    assert between(before, after).ended == 2
    assert between(before, after).prompt_tokens == 0
