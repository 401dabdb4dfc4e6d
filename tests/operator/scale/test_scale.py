"""What the operator costs at its full size: a process of its own against a cluster in another."""

import asyncio
import json
import math
import os
import re
import sys
import urllib.request

import pytest
from tests.operator.controller.test_footprint import (
    KUBECONFIG,
    cpu_seconds,
    free_port,
    resident_mb,
)

SCALERS = int(os.environ.get("CACHEAWARE_SCALE_SCALERS", "1000"))
PODS_EACH = int(os.environ.get("CACHEAWARE_SCALE_PODS_EACH", "5"))
SECONDS = float(os.environ.get("CACHEAWARE_SCALE_SECONDS", "60"))
CHANGES = int(os.environ.get("CACHEAWARE_SCALE_CHANGES", "50"))
INTERVAL_S = 5.0
MAX_MB = 200
MAX_DELAY_S = 7.0
START_S = 120
YARDSTICK_S = 0.0005
"""What the yardstick takes on the machine that the budget is meant for, as for a decision."""


@pytest.mark.scale
@pytest.mark.timeout(START_S + 3 * SECONDS + 60)
async def test_a_thousand_scalers_of_five_thousand_pods_keep_their_rounds(tmp_path, capsys):
    cluster = await python("cluster", str(SCALERS), str(PODS_EACH))
    operator = None
    try:
        config = tmp_path / "config"
        config.write_text(KUBECONFIG.format(url=(await told(cluster, START_S))["url"]))
        port = free_port()
        operator = await python(
            "operator",
            KUBECONFIG=str(config),
            CACHEAWARE_PORT=str(port),
            CACHEAWARE_LEASE_NAMESPACE="ops",
            CACHEAWARE_LOG_LEVEL="WARNING",
        )
        await told(cluster, START_S)
        await asyncio.sleep(2 * INTERVAL_S)  # the first statuses are written
        first = await asyncio.to_thread(metrics, port)
        steady = await measured(cluster, operator, SECONDS / 2, 0)
        found = await measured(cluster, operator, SECONDS, CHANGES)
        megabytes = resident_mb(operator.pid)
        page = await asyncio.to_thread(metrics, port)
    finally:
        for process in (operator, cluster):
            if process is not None and process.returncode is None:
                process.terminate()
                await process.wait()
    gap, delay = p99(found["gaps"]), p99(found["delays"])
    with capsys.disabled():
        print(
            f"\noperator, {SCALERS:,} scalers, {SCALERS * PODS_EACH:,} pods: {megabytes:.0f} MB"
            f"\n  loads that wander: {cost(steady)}"
            f"\n  {60 * CHANGES / SECONDS:.0f} fleets a minute that grow: {cost(found)}"
            f"\n  from round to round {gap:.2f} s p99, {max(found['gaps']):.2f} s at most;"
            f" a round <= {rounds_within(first, page)} s p99"
            f"\n  load change -> write: {delay:.2f} s p99 of {len(found['delays'])}"
        )
    assert found["unasked"] == []
    assert failed_rounds(page) == failed_rounds(first)
    assert megabytes <= MAX_MB
    assert float(rounds_within(first, page)) <= INTERVAL_S
    assert delay <= MAX_DELAY_S


async def measured(cluster, operator, seconds, changes):
    """What the cluster saw, the operator's share of a core, and how slow the machine was."""
    before, took = cpu_seconds(operator.pid), []
    cluster.stdin.write(f"{seconds} {changes}\n".encode())
    reading = asyncio.create_task(told(cluster, 2 * seconds + 30))
    while not reading.done():
        took.append(timed())
        await asyncio.sleep(1.0)
    found = await reading
    slow = max(1.0, sorted(took)[len(took) // 2] / YARDSTICK_S)
    return {**found, "slow": slow, "share": (cpu_seconds(operator.pid) - before) / found["seconds"]}


def cost(found):
    """What a measured time took."""
    return (
        f"{found['share']:.1%} of a core on a machine that takes {found['slow']:.2f} times as long,"
        f" {found['states_per_s']:,.0f} states/s, {found['writes_per_s']:.1f} writes/s"
    )


async def python(module, *arguments, **env):
    """One of the two processes."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", f"tests.operator.scale.{module}", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
        limit=2**24,
    )


async def told(process, seconds):
    """The next JSON line of a process."""
    async with asyncio.timeout(seconds):
        line = await process.stdout.readline()
    assert line, "the process has ended"
    return json.loads(line)


def timed():
    """The thread's own seconds for a fixed piece of work: how fast this machine is now."""
    import time

    began = time.thread_time()
    sum(number * number for number in range(10_000))
    return time.thread_time() - began


def p99(numbers):
    ordered = sorted(numbers)
    return ordered[math.ceil(len(ordered) * 0.99) - 1]


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def rounds_within(first, page):
    """The bucket that holds 99 % of the rounds between two pages."""
    before, after = rounds(first), rounds(page)
    total = after["+Inf"] - before["+Inf"]
    return next(le for le in after if after[le] - before[le] >= 0.99 * total)


def rounds(page):
    found = re.findall(
        r'^cacheaware_round_seconds_bucket\{le="([^"]+)"\} (\S+)', page, re.MULTILINE
    )
    return {le: float(count) for le, count in found}


def failed_rounds(page):
    found = re.findall(r"^cacheaware_failed_rounds_total\S* (\S+)", page, re.MULTILINE)
    return sum(map(float, found))
