"""vLLM's capacity, from the labels of `cache_config_info`.

One series per engine, without a model name. Values are `str()` of what vLLM holds: what is
absent is the word None.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from cacheaware_sidecar.engines.dialect import Capacity
from cacheaware_sidecar.engines.exposition import Labels, read_series
from cacheaware_sidecar.engines.reader import Rank, Reader

Configs = Mapping[Rank, Labels]


def capacity_from_info(name: bytes) -> Callable[[Reader, frozenset[Rank]], Capacity]:
    """How to read the capacity from the info metric of this name."""

    def read(reader: Reader, ranks: frozenset[Rank]) -> Capacity:
        configs = _configs(reader, name)
        info = _Info(reader, name, configs)
        block_size = info.whole("block_size", configs.values())
        blocks = info.blocks_by_engine()
        tokens = info.tokens_by_engine(ranks)
        if tokens is None:
            tokens = {rank: share * block_size for rank, share in blocks.items() if block_size}
        return Capacity(
            tokens=sum(tokens.values()) or None,
            tokens_by_engine=tokens,
            num_blocks=round(sum(blocks.values())) or None,
            block_size=block_size,
            kv_dtype=info.agreed("cache_dtype", configs.values()),
        )

    return read


def _configs(reader: Reader, name: bytes) -> Configs:
    if name not in reader.found:
        reader.problem(name, "not on the page, so the capacity is unknown")
    configs: dict[Rank, Labels] = {}
    for rest in reader.found.get(name, ()):
        series = read_series(rest)
        if series is None:
            reader.problem(name, "a line is not well formed")
            return {}
        configs[reader.rank(series[0])] = series[0]
    return configs


class _Info:
    """The labels of all engines, and where to say what is wrong with them."""

    def __init__(self, reader: Reader, name: bytes, configs: Configs) -> None:
        self.reader = reader
        self.name = name
        self.configs = configs

    def problem(self, what: str) -> None:
        self.reader.problem(self.name, what)

    def agreed(self, label: str, configs: Collection[Labels]) -> str | None:
        """The one value of a label; None where it is absent or the engines disagree."""
        told = {labels.get(label, "None") for labels in configs} - {"None"}
        if len(told) > 1:
            self.problem(f"{label} differs between the engines")
        return told.pop() if len(told) == 1 else None

    def whole(self, label: str, configs: Collection[Labels]) -> int | None:
        """As a whole number above 0."""
        text = self.agreed(label, configs)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) < 16 and int(text):
            return int(text)
        self.problem(f"{label} {text!r} is not a whole number above 0")
        return None

    def blocks_by_engine(self) -> dict[Rank, float]:
        """Each engine's share of the blocks; {} where unknown.

        `num_gpu_blocks` is already the sum over the engines of a process, repeated on the series
        of each (`v1/engine/core_client.py`). Their label is the last one of the rank.
        """
        processes: defaultdict[Rank, dict[Rank, Labels]] = defaultdict(dict)
        for rank, labels in self.configs.items():
            processes[rank[:-1]][rank] = labels
        shares: dict[Rank, float] = {}
        for engines in processes.values():
            blocks = self.whole("num_gpu_blocks", engines.values())
            if blocks is None:
                self.problem("num_gpu_blocks is None: the memory is not yet profiled")
                return {}
            shares.update(dict.fromkeys(engines, blocks / len(engines)))
        return shares

    def tokens_by_engine(self, ranks: frozenset[Rank]) -> dict[Rank, float] | None:
        """Tokens as each engine counts them; {} where unknown, None where vLLM is too old.

        Only this is right for hybrid models and for several groups of layers, where blocks x
        block size is not (vllm#42206).
        """
        label = "kv_cache_size_tokens"
        if all(labels.get(label, "None") == "None" for labels in self.configs.values()):
            return None
        sizes = {rank: self.whole(label, [labels]) for rank, labels in self.configs.items()}
        known = {rank: float(size) for rank, size in sizes.items() if size}
        expected = ranks - {()} if () not in known else frozenset()
        if len(known) < len(sizes) or expected - known.keys():
            self.problem(f"{label} is not known for every engine")
            return {}
        return known
