"""Queues are described from counts that are kept, however many messages are in flight."""

from __future__ import annotations

from collections import Counter

import pytest

from goqueue.broker.queues import timestamps as queue_timestamps
from goqueue.broker.queues.timestamps import KEPT_MAX, Timestamps
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition
from goqueue.testing import SimDisk, Simulation
from tests.unit.log.log_kit import batch
from tests.unit.machines.queues.deliveries_kit import P0, Talk
from tests.unit.runtime.partition_kit import GROUP, run


def test_states_are_counted_without_looking_at_any_message() -> None:
    talk = Talk()
    talk.begin()
    talk.receive(*range(600))
    talk.settle(AckType.NACK, *range(300), delay_ms=60_000)
    talk.settle(AckType.RELEASE, *range(300, 350))
    talk.settle(AckType.REJECT, 350)
    talk.settle(AckType.ACK, *range(351, 400))
    window = talk.machine.require("g").windows[P0]
    window.chunks = {}
    assert window.states() == Counter(
        {FlightState.WAITING: 300, FlightState.READY: 50, FlightState.DEAD: 1, FlightState.LEASED: 200}
    )


@pytest.mark.parametrize(("offset", "count"), [(0, 0), (1, 1), (256, 256), (300, 300), (599, 550), (700, 551)])
def test_messages_in_flight_before_an_offset_are_counted(offset: int, count: int) -> None:
    talk = Talk()
    talk.begin()
    talk.receive(*range(600))
    talk.settle(AckType.ACK, *range(300, 349))
    assert talk.machine.require("g").windows[P0].in_flight_before(offset) == count


def test_batch_of_the_oldest_message_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def find(partition: Partition, offset: int) -> Record | None:
        opened.append(offset)
        return Record(offset, 1000 + offset, None, b"x", []) if offset < 5 else None

    monkeypatch.setattr(queue_timestamps, "find", find)

    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        del disk, simulation
        partition.append([batch(b"x")])
        known = Timestamps()
        assert [known.find(partition, 3), known.find(partition, 3), known.find(partition, 4)] == [1003, 1003, 1004]
        assert opened == [3, 4]
        # What is not there now may be there later.
        assert [known.find(partition, 9), known.find(partition, 9)] == [None, None]
        assert opened == [3, 4, 9, 9]
        known.forget(partition)
        assert len(known) == 0

    run(act, GROUP)


def test_timestamps_are_kept_for_so_many_messages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_timestamps, "find", lambda _, offset: Record(offset, offset, None, b"x", []))

    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        del disk, simulation
        known = Timestamps()
        for offset in range(KEPT_MAX + 5):
            known.find(partition, offset)
        assert len(known) == KEPT_MAX

    run(act, GROUP)
