import pytest

from cacheaware_sidecar.clip import clipped


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", ""), ("x" * 60, "x" * 60), ("x" * 61, "x" * 57 + "...")],
    ids=["empty", "just short enough", "too long"],
)
def test_a_text_is_never_longer_than_allowed(text, shown):
    assert clipped(text) == shown


def test_the_most_is_the_callers():
    assert clipped("abcdefgh", 6) == "abc..."
