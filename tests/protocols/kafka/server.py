"""A whole server on a simulated disk and network, and clients that reach it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from goqueue.server.lifecycle import Server
from goqueue.server.settings import Settings
from goqueue.testing import RecordingSink, SimDisk, Simulation
from tests.protocols.kafka.raw import RawClient

HOST = "broker"


class SimServer:
    """A server on the host `broker` of a simulation; it can be started again on the same disk."""

    def __init__(self, simulation: Simulation, disk: SimDisk | None = None, **settings: Any) -> None:
        self.simulation = simulation
        self.disk = disk or SimDisk(seed=1)
        self.sink = RecordingSink()
        self.settings = Settings(data_dir=Path("data"), **settings)
        self.server: Server

    async def start(self) -> None:
        """Start a server of its own."""
        self.server = Server(
            self.settings,
            disk=self.disk,
            network=self.simulation.network.host(HOST),
            clock=self.simulation.clock,
            entropy=self.simulation.entropy,
            sink=self.sink,
        )
        await self.server.start()

    async def stop(self) -> None:
        """Stop it in order."""
        await self.server.stop()

    async def client(self, host: str = "client") -> RawClient:
        """Open a connection from a host."""
        return await RawClient.connect(self.simulation.network.host(host), (HOST, self.settings.kafka_port))


@asynccontextmanager
async def serving(simulation: Simulation, disk: SimDisk | None = None, **settings: Any) -> AsyncIterator[SimServer]:
    """Run a server for the length of a block."""
    server = SimServer(simulation, disk, **settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
