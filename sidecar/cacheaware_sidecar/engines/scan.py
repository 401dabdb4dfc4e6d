"""From a metrics page to an `EngineSample`: find the wanted names, see whose they are, combine."""

from dataclasses import replace

from cacheaware_sidecar.engines.detect import AUTO, FINDER, detect
from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sidecar.engines.sampling import sample_of


def scan(page: bytes, engine: str = AUTO) -> EngineSample:
    """Read a metrics page; whatever is on it, this does not raise.

    Args:
        page: The body as it came.
        engine: "auto", or one of `ENGINES` to read only that engine's names.

    Returns:
        What the page says. What is absent, NaN, infinite, negative or out of its range is None,
        with a line in `problems`. Without any known name `engine` is None.
    """
    found = FINDER.find(page)
    dialect, odd = detect(found, engine)
    if dialect is None:
        return EngineSample(problems=odd)
    sample = sample_of(dialect, found)
    return replace(sample, problems=(*sample.problems, *odd)) if odd else sample
