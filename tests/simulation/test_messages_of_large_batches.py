"""Messages that are wanted one by one, out of large batches: each batch is opened once, and others have their turns."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import PurePath
from typing import NamedTuple

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.queues.candidates import find_candidates
from goqueue.errors import GoQueueError
from goqueue.machines.queues.values import AckType
from goqueue.model.queue_settings import QueueSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import HEADER_BYTES
from goqueue.runtime.partition import Partition
from goqueue.testing import SimDisk
from goqueue.testing.loop import SimLoop
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Given, ReadLetters, ReceiveSome, SetQueue, SettleSome


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


class Reading(NamedTuple):
    """A batch that was read for one of its messages, and in which step of the loop."""

    offset: int
    step: int


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Reading]:
    """What is read of `orders` for single messages."""
    found: list[Reading] = []
    real = Partition.read

    def read(partition: Partition, offset: int, *, bytes_max: int, is_committed_only: bool = False) -> bytes:
        if partition.topic == "orders" and bytes_max == 1:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimLoop)
            found.append(Reading(offset, loop.steps))
        return real(partition, offset, bytes_max=bytes_max, is_committed_only=is_committed_only)

    monkeypatch.setattr(Partition, "read", read)
    return found


async def _receive(broker: Broker, batches: int, messages: int) -> list[Given]:
    """Return the messages of some batches, all of them leased."""
    await MakeTopic("orders", 1).perform(broker)
    partition = broker.topics.topic("orders").partition(0)
    for _ in range(batches):
        batch = build_batch([NewRecord(1, None, b"v")] * messages)
        (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [Section(partition, batch)])
        assert not isinstance(outcome, GoQueueError)
    await SetQueue("billing", QueueSettings(breaker_ratio=1)).perform(broker)
    return await ReceiveSome("billing", ("orders",), "ann", batches * messages, 0, 60_000, 0).perform(broker)


def test_a_batch_is_opened_once_for_all_its_messages_that_have_died(readings: list[Reading]) -> None:
    async def act(broker: Broker) -> None:
        given = await _receive(broker, 2, 300)
        # In turn one of either batch.
        mixed = [each for pair in zip(given[:300], given[300:], strict=True) for each in pair]
        await SettleSome("billing", tuple(mixed), AckType.REJECT).perform(broker)
        await let_pass(10)
        assert len(await ReadLetters("orders.dlq").perform(broker)) == 600

    live(SimDisk(1), 1, act, stops=True, steps_max=100_000)
    assert len(readings) == 2


def test_an_unreadable_batch_is_read_twice_for_all_its_messages_that_have_died(
    readings: list[Reading],
) -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        given = await _receive(broker, 1, 50)
        (path,) = [PurePath(each) for each in disk.tree() if "orders-0/" in each and each.endswith(".log")]
        # The length of the first record.
        disk.flip(path, HEADER_BYTES)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(0.5)

    live(disk, 1, act)
    # Once to open it, and once for the dead letter that carries it.
    assert len(readings) == 2


def test_others_have_a_turn_between_two_batches_of_dead_messages(readings: list[Reading]) -> None:
    async def act(broker: Broker) -> None:
        given = await _receive(broker, 50, 10)
        await SettleSome("billing", tuple(given[::10]), AckType.REJECT).perform(broker)
        await let_pass(10)

    live(SimDisk(1), 1, act, stops=True, steps_max=100_000)
    assert len(readings) == 50
    assert all(one.step < other.step for one, other in pairwise(readings))


def test_a_batch_is_opened_once_for_all_its_messages_that_are_ready_again(readings: list[Reading]) -> None:
    again: list[int] = []

    async def act(broker: Broker) -> None:
        given = await _receive(broker, 2, 50)
        mixed = [each for pair in zip(given[50:], given[:50], strict=True) for each in pair]
        for each in mixed:
            await SettleSome("billing", (each,), AckType.NACK, 0).perform(broker)
        readings.clear()
        again.extend(each.offset for each in await _receive_again(broker, 100))

    live(SimDisk(1), 1, act, stops=True)
    # The batch of the one that was ready first, then the other.
    assert again == [*range(50, 100), *range(50)]
    assert len(readings) == 2


def test_who_takes_some_of_what_is_ready_again_gets_the_oldest_and_those_that_lie_beside_it(
    readings: list[Reading],
) -> None:
    async def act(broker: Broker) -> None:
        given = await _receive(broker, 20, 50)
        mixed = [given[number * 377 % 1000] for number in range(1000)]
        await SettleSome("billing", tuple(mixed), AckType.NACK, 0).perform(broker)
        readings.clear()
        seen: set[int] = set()
        for _ in range(20):
            oldest = next(each.offset for each in mixed if each.offset not in seen)
            received = [each.offset for each in await _receive_again(broker, 50)]
            assert received[0] == oldest
            assert {each // 50 for each in received} == {oldest // 50}
            seen.update(received)
        assert len(seen) == 1000

    live(SimDisk(1), 1, act, stops=True)
    assert len(readings) == 20


def test_what_is_ready_again_is_offered_once_though_its_batch_is_opened_again() -> None:
    async def act(broker: Broker) -> None:
        given = await _receive(broker, 1, 1000)
        for some in (given[500:], given[:500]):
            await SettleSome("billing", tuple(some), AckType.EXTEND, 0).perform(broker)
        group, partition = broker.queues.find("billing"), broker.topics.topic("orders").partition(0)
        assert group is not None
        # So few bytes that what lies beside the first one cannot all be kept.
        seen = find_candidates(
            partition, group.windows[partition.place], broker.queues.stretches, 10_000, 2_000, is_ordered=False
        )
        assert len(seen.offer.again) == len(set(seen.offer.again)) == 1000

    live(SimDisk(1), 1, act, stops=True)


async def _receive_again(broker: Broker, limit: int) -> list[Given]:
    return await ReceiveSome("billing", ("orders",), "ann", limit, 0, 60_000, 0).perform(broker)
