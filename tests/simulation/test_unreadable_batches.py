"""Batches that are damaged, or whose records are malformed: what each way of reading makes of them."""

from __future__ import annotations

import asyncio
from pathlib import PurePath

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.dead_letters.browsing import BrowseRequest, browse_dead_letters
from goqueue.broker.dead_letters.reading import StoredDeadLetter
from goqueue.broker.events import BatchUnreadable, UnreadableSkipped
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.messages.reading import Polls, ReadRequest, read_messages
from goqueue.broker.queues.admin import describe_queue
from goqueue.broker.queues.peeking import peek_queue
from goqueue.broker.queues.stats import queue_stats
from goqueue.errors import GoQueueError, UnreadableBatch
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.machines.redrives.values import Moves, RedriveTerms
from goqueue.model import dead_letters
from goqueue.model.dead_letter_selection import Order
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.model.topic import TopicPartition
from goqueue.records import reader
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import HEADER_BYTES, read_header, reseal
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import flight_states, publish_values, receive_values, until
from tests.simulation.redrive_calls import LookAtRedrives, StartRedrive
from tests.simulation.test_unreadable_letters import unreadable_batch

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _publish(broker: Broker, batch: bytearray) -> None:
    partition = broker.topics.topic("orders").partition(0)
    (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [Section(partition, batch)])
    assert not isinstance(outcome, GoQueueError)


async def _begin(broker: Broker, ordering: Ordering = Ordering.NONE) -> None:
    await MakeTopic("orders", 1).perform(broker)
    await SetQueue("billing", QueueSettings(ordering=ordering)).perform(broker)


def _flip(disk: SimDisk, value: bytes) -> None:
    """Flip a bit in the stored value of a message."""
    (path,) = [PurePath(each) for each in disk.tree() if "orders-0/" in each and each.endswith(".log")]
    file = disk.open(path, writable=False)
    data = file.read_at(0, file.size())
    file.close()
    assert data.count(value) == 1
    disk.flip(path, data.index(value))


async def _letters(broker: Broker, count: int = 1) -> list[StoredDeadLetter]:
    async with asyncio.timeout(60):
        while True:
            await let_pass(1)
            if "orders.dlq" in broker.topics.by_name:
                page = await browse_dead_letters(
                    broker.dead_letters, CALLER, "orders", BrowseRequest(order=Order.OLDEST)
                )
                if len(page.letters) >= count:
                    return list(page.letters)


def _headers(letter: StoredDeadLetter) -> dict[str, bytes | None]:
    return dict(letter.record.headers)


@pytest.mark.parametrize("limit", [1, 100])
@pytest.mark.parametrize("ordering", Ordering)
def test_a_malformed_batch_becomes_a_dead_letter_and_receives_go_on(limit: int, ordering: Ordering) -> None:
    raw = bytes(unreadable_batch())

    async def act(broker: Broker) -> None:
        await _begin(broker, ordering)
        await publish_values(broker, ["before"])
        await _publish(broker, bytearray(raw))
        await publish_values(broker, ["after"])
        got: list[str] = []
        while len(got) < 2:
            got += await receive_values(broker, limit=limit, wait_ms=20_000)
        assert got == ["before", "after"]
        (letter,) = await _letters(broker)
        assert letter.record.value is not None
        # Only what the broker sets is another.
        assert letter.record.value[HEADER_BYTES:] == raw[HEADER_BYTES:]
        assert read_header(letter.record.value).crc == read_header(raw).crc
        cause = letter.cause
        assert (cause.reason, cause.group, cause.topic, cause.partition, cause.offset) == (
            "unreadable",
            "billing",
            "orders",
            0,
            1,
        )
        assert "UTF-8" in cause.error
        assert _headers(letter)[dead_letters.BATCH_HEADER] == b"1-2"
        # Both messages of the batch are done: only what consumers have is in flight.
        await until(lambda: flight_states(broker) == [FlightState.LEASED] * 2)
        (stats,) = await queue_stats(broker.queues, CALLER)
        assert stats.tally.dead_letters == {"unreadable": 1}
        assert broker.topics.unreadable_batches == {"orders": 1}

    sink = live(SimDisk(1), 1, act, stops=True)
    assert [(event.group, event.offset) for event in sink.of(UnreadableSkipped)] == [("billing", 1)]
    assert [(event.topic, event.offset) for event in sink.of(BatchUnreadable)] == [("orders", 1)]


