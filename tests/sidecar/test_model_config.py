import json

import httpx
import pytest

from cacheaware_sidecar.model_config import (
    ConfigUnavailableError,
    Pauses,
    Reason,
    load,
    retry_after,
    shown,
)
from cacheaware_sidecar.settings import Settings

URL = "https://hub.example/org/m/resolve/main/config.json"
CONFIG = {"model_type": "llama"}


def hub(answer):
    """A hub that gives one answer; raises it if it is an error."""

    def handle(request):
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    return httpx.MockTransport(handle)


async def failure(answer, **settings):
    with pytest.raises(ConfigUnavailableError) as caught:
        await load(Settings(config_url=URL, **settings), hub(answer))
    return caught.value


async def test_a_configuration_comes_from_the_hub():
    assert await load(Settings(config_url=URL), hub(httpx.Response(200, json=CONFIG))) == CONFIG


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (httpx.Response(401), Reason.UNAUTHORIZED, "set CACHEAWARE_CONFIG_TOKEN_FILE"),
        (httpx.Response(403), Reason.FORBIDDEN, "gated"),
        (httpx.Response(404), Reason.NOT_FOUND, "does not have it"),
        (httpx.Response(429), Reason.BUSY, "come later"),
        (httpx.Response(500), Reason.SERVER_ERROR, "answers 500"),
        (httpx.Response(204), Reason.UNEXPECTED, "answers 204"),
        (httpx.Response(200, text="<html>login</html>"), Reason.NO_JSON, "a web page"),
        (httpx.Response(200, text="[1]"), Reason.NO_JSON, "no JSON object"),
        (httpx.Response(200, text="[" * 100_000), Reason.NO_JSON, "no JSON object"),
        (httpx.Response(200, content=b"\xff"), Reason.NO_JSON, "no JSON object"),
        (httpx.Response(200, content=b" " * 5_000_000), Reason.TOO_LARGE, "larger than"),
        (httpx.ReadTimeout("x"), Reason.TIMEOUT, "did not answer"),
        (httpx.ConnectError("x"), Reason.UNREACHABLE, "can't be reached"),
    ],
    ids=lambda value: value.name if isinstance(value, Reason) else None,
)
async def test_each_way_to_fail_is_a_reason_of_its_own(answer, reason, words):
    error = await failure(answer)

    assert error.reason is reason
    assert words in str(error)
    assert "\n" not in str(error)


async def test_a_loop_of_redirects_ends():
    error = await failure(httpx.Response(302, headers={"location": URL}))

    assert error.reason is Reason.UNREACHABLE


async def test_the_field_case_of_gated_and_absent_files(case):
    """Case 084: a distinct reason for each row, no traceback, and 429 not before 60 s."""
    rows = [row for row in case("084", "input.http.json") if row["status"]]
    errors = []
    for row in rows:
        headers = {"retry-after": str(row["retryAfter"])} if "retryAfter" in row else {}
        errors.append(
            await failure(httpx.Response(row["status"], headers=headers, text=row.get("body", "")))
        )

    assert len({error.reason for error in errors}) == len(rows) == 5
    busy = next(error for error in errors if error.reason is Reason.BUSY)
    assert Pauses().after(busy, 0.0) >= 60


async def test_the_token_is_sent_read_anew_and_never_shown(tmp_path):
    token = tmp_path / "token"
    seen = []

    def answer(request):
        seen.append(request.headers.get("authorization"))
        return httpx.Response(403)

    for text in ("hf_one", "hf_two"):
        token.write_text(text + "\n")
        error = await failure(answer, config_token_file=str(token))
        assert "hf_" not in str(error)
    token.unlink()
    await failure(answer, config_token_file=str(token))

    assert seen == ["Bearer hf_one", "Bearer hf_two", None]


async def test_the_token_does_not_follow_to_another_host(tmp_path):
    token = tmp_path / "token"
    token.write_text("hf_one")

    def answer(request):
        if request.url.host == "hub.example":
            return httpx.Response(302, headers={"location": "https://cdn.example/x"})
        assert "authorization" not in request.headers
        return httpx.Response(200, json=CONFIG)

    settings = Settings(config_url=URL, config_token_file=str(token))
    assert await load(settings, hub(answer)) == CONFIG


def test_a_signed_url_is_shown_without_its_signature():
    assert shown("https://h:8/a/b?sig=secret") == "https://h:8/a/b"


@pytest.mark.parametrize("inside", [False, True], ids=["the file", "its folder"])
async def test_a_configuration_comes_from_a_file_or_its_folder(tmp_path, inside):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    path = tmp_path if inside else tmp_path / "config.json"

    assert await load(Settings(config_file=str(path)), None) == CONFIG


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, Reason.MISSING_FILE),
        (b"<html>", Reason.NO_JSON),
        (b"{", Reason.NO_JSON),
        (b" " * 5_000_000, Reason.UNREADABLE_FILE),
    ],
    ids=["missing", "html", "broken", "too large"],
)
async def test_a_file_that_can_not_be_used_has_a_reason(tmp_path, content, reason):
    path = tmp_path / "c.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigUnavailableError) as caught:
        await load(Settings(config_file=str(path)), None)

    assert caught.value.reason is reason
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "failures", "retry", "dice", "seconds"),
    [
        (Reason.TIMEOUT, 0, None, 0.0, 5),
        (Reason.TIMEOUT, 3, None, 0.0, 40),
        (Reason.TIMEOUT, 99, None, 0.0, 3600),
        (Reason.BUSY, 0, 10.0, 0.0, 60),
        (Reason.BUSY, 0, 300.0, 0.0, 300),
        (Reason.BUSY, 0, 300.0, 1.0, 360),
        (Reason.FORBIDDEN, 1, None, 0.5, 132),
    ],
)
def test_pauses_grow_are_spread_and_honour_the_server(reason, failures, retry, dice, seconds):
    error = ConfigUnavailableError(reason, "x", retry)

    assert Pauses(failures).after(error, dice) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "60"}, 60),
        ({"retry-after": "999999999"}, 86400),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:30:00 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            120,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT",
                "date": "Wed, 21 Oct 2026 07:30:00 GMT",
            },
            0,
        ),
        ({"retry-after": "Wed, 21 Oct 2026 07:30:00 GMT"}, None),
        (
            {"retry-after": "Wed, 21 Oct 2026 07:30:00", "date": "Wed, 21 Oct 2026 07:30:00 GMT"},
            None,
        ),
    ],
)
def test_what_retry_after_asks_for(headers, seconds):
    assert retry_after(headers) == seconds
