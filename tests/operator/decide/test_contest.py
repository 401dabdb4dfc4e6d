"""Another writer that sets the replicas back."""

from cacheaware.decide.contest import Contest

ARGO, PERSON = "argocd-controller", "kubectl-scale"


def fight(rounds, manager=ARGO, contest=None, start=0.0, every=12.0):
    """Writes of ours, each reversed 3 s later."""
    contest, now = contest or Contest(), start
    for _ in range(rounds):
        contest = contest.wrote(4, now).seen(1, manager, now + 3)
        now += every
    return contest, now - every + 3


def test_038_three_reversals_by_one_manager_are_a_contest(case):
    contest, allowed = Contest(), None
    for event in case("038", "input.events.json"):
        if event["by"] == "us":
            contest = contest.wrote(event["replicas"], event["t"])
        else:
            contest = contest.seen(event["replicas"], event["by"], event["t"])
    assert contest.told(33.0).manager == ARGO
    assert "argocd-controller" in contest.told(33.0).told
    assert "ignore /spec/replicas" in contest.told(33.0).told

    writes, now = [], 33.0
    while now < 33.0 + 300.0:
        now += 5.0
        contest = contest.seen(1, ARGO, now)
        allowed = contest.told(now).again_s == 0.0
        if allowed:
            writes.append(now)
            contest = contest.wrote(4, now).seen(1, ARGO, now + 3)
    most = case("038", "expect.json")["writes_in_next_5_min_max"]
    assert most == 2
    assert len(writes) == most
    assert contest.times == 3


def test_two_reversals_or_three_by_different_managers_are_none():
    two, now = fight(2)
    assert two.told(now) is None

    other = two.wrote(4, now + 5).seen(1, PERSON, now + 8)
    assert other.told(now + 8) is None


def test_three_in_more_than_five_minutes_are_none():
    contest, now = fight(3, every=160.0)

    assert contest.told(now) is None


def test_one_edit_of_a_person_is_no_contest_and_counts_once():
    contest = Contest().wrote(4, 0.0).seen(2, PERSON, 10.0)
    for now in range(15, 900, 5):
        contest = contest.seen(2, PERSON, float(now))

    assert contest.told(900.0) is None
    assert len(contest.reversals) == 1


def test_a_change_where_we_wrote_nothing_is_no_reversal():
    assert Contest().seen(7, ARGO, 5.0) == Contest()


def test_each_further_reversal_waits_twice_as_long():
    contest, now = fight(3)
    pauses = [contest.told(now).again_s]
    for _ in range(6):
        now = contest.until + 5.0
        contest = contest.wrote(4, now).seen(1, ARGO, now)
        pauses.append(contest.told(now).again_s)

    assert [pause / 60 for pause in pauses] == [1, 2, 4, 8, 16, 32, 32]


def test_another_manager_in_the_middle_of_a_contest_does_not_lengthen_it():
    contest, now = fight(3)
    after = contest.wrote(4, now + 100).seen(2, PERSON, now + 103)

    assert (after.times, after.manager, after.until) == (1, ARGO, contest.until)


def test_it_is_over_when_a_write_has_lasted():
    contest, now = fight(3)
    contest = contest.wrote(4, now + 100)

    assert contest.seen(4, ARGO, now + 399).told(now + 399)
    assert contest.seen(4, ARGO, now + 400) == Contest()


def test_it_is_over_an_hour_after_the_last_pause():
    contest, _ = fight(3)

    assert contest.seen(1, ARGO, contest.until + 3599).told(contest.until)
    assert contest.seen(1, ARGO, contest.until + 3600) == Contest()
