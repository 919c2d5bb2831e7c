"""Transactions that a crash leaves open in a partition, and unknown to any coordinator, end when the broker starts."""

from __future__ import annotations

import asyncio
import errno
from pathlib import PurePath

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.events import DoubtfulTransaction, HangingTransaction
from goqueue.errors import CoordinatorUnavailable, InvalidTransactionState
from goqueue.machines.transactions.values import ProducerEpoch
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord, build_batch
from goqueue.testing import Fate, SimDisk
from tests.simulation.group_calls import MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.txn_calls import AddPartition, End, FindEnds, InitProducer, ReadAll, Send

PLACE = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _make(broker: Broker) -> ProducerEpoch:
    await MakeTopic("orders", 1).perform(broker)
    return await InitProducer("one", 1_000).perform(broker)


async def _write_unknown(broker: Broker) -> None:
    """Let a partition have records of a transaction that no coordinator knows of."""
    me = await _make(broker)
    batch = build_batch(
        [NewRecord(broker.core.clock.now_ms(), None, b"x")],
        producer_id=me.producer_id,
        producer_epoch=me.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    partition = broker.topics.topic(PLACE.topic).partition(PLACE.partition)
    partition.append([batch], is_transactional=True)
    await partition.committed(1)


async def _hurry(broker: Broker) -> None:
    """Send as soon as the coordinator has decided that the partition is part of the transaction, and be gone."""
    me = await _make(broker)
    adding = asyncio.create_task(AddPartition("x", "one", me, PLACE).perform(broker))
    while not adding.done():
        try:
            await Send("x", "one", me, PLACE, 0, (b"x",)).perform(broker)
            return
        except InvalidTransactionState:
            await let_pass(0.0001)


async def _expect_an_end(broker: Broker) -> None:
    await let_pass(3)
    stable, high_watermark, end = await FindEnds(PLACE).perform(broker)
    assert stable == high_watermark == end
    assert (await ReadAll(PLACE, is_committed_only=True).perform(broker)).records == ()


def test_records_of_a_transaction_that_nobody_knows_are_aborted_at_the_start() -> None:
    disk = SimDisk(1)
    live(disk, 1, _write_unknown)
    disk.crash(Fate.NONE)
    (aborted,) = live(disk, 0, _expect_an_end, stops=True).of(HangingTransaction)
    assert (aborted.topic, aborted.partition) == PLACE


def test_nothing_is_written_before_it_is_durable_that_it_belongs_to_a_transaction() -> None:
    """A producer that does not wait until it is told that a partition is part of its transaction."""
    for seed in range(20):
        disk = SimDisk(seed)
        live(disk, seed, _hurry)
        disk.crash(Fate.NONE)
        assert live(disk, 0, _expect_an_end, stops=True).of(HangingTransaction) == []


def test_no_marker_is_written_before_it_is_durable_how_the_transaction_ends() -> None:
    """Also if somebody looks for transactions to be ended just when that is decided."""

    async def end(broker: Broker) -> None:
        me = await _make(broker)
        await Send("x", "one", me, PLACE, 0, (b"x",), adds_partition=True).perform(broker)
        ending = asyncio.create_task(End("x", "one", me, is_commit=True, bumps=True).perform(broker))
        records = broker.topics.topic("orders").partition(0).log
        decisions = [partition for partition in broker.topics.partitions if partition.topic == "__transactions"]
        while records.end_offset == 1:
            broker.transactions.markers.look_at_all()
            await let_pass(0.0001)
        assert all(each.high_watermark == each.log.end_offset for each in decisions)
        await ending

    for seed in range(10):
        live(SimDisk(seed), seed, end, stops=True)


def test_nothing_is_written_on_the_word_of_a_coordinator_that_cannot_keep_it() -> None:
    disk = SimDisk(1)

    async def send(broker: Broker) -> None:
        me = await _make(broker)
        disk.fail(errno.EIO, operation="sync", path="__transactions-*/*.log")
        for _ in range(2):
            with pytest.raises(CoordinatorUnavailable):
                await Send("x", "one", me, PLACE, 0, (b"x",), adds_partition=True).perform(broker)

    async def expect_nothing(broker: Broker) -> None:
        assert (await FindEnds(PLACE).perform(broker)).end_offset == 0

    live(disk, 1, send)
    disk.crash(Fate.NONE)
    assert live(disk, 2, expect_nothing, stops=True).of(HangingTransaction) == []


def test_committed_records_whose_marker_is_damaged_are_not_aborted_at_the_start() -> None:
    disk = SimDisk(1)

    async def commit(broker: Broker) -> None:
        me = await _make(broker)
        await Send("x", "one", me, PLACE, 0, (b"x",), adds_partition=True).perform(broker)
        await End("x", "one", me, is_commit=True, bumps=True).perform(broker)

    async def expect_no_marker(broker: Broker) -> None:
        await let_pass(3)
        assert await FindEnds(PLACE).perform(broker) == (0, 2, 2)

    live(disk, 1, commit)
    disk.kill()
    log = PurePath("data/orders-0/00000000000000000000.log")
    disk.flip(log, len(disk.read_file(log)) - 1)
    # The first start finds the damage, the second one has it from the index file.
    for start in range(2):
        sink = live(disk, start, expect_no_marker, stops=True)
        assert sink.of(HangingTransaction) == []
        (left,) = sink.of(DoubtfulTransaction)
        assert (left.topic, left.partition, left.first_offset) == (*PLACE, 0)
