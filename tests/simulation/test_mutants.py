"""When a mutant counts as found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.simulation.mutants import Patch, require_found


class World:
    """Something that a mutant can break."""

    is_broken = False


def broken(patch: Patch) -> None:
    """Break it."""
    patch.setattr(World, "is_broken", True)


def violations(seed: int) -> Sequence[str]:
    """Find a broken world, but not with every seed."""
    return ["it is broken"] if World.is_broken and seed == 3 else []


def test_a_mutant_is_found_by_any_of_the_seeds() -> None:
    require_found(broken, violations, seeds=4)
    assert not World.is_broken


def test_a_mutant_that_no_seed_finds_has_survived() -> None:
    with pytest.raises(pytest.fail.Exception, match="broken survived 3 seeds"):
        require_found(broken, violations, seeds=3)


def test_a_mutant_that_does_not_fit_is_not_found() -> None:
    def failing(seed: int) -> Sequence[str]:
        raise TypeError("it takes 2 arguments")

    def reporting(seed: int) -> Sequence[str]:
        return ["reported: TaskFailed(name='x', error=\"TypeError('it takes 2 arguments')\")"]

    with pytest.raises(TypeError):
        require_found(broken, failing, seeds=4)
    with pytest.raises(AssertionError, match="does not fit"):
        require_found(broken, reporting, seeds=4)


def test_what_is_found_without_the_mutant_is_not_the_mutant() -> None:
    with pytest.raises(AssertionError, match="without broken"):
        require_found(broken, lambda _: ["always"], seeds=4)
