"""Queues whose logs have lost their end with the power: what comes in the place of that is delivered."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.queues import admin as queue_admin
from goqueue.broker.queues import service as queue_service
from goqueue.broker.queues.admin import QueueSeek
from goqueue.broker.queues.service import QueueService
from goqueue.broker.queues.start_positions import retreat_all
from goqueue.broker.topics import admin as topics
from goqueue.machines.queues.values import AckType
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.start_at import StartAt
from goqueue.model.topic import TopicPartition
from goqueue.testing import Fate, SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Letter, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import publish_values, receive_values

PLACE = TopicPartition("orders", 0)
STEPS_MAX = 400_000
NEW = [f"new{number}" for number in range(7)]
LOSING = {"goqueue.flush": "interval", "goqueue.flush.interval.ms": "3600000"}


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _publish_lost(broker: Broker) -> None:
    """Publish one message that is durable, as the first of a log always is, and five that a power loss will take."""
    await publish_values(broker, ["kept"])
    await broker.topics.topic("orders").partition(0).flusher.durable(1)
    await publish_values(broker, [f"old{number}" for number in range(5)])


async def _make_what_is_lost(broker: Broker) -> None:
    """Have a group done with five messages that a power loss will take."""
    await topics.create_topic(broker.topics, CALLER, "orders", partitions=1, config=LOSING)
    await _publish_lost(broker)
    given = await ReceiveSome("billing", ("orders",), "ann", 10, 0, 60_000, 0).perform(broker)
    await SettleSome("billing", tuple(given), AckType.ACK).perform(broker)
    assert len(given) == 6


async def _publish_new(broker: Broker) -> None:
    await publish_values(broker, NEW)


async def _get_new(broker: Broker) -> None:
    assert await receive_values(broker) == NEW


def _leave_no_room(disk: SimDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let groups that have to go back at the next start find no room for that, until the disk is healed."""

    async def without_room(queues: QueueService) -> None:
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", times=None)
        await retreat_all(queues)

    monkeypatch.setattr(queue_service, "retreat_all", without_room)


@pytest.mark.parametrize("has_room", [True, False])
def test_what_is_published_in_the_place_of_lost_messages_is_delivered(
    has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimDisk(1)
    got: list[str] = []

    async def act(broker: Broker) -> None:
        assert broker.topics.topic("orders").partition(0).log.end_offset == 1
        disk.heal()
        # Nobody has received since the start.
        await publish_values(broker, NEW)
        got.extend(await receive_values(broker))

    live(disk, 1, _make_what_is_lost)
    disk.crash(Fate.NONE)
    if not has_room:
        _leave_no_room(disk, monkeypatch)
    live(disk, 1, act)
    assert got == NEW


async def _seek_to_what_is_lost(broker: Broker) -> None:
    """Have a group go on behind five messages that a power loss will take."""
    await topics.create_topic(broker.topics, CALLER, "orders", partitions=1, config=LOSING)
    assert await receive_values(broker) == []
    await _publish_lost(broker)
    await queue_admin.seek_queue(broker.queues, CALLER, "billing", QueueSeek("orders", StartAt.LATEST))


async def _begin_with_what_is_lost(broker: Broker) -> None:
    """Have a group begin behind five messages that a power loss will take."""
    await topics.create_topic(broker.topics, CALLER, "orders", partitions=1, config=LOSING)
    await _publish_lost(broker)
    await SetQueue("billing", QueueSettings(start=StartAt.LATEST)).perform(broker)
    assert await receive_values(broker) == []


@pytest.mark.parametrize("losing", [_make_what_is_lost, _seek_to_what_is_lost, _begin_with_what_is_lost])
@pytest.mark.parametrize("unreadable_starts", [1, 2])
def test_what_came_in_the_place_of_lost_messages_while_the_group_could_not_be_read_is_delivered(
    losing: Callable[[Broker], Awaitable[None]], unreadable_starts: int
) -> None:
    disk = SimDisk(1)
    live(disk, 1, losing)
    for _ in range(unreadable_starts):
        # Each time, the messages are the first of their leader epoch, and nothing is left of it.
        disk.crash(Fate.NONE)
        disk.fail(errno.EIO, operation="open", path="*__deliveries-*/*", times=None)
        live(disk, 1, _publish_new)
    disk.heal()
    disk.kill()
    live(disk, 1, _get_new)


@pytest.mark.seeds(20, long_count=300)
def test_nothing_is_delivered_before_it_is_durable_where_its_group_has_begun(seed: int) -> None:
    disk = SimDisk(seed)
    got: list[str] = []

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await SetQueue("billing", QueueSettings(start=StartAt.LATEST)).perform(broker)
        await publish_values(broker, ["old"])
        tasks = [asyncio.create_task(receive_values(broker, wait_ms=60_000))]
        group = broker.queues.find("billing")
        assert group is not None
        while not group.windows:
            await let_pass(0)
        # The group has begun, but the disk does not know that yet.
        tasks.append(asyncio.create_task(receive_values(broker, wait_ms=60_000)))
        await publish_values(broker, ["new"])
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def go_on(broker: Broker) -> None:
        for _ in range(2):
            got.extend(await receive_values(broker))
            await let_pass(70)

    live(disk, seed, act)
    disk.crash(Fate.NONE)
    live(disk, seed, go_on)
    assert "new" in got


def test_a_group_for_whose_way_back_there_was_no_room_goes_back_after_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk(1)
    live(disk, 1, _make_what_is_lost)
    disk.crash(Fate.NONE)
    with monkeypatch.context() as patch:
        _leave_no_room(disk, patch)
        live(disk, 1, _publish_new)
    disk.heal()
    disk.kill()
    live(disk, 1, _get_new)


def test_messages_that_died_where_the_log_lost_its_end_become_letters_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk(1)

    async def first(broker: Broker) -> None:
        await topics.create_topic(broker.topics, CALLER, "orders", partitions=1, config=LOSING)
        await SetQueue("billing", QueueSettings(retries=0)).perform(broker)

    async def second(broker: Broker) -> None:
        # What comes first after a stop is synced.
        await publish_values(broker, ["kept", "lost"])
        # Both die, and are dead still when the broker has started again.
        disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)
        given = await ReceiveSome("billing", ("orders",), "ann", 10, 0, 3_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        assert len(given) == 2

    async def third(broker: Broker) -> None:
        await let_pass(5)
        assert "No space left" in broker.queues.dead_letter_troubles["billing", PLACE]
        disk.heal()
        await let_pass(5)
        assert broker.queues.dead_letter_troubles == {}
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "kept")]

    live(disk, 1, first, stops=True)
    live(disk, 1, second)
    disk.crash(Fate.NONE)
    disk.heal()
    _leave_no_room(disk, monkeypatch)
    live(disk, 1, third)


