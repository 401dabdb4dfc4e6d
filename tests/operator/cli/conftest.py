"""What tests of commands share: a cluster behind a kubeconfig, and how a command ended."""

import asyncio
import json
import shlex
import threading

import pytest
from tests.operator.fake_api import FakeApi

from cacheaware.cli import command_line, main


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A kubeconfig, and a cluster in a thread: commands have a loop of their own."""
    loop, ready, found = asyncio.new_event_loop(), threading.Event(), {}

    async def serve():
        async with FakeApi() as api:
            found["api"], found["stop"] = api, asyncio.Event()
            ready.set()
            await found["stop"].wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    config = tmp_path / "config"
    context = {"cluster": "c", "user": "u", "namespace": "demo"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": found["api"].url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    config.write_text(json.dumps(kubeconfig))
    where = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(where, str(config))

    def put(resource, one):
        return asyncio.run_coroutine_threadsafe(found["api"].put(resource, one), loop).result()

    put.api = found["api"]
    yield put
    loop.call_soon_threadsafe(found["stop"].set)
    thread.join()
    loop.close()


def leaves(command, path=()):
    """Every command that does something, by its words."""
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from leaves(one, (*path, name))
    else:
        yield path, command


def commands():
    """All of them."""
    return dict(leaves(command_line()))


def example(*path):
    """The words of the example in a command's help, without the program's name."""
    command = commands()[path]
    told = " ".join(f"{command.help} {command.epilog or ''}".split())
    words = shlex.split(told.partition("Example: ")[2])
    return words[words.index("cacheaware") + 1 :]


def ran(capsys, *args):
    with pytest.raises(SystemExit) as end:
        main(list(args))
    told = capsys.readouterr()
    return end.value.code, told.out, told.err
