"""What the operator costs: as a process of its own, with ten scalers and forty pods."""

import asyncio
import os
import resource
import sys
from pathlib import Path

import pytest

MAX_MB = 120
SECONDS = 4.0
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: fake
clusters: [{{name: fake, cluster: {{server: "{url}"}}}}]
contexts: [{{name: fake, context: {{cluster: fake, user: fake, namespace: demo}}}}]
users: [{{name: fake, user: {{token: a-token}}}}]
"""


@pytest.mark.benchmark
async def test_memory_and_cpu_with_ten_scalers(world, tmp_path, capsys):
    for number in range(10):
        await world.workloads.deployment("demo", f"llm-{number}", 4)
        await world.scaler(name=f"llm-{number}")
    config = tmp_path / "config"
    config.write_text(KUBECONFIG.format(url=world.api.url))
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("cacheaware")), "run"),
        env={
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(config),
            "CACHEAWARE_PORT": str(free_port()),
            "CACHEAWARE_LEASE_NAMESPACE": "ops",
            "CACHEAWARE_LOG_LEVEL": "WARNING",
        },
    )
    try:
        await world.until(
            lambda: all(world.status(name=f"llm-{n}").get("decisions") for n in range(10)), 40
        )
        before = cpu_seconds(process.pid)
        await asyncio.sleep(SECONDS)
        share = (cpu_seconds(process.pid) - before) / SECONDS
        megabytes = resident_mb(process.pid)
    finally:
        process.terminate()
        assert await process.wait() == 0
    with capsys.disabled():
        print(f"\noperator, 10 scalers, 40 pods: {megabytes:.0f} MB, {share:.1%} of a core")
    assert megabytes <= MAX_MB


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
