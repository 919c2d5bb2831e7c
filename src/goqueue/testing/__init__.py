"""Simulated and temporary environments for tests; shipped, so that users can test as GoQueue tests itself.

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

A whole broker in the test process, on real ports:

    >>> from goqueue.testing import Broker
    >>> with Broker() as broker:
    ...     broker.bootstrap.startswith("127.0.0.1:")
    True

Single pieces, for code that is plain functions:

    >>> clock, chance, sink = ManualClock(now_ms=0), SeededEntropy(7), RecordingSink()
    >>> clock.advance(1.5)
    >>> clock.now_ms(), chance.below(100) == SeededEntropy(7).below(100), sink.events
    (1500, True, [])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from goqueue.testing.broker import Broker

__all__ = [
    "Broker",
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


def __getattr__(name: str) -> object:
    # A whole broker takes a while to import, and the fixtures of pytest are loaded wherever GoQueue is installed.
    if name == "Broker":
        from goqueue.testing.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
