import ssl

import httpx
import pytest

from cacheaware_sidecar.engine_client import (
    CANARY_HEADERS,
    EngineClient,
    Health,
    SomeMissingError,
    is_refusal,
)
from cacheaware_sidecar.fetch import FetchError, FetchFailure
from cacheaware_sidecar.settings import Settings, SettingsError


def client(answer, **settings):
    def handle(request):
        if isinstance(answer, Exception):
            raise answer
        told = answer(request) if callable(answer) else answer
        stream = httpx.ByteStream(told.content)  # not read yet, as from the network
        return httpx.Response(told.status_code, headers=told.headers, stream=stream)

    return EngineClient(Settings(**settings), transport=httpx.MockTransport(handle))


@pytest.mark.parametrize(
    ("health", "models", "expected"),
    [
        (200, None, Health.WELL),
        (204, None, Health.WELL),
        (401, None, Health.WELL),
        (403, None, Health.WELL),
        (503, None, Health.UNWELL),
        (500, None, Health.UNWELL),
        (429, None, Health.SILENT),
        (404, 200, Health.WELL),
        (404, 401, Health.WELL),
        (404, 404, Health.NO_ROUTE),
        (405, 503, Health.NO_ROUTE),
        (307, 404, Health.NO_ROUTE),
    ],
)
async def test_what_an_engine_says_about_itself(health, models, expected):
    def answer(request):
        return httpx.Response({"/health": health, "/v1/models": models}[request.url.path])

    assert await client(answer).health(5.0) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ReadTimeout("x"), Health.SILENT),
        (httpx.ConnectError("no route"), Health.SILENT),
        (httpx.RemoteProtocolError("x"), Health.SILENT),
    ],
)
async def test_no_answer_is_no_sign_of_death(error, expected):
    assert await client(error).health(5.0) is expected


async def test_a_closed_port_refuses(engine):
    engine.stop()
    it = EngineClient(Settings(engine_url=engine.url))

    assert await it.health(5.0) is Health.REFUSED
    with pytest.raises(FetchError) as caught:
        await it.pages()
    assert is_refusal(caught.value)
    await it.close()


async def test_a_name_without_an_address_is_no_refusal():
    it = EngineClient(Settings(engine_url="http://no-such-engine.invalid"))

    assert await it.health(5.0) is Health.SILENT
    with pytest.raises(FetchError) as caught:
        await it.pages()
    assert not is_refusal(caught.value)
    await it.close()


class Several:
    """Engines on ports of one host: each answers with a page, a status, or fails."""

    def __init__(self, *answers):
        self.answers = dict(zip((8000, 8001, 8002), answers, strict=False))
        self.it = client(self.answer, engine_ports=tuple(self.answers)[1:])

    def answer(self, request):
        told = self.answers[request.url.port]
        if isinstance(told, Exception):
            raise told
        if isinstance(told, int):
            return httpx.Response(told)
        return httpx.Response(200, content=told)


def closed():
    error = httpx.ConnectError("closed")
    error.__cause__ = ConnectionRefusedError()
    return error


LATE = httpx.ReadTimeout("late")


async def test_the_pages_of_all_engines_are_read():
    assert await Several(b"up 1\n", b"up 2\n").it.pages() == [b"up 1\n", b"up 2\n"]


@pytest.mark.parametrize(
    ("answers", "refused"),
    [
        pytest.param([b"up 1\n", closed()], True, id="one is closed"),
        pytest.param([b"up 1\n", LATE], False, id="one is silent"),
        pytest.param([closed(), LATE, b"up 1\n"], False, id="one of each"),
    ],
)
async def test_where_some_engines_give_no_page_the_others_are_known_to_live(answers, refused):
    with pytest.raises(SomeMissingError) as caught:
        await Several(*answers).it.pages()
    assert caught.value.refused is refused
    assert f"{len(answers) - 1} of {len(answers)} engines give no page" in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        pytest.param([closed(), closed()], FetchFailure.REFUSED, id="all closed"),
        pytest.param([closed(), LATE], FetchFailure.TIMED_OUT, id="one is there and silent"),
        pytest.param([LATE, 500], FetchFailure.STATUS, id="one answers"),
    ],
)
async def test_where_no_engine_gives_a_page_one_that_is_there_speaks_for_all(answers, kind):
    with pytest.raises(FetchError) as caught:
        await Several(*answers).it.pages()
    assert not isinstance(caught.value, SomeMissingError)
    assert caught.value.kind is kind
    assert is_refusal(caught.value) is (kind is FetchFailure.REFUSED)


async def test_a_fault_of_ours_is_none_of_the_engines():
    with pytest.raises(ZeroDivisionError):
        await Several(b"up 1\n", ZeroDivisionError()).it.pages()


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([200, 200], Health.WELL),
        ([200, 503], Health.UNWELL),
        ([200, closed()], Health.REFUSED),
        ([LATE, 200], Health.SILENT),
    ],
)
async def test_of_several_engines_the_worst_counts(answers, expected):
    assert await Several(*answers).it.health(5.0) is expected


