"""Makes traces from the load scenarios of llm-d's workload-variant-autoscaler: YAML.

Two shapes, told by their keys:

- GuideLLM: `profile` poisson or constant, `rate` (requests per second, or a list: one after the
  other), `max_seconds`, `data.prompt_tokens` and `data.output_tokens`, each optionally with
  `_stdev`, `_min`, `_max`. Poisson is exponential gaps, constant equal ones.
- inference-perf: `load.stages` of `rate` and `duration`, `load.type` constant or poisson,
  `data.input_distribution` and `output_distribution` with `min`, `max`, `mean`, `std_dev`: a normal
  distribution clipped to the range; without a mean a uniform one. Its `constant` sends exactly
  rate x duration requests with exponential gaps stretched to the stage (load_timer.py), which is as
  many uniform times in order; `poisson` draws the number, too. `total_count` is not used: lengths
  are drawn anew and not repeated.

`data.type: shareGPT` names a data set that the file does not hold. Its lengths are stood in for by
lognormal distributions with the means of the vLLM paper (arXiv 2309.06180, figure 11: 161 tokens
in, 338 out) and a sigma of 1, our assumption, inside the file's ranges.

Endpoints, models and all else are placeholders there and are not read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import exp
from pathlib import Path
from random import Random
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cacheaware_sim.traces.fields import LONGEST_S, MOST_TOKENS, BadValueError
from cacheaware_sim.traces.lengths import ClippedNormal, Fixed, Lengths, Lognormal, Uniform
from cacheaware_sim.traces.lines import lines
from cacheaware_sim.traces.randomness import stream
from cacheaware_sim.traces.trace import TraceError, TraceRequest

LONGEST_FILE = 2**20
MOST_RATE = 100_000.0
SHAREGPT_MEAN = {"input_distribution": 161.31, "output_distribution": 337.99}
SHAREGPT_SIGMA = 1.0


class Spacing(StrEnum):
    """How arrivals of a stage lie."""

    POISSON = "poisson"
    EVEN = "even"
    COUNTED = "counted"
    """A fixed number of them at uniform times."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A time of one rate."""

    rate: float
    duration_s: float
    spacing: Spacing

    def arrivals(self, rng: Random) -> Iterator[float]:
        """Seconds since the start of the stage, in order; holds none of them."""
        if self.rate == 0:
            return
        if self.spacing is Spacing.COUNTED:
            yield from self._counted(rng)
            return
        even = self.spacing is Spacing.EVEN
        number = 0
        at = 0.0 if even else rng.expovariate(self.rate)
        while at < self.duration_s:
            yield at
            number += 1
            at = number / self.rate if even else at + rng.expovariate(self.rate)

    def _counted(self, rng: Random) -> Iterator[float]:
        at = 0.0
        for left in range(int(self.rate * self.duration_s), 0, -1):
            # The least of `left` uniform times in what is left of the stage.
            at += (self.duration_s - at) * (1 - rng.random() ** (1 / left))
            yield at


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a file says: stages one after the other, and token counts."""

    stages: tuple[Stage, ...]
    prompt: Lengths
    output: Lengths

    def requests(self, seed: int) -> Iterator[TraceRequest]:
        """The requests; the same again for the same seed."""
        times, tokens = stream(seed, "scenario times"), stream(seed, "scenario tokens")
        start = 0.0
        for stage in self.stages:
            for at in stage.arrivals(times):
                yield TraceRequest(start + at, self.prompt.draw(tokens), self.output.draw(tokens))
            start += stage.duration_s


def read_wva(path: Path, *, seed: int = 0) -> Iterator[TraceRequest]:
    """The requests of a scenario.

    Raises:
        TraceError: One line, on iteration.
    """
    empty = True
    for request in scenario(path).requests(seed):
        empty = False
        yield request
    if empty:
        raise TraceError(path, None, "holds no requests: must hold a rate above 0")


def scenario(path: Path) -> Scenario:
    """What the file says.

    Raises:
        TraceError: One line: no YAML, none of the two shapes, a value out of range.
    """
    text = ""
    for line in lines(path):
        text += line
        if len(text) > LONGEST_FILE:
            raise TraceError(path, None, f"must be a scenario of at most {LONGEST_FILE:,} bytes")
    root = Node(path, _tree(path, text), "", 1)
    if root.has("load"):
        return _inference_perf(root)
    if root.has("profile"):
        return _guidellm(root)
    raise root.bad("keys", ", ".join(map(str, root.values)), "`load` or `profile` among others")


def _tree(path: Path, text: str) -> Mapping[Any, Any]:
    try:
        tree = YAML(typ="rt", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        deep = "nested too deeply" if isinstance(error, RecursionError) else error
        problem = " ".join(str(getattr(error, "problem", None) or deep).split())
        raise TraceError(path, mark and mark.line + 1, f"is no YAML: {problem}") from None
    if not isinstance(tree, Mapping):
        raise TraceError(path, 1, "must be a YAML mapping")
    return tree


@dataclass(frozen=True, slots=True)
class Node:
    """A mapping of the file: reads its values and says where a wrong one is."""

    path: Path
    values: Mapping[Any, Any]
    name: str
    line: int

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def bad(self, key: str, value: object, allowed: str) -> TraceError:
        """The error for a value."""
        line = self._line(key) if key in self.values else self.line
        return TraceError(self.path, line, str(BadValueError(self.name + key, value, allowed)))

    def _line(self, key: str) -> int:
        position: tuple[int, int] = self.values.lc.value(key)  # type: ignore[attr-defined]
        return position[0] + 1

    def mapping(self, key: str) -> "Node":
        """A mapping inside."""
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            raise self.bad(key, value, "a mapping")
        return Node(self.path, value, f"{self.name}{key}.", self._line(key))

    def mappings(self, key: str) -> list["Node"]:
        """A list of mappings."""
        value = self.values.get(key)
        if not isinstance(value, list) or not value:
            raise self.bad(key, value, "a list of at least one mapping")
        nodes = []
        for index, one in enumerate(value):
            if not isinstance(one, Mapping):
                raise self.bad(key, one, "a list of mappings")
            line: int = one.lc.line + 1  # type: ignore[attr-defined]
            nodes.append(Node(self.path, one, f"{self.name}{key}[{index}].", line))
        return nodes

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """One of these words."""
        value = self.values.get(key)
        if value not in allowed:
            raise self.bad(key, value, f"one of {', '.join(allowed)}")
        return str(value)

    def number(self, key: str, least: float, most: float) -> float:
        """A number in the range."""
        return self._checked(key, self.values.get(key), least, most)

    def numbers(self, key: str, least: float, most: float) -> list[float]:
        """A number or a list of them."""
        value = self.values.get(key)
        found = value if isinstance(value, list) and value else [value]
        return [self._checked(key, one, least, most) for one in found]

    def tokens(self, key: str) -> int:
        """A number of tokens."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_TOKENS:
            raise self.bad(key, value, f"a whole number from 1 to {MOST_TOKENS:,}")
        return int(value)

    def _checked(self, key: str, value: object, least: float, most: float) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not least <= float(value) <= most:  # type: ignore[arg-type]
            raise self.bad(key, value, f"a number from {least:,.10g} to {most:,.10g}")
        return float(value)  # type: ignore[arg-type]


