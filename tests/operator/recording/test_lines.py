"""The lines of a recording: what is refused, and what is passed over."""

import json

import pytest

from cacheaware.recording.lines import RecordingError, header_of, round_of, written

HEADER = {
    "kind": "cacheaware-recording",
    "schema": 1,
    "target_kind": "Deployment",
    "spec": {"maxReplicas": 3},
    "round_seconds": 5,
}
POD = {"name": "p1", "uid": "p1", "created_s": -5}


def packed(value):
    return json.dumps(value).encode()


def test_fields_that_are_not_known_are_passed_over():
    assert header_of(packed({**HEADER, "colour": "red"})).round_seconds == 5
    found = round_of(
        packed({"at_s": 0, "replicas": 1, "pods": [{**POD, "hat": 1}], "moon": "full"})
    )
    assert found.pods[0].created_s == -5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": 2}, "schema is 2; this version reads 1 to 1"),
        ({"schema": 0}, "schema is 0; this version reads 1 to 1"),
        ({"schema": "1"}, "schema is '1'; allowed: valid integer"),
        ({"kind": "Deployment"}, "kind is 'Deployment'; allowed: 'cacheaware-recording'"),
        ({"round_seconds": 0}, "round_seconds is 0; allowed: greater than 0"),
        ({"spec": 5}, "spec is 5; allowed: an object"),
        ({"starts": [{"schedule": 1}]}, "starts[0].pull is missing"),
    ],
    ids=lambda one: str(one)[:30],
)
def test_a_bad_header_is_refused_with_field_value_and_what_is_allowed(change, says):
    with pytest.raises(RecordingError) as error:
        header_of(packed({**HEADER, **change}))
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"replicas": "two"}, "replicas is 'two'; allowed: valid integer"),
        ({"replicas": None}, "replicas is None; allowed: valid integer"),
        ({"replicas": 2**31}, "replicas is 2147483648; allowed: less than 2147483648"),
        ({"at_s": float("nan")}, "at_s is nan; allowed: finite number"),
        (
            {"pods": [POD, {**POD, "ready": "yes"}]},
            "pods[1].ready is 'yes'; allowed: valid boolean",
        ),
        ({"pods": [{**POD, "look": {"way": "Guess", "at_s": 1}}]}, "pods[0].look.way is 'Guess'"),
        ({"pods": [{"name": "p1", "uid": "p1"}]}, "pods[0].created_s is missing"),
    ],
    ids=lambda one: str(one)[:30],
)
def test_a_bad_round_is_refused_with_field_value_and_what_is_allowed(change, says):
    with pytest.raises(RecordingError) as error:
        round_of(packed({"at_s": 0, "replicas": 1, **change}))
    assert str(error.value).startswith(says)


def test_a_line_that_is_no_object_is_refused():
    with pytest.raises(RecordingError, match="the line is 5; allowed: "):
        round_of(b"5")


def test_what_is_as_usual_takes_no_room():
    line = written(round_of(packed({"at_s": 0, "replicas": 1, "pods": [POD]})))

    assert json.loads(line) == {"at_s": 0, "replicas": 1, "pods": [POD]}
