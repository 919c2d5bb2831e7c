"""Batches that open to very much: reading them takes a bounded amount of memory, and of work.

A few kilobytes of zstd open to 100 MB, and a batch may hold very many empty records. Readers that come again and again
must not make the broker larger each time, nor hold up its loop for longer than a slice of records takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import zstandard

from goqueue.broker.broker import Broker
from goqueue.broker.dead_letters.browsing import BrowseRequest, browse_dead_letters
from goqueue.broker.messages.fetch import Fetched
from goqueue.broker.messages.opened_batches import FullBatches
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.messages.reading import Polls, ReadRequest, opened, read_messages
from goqueue.broker.queues.admin import QueueSeek, seek_queue
from goqueue.broker.queues.peeking import peek_queue
from goqueue.broker.share_groups.candidates import ShareSearch, SupplyRequest
from goqueue.errors import GoQueueError, InvalidRecord, UnreadableBatch
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import QueueSettings
from goqueue.records import payload, reader
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import HEADER_BYTES, read_header, reseal
from goqueue.records.payload import Columns
from goqueue.records.reader import SLICE_RECORDS
from goqueue.runtime.opened_batches import KEPT_BYTES_MAX, OpenedBatches
from goqueue.runtime.partition import NEW_RECORDS_MAX
from goqueue.runtime.waiters import turns
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import live, shrink
from tests.simulation.queue_calls import SetQueue
from tests.simulation.queue_stage import receive_values

MIB = 1 << 20
# About three times what one of these batches takes while it is opened.
GROWTH_MAX = 120 * MIB


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def bomb(opened_bytes: int = 100 * MIB) -> bytearray:
    """Return a batch of some kilobytes that opens to very much, and does not say so."""
    batch = build_batch([NewRecord(1, None, b"v")], codec=Codec.ZSTD)
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    parts = [compressor.compress(bytes(MIB)) for _ in range(opened_bytes // MIB)]
    batch[HEADER_BYTES:] = b"".join([*parts, compressor.flush()])
    reseal(batch)
    return batch


def resident_bytes() -> int:
    """Return how much memory this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def _append(broker: Broker, topic: str, batch: bytearray) -> None:
    (outcome,) = await publish_sections(
        broker.messages, CALLER, Acks.ALL, [Section(broker.topics.topic(topic).partition(0), batch)]
    )
    assert not isinstance(outcome, GoQueueError)


async def _receive(broker: Broker) -> None:
    await seek_queue(broker.queues, CALLER, "billing", QueueSeek("orders", 0, is_offset=True))
    assert await receive_values(broker) == []


async def _peek(broker: Broker) -> None:
    assert not await peek_queue(broker.queues, CALLER, "billing", "orders", 1)


async def _read(broker: Broker) -> None:
    with pytest.raises(UnreadableBatch, match="opens to more"):
        await read_messages(broker.messages, CALLER, Polls(), "orders", 0, ReadRequest(offset=0))


async def _poll(broker: Broker) -> None:
    """Do what a poll of a group does with what it has fetched, and keep the error as it does."""
    partition = broker.topics.topic("orders").partition(0)
    errors: list[GoQueueError] = []
    try:
        opened(partition, Fetched(partition.read(0, bytes_max=MIB)), 0, ReadRequest())
    except UnreadableBatch as error:
        errors.append(error.without_frames())
    assert errors


async def _share(broker: Broker) -> None:
    partition = broker.topics.topic("orders").partition(0)
    window = QueueWindow(broker.topics.topic("orders").topic.id, 0, 0)
    supply = ShareSearch(partition, window, SupplyRequest(10, 10, MIB), FullBatches()).run()
    assert (supply.offer.fresh, len(supply.offer.unreadable)) == ([], 1)


async def _browse(broker: Broker) -> None:
    page = await browse_dead_letters(broker.dead_letters, CALLER, "orders", BrowseRequest())
    assert page.unreadable


PATHS: list[Callable[[Broker], Awaitable[None]]] = [_receive, _peek, _read, _poll, _share, _browse]