def _guidellm(root: Node) -> Scenario:
    profile = root.choice("profile", ("poisson", "constant"))
    spacing = Spacing.POISSON if profile == "poisson" else Spacing.EVEN
    duration = root.number("max_seconds", 1e-3, LONGEST_S)
    data = root.mapping("data")
    return Scenario(
        tuple([Stage(rate, duration, spacing) for rate in root.numbers("rate", 0, MOST_RATE)]),
        _guidellm_lengths(data, "prompt_tokens"),
        _guidellm_lengths(data, "output_tokens"),
    )


def _guidellm_lengths(data: Node, key: str) -> Lengths:
    mean = data.tokens(key)
    least = data.tokens(f"{key}_min") if data.has(f"{key}_min") else None
    most = data.tokens(f"{key}_max") if data.has(f"{key}_max") else None
    if data.has(f"{key}_stdev"):
        std_dev = data.number(f"{key}_stdev", 0, MOST_TOKENS)
        low, high = least or 1, most or MOST_TOKENS
        _ordered(data, f"{key}_min", low, high)
        return ClippedNormal(mean, std_dev, low, high)
    if least is None and most is None:
        return Fixed(mean)
    low, high = least or mean, most or mean
    _ordered(data, f"{key}_min", low, high)
    return Uniform(low, high)


def _inference_perf(root: Node) -> Scenario:
    load = root.mapping("load")
    kind = load.choice("type", ("constant", "poisson"))
    spacing = Spacing.POISSON if kind == "poisson" else Spacing.COUNTED
    stages = [
        Stage(one.number("rate", 0, MOST_RATE), one.number("duration", 1e-3, LONGEST_S), spacing)
        for one in load.mappings("stages")
    ]
    data = root.mapping("data")
    kind = data.choice("type", ("random", "synthetic", "shareGPT"))
    prompt, output = (_inference_perf_lengths(data, key, kind) for key in SHAREGPT_MEAN)
    return Scenario(tuple(stages), prompt, output)


def _inference_perf_lengths(data: Node, key: str, kind: str) -> Lengths:
    node = data.mapping(key)
    least, most = node.tokens("min"), node.tokens("max")
    _ordered(node, "min", least, most)
    if kind == "shareGPT":
        p50 = SHAREGPT_MEAN[key] / exp(SHAREGPT_SIGMA**2 / 2)
        return Lognormal(p50, SHAREGPT_SIGMA, least, most)
    if not node.has("mean"):
        return Uniform(least, most)
    mean = node.number("mean", least, most)
    std_dev = node.number("std_dev", 0, MOST_TOKENS) if node.has("std_dev") else 0.0
    return ClippedNormal(mean, std_dev, least, most)


def _ordered(node: Node, key: str, least: int, most: int) -> None:
    if least > most:
        raise node.bad(key, least, f"at most the maximum, {most:,}")
