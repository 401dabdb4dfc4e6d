"""`cacheaware replay FILE...`: what would be decided today, given what was seen."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli import app
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json
from cacheaware.cli.policy_options import FileOption, SetOption, changed, spec_of
from cacheaware.cli.replay_inputs import History, histories
from cacheaware.cli.replay_view import Cost, Replayed, as_json, show

if TYPE_CHECKING:
    from cacheaware.recording.replay import Replay, Step

ASSUMED_COLD_START_S = 60.0
"""Where no start was seen and none is given; the output says so."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What to do with each history."""

    spec: dict[str, Any] | None
    """In place of the recorded one."""
    settings: Sequence[str]
    regret: bool
    cold_start_s: float | None
    gpus_per_replica: int | None


@app.command(
    epilog="Example: cacheaware replay wave.jsonl --set targets.kvUtilizationPercent=70 --regret"
)
def replay(  # noqa: PLR0917 - typer reads options from parameters
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER|-...",
            help="Recordings; or metrics pages and /v1/state answers in the order of time; - is"
            " a recording on stdin.",
            show_default=False,
        ),
    ],
    filename: FileOption = None,
    settings: SetOption = None,
    interval: Annotated[
        float, typer.Option(help="Seconds between pages; recordings know their own.")
    ] = 5.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every round, not only those that change something.")
    ] = False,
    regret: Annotated[
        bool, typer.Option("--regret", help="Add what the time would have cost with hindsight.")
    ] = False,
    cold_start: Annotated[
        float | None, typer.Option(help="Seconds that a pod takes to serve; else as recorded.")
    ] = None,
    gpus_per_replica: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Else as recorded.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Run what was seen through today's decision, and show what it would have done, step by step.

    Open loop: each round is decided on what was seen, not on where earlier decisions would have
    led. JSON has every round; it is one object for one input (null if it can't be read) and a list
    for several.
    """
    check(interval, cold_start)
    failed: list[str] = []

    def tell(problem: str) -> None:
        failed.append(problem)
        print(f"cacheaware: {problem}", file=sys.stderr)

    try:
        spec = None if filename is None else spec_of(filename)
        changed(spec or {}, settings or ())  # an option that is wrong is told once
        wishes = Wishes(spec, settings or (), regret, cold_start, gpus_per_replica)
        found = answers(files, interval, wishes, tell)
    except ModuleNotFoundError as error:
        raise BadInputError(
            f"{error.name} is missing: replay needs pip install 'cacheaware[operator]'"
        ) from error
    if output is Format.JSON:
        shown = [as_json(one) for one in found]
        several = len(files) > 1 or len(shown) > 1
        print_json(shown if several else next(iter(shown), None))
    else:
        for one in found:
            show(one, everything=everything)
    raise typer.Exit(2 if failed else 0)


def check(interval: float, cold_start: float | None) -> None:
    """Refuse options that can't be right."""
    if not 0 < interval <= 3600:
        raise BadInputError(f"--interval is {interval:g}; allowed: more than 0, up to 3600 seconds")
    if cold_start is not None and not 0 <= cold_start <= 86_400:
        raise BadInputError(f"--cold-start is {cold_start:g}; allowed: 0 to 86400 seconds")


def answers(files: Sequence[str], interval: float, wishes: Wishes, tell: Any) -> list[Replayed]:
    """What can be replayed; of the others a line is told."""
    found = []
    for history in histories(files, interval, tell):
        try:
            found.append(replayed(history, wishes))
        except BadInputError as error:
            tell(f"{history.name}: {error}")
    return found


def replayed(history: History, wishes: Wishes) -> Replayed:
    """One history, decided round by round.

    Raises:
        BadInputError: a line of it can't be read, or its spec is not allowed.
    """
    from cacheaware.recording.lines import RecordingError
    from cacheaware.recording.replay import Replay, scaler_of

    header = history.header
    if wishes.gpus_per_replica is not None:
        header = header.model_copy(update={"gpus_per_replica": wishes.gpus_per_replica})
    spec = changed(header.spec if wishes.spec is None else wishes.spec, wishes.settings)
    try:
        replay = Replay(header, scaler_of(header.target_kind, spec))
        steps = tuple(replay.steps(history.rounds))
    except RecordingError as error:
        raise BadInputError(str(error)) from error
    if not steps:
        raise BadInputError("holds no round")
    return Replayed(
        name=history.name,
        spec={name: value for name, value in spec.items() if name != "scaleTargetRef"},
        mode=replay.policy.mode,
        steps=steps,
        cut=history.is_cut(),
        cost=cost_of(steps, replay, wishes, header.gpus_per_replica) if wishes.regret else None,
    )


def cost_of(
    steps: "Sequence[Step]", replay: "Replay", wishes: Wishes, gpus_per_replica: int | None
) -> Cost:
    """What was ordered beside what would have done."""
    from cacheaware.recording.hindsight import regret_of
    from cacheaware.recording.replay import moments_of

    seconds, source = wishes.cold_start_s, "given"
    if seconds is None:
        seconds, source = replay.cold_start_s, "recorded"
    if seconds is None:
        seconds, source = ASSUMED_COLD_START_S, "assumed"
    policy = replay.policy
    moments, gap_s = moments_of(steps, policy.round_seconds)
    found = regret_of(
        moments, least=policy.min_replicas, most=policy.max_replicas, cold_start_s=seconds
    )
    return Cost(found, source, gap_s, gpus_per_replica)
