"""The hook in the shared folder."""

import errno
import json
import stat

import pytest

from cacheaware_sidecar import install
from cacheaware_sidecar.settings import Settings


@pytest.fixture
def settings(tmp_path):
    return Settings(shared_dir=str(tmp_path / "shared"))


def test_hook_settings_and_middleware_are_put_there(settings, tmp_path):
    install.install_hook(settings)
    script, told = tmp_path / "shared" / "wait.py", tmp_path / "shared" / "wait.json"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert (tmp_path / "shared" / "connection_close.py").read_text().startswith('"""ASGI')
    assert json.loads(told.read_text())["urls"] == [settings.engine_url]


def test_a_full_disk_stops_the_first_start_and_no_later_one(settings, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(install, "write_atomically", full)
        with pytest.raises(OSError, match="No space left"):
            install.install_hook(settings)
    install.install_hook(settings)
    monkeypatch.setattr(install, "write_atomically", full)
    install.install_hook(settings)


def test_what_an_older_sidecar_left_is_replaced(settings, tmp_path):
    install.install_hook(settings)
    script = tmp_path / "shared" / "wait.py"
    now = script.read_text()
    script.write_text("old")
    install.install_hook(settings)
    assert script.read_text() == now


def test_pods_that_hand_kv_over_wait_until_it_is_let_go():
    both, prefill = Settings(), Settings(role="Prefill", kv_transfer_timeout_seconds=60)
    assert install.hook_settings(both)["quiet_s"] == 5.0
    assert install.hook_settings(prefill)["quiet_s"] == 60.0


def test_the_hook_knows_what_stands_still_in_an_empty_engine():
    ours = [name for name in install.counters_of("vllm") if name.startswith("vllm:")]
    assert ours == [
        "vllm:generation_tokens_total",
        "vllm:prompt_tokens_total",
        "vllm:request_success_total",
    ]
    assert "sglang:prompt_tokens_total" in install.counters_of("auto")
