"""What tests put in the place of the outside world; shipped, so that users can test the way GoQueue tests itself.

A disk that loses what was not synced, and fails on demand:

    >>> from pathlib import PurePath
    >>> disk = SimDisk(seed=7)
    >>> disk.open(PurePath("log"), create=True).write_at(0, b"not synced")
    >>> disk.crash(Fate.NONE)
    >>> disk.tree()
    {}

A whole program on virtual time: its loop, clock, network and chance follow from one seed, as does every failure:

    >>> import asyncio
    >>> async def main(simulation: Simulation) -> float:
    ...     await simulation.network.host("broker").listen("broker", 9092, asyncio.Protocol)
    ...     await asyncio.sleep(3600)
    ...     return simulation.clock.monotonic()
    >>> simulate(main, seed=7)
    3600.0

Single pieces, for code that is plain functions:

    >>> clock, chance, sink = ManualClock(now_ms=0), SeededEntropy(7), RecordingSink()
    >>> clock.advance(1.5)
    >>> clock.now_ms(), chance.below(100) == SeededEntropy(7).below(100), sink.events
    (1500, True, [])
"""

from goqueue.testing.clock import ManualClock, SimClock
from goqueue.testing.disk import SimDisk, SimFile
from goqueue.testing.disk_faults import DeadHandle, Fault, Operation, PowerLoss
from goqueue.testing.disk_model import Fate
from goqueue.testing.entropy import SeededEntropy
from goqueue.testing.loop import Deadlock, RealWorldRefused, SimLoop, SimulationError, Stuck, Unhandled
from goqueue.testing.network import SimHost, SimNetwork
from goqueue.testing.simulation import LeakedTasks, Simulation, simulate
from goqueue.testing.sink import RecordingSink
from goqueue.testing.stream import Link, SimTransport

__all__ = [
    "DeadHandle",
    "Deadlock",
    "Fate",
    "Fault",
    "LeakedTasks",
    "Link",
    "ManualClock",
    "Operation",
    "PowerLoss",
    "RealWorldRefused",
    "RecordingSink",
    "SeededEntropy",
    "SimClock",
    "SimDisk",
    "SimFile",
    "SimHost",
    "SimLoop",
    "SimNetwork",
    "SimTransport",
    "Simulation",
    "SimulationError",
    "Stuck",
    "Unhandled",
    "simulate",
]
