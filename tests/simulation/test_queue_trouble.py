"""Queues in trouble: topics that are made anew, disks that take nothing for a moment, messages that go."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from typing import Any

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.messages.produce import Acks
from goqueue.broker.messages.publish import NewMessage, PartitionTurns, publish_messages
from goqueue.broker.topics import admin as topics
from goqueue.errors import CoordinatorUnavailable, DiskFull, Unavailable, UnknownTopic
from goqueue.machines.queues.commands import DeleteQueue
from goqueue.machines.queues.values import AckType
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.model.topic import TopicPartition
from goqueue.runtime.request_batcher import RequestBatcher
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, GrowTopic, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Given, PublishValue, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import publish_values, receive_values
from tests.simulation.txn_calls import End, InitProducer, ReadAll, Send

PLACE = TopicPartition("orders", 0)
STEPS_MAX = 400_000


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _abort_much(broker: Broker, count: int, place: TopicPartition = PLACE) -> None:
    """Write so much in a transaction that is aborted that several looks pass nothing else."""
    who = await InitProducer("tx", 60_000).perform(broker)
    for number in range(count):
        await Send("t.1", "tx", who, place, number, (b"x" * 1500,), adds_partition=True).perform(broker)
    await End("t.1", "tx", who, is_commit=False, bumps=True).perform(broker)


@pytest.mark.seeds(5, long_count=100)
def test_a_consumer_that_hangs_up_while_its_group_begins_with_a_topic_gets_no_lease(seed: int) -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await MakeTopic("other", 1).perform(broker)
        await publish_values(broker, ["v"])
        await receive_values(broker, "other")
        hasty = asyncio.ensure_future(receive_values(broker, wait_ms=5_000))
        real = broker.queues.submit
        begun = asyncio.Event()

        async def submit(name: str, command: Any) -> Any:
            begun.set()
            return await real(name, command)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker.queues, "submit", submit)
            await begun.wait()
            hasty.cancel()
            await let_pass(1)
        (group,) = [group for machine in broker.queues.machines for group in machine.groups.values()]
        assert group.leases == {}
        assert await receive_values(broker) == ["v"]

    live(SimDisk(seed), seed, act)


@pytest.mark.seeds(10, long_count=100)
def test_settings_hold_though_somebody_receives_at_the_same_moment(seed: int) -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        # Both find no group; the topic of all groups has to be made first.
        await asyncio.gather(SetQueue("billing", QueueSettings(retries=7)).perform(broker), receive_values(broker))
        (group,) = [group for machine in broker.queues.machines for group in machine.groups.values()]
        assert group.settings.retries == 7

    live(SimDisk(seed), seed, act)


def test_who_shares_a_round_gets_what_is_ready_again_though_others_had_all_that_it_may_bring() -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await publish_values(broker, ["x" * 900_000] * 20)
        given: list[Given] = []
        while found := await ReceiveSome("billing", ("orders",), "ann", 20, 0, 60_000, 0).perform(broker):
            given += found
        await SettleSome("billing", tuple(given), AckType.NACK, 0).perform(broker)
        found_by_each = await asyncio.gather(*(receive_values(broker, limit=10) for _ in range(2)))
        assert 0 not in map(len, found_by_each)

    live(SimDisk(1), 1, act)


def test_queue_group_is_refused_while_its_topic_takes_no_writes() -> None:
    disk = SimDisk(1)

    async def fail(broker: Broker) -> None:
        disk.fail(errno.EIO, operation="open", path="__deliveries-*/*", times=None)
        disk.fail(errno.EIO, operation="sync_directory", path="data", times=None)
        with pytest.raises(Unavailable):
            await SetQueue("billing", QueueSettings()).perform(broker)
        with pytest.raises(CoordinatorUnavailable, match="takes no writes"):
            await SetQueue("billing", QueueSettings()).perform(broker)

    async def act(broker: Broker) -> None:
        await SetQueue("billing", QueueSettings()).perform(broker)

    live(disk, 1, fail)
    disk.heal()
    disk.kill()
    live(disk, 1, act)


def test_a_lease_that_cannot_be_written_is_none() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await SetQueue("billing", QueueSettings(retries=0)).perform(broker)
        assert await receive_values(broker) == []
        await publish_values(broker, ["v1"])
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log")
        with pytest.raises(DiskFull):
            await receive_values(broker)
        (given,) = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        assert (given.value, given.deliveries) == ("v1", 1)

    live(disk, 1, act)


def test_aborted_messages_are_not_delivered_though_compaction_has_removed_what_tells_of_them() -> None:
    got: list[str] = []

    async def act(broker: Broker) -> None:
        config = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"}
        config["delete.retention.ms"] = "0"
        await topics.create_topic(broker.topics, CALLER, "orders", partitions=1, config=config)
        await PublishValue("orders", "plain0", "p0").perform(broker)
        await PublishValue("orders", "plain1", "p1").perform(broker)
        who = await InitProducer("tx", 60_000).perform(broker)
        await Send("t.1", "tx", who, PLACE, 0, (b"aborted",), adds_partition=True).perform(broker)
        await End("t.1", "tx", who, is_commit=False, bumps=True).perform(broker)
        # What is read together with the first message is kept for whoever comes next.
        got.extend(await receive_values(broker, limit=1))
        who = await InitProducer("tx", 60_000).perform(broker)
        await Send("t.2", "tx", who, PLACE, 0, (b"committed",), adds_partition=True).perform(broker)
        await End("t.2", "tx", who, is_commit=True, bumps=True).perform(broker)
        for number in range(60):
            await PublishValue("orders", f"more{number}", f"m{number % 3}").perform(broker)
            await let_pass(3 if number % 10 == 0 else 0)
        await let_pass(5)
        while found := await receive_values(broker, limit=1):
            got.extend(found)
        seen = await ReadAll(PLACE, True).perform(broker)
        assert [value for _, value in seen.records if value == b"aborted"] == []

    live(SimDisk(1), 1, act, steps_max=STEPS_MAX)
    assert got[:3] == ["plain0", "plain1", "committed"]


def test_who_waits_hears_that_a_message_is_gone_from_the_log_for_which_the_next_of_its_key_waits() -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await SetQueue("billing", QueueSettings(ordering=Ordering.KEY)).perform(broker)
        for value in ("first", "second"):
            await PublishValue("orders", value, "k").perform(broker)
        assert await receive_values(broker) == ["first"]
        waiting = asyncio.create_task(receive_values(broker, wait_ms=50_000))
        await let_pass(1)
        await broker.topics.topic("orders").partition(0).delete_before(1)
        async with asyncio.timeout(1):
            assert await waiting == ["second"]

    live(SimDisk(1), 1, act, stops=True)


def test_who_waits_hears_of_what_retention_has_taken_though_the_next_flush_is_not_due_for_long() -> None:
    config = {"goqueue.flush": "interval", "goqueue.flush.interval.ms": "50000"}
    config |= {"retention.ms": "60000", "segment.bytes": "1024"}

    async def act(broker: Broker) -> None:
        await topics.create_topic(broker.topics, CALLER, "orders", partitions=1, config=config)
        await SetQueue("billing", QueueSettings(ordering=Ordering.KEY)).perform(broker)
        first = "first" * 500
        await PublishValue("orders", first, "k").perform(broker)
        await let_pass(30)
        await PublishValue("orders", "second", "k").perform(broker)
        assert await receive_values(broker) == [first]
        async with asyncio.timeout(35):
            assert await receive_values(broker, wait_ms=50_000) == ["second"]

    live(SimDisk(1), 1, act, stops=True)


def test_who_got_nothing_gets_what_there_is_for_a_group_that_was_made_anew_and_looks_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        assert await receive_values(broker) == []
        await publish_values(broker, ["only"])
        real = broker.queues.receives._carry_out

        async def deleting(*args: Any) -> Any:
            told = await real(*args)
            monkeypatch.undo()
            # The operation is refused while somebody receives.
            await broker.queues.submit("billing", DeleteQueue("billing"))
            return told

        monkeypatch.setattr(broker.queues.receives, "_carry_out", deleting)
        async with asyncio.timeout(5):
            # Both look together, and the first one gets it.
            got = await asyncio.gather(*[receive_values(broker, wait_ms=50_000) for _ in range(2)])
        assert got == [["only"], ["only"]]

    live(SimDisk(1), 1, act, stops=True)


def _slow_down(patch: pytest.MonkeyPatch) -> None:
    """Let some time pass before each look: turns of the loop take none in a simulation."""
    real = RequestBatcher.join

    async def join(*args: Any, is_alone: bool = False) -> Any:
        await let_pass(0.01)
        return await real(*args, is_alone=is_alone)

    patch.setattr(RequestBatcher, "join", join)


@pytest.mark.seeds(10, long_count=500)
def test_a_topic_that_is_made_anew_while_somebody_receives_loses_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await MakeTopic("aborted", 1).perform(broker)
        assert await receive_values(broker, "orders", "aborted") == []
        await publish_values(broker, [f"old{number}" for number in range(10)])
        await receive_values(broker)
        await broker.topics.topic("orders").partition(0).delete_before(10)
        await _abort_much(broker, 300, TopicPartition("aborted", 0))

        async def anew() -> None:
            await let_pass(0.05)
            await topics.delete_topic(broker.topics, CALLER, "orders")
            await MakeTopic("orders", 1).perform(broker)
            await publish_values(broker, [f"new{number}" for number in range(5)])

        got: list[str] = []
        _slow_down(monkeypatch)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(anew())
            # It may come in the moment in which there is no such topic.
            with suppress(UnknownTopic):
                got += await receive_values(broker, "orders", "aborted", limit=1, wait_ms=5_000)
        got += await receive_values(broker)
        assert sorted(got) == [f"new{number}" for number in range(5)]

    live(SimDisk(seed), seed, act, steps_max=STEPS_MAX)


@pytest.mark.seeds(10, long_count=500)
def test_a_partition_that_is_added_while_somebody_receives_is_heard_of(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        assert await receive_values(broker) == []
        await _abort_much(broker, 300)

        async def grow() -> None:
            await let_pass(0.05)
            await GrowTopic("orders", 2).perform(broker)
            await let_pass(1)
            message = NewMessage(None, b"hello", partition=1)
            await publish_messages(broker.messages, CALLER, PartitionTurns(), "orders", [message], Acks.ALL)

        _slow_down(monkeypatch)
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            tasks.create_task(grow())
            assert await receive_values(broker, wait_ms=60_000) == ["hello"]

    live(SimDisk(seed), seed, act, steps_max=STEPS_MAX)
