"""Mutants: mistakes that are made on purpose, and what it takes to say that a simulation finds one.

Only a violation counts: what a checker says about the run. An error on the way says that the mutant itself does not
fit the code any more, so it is raised, or found in what was reported. And the same run without the mutant must be
without fault, or else something else was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import CodeType

import pytest

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
Run = Callable[[int], Sequence[str]]

# Runs without a mutant that had no violation: many mutants are found by the same seed, and such a run takes seconds.
_faultless: set[tuple[CodeType, int]] = set()

_MISFITS = ("TypeError(", "AttributeError(", "NameError(", "ImportError(")


def seeds_to_try(count: int, likely: int = 0) -> Iterator[int]:
    """Yield so many seeds; first of all the one that has found it before, since a search may take a minute."""
    yield likely
    yield from (seed for seed in range(count) if seed != likely)


def require_found(mutant: Mutant, run: Run, *, seeds: int, likely: int = 0) -> None:
    """Check that one of so many seeds finds a mutant, and the mutant only; a run returns its violations."""
    name = mutant.__name__
    for seed in seeds_to_try(seeds, likely):
        with pytest.MonkeyPatch.context() as patch:
            mutant(patch)
            found = run(seed)
        if found:
            break
    else:
        pytest.fail(f"{name} survived {seeds} seeds")
    misfits = [violation for violation in found if any(mark in violation for mark in _MISFITS)]
    assert not misfits, f"{name} does not fit any more: {misfits[0]}"
    if (run.__code__, seed) not in _faultless:
        assert not run(seed), f"seed {seed} finds something without {name}, too"
        _faultless.add((run.__code__, seed))
