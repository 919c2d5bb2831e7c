"""What groups need of a broker that starts again, and of a disk that does not serve them well."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from pathlib import PurePath

import pytest

from goqueue.broker.broker import Broker
from goqueue.errors import CoordinatorUnavailable, LogOffline
from goqueue.machines.groups.classic.values import Join, Protocol
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.consumer.values import ConsumerHeartbeat
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.model.topic import TopicPartition
from goqueue.records.layout import HEADER_BYTES
from goqueue.testing import SimDisk
from tests.simulation.group_calls import DeleteTopic, FetchOffsets, MakeTopic, perform
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.txn_calls import AddPartition, InitProducer

FIRST = TopicPartition("orders", 0)
GROUPS = ("a", "b", "c", "d")


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def test_a_topic_that_was_being_made_in_a_crash_is_noticed_by_groups_that_wait_for_it() -> None:
    disk = SimDisk(1)
    member = ConsumerHeartbeat(group="g", member_id="m", epoch=0, topics=frozenset({"orders"}), owned=frozenset())

    async def join(broker: Broker) -> None:
        reply = await perform(broker, member)
        assert reply.assignment == frozenset()  # type: ignore[attr-defined]
        making = asyncio.create_task(MakeTopic("orders", 1).perform(broker))
        while "orders" not in {topic.name for topic in broker.topics.catalog.topics}:
            await let_pass(0)
        making.cancel()

    async def go_on(broker: Broker) -> None:
        reply = await perform(broker, ConsumerHeartbeat(group="g", member_id="m", epoch=1, owned=frozenset()))
        assert reply.assignment == {FIRST}  # type: ignore[attr-defined]

    live(disk, 1, join)
    disk.kill()
    live(disk, 2, go_on, stops=True)


def test_offsets_of_a_deleted_topic_are_not_inherited_though_a_log_of_groups_cannot_be_opened() -> None:
    disk = SimDisk(1)

    async def commit(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        for group in GROUPS:
            await perform(broker, CommitOffsets(group=group, offsets=[NewOffset(FIRST, CommittedOffset(7))]))

    async def delete(broker: Broker) -> None:
        with pytest.raises(CoordinatorUnavailable):
            await DeleteTopic("orders").perform(broker)

    async def make_again(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        for group in GROUPS:
            assert await FetchOffsets(group, (FIRST,)).perform(broker) == {FIRST: None}

    live(disk, 1, commit, stops=True)
    disk.fail(errno.EIO, operation="open", path="__consumer_offsets-1/*", times=None)
    live(disk, 2, delete)
    disk.heal()
    disk.kill()
    live(disk, 3, make_again, stops=True)


def test_a_damaged_log_of_groups_keeps_no_name_of_a_topic() -> None:
    disk = SimDisk(1)

    async def commit(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        for group in GROUPS:
            await perform(broker, CommitOffsets(group=group, offsets=[NewOffset(FIRST, CommittedOffset(7))]))

    async def make_anew(broker: Broker) -> None:
        assert not broker.groups.is_whole
        await DeleteTopic("orders").perform(broker)
        await MakeTopic("orders", 1).perform(broker)
        found = []
        for group in GROUPS:
            with suppress(CoordinatorUnavailable):
                found.append(await FetchOffsets(group, (FIRST,)).perform(broker))
        assert 0 < len(found) < len(GROUPS)
        assert found == [{FIRST: None}] * len(found)

    live(disk, 1, commit, stops=True)
    (path,) = [
        path
        for name in disk.list_directory(PurePath("data/__consumer_offsets-1"))
        if (path := PurePath("data/__consumer_offsets-1", name)).suffix == ".log"
    ]
    disk.flip(path, HEADER_BYTES + 4, 0x01)
    live(disk, 2, make_anew, stops=True)


def test_what_is_due_is_not_tried_all_the_time_while_the_log_takes_nothing() -> None:
    disk = SimDisk(1)

    async def wait(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        me = await InitProducer("one", 1_000).perform(broker)
        await AddPartition("x", "one", me, FIRST).perform(broker)
        disk.fail(errno.EIO, operation="write", path="__transactions-*/*.log")
        with pytest.raises(CoordinatorUnavailable):
            await InitProducer("one", 1_000, me).perform(broker)
        # The simulation ends with an error if that takes too many steps.
        await let_pass(60)

    live(disk, 1, wait)


def test_who_waits_in_a_round_is_told_when_the_log_goes_offline() -> None:
    disk = SimDisk(1)

    def join(name: str) -> Join:
        protocols = (Protocol("range", b""),)
        return Join(group="g", member_id="", new_id=name, protocol_type="consumer", protocols=protocols)

    async def wait(broker: Broker) -> None:
        await perform(broker, join("first"))
        waiting = asyncio.create_task(perform(broker, join("second")))
        await let_pass(1)
        disk.fail(errno.EIO, operation="write", path="__consumer_offsets-*/*.log")
        with pytest.raises((CoordinatorUnavailable, LogOffline)):
            async with asyncio.timeout(120):
                await waiting

    live(disk, 1, wait)
