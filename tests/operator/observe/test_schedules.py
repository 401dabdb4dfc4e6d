"""Schedules in local time, through the nights in which clocks change."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheaware.decide.cold_start import ColdStart
from cacheaware.decide.policy import Schedule
from cacheaware.observe.schedules import (
    UNLEARNED_S,
    ScheduleError,
    ahead_s,
    check,
    floor_of,
    held_by,
    times,
)

BERLIN = "Europe/Berlin"
HOUR = 3600


def schedule(cron="0 8 * * 1-5", zone=BERLIN, hours=10.0, least=4):
    return Schedule(
        cron=cron, time_zone=zone, duration_seconds=int(hours * HOUR), min_replicas=least
    )


def at(text, zone=BERLIN, fold=0):
    """Seconds since the epoch of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def starts(*totals):
    return tuple(ColdStart(schedule=0, pull=0, load=one, warm=0) for one in totals)


class TestHolding:
    @pytest.mark.parametrize(
        ("time", "holds"),
        [
            ("2026-12-02 07:59:59", False),
            ("2026-12-02 08:00:00", True),
            ("2026-12-02 17:59:59", True),
            ("2026-12-02 18:00:00", False),
            ("2026-12-05 12:00:00", False),  # a Saturday
        ],
    )
    def test_it_holds_from_its_time_for_its_length(self, time, holds):
        assert (held_by(schedule(), 0.0, at(time)) is not None) is holds

    def test_it_begins_ahead_by_the_cold_start(self):
        early = held_by(schedule(), 300.0, at("2026-12-02 07:55:00"))

        assert (early.replicas, early.begins_s) == (4, 300.0)
        assert early.told == "'0 8 * * 1-5' (Europe/Berlin)"
        assert held_by(schedule(), 300.0, at("2026-12-02 07:54:59")) is None
        assert held_by(schedule(), 300.0, at("2026-12-02 08:00:05")).begins_s == 0.0

    def test_of_several_the_highest_counts(self):
        both = [schedule(least=4), schedule("0 9 * * *", hours=1, least=6)]

        assert floor_of(both, (), at("2026-12-02 08:30:00")).replicas == 4
        assert floor_of(both, (), at("2026-12-02 09:30:00")).replicas == 6
        assert floor_of(both, (), at("2026-12-02 20:00:00")) is None
        assert floor_of((), (), at("2026-12-02 08:30:00")) is None

    def test_one_that_repeats_within_its_length_never_ends(self):
        always = schedule("*/5 * * * *", hours=0.1)

        assert all(
            held_by(always, 0.0, at("2026-12-02 08:00:00") + second) for second in range(0, 900, 7)
        )

    def test_each_zone_has_its_own_morning(self):
        wall = at("2026-12-02 08:30:00")

        assert held_by(schedule(zone="America/New_York"), 0.0, wall) is None
        assert held_by(schedule(zone="Asia/Kathmandu", cron="15 13 * * *"), 0.0, wall)


class TestColdStart:
    def test_nine_of_ten_pods_serve_in_time(self):
        assert ahead_s(starts(*range(10, 110, 10))) == 90.0

    def test_until_enough_starts_were_seen_five_minutes_are_assumed(self):
        assert ahead_s(()) == ahead_s(starts(900, 900, 900, 900)) == UNLEARNED_S == 300.0


