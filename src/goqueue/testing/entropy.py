"""Chance that a seed decides.

The same seed gives the same numbers in every process and on every platform. `fork` derives an independent
source from a name, so that one more draw in one part of a test does not change what another part sees.
"""

from __future__ import annotations

import random
from collections.abc import MutableSequence, Sequence
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")


class SeededEntropy:
    """A repeatable `goqueue.seams.entropy.Entropy`; its tokens are of course no secret."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        # A string is hashed with SHA-512, an int taken as it is: neither depends on PYTHONHASHSEED.
        self._random = random.Random(seed)

    def fraction(self) -> float:
        return self._random.random()

    def below(self, end: int) -> int:
        return self._random.randrange(end)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uuid(self) -> UUID:
        return UUID(bytes=self.token(16), version=4)

    def chance(self, probability: float) -> bool:
        """Return True with that probability, from 0 (never) to 1 (always)."""
        return self._random.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Bring the items into another order, in place."""
        self._random.shuffle(items)

    def fork(self, name: str) -> SeededEntropy:
        """Return another source that the seed and `name` decide, whatever was drawn from this one."""
        return SeededEntropy(f"{self.seed}/{name}")
