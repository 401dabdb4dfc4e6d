"""The mock engine's settings: one list for flags and environment."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.first_shapes import Shape
from cacheaware_sim.profiles import PROFILES, Profile
from cacheaware_sim.termination import Habit, Termination

ENV_PREFIX = "CACHEAWARE_SIM_"
STALLING = (Shape.LONG_PROMPT, Shape.CHUNKED_PREFILL, Shape.BATCHED_DECODE)
"""What one number for `--first-shape-stall` stands for."""
TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class SettingError(ValueError):
    """A setting that makes no sense: one line with its name, its value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `serve` needs. Seconds are real ones, `time_scale` speeds up only the profile."""

    config: EngineConfig
    host: str
    port: int
    model: str
    answer_tokens: int
    stream_interval: int
    api_key: str | None
    faults: bool
    close_while: Path | None


EXAMPLE = "cacheaware simulate serve --host 127.0.0.1 --port 8000 --cold-start 2"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingError(message)


def parser() -> argparse.ArgumentParser:
    """The flags; every one has an environment variable of the same name."""
    flags = _Parser(
        prog="cacheaware simulate serve",
        description="A mock LLM engine: vLLM's API and metrics over a model of an engine.",
        epilog=f"Each flag can be set by {ENV_PREFIX}<FLAG>, e.g. {ENV_PREFIX}TIME_SCALE=2."
        f" Example: {EXAMPLE}",
        allow_abbrev=False,
    )
    _add_process_flags(flags)
    _add_engine_flags(flags)
    _add_habit_flags(flags)
    return flags


def _add_process_flags(flags: argparse.ArgumentParser) -> None:
    flags.add_argument("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104 - a pod
    flags.add_argument("--port", type=int, default=8000)
    flags.add_argument("--model", default="mock", help="name that is served")
    flags.add_argument("--api-key", help="what /v1/... asks for")
    flags.add_argument(
        "--answer-tokens",
        type=int,
        default=64,
        help="length of an answer where a request sets no limit",
    )
    flags.add_argument(
        "--stream-interval", type=int, default=1, help="tokens in a piece of a stream"
    )
    flags.add_argument("--faults", action="store_true", help="open POST /faults, for tests")
    flags.add_argument(
        "--close-while",
        metavar="FILE",
        help="answer Connection: close while this file exists, as the sidecar's middleware does",
    )


def _add_engine_flags(flags: argparse.ArgumentParser) -> None:
    flags.add_argument(
        "--profile", default="tiny", help=f"model and GPU: {', '.join(sorted(PROFILES))}"
    )
    flags.add_argument(
        "--raw", action="store_true", help="kernel sums as they are, without what real runs add"
    )
    flags.add_argument(
        "--time-scale", type=float, default=1.0, help="2 is an engine twice as fast as its profile"
    )
    flags.add_argument("--cold-start", type=float, help="seconds until the port opens")
    flags.add_argument("--blocks", type=int, help="KV blocks, the null block included")
    flags.add_argument("--block-size", type=int, help="tokens per block")
    flags.add_argument("--max-model-len", type=int)
    flags.add_argument("--max-num-seqs", type=int)
    flags.add_argument("--max-num-batched-tokens", type=int)
    flags.add_argument("--no-prefix-caching", action="store_true")


def _add_habit_flags(flags: argparse.ArgumentParser) -> None:
    flags.add_argument(
        "--first-shape-stall",
        default="0",
        metavar="SECONDS|SHAPE=SECONDS,...",
        help=f"once per shape; a number is for {', '.join(STALLING)}; shapes: {', '.join(Shape)}",
    )
    flags.add_argument("--sigterm", default="abort", help=f"what SIGTERM does: {', '.join(Habit)}")
    flags.add_argument(
        "--shutdown-timeout", type=float, default=0.0, help="seconds, as vLLM's flag of that name"
    )


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings from flags, then environment, then defaults.

    Raises:
        SettingError: One line that names the setting, its value and what is allowed.
        SystemExit: `--help` was asked for.
    """
    flags = parser()
    flags.set_defaults(**_from_environment(flags, environment))
    given = flags.parse_args(arguments)
    try:
        config = _engine_config(given)
    except ValueError as error:
        raise SettingError(str(error)) from error
    if not 0 <= given.port <= 65_535:
        raise SettingError(f"port {given.port}: must be 0 to 65535")
    for name in ("answer_tokens", "stream_interval"):
        if getattr(given, name) < 1:
            flag = name.replace("_", "-")
            raise SettingError(f"{flag} {getattr(given, name)}: must be at least 1")
    return Settings(
        config=config,
        host=given.host,
        port=given.port,
        model=given.model,
        answer_tokens=given.answer_tokens,
        stream_interval=given.stream_interval,
        api_key=given.api_key or None,
        faults=given.faults,
        close_while=Path(given.close_while) if given.close_while else None,
    )


