"""One seed, one run: a coroutine function on a simulated loop, clock, entropy and network.

    async def main(simulation: Simulation) -> None:
        store = simulation.network.host("store")
        ...

    for seed in range(200):
        simulate(main, seed)

Owns how a run begins and ends: the parts are forked from the seed, so that a draw in one does not change what
another sees; tasks that outlive `main` are found; every failure carries its seed in a note. What holds in
between is written in `loop` and `network`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from goqueue.testing.clock import SimClock
from goqueue.testing.entropy import SeededEntropy
from goqueue.testing.loop import SECONDS_MAX, STEPS_MAX, SimLoop, SimulationError
from goqueue.testing.network import SimNetwork

T = TypeVar("T")


class LeakedTasks(SimulationError):
    """Tasks were still running when the simulation's main function returned."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """The environment of a simulated program; all of it follows from the seed."""

    seed: int | str
    loop: SimLoop
    clock: SimClock
    entropy: SeededEntropy
    network: SimNetwork


def simulate(
    main: Callable[[Simulation], Coroutine[Any, Any, T]],
    seed: int | str,
    *,
    steps_max: int = STEPS_MAX,
    seconds_max: float = SECONDS_MAX,
    may_leak: bool = False,
) -> T:
    """Run `main` on a fresh simulation and return its result.

    Tasks that outlive `main` are cancelled and reported with `LeakedTasks`, unless `may_leak`. Whatever is
    raised carries the seed and the last steps in a note.
    """
    loop = SimLoop(seed, steps_max=steps_max, seconds_max=seconds_max)
    entropy = SeededEntropy(seed)
    network = SimNetwork(loop, entropy.fork("network"))
    simulation = Simulation(seed, loop, SimClock(loop), entropy.fork("program"), network)
    try:
        with _no_surprise_collections():
            try:
                result = loop.run_until_complete(main(simulation))
            finally:
                leaks = loop.wind_down()
            loop.raise_unhandled()
            if leaks and not may_leak:
                raise LeakedTasks("still running at the end:\n" + "\n".join(f"  {leak}" for leak in leaks))
            return result
    except BaseException as error:
        error.add_note(loop.story())
        raise
    finally:
        loop.close()


@contextmanager
def _no_surprise_collections() -> Iterator[None]:
    """Keep the collector, whose moments depend on the whole process, from running finalizers in between."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
