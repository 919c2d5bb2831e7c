"""How benchmarks measure and what they report: rounds that take turns, medians, results with goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from statistics import median


class Aim(Enum):
    """On which side of its goal a number should be."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for a result's value."""

    aim: Aim
    bound: float

    def is_met_by(self, value: float) -> bool:
        """Tell whether a value keeps to the bound."""
        return value >= self.bound if self.aim is Aim.AT_LEAST else value <= self.bound


@dataclass(frozen=True, slots=True)
class Result:
    """One measured number with its unit, perhaps a goal, and the numbers it was made from (units in their names)."""

    name: str
    what: str
    value: float
    unit: str
    goal: Goal | None = None
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else self.goal.is_met_by(self.value)


def medians_of_rounds(rounds: int, candidates: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Call each candidate once per round and return the median of what each returned.

    They take turns and the first one changes, so that whatever else the machine does hits all alike.
    """
    names = list(candidates)
    measured: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            measured[name].append(candidates[name]())
    return {name: median(values) for name, values in measured.items()}


class BenchmarkFailed(Exception):
    """An operation that was measured did not do its work, so its time means nothing."""


def require(is_true: bool, what: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Raise BenchmarkFailed unless the measured work was done."""
    if not is_true:
        raise BenchmarkFailed(f"the measured work was not done: {what}")
