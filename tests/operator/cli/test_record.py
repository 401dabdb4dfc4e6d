"""`cacheaware record`: a live scaler into a file."""

import asyncio
import gzip
import io
import os
import signal
import threading
import time
from copy import deepcopy

import pytest
from tests.operator.cli.conftest import example, ran
from tests.operator.fake_pods import DEPLOYMENTS, PODS, FakePod
from tests.operator.recording.played import play
from tests.operator.recording.proxied import SCALERS, Pods, deployment, pod, scaler_body

from cacheaware.cli import record
from cacheaware.recording.files import Writer, chunks_of
from cacheaware.recording.reading import Reader


@pytest.fixture(scope="module")
def played():
    """A few rounds of a quiet fleet."""
    with pytest.MonkeyPatch.context() as patch:
        return play(patch, (1,), seconds=10.0)


@pytest.fixture
def chat(cluster):
    """A scaler named chat with two pods."""
    pods = Pods({"chat-1": FakePod(usage=0.5), "chat-2": FakePod()})
    cluster.api.proxied = pods.answer
    cluster(DEPLOYMENTS, deployment(2))
    for name in pods.answers:
        cluster(PODS, pod(name))
    cluster(SCALERS, scaler_body())
    return pods


def read(path):
    with path.open("rb") as file:
        reader = Reader(chunks_of(file))
        return reader.header, list(reader.rounds())


@pytest.mark.parametrize("name", ["chat.jsonl", "chat.jsonl.gz"])
def test_a_scaler_is_recorded_round_by_round_and_nothing_is_written(
    capsys, cluster, chat, tmp_path, name
):
    path = tmp_path / name
    code, out, err = ran(
        capsys, "record", "chat", "-o", str(path), "--for", "1.5", "--interval", "1"
    )
    header, rounds = read(path)

    assert (code, out) == (0, "")
    assert f"{path}: 2 rounds in" in err
    assert f"(its time is over), {path.stat().st_size:,} bytes" in err
    assert header.gpus_per_replica == 2
    assert [len(one.pods) for one in rounds] == [2, 2]
    assert 0.9 < rounds[1].at_s - rounds[0].at_s < 1.5
    assert not cluster.api.writes()
    if name.endswith(".gz"):
        assert gzip.decompress(path.read_bytes()).count(b"\n") == 3


def test_it_ends_at_its_size_and_says_so(capsys, chat, tmp_path):
    path, most = tmp_path / "chat.jsonl", record.LEAST_BYTES
    chat.answers["chat-1"].extra = {"adapters": [f"lora-{n}" for n in range(6000)]}
    code, _, err = ran(
        capsys, "record", "chat", "-o", str(path), "--max-bytes", str(most), "--interval", "1"
    )

    assert code == 0
    assert "1 rounds in" in err
    assert "(--max-bytes is reached)" in err
    assert path.stat().st_size <= most
    assert len(read(path)[1]) == 1


def test_a_round_that_has_no_room_at_all_is_told(capsys, chat, tmp_path):
    chat.answers["chat-1"].extra = {"adapters": [f"lora-{n}" for n in range(15_000)]}
    code, _, err = ran(
        capsys, "record", "chat", "-o", str(tmp_path / "x"), "--max-bytes", str(record.LEAST_BYTES)
    )

    assert code == 0
    assert "not even one round has room in --max-bytes" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_ends_it_in_order(capsys, chat, tmp_path, number):
    path = tmp_path / "chat.jsonl.gz"

    def interrupt():
        while not path.exists() or not path.stat().st_size:
            time.sleep(0.02)
        time.sleep(0.2)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, _, err = ran(capsys, "record", "chat", "-o", str(path))
    thread.join()

    assert code == 0
    assert "(stopped)" in err
    assert len(read(path)[1]) == 1


def test_rounds_in_which_the_api_fails_are_left_out_and_told(capsys, cluster, chat, tmp_path):
    path = tmp_path / "chat.jsonl"
    real, asked = chat.answer, []

    async def answer(request):
        asked.append(1)
        if 2 < len(asked) <= 4:
            chat.answers["chat-1"] = "forbidden"
        else:
            chat.answers["chat-1"] = FakePod()
        return await real(request)

    cluster.api.proxied = answer
    code, _, err = ran(capsys, "record", "chat", "-o", str(path), "--for", "2.5", "--interval", "1")

    assert code == 0
    assert "a round is left out: 403 Forbidden" in err
    assert "2 rounds, 1 left out" in err
    assert len(read(path)[1]) == 2


