"""Letters that were sent to a log that went offline: there is one of each in the end, on the disk."""

from __future__ import annotations

import errno

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.topics.admin import create_topic, delete_topic
from goqueue.machines.groups.offsets import NO_EPOCH
from goqueue.machines.queues.commands import Seek
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Given, Letter, PublishValue, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import flight_states, until


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _send_a_letter_to_a_log_that_goes_offline(broker: Broker, disk: SimDisk) -> None:
    for topic in ("orders", "orders.dlq"):
        await MakeTopic(topic, 1).perform(broker)
    await PublishValue("orders", "v1", None).perform(broker)
    given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
    disk.fail(errno.EIO, operation="sync", path="*orders.dlq-0/*.log")
    await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
    await let_pass(5)
    await SetQueue("billing", QueueSettings(dead_letters="graves")).perform(broker)
    await let_pass(5)
    assert flight_states(broker) == [FlightState.DEAD]


@pytest.mark.seeds(5, long_count=100)
def test_a_letter_is_written_once_though_it_was_sent_to_a_log_that_went_offline(seed: int) -> None:
    disk = SimDisk(seed)

    async def act(broker: Broker) -> None:
        await _send_a_letter_to_a_log_that_goes_offline(broker, disk)

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        letters = [letter for home in ("orders.dlq", "graves") for letter in await ReadLetters(home).perform(broker)]
        assert letters == [Letter("billing", "v1")]

    live(disk, seed, act)
    disk.kill()
    live(disk, seed, go_on, stops=True)


@pytest.mark.seeds(5, long_count=100)
@pytest.mark.parametrize("goes_offline", [False, True])
def test_a_letter_is_on_the_disk_before_its_message_is_done_though_its_topic_is_flushed_now_and_then(
    seed: int, goes_offline: bool
) -> None:
    disk = SimDisk(seed)
    config = {"goqueue.flush": "interval", "goqueue.flush.interval.ms": "60000"}

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await create_topic(broker.topics, CALLER, "orders.dlq", partitions=1, config=config)
        for value in ("v1", "v2"):
            await PublishValue("orders", value, None).perform(broker)
            given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
            if goes_offline and value == "v2":
                disk.fail(errno.EIO, operation="sync", path="*orders.dlq-0/*.log")
            await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
            await let_pass(5)
        assert flight_states(broker) == ([FlightState.DEAD] if goes_offline else [])

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        letters = await ReadLetters("orders.dlq").perform(broker)
        assert letters == [Letter("billing", value) for value in ("v1", "v2")]

    live(disk, seed, act)
    disk.crash()
    live(disk, seed, go_on, stops=True)


def test_a_letter_that_was_sent_to_a_log_that_went_offline_is_written_elsewhere_if_its_topic_is_deleted() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await _send_a_letter_to_a_log_that_goes_offline(broker, disk)
        await delete_topic(broker.topics, CALLER, "orders.dlq")
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("graves").perform(broker) == [Letter("billing", "v1")]

    live(disk, 1, act)


def test_a_message_that_is_delivered_again_and_dies_again_waits_for_no_letter_of_its_death_before() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await _send_a_letter_to_a_log_that_goes_offline(broker, disk)
        await broker.queues.submit("billing", Seek("billing", TopicPartition("orders", 0), 0, NO_EPOCH))
        given = await ReceiveSome("billing", ("orders",), "bob", 1, 0, 60_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("graves").perform(broker) == [Letter("billing", "v1")]

    live(disk, 1, act)


def test_a_letter_that_was_never_sent_waits_for_no_log_that_went_offline() -> None:
    disk = SimDisk(1)
    given: list[Given] = []

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await MakeTopic("orders.dlq", 1, (("goqueue.flush", "interval"),)).perform(broker)
        await PublishValue("orders", "v1", None).perform(broker)
        given.extend(await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker))

    async def go_on(broker: Broker) -> None:
        partition = broker.topics.topic("orders.dlq").partition(0)
        await PublishValue("orders.dlq", "durable", None).perform(broker)
        disk.fail(errno.EIO, operation="sync", path="*orders.dlq-0/*.log")
        await PublishValue("orders.dlq", "lost", None).perform(broker)
        await until(lambda: bool(partition.log.fault))
        assert partition.log.durable_end < partition.high_watermark
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(5)
        assert flight_states(broker) == [FlightState.DEAD]
        await SetQueue("billing", QueueSettings(dead_letters="graves")).perform(broker)
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("graves").perform(broker) == [Letter("billing", "v1")]

    live(disk, 1, act)
    live(disk, 2, go_on)


def test_a_letter_is_found_in_a_log_that_went_offline_behind_it() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await MakeTopic("orders.dlq", 1, (("goqueue.flush", "interval"),)).perform(broker)
        partition = broker.topics.topic("orders.dlq").partition(0)
        await PublishValue("orders", "v1", None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=2, times=None)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await until(lambda: partition.log.durable_end == 1)
        disk.fail(errno.EIO, operation="sync", path="*orders.dlq-0/*.log")
        await PublishValue("orders.dlq", "lost", None).perform(broker)
        await until(lambda: bool(partition.log.fault))
        assert partition.log.durable_end < partition.high_watermark
        disk.heal()
        await until(lambda: flight_states(broker) == [])

    live(disk, 1, act)
