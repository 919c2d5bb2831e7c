"""Rounds of cases in shuffled order, and the arithmetic that makes results of them.

A case does its work once, checks that it was done, and says what it took. Rates are of wall time, so on a machine that
is busy with something else they mean little (`other_cores` tells); CPU time per row still does. It is that of this
process and all below it: Spark's Java, its Python workers, and the private broker.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from goqueue_bench.cpu import Usage, metered
from goqueue_bench.measure import Aim, Goal, Result


@dataclass(frozen=True, slots=True)
class Pass:
    """One time that all rows of a case went through."""

    rows: int
    seconds: float
    cpu_seconds: float
    other_cores: float

    @property
    def rows_per_second(self) -> float:
        """The rate of this pass."""
        return self.rows / self.seconds

    @classmethod
    def of(cls, rows: int, usage: Usage) -> Pass:
        """Make it of a measured block."""
        return cls(rows, usage.seconds, usage.server_cpu_seconds or 0.0, usage.other_cores)


@contextmanager
def stopwatch() -> Iterator[Usage]:
    """Measure a block in which all that is measured runs below this process."""
    with metered(os.getpid(), with_children=True) as usage:
        yield usage


def passes_of_rounds(
    rounds: int, cases: Mapping[str, Callable[[], Pass]], announce: Callable[[str], None]
) -> dict[str, list[Pass]]:
    """Run each case once per round, in another order each time; return what each took, round by round."""
    chance = random.Random()
    passes: dict[str, list[Pass]] = {name: [] for name in cases}
    for number in range(1, rounds + 1):
        for name in chance.sample(list(cases), len(cases)):
            announce(f"round {number} of {rounds}: {name.replace('_', ' ')}")
            passes[name].append(cases[name]())
    return passes


def rate(name: str, what: str, passes: Sequence[Pass], at_least: float | None = None) -> Result:
    """Return the median rate of some passes, with its range and what a row cost."""
    rates = [each.rows_per_second for each in passes]
    return Result(
        name,
        what,
        median(rates),
        "rows/s",
        None if at_least is None else Goal(Aim.AT_LEAST, at_least),
        {
            "rows": passes[0].rows,
            "rounds": len(passes),
            "min_rows_per_second": min(rates),
            "max_rows_per_second": max(rates),
            "cpu_us_per_row": median(each.cpu_seconds / each.rows * 1e6 for each in passes),
            "other_cores": median(each.other_cores for each in passes),
        },
    )


def ratio(name: str, what: str, ours: Sequence[Pass], theirs: Sequence[Pass], at_least: float) -> Result:
    """Return how the median rates of two cases compare; the least and the most are of passes in the same round."""
    of_rounds = [one.rows_per_second / other.rows_per_second for one, other in zip(ours, theirs, strict=True)]
    our_rate, their_rate = (median(each.rows_per_second for each in passes) for passes in (ours, theirs))
    return Result(
        name,
        what,
        our_rate / their_rate,
        "x",
        Goal(Aim.AT_LEAST, at_least),
        {
            "rounds": len(ours),
            "rows_per_second": our_rate,
            "parquet_rows_per_second": their_rate,
            "min_ratio": min(of_rounds),
            "max_ratio": max(of_rounds),
        },
    )
