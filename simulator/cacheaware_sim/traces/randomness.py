"""Seeded random streams, one per purpose: a draw more in one never moves another."""

import random


def stream(seed: int, purpose: str) -> random.Random:
    """The same numbers in every process for the same seed and purpose."""
    return random.Random(f"{seed} {purpose}")  # noqa: S311 - repeatable, not a secret