def _measure(path: Callable[[Broker], Awaitable[None]], times: int) -> int:
    growth: list[int] = []

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
            await _append(broker, topic, bomb())
        await SetQueue("billing", QueueSettings()).perform(broker)
        await receive_values(broker)
        for _ in range(3):
            await path(broker)
        before = resident_bytes()
        for _ in range(times):
            await path(broker)
            await turns(1)
        growth.append(resident_bytes() - before)

    live(SimDisk(1), 1, act, steps_max=2_000_000)
    return growth[0]


@pytest.mark.parametrize("path", PATHS)
def test_batches_that_open_to_too_much_do_not_stay_in_memory(path: Callable[[Broker], Awaitable[None]]) -> None:
    assert _measure(path, 15) < GROWTH_MAX


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS)
def test_a_thousand_batches_that_open_to_too_much_do_not_stay_in_memory(
    path: Callable[[Broker], Awaitable[None]],
) -> None:
    assert _measure(path, 1_000) < GROWTH_MAX


def test_what_is_kept_of_all_batches_has_one_limit() -> None:
    kept = OpenedBatches()
    for number in range(8):
        batch = build_batch([NewRecord(1, None, bytes(10 * MIB))], codec=Codec.ZSTD, base_offset=number)
        place = ("orders", number)
        kept.open(place, batch, 0, read_header(batch))  # type: ignore[arg-type]
        assert kept.kept_bytes <= KEPT_BYTES_MAX
    assert kept.kept_bytes > KEPT_BYTES_MAX // 2
    for number in range(8):
        kept.forget(("orders", number))  # type: ignore[arg-type]
    assert kept.kept_bytes == 0


# -- work


def _count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []

    def decode(content: bytes, record_count: int) -> Columns:
        counts.append(record_count)
        return payload.decode(content, record_count)

    monkeypatch.setattr(reader, "decode", decode)
    return counts


async def _read_one(broker: Broker) -> None:
    read = await read_messages(broker.messages, CALLER, Polls(), "orders", 0, ReadRequest(offset=0, limit=1))
    assert len(read.records) == 1


async def _read_later(broker: Broker) -> None:
    read = await read_messages(broker.messages, CALLER, Polls(), "orders", 0, ReadRequest(offset=40_000, limit=10))
    assert [record.offset for record in read.records] == list(range(40_000, 40_010))


async def _receive_one(broker: Broker) -> None:
    assert await receive_values(broker, limit=1) == [""]


async def _peek_one(broker: Broker) -> None:
    assert len(await peek_queue(broker.queues, CALLER, "billing", "orders", 1)) == 1


async def _share_some(broker: Broker) -> None:
    partition = broker.topics.topic("orders").partition(0)
    window = QueueWindow(broker.topics.topic("orders").topic.id, 0, 0)
    supply = ShareSearch(partition, window, SupplyRequest(10, 10, MIB), FullBatches()).run()
    assert supply.offer.fresh == list(range(10))


@pytest.mark.parametrize("path", [_read_one, _read_later, _receive_one, _peek_one, _share_some])
def test_reading_a_few_of_very_many_records_decodes_a_slice_of_them(
    path: Callable[[Broker], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = _count_decoded(monkeypatch)
    seen: list[int] = []

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await _append(broker, "orders", build_batch([NewRecord(1, None, b"")] * 50_000, codec=Codec.ZSTD))
        await SetQueue("billing", QueueSettings()).perform(broker)
        counts.clear()
        await path(broker)
        seen.extend(each for each in counts if each > 100)

    live(SimDisk(1), 1, act)
    assert 0 < sum(seen) <= 2 * SLICE_RECORDS


def test_a_batch_of_too_many_records_is_refused() -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        batch = build_batch([NewRecord(1, None, b"")] * (NEW_RECORDS_MAX + 1), codec=Codec.ZSTD)
        partition = broker.topics.topic("orders").partition(0)
        (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [Section(partition, batch)])
        assert isinstance(outcome, InvalidRecord)

    live(SimDisk(1), 1, act)
