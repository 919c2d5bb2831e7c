"""Receives of many groups at a time: together they have a bounded number of bytes in hand, and none of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typing_extensions import override

from goqueue.broker.broker import Broker
from goqueue.machines.queues.values import AckType
from goqueue.model.queue_settings import QueueSettings
from goqueue.runtime.message_memory import MessageMemory
from goqueue.testing import SimDisk
from tests.simulation.group_calls import MakeTopic
from tests.simulation.group_stage import live, shrink
from tests.simulation.queue_calls import ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import publish_values

VALUES = [f"{number:02d}" * 500 for number in range(20)]
GROUPS = [f"group-{number}" for number in range(12)]
BYTES_MAX = 5_000


class _Watched(MessageMemory):
    """Remembers the most that was held at a time."""

    most = 0
    held = 0

    @override
    @contextmanager
    def hold(self, size_bytes: int) -> Iterator[None]:
        self.held += size_bytes
        self.most = max(self.most, self.held)
        with super().hold(size_bytes):
            yield
        self.held -= size_bytes


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def test_receives_of_many_groups_hold_no_more_than_a_limit_together_and_get_everything() -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await publish_values(broker, VALUES)
        message_memory = broker.queues.message_memory = _Watched(BYTES_MAX)

        async def receive_all(group: str) -> list[str]:
            await SetQueue(group, QueueSettings()).perform(broker)
            found: list[str] = []
            while given := await ReceiveSome(group, ("orders",), "ann", 100, 0, 60_000, 0).perform(broker):
                found += [each.value for each in given]
                await SettleSome(group, tuple(given), AckType.ACK).perform(broker)
            return found

        assert await asyncio.gather(*map(receive_all, GROUPS)) == [VALUES] * len(GROUPS)
        assert BYTES_MAX / 2 < message_memory.most <= BYTES_MAX + len(VALUES[0])
        assert message_memory.room_bytes == BYTES_MAX

    live(SimDisk(1), 1, act, stops=True)
