"""The activation signal on a metrics page."""

import asyncio
import base64

import pytest
from aiohttp import web

from cacheaware.decide.circumstances import Reading
from cacheaware.observe.activation import Activations, Source, reading_of
from cacheaware.observe.keyed import KeyedPages
from cacheaware.observe.poll import Poller
from cacheaware.observe.secrets import SecretRef, Secrets

PAGE = b"""\
# HELP queue Requests that wait.
# TYPE queue gauge
queue{model="chat",zone="a"} 2
queue{model="chat",zone="b"} 1
queue{model="code",zone="a"} 7
queue_length 50
# TYPE calls_total counter
calls_total 12
odd NaN
minus -1
endless +Inf
plain 0.5
"""


def source(metric="queue", *labels, url="http://gateway/metrics", secret=None):
    return Source(url=url, metric=metric, labels=labels, secret=secret)


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        (source(), 10.0),
        (source("queue", ("model", "chat")), 3.0),
        (source("queue", ("model", "chat"), ("zone", "b")), 1.0),
        (source("plain"), 0.5),
    ],
)
def test_matching_series_are_summed(asked, value):
    assert reading_of(PAGE, asked) == Reading(value)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (source("queue", ("model", "none")), 'queue{model="none"} is not on the page'),
        (source("absent"), "absent is not on the page"),
        (source("calls_total"), "calls_total is a counter"),
        (source("odd"), "odd is not a number of requests"),
        (source("minus"), "not a number of requests"),
        (source("endless"), "not a number of requests"),
    ],
)
def test_what_is_not_there_or_no_number_of_requests_is_unknown(asked, words):
    found = reading_of(PAGE, asked)

    assert found.value is None
    assert words in found.detail


def test_a_page_that_cannot_be_read_is_unknown():
    assert reading_of(b"queue{ 3\n", source()) == Reading(detail="queue: the page can't be read")
    assert reading_of(b"\xff\xfe", source()).value is None


class Gateway:
    """A gateway with a metrics page."""

    def __init__(self):
        self.asked, self.key, self.status = [], None, 200

    async def page(self, request):
        self.asked.append(request.headers.get("Authorization"))
        if self.key is not None and self.asked[-1] != f"Bearer {self.key}":
            return web.Response(status=401)
        return web.Response(body=PAGE, status=self.status)


@pytest.fixture
async def gateway():
    found = Gateway()
    app = web.Application()
    app.router.add_get("/metrics", found.page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    yield found
    await runner.cleanup()


@pytest.fixture
async def activations(kube):
    poller = Poller(concurrency=8, deadline_s=2.0)
    yield Activations(KeyedPages(poller, Secrets(kube)))
    await poller.close()


async def test_it_is_read_from_the_page(gateway, activations):
    assert await activations.read(source(url=gateway.url)) == Reading(10.0)


async def test_targets_behind_one_gateway_share_a_page(gateway, activations):
    one = source("queue", ("model", "chat"), url=gateway.url)
    other = source("queue", ("model", "code"), url=gateway.url)

    found = await asyncio.gather(*map(activations.read, [one, other] * 20))

    assert {reading.value for reading in found} == {3.0, 7.0}
    assert len(gateway.asked) == 1


async def test_an_older_page_is_fetched_anew(gateway, kube):
    poller, now = Poller(concurrency=8, deadline_s=2.0), [0.0]
    activations = Activations(KeyedPages(poller, Secrets(kube)), clock=lambda: now[0])
    await activations.read(source(url=gateway.url))
    now[0] = 1.0
    await activations.read(source(url=gateway.url))
    await poller.close()

    assert len(gateway.asked) == 2


async def test_a_gateway_that_is_not_well_says_nothing(gateway, activations):
    gateway.status = 503
    found = await activations.read(source(url=gateway.url))
    gone = await activations.read(source(url="http://127.0.0.1:1/metrics"))

    assert found == Reading(detail="queue: answered 503")
    assert gone.value is None
    assert gone.detail.startswith("queue: ")


async def test_the_key_comes_from_the_secret_and_is_read_again_when_it_is_refused(
    gateway, activations, api
):
    async def secret(key):
        data = {"token": base64.b64encode(key.encode()).decode()}
        meta = {"namespace": "demo", "name": "gateway"}
        await api.put(("", "v1", "secrets"), {"metadata": meta, "data": data})

    ref, gateway.key = SecretRef("demo", "gateway", "token"), "one"
    asked = source(url=gateway.url, secret=ref)
    assert "Secret gateway" in (await activations.read(asked)).detail
    await secret("one")
    fresh = Activations(activations._pages)
    assert (await fresh.read(asked)).value == 10.0
