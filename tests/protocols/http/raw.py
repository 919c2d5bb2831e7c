"""A server on a simulated disk and network, and an HTTP client that sends exactly the given bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from goqueue.protocols.connection_limiter import ConnectionsDropped
from goqueue.protocols.http.wire.connection import HttpConnection
from goqueue.seams.network import Address, Network
from goqueue.server.lifecycle import Server
from goqueue.server.settings import Settings
from goqueue.testing import RecordingSink, SimDisk, Simulation

HOST = "broker"


class Closed(Exception):
    """The connection ended before a reply was whole."""


class Reply(NamedTuple):
    """A reply of the server; names of headers are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body, which is JSON."""
        return json.loads(self.body)


def request(method: str, path: str, body: object = None, **headers: str) -> bytes:
    """Return the bytes of a request; a body is sent as JSON."""
    lines = [f"{method} {path} HTTP/1.1", "host: broker", *(f"{key}: {value}" for key, value in headers.items())]
    content = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


class RawHttp(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.received = bytearray()
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()

    @classmethod
    async def connect(cls, network: Network, address: Address) -> RawHttp:
        """Open a connection."""
        transport, client = await network.connect(*address, cls)
        client.transport = transport
        return client

    @override
    def data_received(self, data: bytes) -> None:
        self.received += data
        self._changed.set()

    @override
    def eof_received(self) -> bool:
        self._ended.set()
        self._changed.set()
        return False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        self._changed.set()

    @property
    def is_open(self) -> bool:
        """Whether the server may still send something."""
        return not self._ended.is_set()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self.transport.write(data)

    async def ended(self) -> None:
        """Wait until the server has closed the connection."""
        await self._ended.wait()

    async def reply(self) -> Reply:
        """Return the next reply; Closed if it does not come."""
        head, _, _ = (await self._take_until(b"\r\n\r\n")).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", "0"))
        while len(self.received) < size:
            await self._more()
        body = bytes(self.received[:size])
        del self.received[:size]
        return Reply(int(first.split()[1]), headers, body)

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        """Send a request and return its reply."""
        self.write(request(method, path, body, **headers))
        return await self.reply()

    def close(self) -> None:
        """Hang up."""
        self.transport.close()

    async def _take_until(self, mark: bytes) -> bytes:
        while (position := self.received.find(mark)) < 0:
            await self._more()
        end = position + len(mark)
        taken = bytes(self.received[:end])
        del self.received[:end]
        return taken

    async def _more(self) -> None:
        if self._ended.is_set():
            raise Closed(bytes(self.received))
        self._changed.clear()
        await self._changed.wait()


class SimServer:
    """A server on the host `broker` of a simulation."""

    def __init__(self, simulation: Simulation, disk: SimDisk | None = None, **settings: Any) -> None:
        self.simulation = simulation
        self.disk = disk or SimDisk(seed=1)
        self.sink = RecordingSink()
        self.server = Server(
            Settings(**({"data_dir": Path("data")} | settings)),
            disk=self.disk,
            network=simulation.network.host(HOST),
            clock=simulation.clock,
            entropy=simulation.entropy,
            sink=self.sink,
        )

    async def client(self, host: str = "client") -> RawHttp:
        """Open a connection from a host."""
        return await RawHttp.connect(self.simulation.network.host(host), (HOST, self.server.settings.http_port))

    def waiters(self, topic: str, partition: int = 0) -> int:
        """Return how many wait for a partition to get on."""
        return len(self.server.broker.topics.topic(topic).partition(partition).waiters)

    def connections(self) -> list[HttpConnection]:
        """Return the server's ends of all HTTP connections."""
        ends = self.simulation.network.transports()
        protocols = [end.get_protocol() for end in ends if end.local[0] == HOST]
        return [protocol for protocol in protocols if isinstance(protocol, HttpConnection)]

    def reasons(self) -> list[str]:
        """Return why connections were dropped, as it was reported."""
        self.server.limiter.close()
        return [event.reason for event in self.sink.of(ConnectionsDropped)]


@asynccontextmanager
async def serving(simulation: Simulation, disk: SimDisk | None = None, **settings: Any) -> AsyncIterator[SimServer]:
    """Run a server for the length of a block."""
    server = SimServer(simulation, disk, **settings)
    await server.server.start()
    try:
        yield server
    finally:
        await server.server.stop()