def test_a_receive_waits_though_only_a_malformed_batch_is_there() -> None:
    async def act(broker: Broker) -> None:
        await _begin(broker)
        await _publish(broker, unreadable_batch())
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await receive_values(broker, wait_ms=20_000) == []
        assert loop.time() - began >= 20
        waiting = asyncio.ensure_future(receive_values(broker, wait_ms=20_000))
        await let_pass(1)
        await publish_values(broker, ["next"])
        assert await waiting == ["next"]

    live(SimDisk(1), 1, act, stops=True)


def test_a_malformed_batch_is_skipped_once_though_the_broker_dies_before_its_letter_is_written() -> None:
    disk = SimDisk(1)

    async def receive(broker: Broker) -> None:
        await _begin(broker)
        await _publish(broker, unreadable_batch())
        await publish_values(broker, ["after"])
        given = await ReceiveSome("billing", ("orders",), "ann", 10, 0, 60_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), AckType.ACK).perform(broker)

    async def look(broker: Broker) -> None:
        letters = await _letters(broker)
        assert [letter.cause.offset for letter in letters] == [0]
        await until(lambda: not flight_states(broker))
        assert await receive_values(broker) == []

    live(disk, 1, receive)
    for seed in (2, 3):
        live(disk, seed, look)


def test_describing_a_queue_counts_what_lies_after_a_batch_that_cannot_be_read() -> None:
    async def act(broker: Broker) -> None:
        await _begin(broker)
        await _publish(broker, unreadable_batch())
        await publish_values(broker, ["after"])
        await peek_queue(broker.queues, CALLER, "billing", "orders", 10)
        await broker.queues.machine("billing")
        await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        await _publish(broker, unreadable_batch())
        view = await describe_queue(broker.queues, CALLER, "billing")
        (partition,) = view.partitions
        assert partition.error is None
        assert partition.backlog == 2

    live(SimDisk(1), 1, act, stops=True)


# -- damage


async def _damage(broker: Broker, disk: SimDisk) -> None:
    await _begin(broker)
    await publish_values(broker, ["first", "second", "third"])
    _flip(disk, b"second")


def test_a_flipped_value_is_not_read_but_reported_with_where_to_go_on() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await _damage(broker, disk)
        read = await read_messages(broker.messages, CALLER, Polls(), "orders", 0, ReadRequest(offset=0))
        assert ([record.value for record in read.records], read.next_offset) == ([b"first"], 1)
        with pytest.raises(UnreadableBatch, match=r"crc.*can go on at offset 2"):
            await read_messages(broker.messages, CALLER, Polls(), "orders", 0, ReadRequest(offset=1))
        read = await read_messages(broker.messages, CALLER, Polls(), "orders", 0, ReadRequest(offset=2))
        assert [record.value for record in read.records] == [b"third"]

    live(disk, 1, act, stops=True)


@pytest.mark.parametrize("byte", range(21, 57))
def test_a_flipped_bit_in_the_header_hides_no_message(byte: int) -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await _begin(broker)
        for value in ("first", "second", "third"):
            await _publish(broker, build_batch([NewRecord(broker.core.clock.now_ms(), None, value.encode())]))
        (path,) = [PurePath(each) for each in disk.tree() if "orders-0/" in each and each.endswith(".log")]
        size = len(build_batch([NewRecord(0, None, b"first")]))
        disk.flip(path, size + byte)
        seen: list[bytes | None] = []
        hints: list[str] = []
        offset = 0
        while offset < 3:
            try:
                read = await read_messages(broker.messages, CALLER, Polls(), "orders", 0, ReadRequest(offset=offset))
            except GoQueueError as error:
                hints.append(error.hint)
                offset = 2
                continue
            seen += [record.value for record in read.records]
            offset = read.next_offset
        assert (seen, hints) == ([b"first", b"third"], ["reading can go on at offset 2"])
        assert await receive_values(broker) == ["first", "third"]
        assert [letter.cause.reason for letter in await _letters(broker)] == ["unreadable"]

    live(disk, 1, act, stops=True)