def _from_environment(
    flags: argparse.ArgumentParser, environment: Mapping[str, str]
) -> dict[str, object]:
    found: dict[str, object] = {}
    for action in flags._actions:  # noqa: SLF001 - argparse has no other way to list its flags
        variable = ENV_PREFIX + action.dest.upper()
        if (text := environment.get(variable)) is None:
            continue
        found[action.dest] = _switch(variable, text) if action.const is True else text
    return found


def _switch(variable: str, text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        raise SettingError(f"{variable} {text}: must be true or false")
    return text.lower() in TRUE


def _engine_config(given: argparse.Namespace) -> EngineConfig:
    profile = _profile(given)
    blocks = profile.num_blocks if given.blocks is None else given.blocks
    size = profile.block_size if given.block_size is None else given.block_size
    # A small pool shortens what the profile allows; a length that was asked for has to fit.
    longest = min(profile.max_model_len, (blocks - 1) * size)
    limits = {
        "max_model_len": longest if given.max_model_len is None else given.max_model_len,
        "max_num_seqs": given.max_num_seqs,
        "max_num_batched_tokens": given.max_num_batched_tokens,
    }
    return profile.engine(
        num_blocks=blocks,
        block_size=size,
        **{name: limit for name, limit in limits.items() if limit is not None},
        prefix_caching=not given.no_prefix_caching,
        cold_start_s=profile.cold_start_s if given.cold_start is None else given.cold_start,
        stalls_s=stalls(given.first_shape_stall),
        termination=Termination(habit=_habit(given.sigterm), timeout_s=given.shutdown_timeout),
    )


def _profile(given: argparse.Namespace) -> Profile:
    if given.profile not in PROFILES:
        raise SettingError(f"profile {given.profile}: must be one of {', '.join(sorted(PROFILES))}")
    if not given.time_scale > 0:
        raise SettingError(f"time-scale {given.time_scale}: must be above 0")
    profile = PROFILES[given.profile]
    profile = profile if given.raw else profile.recommended()
    cold_start = profile.cold_start_s / given.time_scale
    return replace(profile, cost=profile.cost.faster(given.time_scale), cold_start_s=cold_start)


def _habit(text: str) -> Habit:
    if text not in tuple(Habit):
        raise SettingError(f"sigterm {text}: must be one of {', '.join(Habit)}")
    return Habit(text)


def stalls(text: str) -> dict[Shape, float]:
    """`2.0` for the usual shapes, or `long-prompt=3,batched-decode=0.5`.

    Raises:
        SettingError: An unknown shape, or no number.
    """
    parts = text.split(",") if "=" in text else [f"{shape}={text}" for shape in STALLING]
    return dict(_stall(part) for part in parts)


def _stall(part: str) -> tuple[Shape, float]:
    shape, _, seconds = part.strip().partition("=")
    try:
        return Shape(shape), float(seconds)
    except ValueError as error:
        raise SettingError(
            f"first-shape-stall {part}: must be seconds, or SHAPE=SECONDS "
            f"with a shape of {', '.join(Shape)}"
        ) from error
