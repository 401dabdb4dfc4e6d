import os

import pytest

from cacheaware_sidecar.small_files import read_small, read_token, write_atomically


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "a"
    write_atomically(path, "one")
    write_atomically(path, "two", mode=0o755)

    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o755
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_link_in_the_shared_folder_is_replaced_and_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "link").symlink_to(outside)
    write_atomically(tmp_path / "link", "theirs")

    assert outside.read_text() == "mine"


def test_what_can_not_be_written_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "folder", "text")
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "no" / "folder", "text")

    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("content", "token"),
    [
        (b"abc\n", "abc"),
        (b"", None),
        (b"a\nb", None),
        (b"\xff", None),
        (b"x" * 70_000, None),
        (None, None),
    ],
    ids=["good", "empty", "two lines", "binary", "huge", "missing"],
)
def test_a_token_that_can_not_be_sent_is_none(tmp_path, content, token):
    if content is not None:
        (tmp_path / "t").write_bytes(content)

    assert read_token(tmp_path / "t") == token
    assert read_token(None) is None


def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="is no file"):
        read_small(tmp_path / "pipe")
