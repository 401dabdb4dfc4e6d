import pytest

from cacheaware_sim.kv_manager import KvManager
from cacheaware_sim.kv_pool import KvPool
from cacheaware_sim.request import Request


@pytest.mark.parametrize(
    ("held", "named"),
    [
        pytest.param(3, [], id="the block of its first answer is not full"),
        pytest.param(4, [-98], id="it is full, the next one is not"),
        pytest.param(6, [-98, -97, -96], id="three are full"),
    ],
)
def test_of_a_decode_with_names_of_its_own_only_full_blocks_get_them(config, held, named):
    kv = KvManager(config(), KvPool(64))
    request = Request(1, 70, 200)
    request.block_names, request.own_names = range(-100, 0), True
    request.target, request.held = 70, held

    kv.name_late(request)

    assert request.named == named


@pytest.mark.parametrize(
    ("names", "changes", "harder"),
    [
        pytest.param(None, {"reserve_full_prompt": False}, True, id="it shares nothing"),
        pytest.param([1], {"reserve_full_prompt": True}, True, id="its whole prompt has to fit"),
        pytest.param([1], {"reserve_full_prompt": False}, False, id="its prefix may be evicted"),
        pytest.param(
            [1], {"reserve_full_prompt": False, "prefix_caching": False}, True, id="no cache"
        ),
    ],
)
def test_one_that_does_not_fit_is_asked_again_only_where_that_may_change(
    config, names, changes, harder
):
    kv = KvManager(config(**changes), KvPool(64))

    assert kv.only_gets_harder(Request(1, 70, 200, block_names=names)) is harder
