"""The limiter counts who is in and says in few words who was sent away."""

from __future__ import annotations

import asyncio

from goqueue.protocols.connection_limiter import ConnectionLimiter, ConnectionLimits, ConnectionsDropped
from goqueue.testing import RecordingSink, Simulation, simulate


def test_as_many_come_in_as_there_is_room_for() -> None:
    limiter = ConnectionLimiter(ConnectionLimits(connections_max=2), RecordingSink())
    assert (limiter.acquire("a"), limiter.acquire("a")) == ("", "")
    assert "too many" in limiter.acquire("a")
    limiter.release("a")
    assert limiter.acquire("b") == ""
    assert limiter.connections == 2


def test_each_address_has_room_of_its_own() -> None:
    limiter = ConnectionLimiter(ConnectionLimits(connections_per_address_max=1), RecordingSink())
    assert limiter.acquire("a") == ""
    assert "address" in limiter.acquire("a")
    assert limiter.acquire("b") == ""
    limiter.release("a")
    assert limiter.acquire("a") == ""
    assert limiter.connections == 2


def test_addresses_that_are_gone_are_forgotten() -> None:
    limiter = ConnectionLimiter(ConnectionLimits(connections_per_address_max=5), RecordingSink())
    for number in range(1000):
        assert limiter.acquire(f"host-{number}") == ""
        limiter.release(f"host-{number}")
    assert (limiter.connections, len(limiter._by_address)) == (0, 0)


def test_the_first_is_reported_at_once_and_the_others_together() -> None:
    async def main(simulation: Simulation) -> None:
        sink = RecordingSink()
        limiter = ConnectionLimiter(ConnectionLimits(), sink)
        for number in range(1000):
            limiter.note_dropped("too slow", f"host:{number}", "by much" if number else "")
        assert sink.of(ConnectionsDropped) == [ConnectionsDropped("too slow", 1, "host:0", "")]
        await asyncio.sleep(1.5)
        assert sink.of(ConnectionsDropped)[1:] == [ConnectionsDropped("too slow", 999, "host:999", "by much")]
        await asyncio.sleep(10)
        assert len(sink.events) == 2
        limiter.note_dropped("too slow", "host:x")
        assert len(sink.events) == 3
        limiter.close()
        assert limiter.dropped["too slow"] == 1001

    simulate(main, 7)


def test_reasons_are_kept_apart() -> None:
    async def main(simulation: Simulation) -> None:
        sink = RecordingSink()
        limiter = ConnectionLimiter(ConnectionLimits(), sink)
        for reason in ("slow", "idle", "slow", "idle", "idle"):
            limiter.note_dropped(reason, "here")
        limiter.close()
        totals = dict.fromkeys(("slow", "idle"), 0)
        for event in sink.of(ConnectionsDropped):
            totals[event.reason] += event.count
        assert totals == {"slow": 2, "idle": 3}

    simulate(main, 7)


def test_closing_reports_what_is_left_and_leaves_no_timer() -> None:
    async def main(simulation: Simulation) -> None:
        sink = RecordingSink()
        limiter = ConnectionLimiter(ConnectionLimits(), sink)
        limiter.note_dropped("slow", "a")
        limiter.note_dropped("slow", "b")
        limiter.close()
        limiter.close()
        assert [event.count for event in sink.of(ConnectionsDropped)] == [1, 1]
        await asyncio.sleep(5)
        assert len(sink.events) == 2

    simulate(main, 7)
