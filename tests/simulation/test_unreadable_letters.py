"""Batches among dead letters that nobody can open: they are counted, and keep nothing else back."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from goqueue.broker.broker import Broker
from goqueue.broker.dead_letters.browsing import BrowseRequest, browse_dead_letters, list_dead_letters
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.redrives.admin import preview_redrive
from goqueue.errors import GoQueueError
from goqueue.machines.queues.values import AckType
from goqueue.machines.redrives.values import Moves, RedriveTerms
from goqueue.model.dead_letter_selection import Order
from goqueue.model.redrives import RedriveState
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.reader import DECOMPRESSED_BYTES_MAX
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Given, PublishValue, ReceiveSome, SettleSome
from tests.simulation.redrive_calls import LookAtRedrives, StartRedrive, WriteLetter


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def unreadable_batch() -> bytearray:
    """Return two records with a header whose name is no UTF-8."""
    batch = build_batch([NewRecord(1, None, b"v", [("NAME", b"")])] * 2)
    for _ in range(2):
        place = batch.index(b"NAME")
        batch[place : place + 4] = b"\xff\xfe\xfd\xfc"
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return batch


async def _write(broker: Broker) -> None:
    for topic in ("orders", "orders.dlq"):
        await MakeTopic(topic, 1).perform(broker)
    partition = broker.topics.topic("orders.dlq").partition(0)
    for name in ("a", "b"):
        await WriteLetter("orders.dlq", name, "rejected", "orders", 0).perform(broker)
        (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [Section(partition, unreadable_batch())])
        assert not isinstance(outcome, GoQueueError)


def test_letters_beside_those_that_cannot_be_read_are_shown_and_counted() -> None:
    async def act(broker: Broker) -> None:
        await _write(broker)
        for order, expected in ((Order.NEWEST, [b"b", b"a"]), (Order.OLDEST, [b"a", b"b"])):
            page = await browse_dead_letters(broker.dead_letters, CALLER, "orders", BrowseRequest(order=order))
            assert [letter.record.value for letter in page.letters] == expected
            assert (page.unreadable, page.left) == (4, None)
        (count,) = await list_dead_letters(broker.dead_letters, CALLER)
        assert (count.letters, count.unreadable) == (2, 4)

    live(SimDisk(1), 1, act, stops=True)


def test_letters_that_cannot_be_read_fail_in_a_redrive_and_others_are_moved() -> None:
    async def act(broker: Broker) -> None:
        await _write(broker)
        preview = await preview_redrive(broker.redrives, CALLER, "orders", RedriveTerms())
        assert preview.moves == Moves(moved=2, failed=4)
        await StartRedrive("orders", RedriveTerms()).perform(broker)
        await let_pass(5)
        (job,) = await LookAtRedrives().perform(broker)
        assert (job.state, job.moves) == (RedriveState.DONE, Moves(moved=2, failed=4))
        assert "cannot be read" in job.error

    live(SimDisk(1), 1, act, stops=True)


def test_messages_become_letters_beside_those_that_cannot_be_read() -> None:
    async def act(broker: Broker) -> None:
        await _write(broker)
        await PublishValue("orders", "v1", None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(5)
        page = await browse_dead_letters(broker.dead_letters, CALLER, "orders", BrowseRequest())
        assert page.letters[0].record.value == b"v1"

    live(SimDisk(1), 1, act, stops=True)


def test_the_largest_message_that_can_be_delivered_is_so_as_a_letter_and_as_a_copy_of_that() -> None:
    value = bytes(DECOMPRESSED_BYTES_MAX - 24)

    async def receive(broker: Broker, group: str, topic: str) -> list[Given]:
        given = await ReceiveSome(group, (topic,), "ann", 1, 0, 60_000, 0).perform(broker)
        assert [len(each.value) for each in given] == [len(value)]
        return given

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        batch = build_batch([NewRecord(1, None, value)], codec=Codec.ZSTD)
        section = Section(broker.topics.topic("orders").partition(0), batch)
        (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [section])
        assert not isinstance(outcome, GoQueueError)
        given = await receive(broker, "billing", "orders")
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(2)
        await receive(broker, "triage", "orders.dlq")
        await StartRedrive("orders.dlq", RedriveTerms()).perform(broker)
        await let_pass(5)
        await receive(broker, "billing", "orders")

    live(SimDisk(1), 1, act, stops=True)
