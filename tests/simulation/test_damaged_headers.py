"""A damaged header in the middle of a large read: each way of reading gets all other messages, and none by mistake.

A large read is taken from the index without a look at the batches in between, so a damaged header is met by those who
open the batches.
"""

from __future__ import annotations

from pathlib import PurePath

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.messages.opened_batches import FullBatches
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.messages.reading import Polls, ReadRequest, read_messages
from goqueue.broker.share_groups.candidates import ShareSearch, SupplyRequest
from goqueue.errors import CorruptLog, GoQueueError, UnreadableBatch
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import QueueSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import live, shrink
from tests.simulation.queue_calls import SetQueue
from tests.simulation.queue_stage import receive_values

COUNT = 60
DAMAGED = 30
VALUES = [f"{number:05d}" * 500 for number in range(COUNT)]
OTHERS = [value for number, value in enumerate(VALUES) if number != DAMAGED]
# Its offset, its length, its leader epoch, its format, its checksum, and what the checksum covers.
BYTES = [0, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17, 21, 22, 23, 26, 27, 34, 42, 43, 51, 53, 57, 60]


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _fill(broker: Broker, disk: SimDisk, byte: int, mask: int) -> None:
    await MakeTopic("orders", 1).perform(broker)
    await SetQueue("billing", QueueSettings()).perform(broker)
    partition = broker.topics.topic("orders").partition(0)
    now_ms = broker.core.clock.now_ms()
    batches = [build_batch([NewRecord(now_ms, None, value.encode())]) for value in VALUES]
    for batch in batches:
        (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [Section(partition, batch)])
        assert not isinstance(outcome, GoQueueError)
    (path,) = [PurePath(each) for each in disk.tree() if "orders-0/" in each and each.endswith(".log")]
    disk.flip(path, sum(map(len, batches[:DAMAGED])) + byte, mask)


async def _read_all(broker: Broker) -> list[str]:
    found: list[str] = []
    offset = 0
    while offset < COUNT:
        try:
            read = await read_messages(broker.messages, CALLER, Polls(), "orders", 0, ReadRequest(offset=offset))
        except UnreadableBatch as error:
            offset = error.next_offset
            continue
        except CorruptLog as error:
            offset = error.resume_offset or 0
            continue
        assert read.next_offset > offset
        assert all(record.value == VALUES[record.offset].encode() for record in read.records)
        found += [(record.value or b"").decode() for record in read.records]
        offset = read.next_offset
    return found


async def _share_all(broker: Broker) -> list[int]:
    partition = broker.topics.topic("orders").partition(0)
    found: list[int] = []
    cursor = 0
    while cursor < COUNT:
        window = QueueWindow(broker.topics.topic("orders").topic.id, cursor, cursor)
        offer = ShareSearch(partition, window, SupplyRequest(1000, 1000, 1 << 20), FullBatches()).run().offer
        assert offer.end > cursor
        found += offer.fresh
        cursor = offer.end
    return found


@pytest.mark.parametrize("mask", [0x01, 0x80])
@pytest.mark.parametrize("byte", BYTES)
def test_a_damaged_header_hides_no_other_message_from_any_reader(byte: int, mask: int) -> None:
    disk = SimDisk(1)
    # The leader epoch says nothing about the messages.
    offsets = [number for number in range(COUNT) if number != DAMAGED or byte in range(12, 16)]
    expected = [VALUES[number] for number in offsets]

    async def act(broker: Broker) -> None:
        await _fill(broker, disk, byte, mask)
        assert await _share_all(broker) == offsets
        assert await _read_all(broker) == expected
        received: list[str] = []
        while more := await receive_values(broker, limit=100):
            received += more
        assert received == expected

    live(disk, 1, act, stops=True)
