import multiprocessing

import pytest
from tests.cluster.errors import ClusterError
from tests.cluster.source import slots
from tests.cluster.source.plan import SLOTS, Plan


@pytest.fixture
def checkouts(tmp_path):
    made = [tmp_path / f"checkout{number}" for number in range(SLOTS + 1)]
    for folder in made:
        folder.mkdir()
    return made


def test_a_checkout_keeps_its_slot(tmp_path, checkouts):
    for checkout in checkouts[:3]:
        slots.take(slots.choose(checkout, tmp_path), checkout)
    assert [slots.choose(c, tmp_path).slot for c in checkouts[:3]] == [0, 1, 2]
    assert slots.held(checkouts[5], tmp_path) is None


def test_the_slot_of_a_checkout_that_is_gone_is_free(tmp_path, checkouts):
    slots.take(Plan(0, tmp_path), checkouts[0])
    checkouts[0].rmdir()
    assert slots.choose(checkouts[1], tmp_path) == Plan(0, tmp_path)


def test_with_all_slots_taken_the_owners_are_named(tmp_path, checkouts, capsys):
    for plan, checkout in zip(slots.plans(tmp_path), checkouts, strict=False):
        slots.take(plan, checkout)
    with pytest.raises(ClusterError, match="all 8 slots are taken"):
        slots.choose(checkouts[-1], tmp_path)
    assert str(checkouts[3]) in capsys.readouterr().err


def test_nothing_of_two_slots_collides():
    names = [
        (p.state, p.name, p.host_link, p.host_address, p.pods, p.services, p.api_url)
        for p in slots.plans()
    ]
    assert len({word for row in names for word in row}) == len(names) * len(names[0])


def test_names_of_links_fit_the_kernel():
    assert all(len(plan.host_link) <= 15 for plan in slots.plans())


def _hold(root, held, release):
    with slots.one_at_a_time(root):
        held.set()
        release.wait(20)


def test_a_second_command_waits_and_says_for_whom(tmp_path, capfd):
    context = multiprocessing.get_context("fork")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, release))
    other.start()
    held.wait(20)
    waiting = context.Process(target=_hold, args=(tmp_path, context.Event(), release))
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    release.set()
    waiting.join(20)
    other.join(20)
    assert waiting.exitcode == 0
    assert f"waiting for another command (process {other.pid})" in capfd.readouterr().err
