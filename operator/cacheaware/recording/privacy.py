"""What a recording may hold: numbers, and words of ours and of Kubernetes. Names become numbers.

It is a list of what is let through, not of what is kept out: a field that is new stays out until
it is named here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from cacheaware.decide.fleet import Unknown
from cacheaware.decide.learned import Learned
from cacheaware.decide.victims import BY_ORDINAL, NO_ORDINAL, ordinal
from cacheaware.observe.warmup_speed import PROMPTS
from cacheaware.pods import PodRecord
from cacheaware.recording import lines
from cacheaware_sidecar.engines import EngineSample, Histogram
from cacheaware_sidecar.state import DrainState, KvState, PodState, ShapeState, WarmupState
from cacheaware_sidecar.state_json import histogram_to_json, pod_state_to_json

SCALER = "scaler"
"""Whose cordons are ours, in a recording."""
OTHER = "other"
STUCK = "Stuck"
WISHES = ("mode", "observation", "engine", "targets", "behavior", "drain", "fallback")
"""Of a spec; any number beside them is kept, too."""
CHOICES = frozenset({"mode", "observation", "type", "role", "selectPolicy"})
"""Fields of a spec whose words are the schema's; no other word is kept."""
NOT_TOLD = frozenset({"ports"})


class Aliases:
    """A number for each name, in the order in which they come.

    Args:
        scaler: uid of the scaler.
        kind: of its target.
    """

    def __init__(self, scaler: str, kind: str) -> None:
        self._scaler = scaler
        self._ordinals = kind in BY_ORDINAL
        self._known: dict[str, dict[str, int]] = {}

    def number(self, of: str, name: str) -> int:
        """From 1."""
        known = self._known.setdefault(of, {})
        return known.setdefault(name, len(known) + 1)

    def pod(self, record: PodRecord) -> tuple[str, str]:
        """A pod's name and uid. Of a StatefulSet the ordinal tells which pod goes: it stays."""
        uid = f"p{self.number('pod', record.uid)}"
        place = ordinal(record.name)
        return (f"p-{place}" if self._ordinals and place != NO_ORDINAL else uid), uid

    def node(self, name: str) -> str:
        """A node's name."""
        return f"n{self.number('node', name)}"

    def owner(self, uid: str) -> str:
        """Who holds a cordon."""
        return SCALER if uid == self._scaler else OTHER

    def state(self, state: PodState) -> dict[str, Any]:
        """What a sidecar told, as it answers it, without what is unknown."""
        kv, drain = state.kv, state.drain
        owner = drain.cordoned_by
        told = " ".join(state.problems)
        shown = PodState(
            phase=state.phase,
            phase_age_s=state.phase_age_s,
            sample_age_s=state.sample_age_s,
            sample_seq=state.sample_seq,
            running=state.running,
            waiting=state.waiting,
            kv=KvState(
                usage=kv.usage,
                usage_max=kv.usage_max,
                used_tokens=kv.used_tokens,
                capacity_tokens=kv.capacity_tokens,
                block_size=kv.block_size,
            ),
            rates=state.rates,
            counters=state.counters,
            warmup=WarmupState(shapes=tuple(measured(state.warmup.shapes))),
            latency=state.latency,
            start=state.start,
            drain=DrainState(
                deadline_s=drain.deadline_s,
                running=drain.running,
                waiting=drain.waiting,
                cordoned_by=None if owner is None else self.owner(owner),
                cordoned_s=drain.cordoned_s,
                lease_s=drain.lease_s,
                empty=drain.empty,
                arrival_age_s=drain.arrival_age_s,
            ),
            adapters=tuple(f"a{self.number('adapter', name)}" for name in state.adapters),
            sleeping=state.sleeping,
            problems=tuple(one.value for one in Unknown if one.value in told),
        )
        found: dict[str, Any] = known(pod_state_to_json(shown))
        return found

    def sample(self, sample: EngineSample) -> lines.Sample:
        """What an engine's page told."""
        names = {one.name for one in fields(EngineSample)} & lines.Sample.model_fields.keys()
        told = {name: plain(getattr(sample, name)) for name in names}
        if sample.started_at is not None:
            told["started_at"] = float(self.number("start", repr(sample.started_at)))
        return lines.Sample.model_validate(told)


