"""What is known of this pod, and the one place where it changes: the state behind every route.

No loop and no network: the shells around it hand in what they saw, with the time.
"""

import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

from cacheaware_sidecar import closing, drain, store, warmup_progress
from cacheaware_sidecar.canary.keeper import Canary
from cacheaware_sidecar.cordons import Cordons
from cacheaware_sidecar.engine_sockets import NOTHING_LEFT, Rest
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.export import View
from cacheaware_sidecar.health import Symptom
from cacheaware_sidecar.health.window import HealthWindow, problem_lines
from cacheaware_sidecar.lifecycle import (
    Cordoned,
    DeadlineSet,
    DrainBegun,
    Emptied,
    Event,
    Hung,
    Lifecycle,
    Refused,
    Scraped,
    Silent,
    Tick,
    Uncordoned,
    UsedToken,
    Verdict,
    WarmupEnded,
    advance,
    is_ready,
)
from cacheaware_sidecar.model_geometry import ModelGeometry
from cacheaware_sidecar.observed import Observed
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.problems import ProblemLog
from cacheaware_sidecar.relief import rules_of
from cacheaware_sidecar.relief_keeper import Relief
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.state import DrainState, FindingState, PodState, counters, kv_state
from cacheaware_sidecar.version import version
from cacheaware_sidecar.warmup import Result

RESTART_NOTED_S: Final = 600.0
"""So long a restart of the engine is among the problems."""
BEFORE_SERVING: Final = frozenset({Phase.LOADING, Phase.WARMING})
EXAMINED: Final = frozenset({Phase.SERVING, Phase.CORDONED})
"""Where findings are told."""
EMPTY: Final = "empty"
REFUSED: Final = "refused"
PARTLY_REFUSED: Final = "partly_refused"
"""Kinds of failure that say: nobody listens, and: not all engines of the pod do."""
log = logging.getLogger(__name__)


