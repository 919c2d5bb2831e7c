"""Receives among damage and limits: what cannot be delivered, or not at once, keeps nobody from the rest."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import PurePath

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.queues.receive_and_settle import settle
from goqueue.broker.queues.settling import Settlement
from goqueue.errors import GoQueueError, StaleReceipt
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.model.queue_settings import QueueSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import HEADER_BYTES
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import live, shrink
from tests.simulation.queue_calls import Given, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import flight_states, until

CHUNK = 256


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _publish(broker: Broker, *batches: int) -> None:
    """Publish batches of so many messages each."""
    await MakeTopic("orders", 1).perform(broker)
    partition = broker.topics.topic("orders").partition(0)
    for count in batches:
        section = Section(partition, build_batch([NewRecord(broker.core.clock.now_ms(), None, b"v")] * count))
        (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [section])
        assert not isinstance(outcome, GoQueueError)
    await SetQueue("billing", QueueSettings(in_flight_max=10_000)).perform(broker)


async def _receive(broker: Broker, limit: int) -> list[Given]:
    return await ReceiveSome("billing", ("orders",), "ann", limit, 0, 60_000, 0).perform(broker)


def _let_decisions_be_small(broker: Broker) -> None:
    for index in range(broker.topics.partition_count("__deliveries")):
        partition = broker.topics.topic("__deliveries").partition(index)
        small = replace(partition.settings.log, max_message_bytes=5_000)
        partition.settings = replace(partition.settings, log=small)


def _damage(disk: SimDisk) -> None:
    (path,) = [PurePath(each) for each in disk.tree() if "orders-0/" in each and each.endswith(".log")]
    disk.flip(path, HEADER_BYTES)


@pytest.mark.parametrize("limit", [1, 100])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_messages_that_come_again_and_cannot_be_read_keep_no_other_back(limit: int, is_restarted: bool) -> None:
    disk = SimDisk(1)
    seen: list[int] = []

    async def act(broker: Broker) -> None:
        await _publish(broker, 20, 3, 2)
        await SettleSome("billing", tuple(await _receive(broker, 23)), AckType.NACK, 0).perform(broker)
        if not is_restarted:
            _damage(disk)
            await go_on(broker)

    async def go_on(broker: Broker) -> None:
        async with asyncio.timeout(60):
            while len(seen) < 5:
                seen.extend(each.offset for each in await _receive(broker, limit))
        # Those that cannot be read are dead letters by then.
        while FlightState.READY in flight_states(broker):
            assert not await _receive(broker, limit)
        await until(lambda: FlightState.DEAD not in flight_states(broker))
        assert len(await ReadLetters("orders.dlq").perform(broker)) == 20

    live(disk, 1, act, stops=True)
    if is_restarted:
        _damage(disk)
        live(disk, 2, go_on, stops=True)
    assert seen == [20, 21, 22, 23, 24]


def test_fewer_messages_come_if_what_is_known_of_many_is_too_large_to_be_stored_at_once() -> None:
    async def act(broker: Broker) -> None:
        await _publish(broker, *[1, 1, 1, CHUNK - 3] * 4)
        given = await _receive(broker, 4 * CHUNK)
        await SettleSome("billing", tuple(each for each in given if each.offset % CHUNK > 2), AckType.ACK).perform(
            broker
        )
        failed = [given[chunk * CHUNK + number] for number in range(3) for chunk in range(4)]
        for each in failed:
            reason = f"{each.offset} {'x' * 1000}"
            await settle(broker.queues, CALLER, [each.receipt], Settlement(AckType.NACK, 0, reason))
        _let_decisions_be_small(broker)
        seen: list[int] = []
        while more := await _receive(broker, 4):
            seen += [each.offset for each in more]
        assert seen == [each.offset for each in failed]

    live(SimDisk(1), 1, act, stops=True)


def test_messages_are_settled_in_parts_if_what_is_known_of_those_around_them_is_too_large() -> None:
    async def act(broker: Broker) -> None:
        await _publish(broker, *[CHUNK] * 4)
        given = await _receive(broker, 4 * CHUNK)
        for number, each in enumerate(
            given[offset] for chunk in range(4) for offset in range(chunk * CHUNK, chunk * CHUNK + 3)
        ):
            reason = f"{number} {'x' * 1000}"
            await settle(broker.queues, CALLER, [each.receipt], Settlement(AckType.NACK, 60_000, reason))
        _let_decisions_be_small(broker)
        # One of each chunk, and one that is nobody's any more.
        some = [given[chunk * CHUNK + 10] for chunk in range(4)]
        receipts = [given[0].receipt, *[each.receipt for each in some]]
        stale, *others = await settle(broker.queues, CALLER, receipts, Settlement(AckType.NACK, 0, "no luck"))
        assert isinstance(stale, StaleReceipt)
        assert [getattr(each, "state", None) for each in others] == [FlightState.READY] * 4
        seen = [each.offset for _ in some for each in await _receive(broker, 1)]
        assert seen == [each.offset for each in some]

    live(SimDisk(1), 1, act, stops=True)