def test_a_refusal_is_found_in_a_group_of_attempts():
    group = ExceptionGroup("all attempts failed", [OSError("v6"), ConnectionRefusedError("v4")])

    assert is_refusal(group)
    assert not is_refusal(OSError("x"))


async def test_the_key_goes_along_and_is_taken_out_of_what_comes_back(tmp_path):
    key = tmp_path / "key"
    key.write_text('sk-"quoted"\n')

    def answer(request):
        assert request.headers["authorization"] == 'Bearer sk-"quoted"'
        assert request.headers["x-cacheaware-warmup"] == "true"
        return httpx.Response(401, json={"error": {"message": 'bad key sk-"quoted"'}})

    told = await client(answer, api_key_file=str(key)).ask("/v1/completions", {}, 1.0)

    assert told.body == {"error": {"message": "bad key ***"}}


async def test_a_name_that_no_utf_8_can_hold_is_sent_all_the_same():
    def answer(request):
        assert request.headers["content-type"] == "application/json"
        return httpx.Response(200, content=request.content)

    told = await client(answer).ask("/v1/completions", {"model": "ad\ud800"}, 1.0)

    assert (told.status, told.body) == (200, {"model": "ad\ud800"})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{}", {}),
        (b"[]", []),
        (b"x", None),
        (b"[" * 100_000, None),
        (b" " * 2_000_000, None),
        (b"\xff", None),
    ],
    ids=["object", "list", "text", "deep", "large", "binary"],
)
async def test_an_answer_is_small_json_or_nothing(content, expected):
    told = await client(httpx.Response(200, content=content)).ask("/v1/completions", {}, 1.0)

    assert (told.status, told.body) == (200, expected)


async def test_an_answer_that_does_not_come_is_said(engine):
    engine.hang.add("/v1/completions")
    it = EngineClient(Settings(engine_url=engine.url))
    told = await it.ask("/v1/completions", {}, 0.2)

    assert (told.status, told.error, told.cut) == (None, "no answer within 0.2 s", False)
    await it.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError("x"), "no connection"),
        (httpx.ReadError("x"), "broken answer (ReadError)"),
    ],
)
async def test_an_answer_that_breaks_is_said(error, words):
    told = await client(error).ask("/v1/completions", {}, 1.0)

    assert (told.error, told.cut) == (words, True)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(httpx.Response(200, json={"data": []}), {"data": []}), (httpx.Response(404, json={}), None)],
)
async def test_models_are_told_or_not(answer, expected):
    assert await client(answer).models() == expected


def test_what_tls_trusts(tmp_path):
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(SettingsError, match="CACHEAWARE_CA_FILE"):
        EngineClient(Settings(ca_file=str(tmp_path / "bad.pem")))
    authorities = ssl.get_default_verify_paths().cafile
    if authorities:
        EngineClient(Settings(ca_file=authorities, engine_url="https://127.0.0.1"))
    EngineClient(Settings(engine_url="https://127.0.0.1"))


async def test_a_base_path_comes_before_the_api_and_not_before_page_and_health():
    asked = []

    def answer(request):
        asked.append(request.url.path)
        if request.url.path == "/metrics":
            return httpx.Response(200, text="up 1\n")
        return httpx.Response(404 if request.url.path == "/health" else 200, json={})

    it = client(answer, engine_base_path="/llm")
    assert await it.health(1) is Health.WELL
    await it.models()
    await it.ask("/v1/completions", {}, 1)
    await it.pages()
    await it.close()

    assert asked == [
        "/health",
        "/llm/v1/models",
        "/llm/v1/models",
        "/llm/v1/completions",
        "/metrics",
    ]


async def test_a_control_route_is_called_as_it_is_without_the_base_path():
    asked = []

    def answer(request):
        asked.append((request.method, str(request.url), request.content))
        return httpx.Response(200, json={})

    it = client(answer, engine_base_path="/llm")
    told = await it.control("http://127.0.0.1:8001", "POST", "/pause?mode=abort", 1.0)
    await it.control("http://127.0.0.1:8001", "POST", "/abort_request", 1.0, {"rid": ""})
    await it.close()

    assert told.status == 200
    assert asked == [
        ("POST", "http://127.0.0.1:8001/pause?mode=abort", b""),
        ("POST", "http://127.0.0.1:8001/abort_request", b'{"rid": ""}'),
    ]


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (httpx.Response(200, json={"version": "0.32.0"}), "0.32.0"),
        (httpx.Response(200, json={"version": 7}), None),
        (httpx.Response(200, json=["0.32.0"]), None),
        (httpx.Response(404, json={"version": "0.32.0"}), None),
        (httpx.ConnectError("refused"), None),
    ],
)
async def test_an_engines_version_is_what_it_tells_itself(answer, version):
    assert await client(answer).version() == version


async def test_our_own_requests_carry_their_mark():
    seen = []

    def answer(request):
        seen.append({name for name in request.headers if name.startswith("x-cacheaware")})
        return httpx.Response(200, json={})

    asking = client(answer)
    await asking.ask("/v1/completions", {}, 5.0)
    await asking.ask("/v1/completions", {}, 5.0, CANARY_HEADERS)

    assert seen == [{"x-cacheaware-warmup"}, {"x-cacheaware-canary"}]
