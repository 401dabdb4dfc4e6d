"""Rounds of a live scaler, seen from outside of the cluster: nothing in it is written.

Pods are asked through the API server's proxy, as `kubectl` does it, for their addresses can only be
reached from inside.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheaware import names
from cacheaware.api.status import learned_of
from cacheaware.controller.registry import Scaler
from cacheaware.decide.fleet import Unknown
from cacheaware.kube import TOO_LARGE, Kube, KubeError
from cacheaware.observe import direct, sidecar
from cacheaware.observe.look import SIDECAR
from cacheaware.observe.observer import engine_paths, way
from cacheaware.observe.podcache import PodCache
from cacheaware.observe.poll import Answer
from cacheaware.observe.target import TargetRef, Targets, leaders
from cacheaware.pods import PodRecord
from cacheaware.recording import lines
from cacheaware.recording.histories import direct_answer, sidecar_answer
from cacheaware.recording.privacy import Aliases, header_of, pod_line

LISTED_WITHIN_S = 15.0
TIMEOUT_WORDS = ("timeout", "timed out", "deadline exceeded")


@dataclass(slots=True, kw_only=True)
class Capture:
    """Looks at a scaler's pods.

    Args:
        kube: the cluster.
        scaler: what is recorded.
        pods: the pods of its namespace; it must watch them.
        round_seconds: between two rounds; a pod has less than that to answer.
    """

    kube: Kube
    scaler: Scaler
    ref: TargetRef
    pods: PodCache
    round_seconds: float
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    aliases: Aliases = field(init=False)
    began: float = field(init=False)
    began_wall: float = field(init=False)
    targets: Targets = field(init=False)

    def __post_init__(self) -> None:
        self.aliases = Aliases(self.scaler.uid, self.ref.kind)
        self.began, self.began_wall = self.clock(), self.wall()
        self.targets = Targets(self.kube)

    @property
    def answer_s(self) -> float:
        """The time that a pod has to answer, as from the operator."""
        return min(3.0, 0.6 * self.round_seconds)

    async def header(self, body: Mapping[str, Any]) -> lines.Header:
        """The first line.

        Args:
            body: the scaler's object.

        Raises:
            TargetError: the target can't be read.
            KubeError: the API failed.
        """
        target = await self.targets.read(self.ref)
        return header_of(
            kind=self.ref.kind,
            spec=body.get("spec") or {},
            round_seconds=self.round_seconds,
            gpus_per_replica=target.gpus,
            learned=learned_of(body.get("status") or {}),
            aliases=self.aliases,
        )

    async def listed(self) -> str | None:
        """Wait until the pods are known; returns why they can't be."""
        space = self.ref.namespace
        self.pods.watch_only([space])
        end = self.clock() + LISTED_WITHIN_S
        while not self.pods.listed(space):
            if (fault := self.pods.fault(space)) is not None:
                return fault
            if self.clock() > end:
                return f"no answer within {LISTED_WITHIN_S:g} s"
            await asyncio.sleep(0.05)
        return None

    async def round(self) -> lines.Round:
        """What there is to see now.

        Raises:
            TargetError: the target can't be read.
            KubeError: the API failed, or refuses the way to the pods.
        """
        target = await self.targets.read(self.ref)
        records = leaders(self.ref, self.pods.select(self.ref.namespace, target.selector))
        looks = await asyncio.gather(*(self._look(one) for one in records))
        return lines.Round(
            at_s=round(self.clock() - self.began, 3),
            replicas=target.spec_replicas,
            rollout=target.rollout,
            pods=tuple(
                pod_line(record, look, self.aliases, self.began_wall)
                for record, look in zip(records, looks, strict=True)
            ),
        )

    async def _look(self, record: PodRecord) -> lines.Look | None:
        if record.ip is None:
            return None
        access = self.scaler.access
        if way(record, access) == SIDECAR:
            port = record.sidecar_port or names.SIDECAR_PORT
            pod = f"{record.name}:{port}"
            answer = await self._fetch(record, pod, sidecar.PATH, sidecar.MAX_BYTES)
            return sidecar_answer(answer, answer.at - self.began, self.aliases)
        scheme = "https:" if access.scheme == "https" else ""
        ports, path = engine_paths(record, access)
        answers = await asyncio.gather(
            *(
                self._fetch(record, f"{scheme}{record.name}:{port}", path, direct.MAX_BYTES)
                for port in ports
            )
        )
        at_s = max(answer.at for answer in answers) - self.began
        return direct_answer(answers, at_s, self.aliases, access.engine)

    async def _fetch(self, record: PodRecord, pod: str, path: str, most: int) -> Answer:
        proxied = f"/api/v1/namespaces/{record.namespace}/pods/{pod}/proxy{path}"
        try:
            async with asyncio.timeout(self.answer_s):
                content = await self.kube.content(proxied, most)
        except TimeoutError:
            return Answer(self.clock(), unknown=Unknown.TIMED_OUT)
        except KubeError as error:
            if refuses_us(error):
                raise
            return Answer(self.clock(), unknown=unknown_of(error))
        return Answer(self.clock(), content=content)


def refuses_us(error: KubeError) -> bool:
    """Whether it is the API server that refuses, not the pod."""
    return error.status == 403 and "pods/proxy" in error.message


def unknown_of(error: KubeError) -> Unknown:
    """Why a pod that was asked through the API server told nothing."""
    message = error.message.lower()
    if error.reason == TOO_LARGE:
        return Unknown.INVALID
    if error.status in {401, 403}:
        return Unknown.UNAUTHORIZED
    if "connection refused" in message:
        return Unknown.REFUSED
    if error.status == 504 or any(word in message for word in TIMEOUT_WORDS):
        return Unknown.TIMED_OUT
    return Unknown.ERROR