@pytest.mark.parametrize("others", [0, 20])
def test_letters_that_are_written_while_groups_go_back_are_delivered(others: int) -> None:
    disk = SimDisk(1)
    got: list[str] = []

    def named(broker: Broker, machine: int, letter: str) -> str:
        names = (f"{letter}{number}" for number in range(100))
        return next(name for name in names if broker.queues._index(name) == machine)

    async def first(broker: Broker) -> None:
        await topics.create_topic(broker.topics, CALLER, "a", partitions=1)
        await topics.create_topic(broker.topics, CALLER, "a.dlq", partitions=1, config=LOSING)
        await SetQueue("any", QueueSettings()).perform(broker)
        busy, failing, reading = named(broker, 0, "b"), named(broker, 1, "f"), named(broker, 1, "r")
        await SetQueue(failing, QueueSettings(retries=0)).perform(broker)
        for number in range(others):
            await topics.create_topic(broker.topics, CALLER, f"lost{number}", partitions=1, config=LOSING)
            await publish_values(broker, ["x"], f"lost{number}")
            await ReceiveSome(busy, (f"lost{number}",), "ann", 10, 0, 60_000, 0).perform(broker)
        await publish_values(broker, ["an old letter"], "a.dlq")
        given = await ReceiveSome(reading, ("a.dlq",), "ann", 10, 0, 60_000, 0).perform(broker)
        await publish_values(broker, ["poison"], "a")
        # It is dead when the broker starts again.
        await ReceiveSome(failing, ("a",), "ann", 10, 0, 20, 0).perform(broker)
        await SettleSome(reading, tuple(given), AckType.ACK).perform(broker)

    async def second(broker: Broker) -> None:
        await let_pass(5)
        wish = ReceiveSome(named(broker, 1, "r"), ("a.dlq",), "ann", 10, 0, 60_000, 0)
        got.extend(given.value for given in await wish.perform(broker))

    live(disk, 1, first, steps_max=STEPS_MAX)
    disk.crash(Fate.NONE)
    live(disk, 1, second, steps_max=STEPS_MAX)
    assert got == ["poison"]
