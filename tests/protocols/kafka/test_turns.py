"""A connection has a budget of work for each turn of the loop, so that heavy clients leave room for others.

An event loop hands a connection all that its socket holds, up to 32 times in a row, unless the connection stops
reading. These tests hand over bytes in the same way.
"""

from __future__ import annotations

import asyncio

import pytest

from goqueue.log.log import Log
from goqueue.protocols.kafka.wire import connection as kafka_connection
from goqueue.protocols.kafka.wire.connection import TURN_BYTES, TURN_FRAMES, KafkaConnection
from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.raw import PRODUCE, RawClient
from tests.protocols.kafka.requests import ALL, LEADER, create_topic, produce, produced
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

CALLS_IN_A_ROW = 32
INTERVAL = {"goqueue.flush": "interval"}


class Socket:
    """Bytes that have arrived for a connection of the server, handed over as an event loop does."""

    def __init__(self, server: SimServer) -> None:
        # The latest connection is that of the client that was connected last.
        self.connection: KafkaConnection = server.server._kafka.open_connections[-1]
        assert self.connection._transport is not None
        self._transport = self.connection._transport
        self.arrived = bytearray()

    def read(self) -> int:
        """Hand over what there is, as long as the connection reads and its buffer is filled; return how much."""
        before = len(self.arrived)
        for _ in range(CALLS_IN_A_ROW):
            if not self.arrived or not self._transport.is_reading():
                break
            buffer = self.connection.get_buffer(-1)
            size = min(len(buffer), len(self.arrived))
            buffer[:size] = self.arrived[:size]
            del self.arrived[:size]
            self.connection.buffer_updated(size)
        return before - len(self.arrived)

    async def read_all(self) -> list[int]:
        """Hand over everything, some in each turn; return how much was taken in each."""
        taken = []
        while self.arrived:
            taken.append(self.read())
            await asyncio.sleep(0)
        return taken


async def heavy_client(server: SimServer, config: dict[str, str]) -> tuple[RawClient, Socket, Log]:
    client = await server.client()
    await create_topic(client, "t", config=config)
    return client, Socket(server), server.server.broker.topics.topic("t").partition(0).log


@pytest.mark.seeds(3, long_count=30)
def test_small_requests_of_one_client_leave_others_a_turn(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, socket, log = await heavy_client(server, INTERVAL)
            for _ in range(900):
                socket.arrived += client.prepared(PRODUCE, 9, produce("t", batch(b"x"), acks=LEADER))
            socket.read()
            assert 0 < log.end_offset <= TURN_FRAMES
            await socket.read_all()
            for number in range(900):
                assert produced(await client.reply())["base_offset"] == number

    simulate(main, seed)


@pytest.mark.seeds(3, long_count=30)
def test_large_requests_of_one_client_leave_others_a_turn(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, socket, log = await heavy_client(server, INTERVAL)
            size = 50_000
            for _ in range(100):
                socket.arrived += client.prepared(PRODUCE, 9, produce("t", batch(b"x" * size), acks=LEADER))
            socket.read()
            assert 0 < log.end_offset <= TURN_BYTES // size + 1
            await socket.read_all()
            for number in range(100):
                assert produced(await client.reply())["base_offset"] == number

    simulate(main, seed)


@pytest.mark.seeds(3, long_count=30)
def test_request_larger_than_the_budget_is_read_over_several_turns(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            config = {**INTERVAL, "max.message.bytes": "20000000"}
            client, socket, _ = await heavy_client(server, config)
            socket.arrived += client.prepared(PRODUCE, 9, produce("t", batch(b"x" * 10_000_000), acks=LEADER))
            taken = await socket.read_all()
            # One read may begin just before the budget is spent.
            assert max(taken) <= 2 * 1024 * 1024
            assert produced(await client.reply())["base_offset"] == 0

    simulate(main, seed)


@pytest.mark.seeds(3, long_count=30)
def test_client_waits_while_too_many_bytes_of_it_wait_for_the_disk(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_connection, "OWED_BYTES_MAX", 100_000)

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, _, log = await heavy_client(server, {"goqueue.flush": "group"})
            for _ in range(100):
                client.send(PRODUCE, 9, produce("t", batch(b"x" * 20_000), acks=ALL))
            for number in range(100):
                # Five of these and the one that reaches the limit.
                assert log.end_offset - log.durable_end <= 6
                assert produced(await client.reply())["base_offset"] == number

    simulate(main, seed)
