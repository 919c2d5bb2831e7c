"""Whether numbers are in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import lt


def is_increasing(numbers: Sequence[int]) -> bool:
    """Tell whether each number is greater than the one before."""
    return all(map(lt, numbers, _tail(numbers)))


def _tail(numbers: Sequence[int]) -> Iterable[int]:
    rest = iter(numbers)
    next(rest, None)
    return rest