def test_a_file_that_is_there_is_left_alone(capsys, chat, tmp_path):
    path = tmp_path / "chat.jsonl"
    path.write_text("a day's work")
    code, _, err = ran(capsys, "record", "chat", "-o", str(path))

    assert (code, path.read_text()) == (2, "a day's work")
    assert err == f"cacheaware: --output {path}: is there already; a new file is allowed\n"


def test_a_folder_that_is_not_there_is_told_before_anything_is_written(capsys, chat, tmp_path):
    path = tmp_path / "none" / "chat.jsonl"
    code, _, err = ran(capsys, "record", "chat", "-o", str(path))

    assert code == 2
    assert err.endswith(f"cacheaware: --output {path}: No such file or directory\n")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--for", "0", "--for is 0; allowed: more than 0"),
        ("--max-bytes", "5", "--max-bytes is 5; allowed: 65536 or more"),
        ("--interval", "0.5", "--interval is 0.5; allowed: 1 to 300 seconds"),
    ],
)
def test_bad_options_are_one_line(capsys, tmp_path, option, value, says):
    code, _, err = ran(capsys, "record", "chat", "-o", str(tmp_path / "x"), option, value)

    assert code == 2
    assert err.startswith(f"cacheaware: {says}")


def test_a_scaler_that_is_not_there_leaves_no_file(capsys, chat, tmp_path):
    code, _, err = ran(capsys, "record", "nobody", "-o", str(tmp_path / "x"))

    assert code == 2
    assert "no CacheAwareScaler 'nobody' in namespace 'demo'" in err
    assert not (tmp_path / "x").exists()


def test_a_target_that_is_not_there_leaves_no_file(capsys, cluster, chat, tmp_path):
    body = scaler_body()
    body["spec"]["scaleTargetRef"]["name"] = "gone"
    cluster(SCALERS, body)
    code, _, err = ran(capsys, "record", "chat", "-o", str(tmp_path / "x"))

    assert code == 2
    assert "does not exist" in err
    assert not (tmp_path / "x").exists()


def test_a_spec_that_cannot_be_used_is_told(capsys, cluster, chat, tmp_path):
    cluster(SCALERS, scaler_body(maxReplicas=0))
    code, _, err = ran(capsys, "record", "chat", "-o", str(tmp_path / "x"))

    assert code == 2
    assert err.startswith("cacheaware: demo/chat: spec.maxReplicas: ")


def test_without_the_right_to_reach_pods_nothing_is_recorded(capsys, chat, tmp_path):
    chat.answers["chat-1"] = "forbidden"
    code, _, err = ran(capsys, "record", "chat", "-o", str(tmp_path / "x"))

    assert code == 2
    assert "pods/proxy" in err
    assert not (tmp_path / "x").exists()


def test_pods_that_may_not_be_listed_are_told(capsys, cluster, chat, tmp_path):
    from tests.operator.fake_api import Fault

    cluster.api.faults.append(
        Fault(lambda _, path: path.endswith("/namespaces/demo/pods"), 403, "Forbidden")
    )
    code, _, err = ran(capsys, "record", "chat", "-o", str(tmp_path / "x"))

    assert code == 2
    assert "the pods can't be listed: 403 Forbidden" in err


def test_that_keys_do_not_reach_engines_is_told(capsys, cluster, chat, tmp_path):
    spec = deepcopy(scaler_body(engine={"authorizationSecretRef": {"name": "key"}}))
    cluster(SCALERS, spec)
    code, _, err = ran(capsys, "record", "chat", "-o", str(tmp_path / "x"), "--for", "0.5")

    assert code == 0
    assert "the API server passes no key on" in err


async def test_turns_that_were_missed_are_not_made_up_for(played):
    class Slow:
        """A round takes ten times the interval."""

        now = 0.0

        def clock(self):
            return self.now

        async def round(self):
            self.now += 10 / 64
            return played.rounds[0]

    writer = Writer(io.BytesIO(), packed=True, most=10**8)
    bounds = record.Bounds(seconds=1.0, interval=1 / 64, size=10**8)
    told = await record.rounds_into(writer, Slow(), played.header, played.rounds[0], bounds)

    assert told == "9 rounds in 1 s (its time is over)"


async def test_where_signals_cannot_be_taken_it_goes_on():
    def stop_in_a_thread():
        async def made():
            return record.stopped_by_signals()

        return asyncio.run(made())

    assert not (await asyncio.to_thread(stop_in_a_thread)).is_set()


def test_the_example_of_the_help_runs(capsys, chat, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert ran(capsys, *example("record"))[0] == 0
    assert read(tmp_path / "chat.jsonl")