class TestNightsWithAChangeOfClocks:
    """In Berlin 02:00-03:00 is skipped on 2026-03-29 and comes twice on 2026-10-25."""

    def test_a_time_that_is_skipped_comes_right_after_the_gap(self):
        night = schedule("30 2 * * *", hours=1)

        assert held_by(night, 0.0, at("2026-03-29 01:59:59")) is None
        assert held_by(night, 0.0, at("2026-03-29 03:00:00")) is not None
        assert held_by(night, 0.0, at("2026-03-29 03:59:59")) is not None
        assert held_by(night, 0.0, at("2026-03-29 04:00:00")) is None

    def test_a_time_that_comes_twice_counts_once(self):
        night = schedule("30 2 * * *", hours=0.5)

        first = [at("2026-10-25 02:30:00"), at("2026-10-25 02:59:59")]
        second = [at("2026-10-25 02:30:00", fold=1), at("2026-10-25 02:59:59", fold=1)]
        assert [held_by(night, 0.0, wall) is not None for wall in first] == [True, True]
        assert [held_by(night, 0.0, wall) is not None for wall in second] == [False, False]

    def test_with_every_hour_each_hour_that_passes_counts(self):
        hourly = schedule("30 * * * *", hours=0.25)

        for fold in (0, 1):
            assert held_by(hourly, 0.0, at("2026-10-25 02:31:00", fold=fold)) is not None
        assert held_by(hourly, 0.0, at("2026-03-29 01:31:00")) is not None
        assert held_by(hourly, 0.0, at("2026-03-29 03:31:00")) is not None

    @pytest.mark.parametrize(
        ("evening", "end"),
        [
            ("2026-03-28 22:00:00", "2026-03-29 07:00:00"),
            ("2026-10-24 22:00:00", "2026-10-25 05:00:00"),
        ],
    )
    def test_a_length_is_in_seconds_that_pass(self, evening, end):
        night = schedule("0 22 * * *", hours=8)

        assert held_by(night, 0.0, at(evening)) is not None
        assert held_by(night, 0.0, at(end) - 1) is not None
        assert held_by(night, 0.0, at(end)) is None
        assert at(end) - at(evening) == 8 * HOUR

    @settings(max_examples=60, deadline=None)
    @given(
        cron=st.sampled_from(["30 2 * * *", "0 3 * * *", "15 2 * * 0", "*/20 2 * * *"]),
        night=st.sampled_from(["2026-03-29", "2026-10-25", "2026-06-14"]),
        minutes=st.integers(0, 300),
        length=st.integers(1, 180),
    )
    def test_it_holds_from_each_of_its_times_to_its_end_and_at_no_other(
        self, cron, night, minutes, length
    ):
        one = Schedule(cron=cron, time_zone=BERLIN, duration_seconds=60 * length, min_replicas=1)
        wall, day = at(f"{night} 00:30:00") + 60 * minutes, at(f"{night} 00:00:00") - 2 * 86_400
        all_of = []
        for time in times(one, day):
            if time > wall:
                break
            all_of.append(time)
        expected = any(time <= wall < time + 60 * length for time in all_of)

        assert (held_by(one, 0.0, wall) is not None) is expected


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            (
                {"cron": "61 8 * * *"},
                "schedules[1].cron '61 8 * * *' can't be read (bad minute)",
            ),
            ({"cron": "0 8 * * XYZ"}, "bad day-of-week"),
            ({"cron": "0 8 * * 5L/2"}, "can't be read"),
            ({"cron": "0 8 30 2 *"}, "cron '0 8 30 2 *' can't be read (bad day-of-month)"),
            ({"zone": "Europe/Bielefeld"}, "spec.schedules[1].timeZone 'Europe/Bielefeld'"),
            ({"zone": "Europe"}, "timeZone 'Europe' is not known: give an IANA name"),
            ({"zone": "../etc/passwd"}, "timeZone '../etc/passwd' is not known"),
        ],
    )
    def test_what_cannot_be_read_is_named_in_one_line(self, fields, words):
        with pytest.raises(ScheduleError) as error:
            check([schedule(), schedule(**fields)])

        assert words in str(error.value)
        assert "\n" not in str(error.value)

    def test_good_ones_pass(self):
        check([schedule(), schedule("*/15 8-18 1,15 JAN-MAR MON#1"), schedule("0 0 L * *", "UTC")])

    @settings(max_examples=300, deadline=None)
    @given(
        cron=st.lists(st.text("0123456789*,-/#L", min_size=1, max_size=5), min_size=5, max_size=5),
        zone=st.sampled_from(["UTC", BERLIN, "", "x/y", "Etc"]),
    )
    def test_nothing_else_is_raised(self, cron, zone):
        try:
            check([schedule(" ".join(cron), zone)])
        except ScheduleError:
            return
        held_by(schedule(" ".join(cron), zone), 60.0, 1e9)
