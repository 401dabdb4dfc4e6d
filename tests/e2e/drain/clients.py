"""Those who send the load: each in a pod of its own, counting what it lost."""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.cluster import images
from tests.e2e.workload import ENGINE_IMAGE, Fleet, condition, eventually

PROXY_CONF = Path(__file__).parents[1] / "proxy" / "nginx.conf"
LONGEST_S = 240
STREAM = ("--prompt-tokens=32", "--output-tokens=64", "--stream")


class Client(StrEnum):
    """How a client comes to the engines."""

    FRESH = "fresh connections"
    POOLED = "pooled keep-alive"
    PROXIED = "behind nginx"


@dataclass(slots=True)
class Sender:
    """One load generator in its pod."""

    fleet: Fleet
    client: Client
    pod: str

    def stop(self) -> None:
        """Let it send no more than it has promised; harmless if it has ended."""
        if not self.running():
            return
        stop = ("python3", "-c", "import os; os.kill(1, 15)")
        self.fleet.kubectl("exec", self.pod, "--", *stop)

    def result(self, within: float = LONGEST_S) -> dict[str, Any]:
        """What became of its requests, once all are answered."""
        eventually(self._ended, within=within, what=f"{self.pod} has ended")
        log = self.fleet.kubectl("logs", self.pod)
        return json.loads(log[log.index("{") :])

    def running(self) -> bool:
        """Whether it sends."""
        return self.fleet.get("pod", self.pod)["status"].get("phase") == "Running"

    def answered(self) -> bool:
        """Whether its load flows."""
        return self.running() and "first answer" in self.fleet.kubectl("logs", self.pod)

    def _ended(self) -> bool:
        return self.fleet.get("pod", self.pod)["status"].get("phase") in {"Succeeded", "Failed"}


@dataclass(slots=True)
class Clients:
    """The clients of one run; they send together."""

    fleet: Fleet
    kinds: tuple[Client, ...] = (Client.FRESH,)
    rate: float = 40.0
    """Requests per second of all of them together."""
    at_least: int = 1000
    """Requests of each."""
    model: str = "mock"
    surge_tokens: int = 200
    """Tokens of each stream of a surge."""
    longest_s: int = LONGEST_S
    """Seconds after which the load ends by itself."""
    senders: list[Sender] = field(default_factory=list)

    def start(self) -> None:
        """Start them, and wait until all of them have had an answer."""
        share = self.rate / len(self.kinds)
        service = f"http://{self._service()}:8000"
        urls = dict.fromkeys(self.kinds, service)
        if Client.PROXIED in self.kinds:
            urls[Client.PROXIED] = f"http://{start_proxy(self.fleet, self._service())}:8080"
        for kind in self.kinds:
            keep = () if kind is Client.FRESH else ("--keep-alive",)
            self.senders.append(
                self.send(
                    kind,
                    urls[kind],
                    *(f"--rate={share:g}", f"--duration={self.longest_s}"),
                    *(f"--at-least={self.at_least}", *keep),
                )
            )
        for sender in self.senders:
            eventually(sender.answered, within=60, what=f"{sender.pod} has had an answer")

    def send(self, kind: Client, url: str, *args: str) -> Sender:
        """Start one load generator."""
        name = f"load-{len(self.fleet.loads)}"
        self.fleet.loads.append(name)
        self.fleet.kubectl(
            *("run", name, f"--image={ENGINE_IMAGE}", "--image-pull-policy=Never"),
            *("--restart=Never", "--command", "--"),
            *("cacheaware", "simulate", "load", url, f"--model={self.model}"),
            *(*STREAM, "-o", "json", *args),
        )
        return Sender(self.fleet, kind, name)

    def surge(self, seconds: float, streams: int) -> Sender:
        """More load than one pod carries, for a time."""
        surge = self._burst(
            f"--duration={seconds:g}",
            f"--concurrency={streams}",
            f"--output-tokens={self.surge_tokens}",
        )
        self.senders.append(surge)
        return surge

    def hold_streams(self) -> None:
        """A few long streams, so that no pod is empty at once."""
        self.senders.append(
            self._burst(f"--duration={self.longest_s}", "--concurrency=4", "--output-tokens=500")
        )

    def _burst(self, *args: str) -> Sender:
        return self.send(Client.FRESH, f"http://{self._service()}:8000", *args)

    def finish(self) -> dict[Client, list[dict[str, Any]]]:
        """End the load; what became of it, by client."""
        for sender in self.senders:
            sender.stop()
        results: dict[Client, list[dict[str, Any]]] = {kind: [] for kind in self.kinds}
        for sender in self.senders:
            results[sender.client].append(sender.result(within=self.longest_s))
        return results

    def _service(self) -> str:
        return str(self.fleet.get("service", self.fleet.name)["spec"]["clusterIP"])


def start_proxy(fleet: Fleet, service: str) -> str:
    """nginx with a pool of connections to the Service; its address."""
    name = "l7-proxy"
    fleet.loads.append(name)
    conf = PROXY_CONF.read_text().replace("UPSTREAM", f"{service}:8000")
    script = 'printf %s "$CONF" > /tmp/nginx.conf && exec nginx -e stderr -c /tmp/nginx.conf'
    fleet.kubectl(
        *("run", name, f"--image={images.PROXY.name}", "--image-pull-policy=Never"),
        *("--restart=Never", f"--env=CONF={conf}", "--command", "--", "sh", "-c", script),
    )

    def address() -> str:
        pod = fleet.get("pod", name)
        ready = condition(pod, "Ready") == "True"
        return str(pod["status"]["podIP"]) if ready else ""

    return eventually(address, within=30, what="the proxy runs")