class Pod:
    """The pod's phase, what its engine shows, and what goes wrong."""

    def __init__(
        self, settings: Settings, state: Lifecycle, *, boot: str, now: float | None = None
    ) -> None:
        """`now` is the sidecar's start; unless told, when the state began."""
        now = state.since if now is None else now
        self.settings = settings
        self.state = state
        self.observed = Observed()
        self.health = HealthWindow()
        self.relief = Relief(rules_of(settings), now)
        self.canary = Canary(settings)
        self.geometry = ModelGeometry(settings)
        self.config_problem: str | None = None
        self._folder = Path(settings.shared_dir)
        self.warmup, zero = warmup_progress.restore(self._folder, boot, state.engine)
        self.observed.set_zero(zero)
        self.drain_s: float | None = None
        self.drain_cut: float | None = None
        """Requests that were left at the drain's deadline."""
        self.drain_end = EMPTY
        """How the last drain came to its end."""
        self.cordons = Cordons()
        self.control_calls: Counter[tuple[str, int]] = Counter()
        """By call and status."""
        self._boot = boot
        self._version = version()
        self._save_problem: str | None = None
        self._restarted_at: float | None = None
        self._problem_log = ProblemLog()
        self._save()
        closing.show(self._folder, state.phase)

    @property
    def phase(self) -> Phase:
        """Where the pod stands."""
        return self.state.phase

    def apply(self, event: Event, now: float) -> None:
        """Takes an event into the phases; says and saves what changed."""
        before, self.state = self.state, advance(self.state, event, now)
        replaced = self.state.engine != before.engine and not before.gone
        if replaced or self.state.gone > before.gone:
            self._engine_lost(before, now)
        if self.state.phase != before.phase:
            self._phase_changed(before, event, now)
        if _is_cut(self.state) > _is_cut(before):
            self.drain_cut = self.observed.load()
            log.warning("the drain's deadline has come: %s", self.observed.load_line())
        self.cordons.note(before.cordon, self.state.cordon, event)
        if _lasting(self.state) != _lasting(before):
            self._save()

    def scraped(self, sample: EngineSample, now: float, rest: Rest | None = NOTHING_LEFT) -> None:
        """Takes a page, and what is left in the connections; one without known names is none."""
        if sample.engine is None:
            text = "; ".join(sample.problems) or "no engine's names are on the page"
            self.scrape_failed("unsupported", text, now, rest)
            return
        self.apply(Scraped(sample.started_at), now)
        self.observed.good(sample, now, rest)
        if self.phase in BEFORE_SERVING:
            self.observed.set_zero()
        elif not self.observed.has_zero:
            self.observed.set_zero()
            self._save_warmup()
        self.geometry.of(sample)

    def scrape_failed(
        self, kind: str, text: str, now: float, rest: Rest | None = NOTHING_LEFT
    ) -> None:
        """Takes a look that brought no page; only a closed port says something of the engine.

        One closed port of several proves as much, but not in a drain: the others go on with their
        requests.
        """
        self.observed.failed(kind, text, now, rest)
        refused = kind == REFUSED or (kind == PARTLY_REFUSED and not self.state.drain)
        self.apply(Refused() if refused else Silent(), now)

    def warmed(self, engine: int, result: Result, seconds: float | None, now: float) -> None:
        """Takes the end of a warm-up of the engine with this number."""
        if self.state.engine == engine and self.phase is Phase.WARMING:
            self.warmup.ended(engine, result, seconds)
            self._save_warmup()
        self.apply(WarmupEnded(engine, result.verdict), now)

    def begin_drain(self, now: float) -> None:
        """Begins the final drain, if none has begun."""
        settings = self.settings
        event = DrainBegun(seconds=settings.drain_seconds, grace=settings.grace_seconds)
        self.apply(event, now)

    def tick(self, now: float) -> None:
        """Lets time pass: ends drains, says what is new."""
        if self.phase is Phase.DRAINING:
            if self.is_empty(now):
                self.apply(Emptied(), now)
            elif drain.is_hung(self.observed.silence, now):
                log.warning("no sign of life of the engine for %g s: it is hung", drain.HUNG_S)
                self.apply(Hung(), now)
        self.pass_time(now)
        for line in self._problem_log.update(self.problems(now), now):
            log.warning("%s", line)

    def pass_time(self, now: float) -> None:
        """Ends what is over by now."""
        self.apply(Tick(), now)

    def cordon(self, by: str, seconds: float, token: UsedToken, *, wall: float, now: float) -> None:
        """Takes the pod out of the endpoints for these seconds, or keeps it out."""
        self.apply(Cordoned(by, seconds, token, wall), now)

    def uncordon(self, token: UsedToken, now: float) -> None:
        """Gives the pod back, if it is cordoned."""
        self.apply(Uncordoned(token), now)

    def relieve(self, now: float) -> bool:
        """Takes the pod out or gives it back where that is allowed; whether to abort now."""
        seen = self.observed.sample if self.observed.problem is None else None
        event, abort = self.relief.look(self.state, seen, now)
        if event is not None:
            self.apply(event, now)
        return abort

    @property
    def findings(self) -> tuple[Symptom, ...]:
        """What its engine's pages and answers show, and what the pod does about it."""
        canary = self.canary.findings if self.phase in EXAMINED else ()
        return (*self.relief.findings(self.state), *canary, *self.health.findings)

    def shorten_drain(self, seconds: float, now: float) -> float | None:
        """Takes how long the pod has until it is killed, if that is less than was known.

        Returns:
            How long the final drain may take, in seconds; None where none is under way.
        """
        self.apply(DeadlineSet(seconds - self.settings.after_drain_seconds), now)
        final = self.state.drain
        return max(0.0, round(final.deadline - now, 3)) if final else None

    def is_ready(self, now: float) -> bool:
        """Whether the pod may get requests."""
        return is_ready(self.state, now)

    def is_empty(self, now: float) -> bool:
        """Whether a cordon or a final drain has emptied the pod."""
        floor, quiet = self.settings.drain_floor_seconds, self.observed.quiet
        handover = self.settings.handover
        return drain.is_empty(self.state, quiet, floor_s=floor, now=now, handover=handover)

    def status_line(self, now: float) -> str:
        """The phase and, where it is not serving, why: one line."""
        age = f"{self.phase} for {max(0.0, now - self.state.since):.0f} s"
        match self.phase:
            case Phase.LOADING:
                return f"{age}: {self.observed.problem or 'the engine is not healthy yet'}"
            case Phase.WARMING if self.state.verdict is Verdict.FAILED:
                return f"{age}: {'; '.join(self.warmup.problems)}"
            case Phase.WARMING:
                return f"{age}: {self.warmup.step} of {self.warmup.steps} steps done"
            case Phase.CORDONED:
                cordon = self.state.cordon
                return f"{age} by {cordon.by if cordon else 'nobody'}"
            case Phase.DRAINING:
                return f"{age}: {self.observed.load_line()}"
            case _:
                return age

    def problems(self, now: float) -> tuple[str, ...]:
        """What a person should know, one line each."""
        sample = self.observed.sample or EngineSample()
        awaited = self.phase is Phase.LOADING and self.state.refused > 0
        scrape = None if awaited else self.observed.problem
        blind = self.phase in closing.CLOSING and self.observed.rest is None
        restarted = self._restarted_at is not None and now - self._restarted_at < RESTART_NOTED_S
        lines = (
            scrape and f"metrics page: {scrape}",
            *sample.problems,
            self.config_problem and f"config.json: {self.config_problem}",
            *self.geometry.problems,
            *self.warmup.problems,
            self._save_problem,
            "the engine died or was replaced within the last 10 minutes" if restarted else None,
            "the engine sleeps: it serves nothing" if sample.sleeping else None,
            "the engine's connections can't be read in /proc/net" if blind else None,
            "the drain's deadline came before the pod was empty" if _is_cut(self.state) else None,
            *self.canary.problems,
            *problem_lines(self.findings),
        )
        return tuple(line for line in lines if line)

    def pod_state(self, now: float) -> PodState:
        """What `GET /v1/state` tells."""
        sample = self.observed.sample or EngineSample()
        age = self.observed.age(now)
        kv = kv_state(sample, self.geometry.of(sample))
        return PodState(
            phase=self.phase.value,
            phase_age_s=round(now - self.state.since, 3),
            sample_age_s=None if age is None else round(age, 3),
            sample_seq=self.observed.count or None,
            engine=sample.engine,
            version=sample.version,
            models=sample.models,
            running=sample.running,
            waiting=sample.waiting,
            kv=kv,
            rates=self.observed.rates(now),
            counters=counters(sample),
            latency=self.observed.latency(),
            warmup=self.warmup.state(self.state.verdict),
            start=self.warmup.start_state(),
            drain=self._drain_state(now),
            adapters=sample.adapters,
            sleeping=sample.sleeping,
            findings=tuple(
                FindingState(id=one.id, severity=one.severity, message=one.message)
                for one in self.findings
            ),
            canary=self.canary.state(now),
            problems=self.problems(now),
        )

    def view(self, now: float) -> View:
        """What `GET /metrics` tells."""
        settings = self.settings
        wanted = settings.config_file or settings.config_url
        return View(
            state=self.pod_state(now),
            version=self._version,
            fresh=self.observed.is_fresh(settings.scrape_interval_seconds, now),
            scrape_errors=self.observed.errors,
            engine_restarts=self.state.engine - 1,
            drain_s=self.drain_s,
            drain_cut=self.drain_cut,
            cordons=self.cordons.begun,
            cordons_ended=self.cordons.ended,
            control_calls=self.control_calls,
            config_loaded=self.geometry.config is not None if wanted else None,
            reliefs=self.relief.begun if self.relief.rules else None,
            relief_aborts=self.relief.aborts,
        )

    def _drain_state(self, now: float) -> DrainState:
        final, cordon = self.state.drain, self.state.cordon
        sample = self.observed.sample if final or cordon else None
        began = final.began if final else cordon.began if cordon else None
        quiet = self.observed.quiet
        arrived = None if began is None else drain.arrival_age(quiet, began, now)
        return DrainState(
            deadline_s=max(0.0, round(final.deadline - now, 3)) if final else None,
            running=sample.running if sample else None,
            waiting=sample.waiting if sample else None,
            cordoned_by=cordon.by if cordon else None,
            cordoned_s=round(now - cordon.began, 3) if cordon else None,
            lease_s=max(0.0, round(cordon.until - now, 3)) if cordon else None,
            empty=None if began is None else self.is_empty(now),
            arrival_age_s=None if arrived is None else round(arrived, 3),
        )

    def _engine_lost(self, before: Lifecycle, now: float) -> None:
        how = "died" if self.state.gone > before.gone else "was replaced"
        log.warning("the engine %s while the pod was %s", how, before.phase)
        self._restarted_at = now
        self.observed.forget_engine()

    def _phase_changed(self, before: Lifecycle, event: Event, now: float) -> None:
        seconds = now - before.since
        log.info("phase %s, was %s for %.1f s", self.phase, before.phase, seconds)
        closing.show(self._folder, self.phase)
        if before.phase is Phase.DRAINING and self.phase is Phase.DRAINED:
            self.drain_s = seconds
            self.drain_cut = self.drain_cut or 0.0
        if before.phase is Phase.DRAINING and self.phase in {Phase.DRAINED, Phase.LOADING}:
            self.drain_end = _end_of_drain(event, self.state)
        self.warmup.phase_changed(before, self.state, now)
        if Phase.WARMING in {before.phase, self.phase}:
            self._save_warmup()
        if self.phase is Phase.SERVING and before.phase in BEFORE_SERVING:
            self.observed.begin(self.warmup.answered)
        elif self.phase is Phase.SERVING:
            self.observed.forget_window()
        if self.phase is Phase.DRAINING:
            self.drain_s = self.drain_cut = None

    def _save_warmup(self) -> None:
        try:
            self.warmup.save(self._folder, self._boot, self.observed.zero)
        except OSError as error:
            log.warning("the warm-up can't be saved: %s", error.strerror)

    def _save(self) -> None:
        try:
            store.save(self._folder, self.state, self._boot)
        except OSError as error:
            self._save_problem = f"the phase can't be saved: {error.strerror}"
        else:
            self._save_problem = None


def _end_of_drain(event: Event, state: Lifecycle) -> str:
    """How the event has ended the drain."""
    if state.phase is Phase.LOADING:
        return "the engine was replaced"
    if isinstance(event, Hung):
        return "the engine is hung"
    return "the engine has ended" if state.gone else EMPTY


def _is_cut(state: Lifecycle) -> bool:
    return state.drain is not None and state.drain.cut


def _lasting(state: Lifecycle) -> Lifecycle:
    """What is worth saving: all but the rows of bad news."""
    return replace(state, refused=0, unhealthy=0)