def measured(shapes: Iterable[ShapeState]) -> Iterator[ShapeState]:
    """What of a warm-up tells the speed; the names of other shapes may be the user's."""
    for one in shapes:
        if one.name in PROMPTS:
            yield ShapeState(name=one.name, tokens=one.tokens, last_s=one.last_s)


def known(value: Any) -> Any:
    """JSON without nulls, empty lists and empty objects."""
    if isinstance(value, dict):
        parts = {name: known(each) for name, each in value.items()}
        return {name: each for name, each in parts.items() if each not in (None, [], {})}
    return [known(each) for each in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """A histogram as JSON has it; anything else as it is."""
    return histogram_to_json(value) if isinstance(value, Histogram) else value


def pod_line(
    record: PodRecord, look: lines.Look | None, aliases: Aliases, began: float
) -> lines.Pod:
    """A pod as it was seen.

    Args:
        record: its object.
        look: what it answered.
        aliases: the names so far.
        began: when the recording did, in the clock of the record's times.
    """
    name, uid = aliases.pod(record)

    def since(at: float | None) -> float | None:
        return None if at is None else round(at - began, 3)

    return lines.Pod(
        name=name,
        uid=uid,
        node=None if record.node is None else aliases.node(record.node),
        created_s=round(record.created - began, 3),
        scheduled_s=since(record.scheduled_at),
        started_s=since(record.started_at),
        ready=record.ready,
        ready_since_s=since(record.ready_since),
        was_ready=record.was_ready,
        startup_budget_s=record.startup_budget_s,
        terminating=record.terminating,
        pending=record.pending,
        disrupted=record.disrupted,
        restarts=record.restarts,
        stuck=None if record.stuck is None else word(record.stuck),
        final_drain=record.final_drain,
        look=look,
    )


def word(stuck: str) -> str:
    """Why a pod can't start, without the container's name."""
    reason = stuck.rpartition(": ")[2]
    return reason if reason.isalnum() else STUCK


def sidecar_look(state: PodState, at_s: float, aliases: Aliases) -> lines.Look:
    """What a sidecar answered."""
    return lines.Look(way="Sidecar", at_s=round(at_s, 3), state=aliases.state(state))


def direct_look(samples: Sequence[EngineSample], at_s: float, aliases: Aliases) -> lines.Look:
    """What a pod's engines answered."""
    told = tuple(aliases.sample(one) for one in samples)
    return lines.Look(way="Direct", at_s=round(at_s, 3), samples=told)


def spec_line(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A scaler's spec without names: the wishes and the numbers in it.

    A floor of zero becomes one: what wakes a target from zero is no part of a recording, and no
    floor of zero is allowed without it.
    """
    kept = {
        name: value
        for name, value in spec.items()
        if name in WISHES or (isinstance(value, int | float) and not isinstance(value, bool))
    }
    found: dict[str, Any] = known(without_words(kept))
    return {**found, "minReplicas": 1} if found.get("minReplicas") == 0 else found


def without_words(value: Any) -> Any:
    """JSON without texts, but for those that the schema gives to choose from."""
    if isinstance(value, Mapping):
        return {
            name: each if name in CHOICES else without_words(each)
            for name, each in value.items()
            if name not in NOT_TOLD
        }
    if isinstance(value, list):
        return [without_words(each) for each in value]
    return None if isinstance(value, str) else value


def header_of(
    *,
    kind: str,
    spec: Mapping[str, Any],
    round_seconds: float,
    gpus_per_replica: int | None,
    learned: Learned,
    aliases: Aliases,
) -> lines.Header:
    """The first line."""
    return lines.Header(
        kind=lines.KIND,
        target_kind=kind,
        spec=spec_line(spec),
        round_seconds=round_seconds,
        gpus_per_replica=gpus_per_replica,
        starts=tuple(
            lines.Start(schedule=one.schedule, pull=one.pull, load=one.load, warm=one.warm)
            for one in learned.starts
        ),
        nodes=tuple(aliases.node(name) for name in learned.nodes),
    )
