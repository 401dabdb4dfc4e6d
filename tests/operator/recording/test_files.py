"""Files of recordings: within their bound, readable as far as they are whole."""

import gzip
import io

import pytest

from cacheaware.recording import files
from cacheaware.recording.files import Writer, chunks_of, lines_of, unpacked
from cacheaware.recording.lines import RecordingError, written
from cacheaware.recording.reading import Reader, is_recording


def written_by(content, *, packed, most=10**9):
    file = io.BytesIO()
    writer = Writer(file, packed=packed, most=most)
    taken = [writer.write(line) for line in content]
    writer.close()
    assert writer.size == len(file.getvalue())
    return file.getvalue(), taken


def read(content):
    reader = Reader(chunks_of(io.BytesIO(content)))
    return list(reader.rounds()), reader.cut


@pytest.fixture(scope="session")
def few(played):
    """A header and some rounds, as lines."""
    return [written(one) for one in (played.header, *played.rounds[60:66])]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_what_is_written_is_read(played, few, packed):
    content, taken = written_by(few, packed=packed)

    assert all(taken)
    assert read(content) == (played.rounds[60:66], False)


def test_packed_it_is_gzip_like_any_other_without_a_time_in_it(few):
    content, _ = written_by(few, packed=True)

    assert gzip.decompress(content).decode() == "".join(few)
    assert content[4:8] == bytes(4)
    assert len(content) < len("".join(few)) / 4


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_no_byte_is_written_beyond_the_bound_and_what_is_there_is_whole(few, packed):
    whole, _ = written_by(few, packed=packed)
    most = len(whole) * 2 // 3
    content, taken = written_by(few, packed=packed, most=most)

    assert len(content) <= most
    assert taken == sorted(taken, reverse=True)
    assert 0 < sum(taken) < len(few)
    rounds, cut = read(content)
    assert (len(rounds), cut) == (sum(taken) - 1, False)
    if packed:
        assert gzip.decompress(content)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_cut_anywhere_it_is_read_up_to_the_last_whole_line(played, few, packed):
    content, _ = written_by(few, packed=packed)
    ends = [len(written_by(few[:n], packed=False)[0]) for n in range(len(few) + 1)]
    before = 0
    for size in range(ends[1] if not packed else 1000, len(content), 499):
        rounds, _ = read(content[:size])
        assert rounds == played.rounds[60 : 60 + len(rounds)]
        assert len(rounds) >= before
        before = len(rounds)
        if not packed:
            assert len(rounds) >= sum(end <= size for end in ends) - 2
    assert before >= len(few) - 2


def test_it_says_that_the_last_line_was_cut(few):
    content, _ = written_by(few, packed=False)

    assert read(content[:-20])[1]


def test_a_last_line_that_only_lacks_its_end_counts(played, few):
    content, _ = written_by(few, packed=False)

    assert read(content[:-1]) == (played.rounds[60:66], False)


def test_a_bad_line_in_the_middle_is_refused_with_its_number(few):
    with pytest.raises(RecordingError, match=r"^line 3: not JSON: "):
        read("".join([*few[:2], few[2][:40] + "\n", *few[3:]]).encode())


def test_blank_lines_are_passed_over_and_counted(few):
    content = "".join([few[0], "\n", few[1], '{"at_s": -1, "replicas": 1}\n']).encode()

    with pytest.raises(
        RecordingError, match=r"^line 4: at_s is -1; allowed: greater than or equal"
    ):
        read(content)


def test_damaged_gzip_is_refused(few):
    content = bytearray(written_by(few, packed=True)[0])
    content[len(content) // 2 :][:40] = bytes(40)
    content[len(content) // 2] ^= 0xFF
    content[len(content) // 2 + 7] ^= 0xFF

    with pytest.raises(RecordingError, match="line"):
        read(bytes(content))


def test_what_follows_the_end_of_the_gzip_is_not_passed_over(few):
    content, _ = written_by(few, packed=True)

    with pytest.raises(RecordingError, match="something follows the end"):
        read(content + content)


def test_an_endless_line_is_refused(monkeypatch):
    monkeypatch.setattr(files, "LONGEST", 100)

    with pytest.raises(RecordingError, match="line 2 has more than 100 bytes"):
        list(lines_of(iter([b"{}\n", b"x" * 90, b"x" * 90])))


@pytest.mark.parametrize("content", [b"", b"\n \n"], ids=["nothing", "blanks"])
def test_an_empty_file_is_refused(content):
    with pytest.raises(RecordingError, match="is empty"):
        read(content)


def test_nothing_is_unpacked_of_nothing():
    assert b"".join(unpacked(iter([]))) == b""


@pytest.mark.parametrize(
    ("first", "is_one"),
    [
        (b'{"kind": "cacheaware-recording", "schema": 99}\n', True),
        (b'{"kind":"cacheaware-recording","sche', True),
        (b'{"kind": "Deployment"}\n', True),
        (b'{"schema": 1, "phase": "serving"}', False),
        (b"# HELP vllm:num_requests_running ...\n", False),
        (b"\x1f\x8bno gzip", True),
        (gzip.compress(b"# HELP"), False),
        (b"[1]", False),
    ],
    ids=["new", "cut", "manifest", "state", "page", "damaged", "packed page", "list"],
)
def test_a_recording_is_told_from_other_files_by_its_beginning(first, is_one):
    assert is_recording(first) is is_one
