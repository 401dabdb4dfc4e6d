"""When a shape of request is warm: its latencies have come to rest.

A prompt is repeated, with fresh words, until **three of its latencies lie within 10 % and 20 ms of
the best of them all**. In numbers: 2.1, 0.30, 0.31, 0.33 s are at rest, three lie within 0.05 s of
0.30. The latencies 2.1, 0.30, 0.31 are not yet, nor are 2.1, 1.4, 0.9, 0.5, which still get better.

- **Of the best**, whenever it came: what is compiled, loaded or tuned costs time once, and noise
  only ever adds. A slow answer among fast ones is noise, or a stall that is paid for by now; a
  better one than all before says that the fast state had not been reached.
- **Three**: engines compile again at the second different size (a size is first taken for fixed,
  then made variable), so that the first repeat may stall as well and proves little.
- **10 %**: the difference that a warmed pod may have from one that has served for long.
- **20 ms**: a request of 5 ms varies by more than 10 % because of timers and the network; what a
  cold shape costs, 50 ms to 30 s, is above it.

So a shape that was warm takes three requests, and one that stalled at its first takes four. One
that is not at rest after 8 gives way to the others and comes back after them: only rest, or the
end of the budget, ends it. It always comes to rest in the end, even in a sidecar that is short of
CPU: among ever more latencies of the same engine three are near the best.
"""

from collections.abc import Sequence

SHARE = 0.10
NOISE_S = 0.020
NEAR = 3
TURN = 8
"""Requests of one shape before the others have their turn."""


def has_converged(latencies: Sequence[float]) -> bool:
    """Whether latencies, in seconds, are those of an engine that has nothing left to prepare."""
    if len(latencies) < NEAR:
        return False
    best = min(latencies)
    return sum(each <= best * (1 + SHARE) + NOISE_S for each in latencies) >= NEAR
