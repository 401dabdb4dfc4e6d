import os
import sys
import time

import pytest
from tests.cluster.errors import ClusterError
from tests.cluster.source.processes import Records, end, start_time

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
DEAF = [
    *(sys.executable, "-S", "-c"),
    "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
]


@pytest.mark.parametrize("argv", [SLEEP, DEAF], ids=["a docile one", "one that ignores SIGTERM"])
def test_a_process_is_started_seen_and_ended(tmp_path, argv):
    records = Records(tmp_path)
    records.start("thing", argv)
    pid = records.alive("thing")
    assert pid is not None
    assert records.running() == {"thing": pid}
    end([pid])
    assert records.running() == {}


def test_a_reused_process_id_is_not_taken_for_ours(tmp_path):
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "thing").write_text(f"{os.getpid()} 1")
    assert Records(tmp_path).alive("thing") is None


@pytest.mark.parametrize("record", ["", "12", "x y", "4194304 5"])
def test_a_record_cut_off_by_a_crash_is_no_process(tmp_path, record):
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "thing").write_text(record)
    assert Records(tmp_path).running() == {}


def test_a_dead_component_shows_the_end_of_its_log(tmp_path):
    records = Records(tmp_path)
    records.start("thing", [sys.executable, "-S", "-c", "print('no such flag'); exit(3)"])
    deadline = time.monotonic() + 20
    while records.alive("thing") is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(ClusterError, match=r"(?s)thing died.*no such flag"):
        records.check("thing")


def test_ending_nothing_or_ourselves_does_nothing():
    end([])
    end([os.getpid()])
    assert start_time(os.getpid()) is not None
    assert start_time(4194304) is None