def test_a_flipped_value_is_never_received_peeked_or_polled() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await _damage(broker, disk)
        peeked = await peek_queue(broker.queues, CALLER, "billing", "orders", 10)
        assert [record.value for _, record in peeked] == [b"first", b"third"]
        assert await receive_values(broker) == ["first", "third"]
        (letter,) = await _letters(broker)
        assert letter.cause.reason == "unreadable"
        assert "crc" in letter.cause.error
        assert letter.record.value is not None
        assert b"second" not in letter.record.value
        # What is stored is what is carried: it is as damaged as it was.
        with pytest.raises(GoQueueError, match="crc"):
            reader.read_records(letter.record.value)

    live(disk, 1, act, stops=True)


def test_without_the_checksum_a_flipped_value_would_reach_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk(1)
    monkeypatch.setattr(reader, "validate", read_header)

    async def act(broker: Broker) -> None:
        await _damage(broker, disk)
        peeked = await peek_queue(broker.queues, CALLER, "billing", "orders", 10)
        assert [record.value for _, record in peeked] == [b"first", b"\x8cecond", b"third"]

    live(disk, 1, act, stops=True)


def test_a_rejected_message_that_was_damaged_since_becomes_a_letter_that_says_so_and_is_not_redriven() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await _begin(broker)
        await _publish(broker, build_batch([NewRecord(broker.core.clock.now_ms(), None, b"second")]))
        given = await ReceiveSome("billing", ("orders",), "ann", 10, 0, 60_000, 0).perform(broker)
        _flip(disk, b"second")
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        (letter,) = await _letters(broker)
        assert letter.cause.reason == "rejected"
        unreadable = _headers(letter)[dead_letters.UNREADABLE_HEADER]
        assert unreadable is not None
        assert b"crc" in unreadable
        await until(lambda: not flight_states(broker))
        await StartRedrive("orders", RedriveTerms()).perform(broker)
        await let_pass(5)
        (job,) = await LookAtRedrives().perform(broker)
        assert job.moves == Moves(failed=1)
        assert "could not be read" in job.error
        assert await receive_values(broker) == []

    live(disk, 1, act, stops=True)


def test_messages_that_wait_to_come_again_become_letters_if_they_are_damaged_meanwhile() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await _begin(broker)
        now_ms = broker.core.clock.now_ms()
        await _publish(broker, build_batch([NewRecord(now_ms, None, value) for value in (b"one", b"two", b"three")]))
        await publish_values(broker, ["after"])
        given = await ReceiveSome("billing", ("orders",), "ann", 3, 0, 60_000, 0).perform(broker)
        _flip(disk, b"two")
        await SettleSome("billing", tuple(given), AckType.NACK, 0).perform(broker)
        assert await receive_values(broker) == ["after"]
        letters = await _letters(broker, 3)
        assert [letter.cause.offset for letter in letters] == [0, 1, 2]
        # The batch is carried by one of them.
        assert [letter.record.value is not None for letter in letters] == [True, False, False]

    live(disk, 1, act, stops=True)


def test_a_batch_that_a_letter_has_no_room_for_is_named_only() -> None:
    async def act(broker: Broker) -> None:
        await _begin(broker)
        await MakeTopic("orders.dlq", 1, (("max.message.bytes", "70000"),)).perform(broker)
        batch = build_batch([NewRecord(1, None, bytes(10_000), [("NAME", b"")])])
        place = batch.index(b"NAME")
        batch[place : place + 4] = b"\xff\xfe\xfd\xfc"
        reseal(batch)
        await _publish(broker, batch)
        assert await receive_values(broker) == []
        (letter,) = await _letters(broker)
        assert letter.record.value is None
        assert _headers(letter)[dead_letters.BATCH_HEADER] == b"0-0"

    live(SimDisk(1), 1, act, stops=True)
