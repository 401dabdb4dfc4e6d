"""PreStop hooks: what they do and how long they take."""

import pytest

from cacheaware.workload.hooks import Hook, HookKind, hook_of

SCRIPT = "/var/run/cacheaware/wait.py"
NONE, SLEEP, OTHER = HookKind.NONE, HookKind.SLEEP, HookKind.OTHER


def command(*words):
    return {"exec": {"command": list(words)}}


@pytest.mark.parametrize(
    ("hook", "found"),
    [
        (None, Hook(NONE, 0.0)),
        ({"sleep": {"seconds": 15}}, Hook(SLEEP, 15.0)),
        ({"sleep": {"seconds": 0}}, Hook(SLEEP, 0.0)),
        (command("sleep", "15"), Hook(SLEEP, 15.0)),
        (command("/bin/sleep", "15"), Hook(SLEEP, 15.0)),
        (command("/bin/sh", "-c", "sleep 15"), Hook(SLEEP, 15.0)),
        (command("sh", "-c", "exec sleep 15s;"), Hook(SLEEP, 15.0)),
        (command("sleep", "2m"), Hook(SLEEP, 120.0)),
        (command("sleep", "1d"), Hook(SLEEP, 86400.0)),
        (command("sleep", "infinity"), Hook(OTHER)),
        (command("sleep", "9" * 400), Hook(OTHER)),
        (command("sh", "-c", "sleep 5; curl x"), Hook(OTHER)),
        (command("sh", "-c", "it's"), Hook(OTHER)),
        (command(), Hook(OTHER)),
        (
            command("python3", "-I", "-S", SCRIPT),
            Hook(HookKind.DRAIN, by_script=True, script=SCRIPT),
        ),
        (
            command("sh", "-c", f"exec python3 {SCRIPT}"),
            Hook(HookKind.DRAIN, by_script=True, script=SCRIPT),
        ),
        (command("cacheaware-sidecar", "drain"), Hook(HookKind.DRAIN, by_script=True)),
        ({"httpGet": {"path": "/drain/wait", "port": 9440}}, Hook(HookKind.DRAIN, port=9440)),
        ({"httpGet": {"path": "/other", "port": 9440}}, Hook(OTHER)),
        ({"tcpSocket": {"port": 1}}, Hook(OTHER)),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_a_hook_does_is_read_from_its_manifest(hook, found):
    lifecycle = {"lifecycle": {"preStop": hook}} if hook else {}
    assert hook_of(lifecycle) == found
