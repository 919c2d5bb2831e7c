"""ConnectionTimeouts with a connection has an end, and the reason is that for which it was waited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from goqueue.protocols.connection_limiter import ConnectionLimits
from goqueue.protocols.connection_timeouts import ConnectionTimeouts, TimeoutReason
from goqueue.testing import Simulation, simulate

LIMITS = ConnectionLimits(first_byte_timeout_ms=3000, idle_timeout_ms=20_000, slow_reader_timeout_ms=5000)


class Watched:
    """A connection of which only the timeouts with it is there."""

    def __init__(self, limits: ConnectionLimits = LIMITS) -> None:
        self.is_owed = False
        self.ends: list[tuple[TimeoutReason, float]] = []
        self._loop = asyncio.get_running_loop()
        self._began_at = self._loop.time()
        self.timeouts = ConnectionTimeouts(
            self._loop, limits, is_owed=lambda: self.is_owed, drop=self._dropped, slowest_bytes_per_s=1000
        )
        self.timeouts.start()

    def _dropped(self, reason: TimeoutReason) -> None:
        self.ends.append((reason, self._loop.time() - self._began_at))

    def ended(self, reason: TimeoutReason, after_s: float) -> bool:
        """Tell whether timeouts has ended once, for this reason, and at this time but for a blink."""
        return [each for each, _ in self.ends] == [reason] and after_s - 0.01 <= self.ends[0][1] <= after_s + 0.11


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test in virtual time."""

    async def main(simulation: Simulation) -> None:
        await test()

    simulate(main, 7)


def test_silence_at_first_ends_it() -> None:
    async def test() -> None:
        watched = Watched()
        await asyncio.sleep(100)
        assert watched.ended(TimeoutReason.SILENT, 3)

    run(test)


@pytest.mark.parametrize("begins_after_s", [0.5, 2.5])
def test_a_request_has_its_time_from_its_first_part_on(begins_after_s: float) -> None:
    async def test() -> None:
        watched = Watched()
        await asyncio.sleep(begins_after_s)
        watched.timeouts.expects_rest(1)
        await asyncio.sleep(100)
        assert watched.ended(TimeoutReason.SLOW, begins_after_s + 3)

    run(test)


def test_bytes_that_trickle_in_buy_little_time() -> None:
    async def test() -> None:
        watched = Watched()
        for count in range(100):
            watched.timeouts.heard()
            watched.timeouts.expects_rest(count)
            await asyncio.sleep(0.5)
        assert watched.ended(TimeoutReason.SLOW, 3)

    run(test)


def test_bytes_that_come_fast_enough_buy_enough() -> None:
    async def test() -> None:
        watched = Watched()
        for count in range(100):
            watched.timeouts.heard()
            watched.timeouts.expects_rest(1 + count * 1000)
            await asyncio.sleep(1)
        assert watched.ends == []
        await asyncio.sleep(100)
        assert watched.ended(TimeoutReason.SLOW, 3 + 99)

    run(test)


def test_the_next_request_has_time_of_its_own() -> None:
    async def test() -> None:
        watched = Watched()
        for _ in range(20):
            watched.timeouts.expects_rest(1)
            await asyncio.sleep(2)
            watched.timeouts.expects_nothing()
        assert watched.ends == []
        watched.timeouts.expects_rest(1)
        await asyncio.sleep(100)
        assert watched.ended(TimeoutReason.SLOW, 40 + 3)

    run(test)


@pytest.mark.parametrize("idle_timeout_ms", [1000, 20_000])
def test_idleness_ends_it_unless_something_is_heard(idle_timeout_ms: int) -> None:
    async def test() -> None:
        watched = Watched(ConnectionLimits(first_byte_timeout_ms=3000, idle_timeout_ms=idle_timeout_ms))
        watched.timeouts.expects_nothing()
        for _ in range(2):
            await asyncio.sleep(idle_timeout_ms / 2000)
            watched.timeouts.heard()
        assert watched.ends == []
        await asyncio.sleep(100)
        assert watched.ended(TimeoutReason.IDLE, 2 * idle_timeout_ms / 1000)

    run(test)


def test_whoever_waits_for_a_reply_is_not_idle_and_has_all_its_time_afterwards() -> None:
    async def test() -> None:
        watched = Watched()
        watched.timeouts.expects_nothing()
        watched.is_owed = True
        await asyncio.sleep(100)
        watched.is_owed = False
        watched.timeouts.answered()
        assert watched.ends == []
        await asyncio.sleep(100)
        assert watched.ended(TimeoutReason.IDLE, 100 + 20)

    run(test)


def test_replies_that_are_not_read_end_it_unless_they_are_read_in_time() -> None:
    async def test() -> None:
        watched = Watched(ConnectionLimits(idle_timeout_ms=10**9, slow_reader_timeout_ms=5000))
        watched.timeouts.expects_nothing()
        watched.timeouts.reading_stopped()
        await asyncio.sleep(4)
        watched.timeouts.reading_resumed()
        await asyncio.sleep(6)
        assert watched.ends == []
        watched.timeouts.reading_stopped()
        await asyncio.sleep(100)
        assert watched.ended(TimeoutReason.UNREAD, 10 + 5)

    run(test)


def test_nothing_is_watched_after_the_end() -> None:
    async def test() -> None:
        watched = Watched()
        watched.timeouts.reading_stopped()
        watched.timeouts.end()
        await asyncio.sleep(100)
        assert watched.ends == []

    run(test)
