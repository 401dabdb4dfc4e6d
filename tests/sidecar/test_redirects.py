import pytest

from cacheaware_sidecar.redirects import RedirectError, follow

HERE = "http://pod:8000/metrics"


@pytest.mark.parametrize(
    ("url", "location", "expected"),
    [
        (HERE, "/metrics/", "http://pod:8000/metrics/"),
        (HERE, "metrics/", "http://pod:8000/metrics/"),
        (HERE, "?a=1", "http://pod:8000/metrics?a=1"),
        (HERE, "http://pod:8000/m?x=1#part", "http://pod:8000/m?x=1"),
        (HERE, "HTTP://POD:8000/m", "http://pod:8000/m"),
        ("http://pod/metrics", "http://pod:80/m", "http://pod/m"),
        ("https://pod/metrics", "https://pod:443/m", "https://pod/m"),
        ("http://[fd00::1]:8000/metrics", "http://[FD00::1]:8000/m", "http://[fd00::1]:8000/m"),
        ("http://u:p@pod:8000/metrics", "/m", "http://u:p@pod:8000/m"),
    ],
)
def test_a_redirect_on_the_same_server_is_followed(url, location, expected):
    assert follow(url, location) == expected


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("http://169.254.169.254/latest/?token=secret", "http://169.254.169.254,"),
        ("http://pod:8001/metrics", "http://pod:8001,"),
        ("https://pod:8000/metrics", "https://pod:8000,"),
        ("//evil/metrics", "http://evil,"),
        ("http://pod:8000@evil/metrics", "http://evil,"),
        ("http://user:secret@pod:8000/metrics", "http://pod:8000,"),
        ("http://pod.evil:8000/metrics", "http://pod.evil:8000,"),
        ("file:///etc/passwd", "file://,"),
    ],
)
def test_a_redirect_elsewhere_is_refused_and_named_without_its_secrets(location, shown):
    with pytest.raises(RedirectError, match="redirected away") as error:
        follow(HERE, location)
    assert shown in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("location", ["", "  "])
def test_a_redirect_to_nowhere_is_refused(location):
    with pytest.raises(RedirectError, match="without saying where"):
        follow(HERE, location)


@pytest.mark.parametrize("location", ["http://pod:x/", "http://[::1/", "http://pod:99999/"])
def test_a_redirect_to_no_url_is_refused(location):
    with pytest.raises(RedirectError, match="no URL"):
        follow(HERE, location)
