"""A Kafka client as raw as it gets: it sends what it is told to and shows what comes back, with kio for the bytes.

It works on any network of `goqueue.seams.network`, so on simulated ones. It never retries, waits or hides anything.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

from typing_extensions import override

from goqueue.seams.network import Address, Network
from tests.protocols.kafka.messages import Plain, request_bytes, request_class, response_class, response_values

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID, CREATE_PARTITIONS = 19, 20, 21, 22, 37
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")


class Closed(Exception):
    """The connection ended before the reply came."""


class Asked(NamedTuple):
    """A request whose reply is due."""

    api: int
    version: int
    correlation: int


def frame(api: int, version: int, correlation: int, body: bytes, client_id: bytes = b"raw") -> bytes:
    """Return a whole frame: size, header, body."""
    is_flexible = request_class(api, version).__flexible__
    header = _HEADER.pack(api, version, correlation, len(client_id)) + client_id + (b"\0" if is_flexible else b"")
    return _SIZE.pack(len(header) + len(body)) + header + body


class RawClient(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.received = bytearray()
        self.error: Exception | None = None
        self._correlations = count(1)
        self._asked: deque[Asked] = deque()
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()

    @classmethod
    async def connect(cls, network: Network, address: Address) -> RawClient:
        """Open a connection."""
        transport, client = await network.connect(*address, cls)
        client.transport = transport
        return client

    @override
    def data_received(self, data: bytes) -> None:
        self.received += data
        self._changed.set()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._ended.set()
        self._changed.set()

    @property
    def is_open(self) -> bool:
        """Whether the connection still stands."""
        return not self._ended.is_set()

    @property
    def due(self) -> int:
        """How many replies have not been read."""
        return len(self._asked)

    async def ended(self) -> None:
        """Wait until the other side has closed the connection."""
        await self._ended.wait()

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.transport.write(data)

    def send(self, api: int, version: int, values: Mapping[str, Any], *, has_reply: bool = True) -> None:
        """Send a request without waiting."""
        self.write(self.prepared(api, version, values, has_reply=has_reply))

    def prepared(self, api: int, version: int, values: Mapping[str, Any], *, has_reply: bool = True) -> bytes:
        """Return the frame of a request that is going to be sent; its reply is expected from now on."""
        correlation = next(self._correlations)
        if has_reply:
            self._asked.append(Asked(api, version, correlation))
        return frame(api, version, correlation, request_bytes(api, version, values))

    async def reply(self) -> Plain:
        """Return the next reply, which must be that to the oldest request without one; Closed if it cannot come."""
        data = await self.raw_reply()
        asked = self._asked.popleft()
        (correlation,) = _SIZE.unpack_from(data)
        assert correlation == asked.correlation, f"a reply to request {correlation} came before {asked}"
        is_flexible = response_class(asked.api, asked.version).__flexible__ and asked.api != API_VERSIONS
        return response_values(asked.api, asked.version, data[5:] if is_flexible else data[4:])

    async def raw_reply(self) -> bytes:
        """Return the next frame without its size."""
        while True:
            whole = 4 + _SIZE.unpack_from(self.received)[0] if len(self.received) >= 4 else 4
            if len(self.received) >= whole > 4:
                data = bytes(self.received[4:whole])
                del self.received[:whole]
                return data
            if self._ended.is_set():
                raise Closed(f"the connection ended with {len(self._asked)} replies due: {self.error}")
            self._changed.clear()
            await self._changed.wait()

    async def call(self, api: int, version: int, values: Mapping[str, Any]) -> Plain:
        """Send a request and return its reply."""
        self.send(api, version, values)
        return await self.reply()

    def close(self) -> None:
        """Hang up in the ordinary way."""
        self.transport.close()
