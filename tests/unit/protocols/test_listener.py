"""A listener knows who is in, and ends all of them: gently, or at once."""

from __future__ import annotations

import asyncio
from pathlib import PurePath

import pytest
from typing_extensions import override

from goqueue.broker.broker import Broker
from goqueue.model.broker_options import BrokerOptions
from goqueue.protocols.connection_limiter import ConnectionLimiter, ConnectionLimits
from goqueue.protocols.listener import ProtocolListener
from goqueue.testing import RecordingSink, SimDisk, Simulation, simulate


class Guest:
    """A connection that ends a second after it was asked to, or at once."""

    def __init__(self, listener: Hall, host: str) -> None:
        self.host = host
        self._listener = listener

    def leave(self) -> None:
        """End in a second."""
        self._listener.loop.call_later(1, self._listener.forget, self)

    def abort(self) -> None:
        """End at once."""
        self._listener.forget(self)


class Hall(ProtocolListener[Guest]):
    """A listener of such connections."""

    @override
    def connection(self) -> Guest:
        return Guest(self, "somewhere")

    @override
    async def _finish(self) -> None:
        for guest in self.open_connections:
            guest.leave()


def halls(simulation: Simulation, count: int = 1) -> list[Hall]:
    """Return fronts that share a limiter with room for three."""
    sink = RecordingSink()
    broker = Broker(
        SimDisk(7),
        PurePath("data"),
        BrokerOptions(),
        clock=simulation.clock,
        entropy=simulation.entropy,
        sink=sink,
    )
    limiter = ConnectionLimiter(ConnectionLimits(connections_max=3), sink)
    return [Hall(broker, limiter) for _ in range(count)]


def test_fronts_share_the_room_that_there_is() -> None:
    async def main(simulation: Simulation) -> None:
        one, other = halls(simulation, 2)
        guests = [one.connection(), one.connection()]
        assert [one.admit(guest) for guest in guests] == ["", ""]
        assert other.admit(other.connection()) == ""
        assert "too many" in one.admit(one.connection())
        one.forget(guests[0])
        assert one.admit(one.connection()) == ""
        assert (len(one.open_connections), len(other.open_connections), one.limiter.connections) == (2, 1, 3)

    simulate(main, 7)


def test_draining_waits_for_the_last_to_leave_and_lets_nobody_in() -> None:
    async def main(simulation: Simulation) -> None:
        (hall,) = halls(simulation)
        for _ in range(2):
            hall.admit(hall.connection())
        draining = asyncio.create_task(hall.drain())
        await asyncio.sleep(0.5)
        assert "stop" in hall.admit(hall.connection())
        assert not draining.done()
        await draining
        assert simulation.clock.monotonic() >= 1
        assert (hall.limiter.connections, list(hall.open_connections)) == (0, [])

    simulate(main, 7)


def test_a_front_that_nobody_is_in_is_drained_at_once() -> None:
    async def main(simulation: Simulation) -> None:
        (hall,) = halls(simulation)
        async with asyncio.timeout(0.1):
            await hall.drain()
            await hall.drain()

    simulate(main, 7)


@pytest.mark.parametrize("is_drained_first", [False, True])
def test_closing_ends_all_that_is_left(*, is_drained_first: bool) -> None:
    async def main(simulation: Simulation) -> None:
        (hall,) = halls(simulation)
        for _ in range(3):
            hall.admit(hall.connection())
        work = hall.tasks.start(asyncio.sleep(1000), "long work")
        if is_drained_first:
            await hall.drain()
        await hall.close()
        await hall.close()
        assert work.cancelled()
        assert (hall.limiter.connections, len(hall.tasks)) == (0, 0)
        assert "stop" in hall.admit(hall.connection())

    simulate(main, 7)
