import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cacheaware_sim.kv_pool import KvPool


def test_the_null_block_is_never_handed_out():
    pool = KvPool(64)

    assert pool.take(63)
    assert pool.usage == 1.0
    assert not pool.take(1)


def test_all_or_nothing_is_taken():
    pool = KvPool(11)

    assert not pool.take(11)
    assert pool.in_use == 0


def test_a_block_that_nobody_uses_is_free_while_it_can_be_found():
    pool = KvPool(11)
    pool.take(1)
    pool.name([7])
    pool.give_back([7], 0)

    assert (pool.usage, pool.free, pool.cached) == (0.0, 10, 1)
    assert pool.find([7, 8], 2) == 1


def test_the_least_recently_used_block_goes_first():
    pool = KvPool(4)
    for name in (1, 2, 3):
        pool.take(1)
        pool.name([name])
        pool.give_back([name], 0)
    pool.share(1)
    pool.give_back([1], 0)

    assert pool.take(1)
    assert [pool.find([name], 1) for name in (1, 2, 3)] == [1, 0, 1]
    assert pool.evictions == 1


def test_the_end_of_a_prompt_is_evicted_before_its_beginning():
    pool = KvPool(3)
    pool.take(2)
    pool.name([1])
    pool.name([2])
    pool.give_back([1, 2], 0)

    pool.take(1)

    assert pool.find([1, 2], 2) == 1


def test_a_shared_block_takes_no_more_space_and_stays_until_its_last_user_has_gone():
    pool = KvPool(11)
    pool.take(1)
    pool.name([1])
    pool.share(1)
    assert pool.in_use == 1

    pool.give_back([1], 0)
    assert pool.in_use == 1

    pool.give_back([1], 0)
    assert pool.in_use == 0


def test_a_second_block_of_the_same_content_stays_nameless():
    pool = KvPool(11)
    pool.take(3)

    assert pool.name([1]) == [1]
    assert pool.name([1, 2]) == [2]


@pytest.mark.parametrize(("limit", "found"), [(0, 0), (1, 1), (5, 2)])
def test_no_more_blocks_are_found_than_asked_for(limit, found):
    pool = KvPool(11)
    pool.take(2)
    pool.name([1])
    pool.name([2])

    assert pool.find([1, 2], limit) == found


def test_sharing_a_sleeping_block_takes_space():
    pool = KvPool(11)
    pool.take(2)
    pool.name([1])
    pool.name([2])
    assert pool.sleeping([1, 2], 2) == 0
    pool.give_back([2], 0)

    assert pool.sleeping([1, 2], 2) == 1
    pool.share(2)
    assert pool.in_use == 2


class PoolMachine(RuleBasedStateMachine):
    """Any order of operations keeps the books straight."""

    def __init__(self):
        super().__init__()
        self.pool = KvPool(9)
        self.holders: list[list[int]] = []
        self.nameless = 0

    @rule(blocks=st.integers(0, 10))
    def take(self, blocks):
        free = self.pool.free
        taken = self.pool.take(blocks)

        assert taken == (blocks <= free)
        self.nameless += blocks if taken else 0

    @precondition(lambda self: self.nameless)
    @rule(name=st.integers(1, 6))
    def name(self, name):
        if self.pool.name([name]):
            self.nameless -= 1
            self.holders.append([name])

    @rule(name=st.integers(1, 6))
    def share(self, name):
        if self.pool.find([name], 1) and self.pool.sleeping([name], 1) <= self.pool.free:
            self.pool.share(name)
            self.holders.append([name])

    @precondition(lambda self: self.nameless)
    @rule()
    def give_back_nameless(self):
        self.pool.give_back([], 1)
        self.nameless -= 1

    @precondition(lambda self: self.holders)
    @rule(index=st.integers(0, 100))
    def give_back_named(self, index):
        self.pool.give_back(self.holders.pop(index % len(self.holders)), 0)

    @invariant()
    def free_and_used_are_all(self):
        held = {name for names in self.holders for name in names}
        assert self.pool.in_use == self.nameless + len(held)
        assert self.pool.free + self.pool.in_use == self.pool.usable == 8
        assert 0 <= self.pool.cached <= self.pool.free

    def teardown(self):
        for names in self.holders:
            self.pool.give_back(names, 0)
        self.pool.give_back([], self.nameless)
        assert self.pool.in_use == 0


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
