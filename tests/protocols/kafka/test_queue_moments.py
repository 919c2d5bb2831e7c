"""Queue groups in awkward moments: what happens just then is heard of, and keeps nobody from what is there."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.broker import Broker
from goqueue.broker.internal_topics import DELIVERIES_TOPIC
from goqueue.broker.queues.admin import configure_queue
from goqueue.broker.queues.receive_and_settle import receive, settle
from goqueue.broker.queues.receiving import ReceiveTerms, Receiving, Source
from goqueue.broker.queues.settling import Settlement
from goqueue.broker.topics.admin import delete_topic
from goqueue.errors import CoordinatorUnavailable
from goqueue.machines.queues.commands import DeleteQueue, Seek
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.steps import DONE, HELD_MAX
from goqueue.machines.queues.values import AckType
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.model.start_at import StartAt
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord, build_batch
from goqueue.testing.clock import START_MS
from tests.protocols.kafka.api_kit import pass_time, run
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic, delete_records
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import ShareMember, Where, publish, taken

ORDERED = QueueSettings(ordering=Ordering.KEY, visibility_ms=3_600_000)
ACK = Settlement(AckType.ACK)


async def _make(client: RawClient, name: str) -> Where:
    return (await create_topic(client, name))["topic_id"], 0


def _wish(*topics: str, group: str = "g", who: str = "c", limit: int = 10, wait_ms: int = 0) -> ReceiveTerms:
    return ReceiveTerms(Source(group, topics), who, limit, wait_ms)


def _group(broker: Broker, name: str = "g") -> QueueGroup | None:
    machine = broker.queues.peek(name)
    return None if machine is None else machine.find(name)


def _window(broker: Broker, topic: str = "t") -> QueueWindow:
    group = _group(broker)
    assert group is not None
    return group.windows[TopicPartition(topic, 0)]


async def _receipts(broker: Broker, client: RawClient, groups: str) -> list[str]:
    """Return the receipts of one message in several groups."""
    await _make(client, "t")
    await publish(client, "t", "1")
    receipts: list[str] = []
    for name in groups:
        (got,) = (await receive(broker.queues, INSIDE, _wish("t", group=name))).received
        receipts += got.receipts
    return receipts


def _fail(broker: Broker, group: str) -> None:
    """Let the log of a group take nothing any more."""
    partition = broker.topics.topic(DELIVERIES_TOPIC).partition(broker.queues._index(group))
    partition.log.go_offline("it is sick")


async def _waiting(server: SimServer, where: Where) -> ShareMember:
    """Return a member that waits for messages of a partition."""
    member = ShareMember(await server.client(), "waiting")
    member.send_fetch(where, max_wait=60_000)
    await pass_time(1)
    return member


async def _brought(member: ShareMember) -> list[str]:
    """Return what a fetch brings that is under way; it must come soon."""
    async with asyncio.timeout(1):
        return taken(await member.reply())


async def _delete(broker: Broker, group: str) -> None:
    """Have a group deleted though somebody receives, as if that had come a moment later: the operation is refused."""
    await broker.queues.submit(group, DeleteQueue(group))


async def _make_anew(broker: Broker, group: QueueGroup, settings: QueueSettings) -> None:
    """Have a group deleted, and another one of its name made at once."""
    deleting = asyncio.ensure_future(_delete(broker, group.name))
    await _until(lambda: _group(broker, group.name) is not group)
    await asyncio.gather(deleting, configure_queue(broker.queues, INSIDE, group.name, lambda _: settings))


async def _until(fact: Callable[[], bool], *, step_s: float = 0) -> None:
    """Give others their turns until something is a fact, however short the moment is; what comes by wire takes time."""
    for _ in range(10_000):
        if fact():
            return
        await pass_time(step_s)
    raise TimeoutError


def test_a_partition_in_which_all_wait_for_one_key_keeps_nobody_from_the_others() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "g", lambda _: ORDERED)
        for name in ("full", "free"):
            await _make(client, name)
        await publish(client, "full", *["held"] * (HELD_MAX + 50), key=b"k")
        assert len((await receive(broker.queues, INSIDE, _wish("full", limit=2_000))).received) == 1
        await publish(client, "free", *map(str, range(20)))
        for number in range(20):
            async with asyncio.timeout(1):
                wish = _wish("full", "free", who=f"c{number}", limit=1, wait_ms=20_000)
                assert len((await receive(broker.queues, INSIDE, wish)).received) == 1

    run(act)


# In the second case, the first messages behind those that are gone wait for others of their key as well.
@pytest.mark.parametrize("keys", [b"k" * (HELD_MAX + 50), b"k" * HELD_MAX + b"jjj"])
def test_messages_that_are_held_and_gone_from_the_log_keep_nobody_from_those_behind(keys: bytes) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "g", lambda _: ORDERED)
        await _make(client, "t")
        for key, count in Counter(keys).items():
            await publish(client, "t", *["held"] * count, key=bytes([key]))
        await publish(client, "t", "free")
        while (await receive(broker.queues, INSIDE, _wish("t", limit=900))).received:
            pass
        assert _window(broker).held == HELD_MAX
        await delete_records(client, "t", HELD_MAX)
        got = (await receive(broker.queues, INSIDE, _wish("t", who="other", limit=100))).received
        assert b"free" in [record.value for each in got for record in each.records]

    run(act)


@pytest.mark.parametrize("limit", [1, 2])
def test_a_waiting_fetch_hears_of_room_for_those_who_wait_though_somebody_has_taken_what_was_ready(limit: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "g", lambda _: ORDERED)
        where = await _make(client, "t")
        for value in ("j1", "k1", "j2"):
            await publish(client, "t", value, key=value[:1].encode())
        # One more than there is room for.
        await publish(client, "t", *["held"] * HELD_MAX, key=b"k")
        await publish(client, "t", "free")
        got = await receive(broker.queues, INSIDE, _wish("t", who="busy", limit=500))
        receipts = {
            offset: receipt
            for each in got.received
            for offset, receipt in zip(each.delivery.offsets, each.receipts, strict=True)
        }
        assert sorted(receipts) == [0, 1]
        for _ in range(4):
            await receive(broker.queues, INSIDE, _wish("t", who="busy", limit=450))
        waiting = await _waiting(server, where)
        window = _window(broker)
        acking = asyncio.ensure_future(settle(broker.queues, INSIDE, [receipts[0]], ACK))
        await _until(lambda: bool(window.ready))
        # With room for more than that, another message is held in the place of the one that is done.
        await receive(broker.queues, INSIDE, _wish("t", who="other", limit=limit))
        await acking
        assert await _brought(waiting) == ["free"]

    run(act)


def test_who_got_nothing_of_one_topic_hears_of_what_has_come_to_another_just_then() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        for name in "tu":
            await create_topic(client, name, config={"goqueue.flush": "interval"})
        await receive(broker.queues, INSIDE, _wish("t", "u"))
        await publish(client, "t", "1")
        window = _window(broker, "t")
        wishes = [_wish("t", "u", who=who, limit=1, wait_ms=20_000) for who in "ab"]
        receiving = asyncio.gather(*(receive(broker.queues, INSIDE, wish) for wish in wishes))
        await _until(lambda: window.cursor == 1)
        # One of them has this one; before the other begins to wait, there is another, at the same place elsewhere.
        broker.topics.topic("u").partition(0).append_own(
            build_batch([NewRecord(START_MS, None, b"1")]), is_awaited=False
        )
        async with asyncio.timeout(1):
            assert [len(each.received) for each in await receiving] == [1, 1]

    run(act)


def test_a_receive_goes_on_with_a_group_that_was_made_anew_while_it_began() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "g", lambda _: QueueSettings())
        await _make(client, "t")
        await publish(client, "t", "1", "2", "3")
        receiving = asyncio.ensure_future(receive(broker.queues, INSIDE, _wish("t", wait_ms=20_000)))
        group = _group(broker)
        assert group is not None
        await _until(lambda: bool(group.windows))
        await _make_anew(broker, group, QueueSettings())
        async with asyncio.timeout(1):
            assert (await receiving).received

    run(act)


def test_a_group_that_was_made_anew_while_a_receive_began_begins_where_its_own_settings_say() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "g", lambda _: QueueSettings())
        for name in "tu":
            await _make(client, name)
            await publish(client, name, "old")
        receiving = asyncio.ensure_future(receive(broker.queues, INSIDE, _wish("t", "u", wait_ms=20_000)))
        group = _group(broker)
        assert group is not None
        await _until(lambda: bool(group.windows))
        await _make_anew(broker, group, QueueSettings(start=StartAt.LATEST))
        await pass_time(1)
        await publish(client, "u", "new")
        (got,) = (await receiving).received
        assert [record.value for record in got.records] == [b"new"]

    run(act)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_receive_makes_a_group_that_is_deleted_before_it_has_begun(is_known: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        # The topic of all groups is there.
        await configure_queue(broker.queues, INSIDE, "g" if is_known else "other", lambda _: QueueSettings())
        for name in "tu":
            await _make(client, name)
        await publish(client, "u", "1")
        receiving = asyncio.ensure_future(receive(broker.queues, INSIDE, _wish("t", "u", wait_ms=20_000)))
        await _until(lambda: (group := _group(broker)) is not None and bool(group.windows) is is_known)
        await _delete(broker, "g")
        async with asyncio.timeout(1):
            assert len((await receiving).received) == 1

    run(act)


def test_a_fetch_makes_a_group_that_is_deleted_before_it_has_begun() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        # The topic of all groups is there.
        await configure_queue(broker.queues, INSIDE, "other", lambda _: QueueSettings())
        where = await _make(client, "t")
        await publish(client, "t", "1")
        member = ShareMember(await server.client())
        member.send_fetch(where, max_wait=60_000)
        await _until(lambda: _group(broker) is not None, step_s=0.00001)
        await _delete(broker, "g")
        assert await _brought(member) == ["1"]

    run(act)


def test_settings_are_taken_though_their_group_is_deleted_in_that_moment() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "other", lambda _: QueueSettings())
        configuring = asyncio.ensure_future(configure_queue(broker.queues, INSIDE, "g", lambda _: ORDERED))
        await _until(lambda: _group(broker) is not None)
        await _delete(broker, "g")
        assert (await configuring).settings == ORDERED

    run(act)


def test_no_group_begins_with_a_topic_that_is_deleted_while_the_group_is_made() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        # The topic of all groups is there.
        await configure_queue(broker.queues, INSIDE, "other", lambda _: QueueSettings())
        await _make(client, "t")
        deleting = asyncio.ensure_future(delete_topic(broker.topics, INSIDE, "t"))
        receiving: list[asyncio.Future[Receiving]] = []

        def is_gone() -> bool:
            # Another one in every moment in which the topic is there.
            receiving.append(
                asyncio.ensure_future(receive(broker.queues, INSIDE, _wish("t", group=f"g{len(receiving)}")))
            )
            return "t" not in broker.topics.by_name

        await _until(is_gone, step_s=0.00001)
        await asyncio.gather(deleting, *receiving, return_exceptions=True)
        assert len(receiving) > 10
        groups = [group for machine in broker.queues.machines for group in machine.groups.values()]
        assert [group.name for group in groups if group.windows] == []

    run(act)


def test_a_fetch_does_not_wait_for_a_group_that_was_deleted_while_it_began() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "g", lambda _: QueueSettings())
        where = await _make(client, "t")
        await publish(client, "t", "1")
        group = _group(broker)
        assert group is not None
        member = ShareMember(await server.client())
        member.send_fetch(where, max_wait=60_000)
        await _until(lambda: bool(group.windows), step_s=0.00001)
        await _make_anew(broker, group, QueueSettings())
        assert await _brought(member) == []
        # The next request begins with the group of that name.
        assert await member.take() == ["1"]

    run(act)


def test_a_waiting_fetch_hears_of_a_seek_though_nobody_waits_for_its_end() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        where = await _make(client, "t")
        await publish(client, "t", "1")
        (got,) = (await receive(broker.queues, INSIDE, _wish("t"))).received
        await settle(broker.queues, INSIDE, got.receipts, ACK)
        waiting = await _waiting(server, where)
        window = _window(broker)
        seeking = asyncio.ensure_future(broker.queues.submit("g", Seek("g", TopicPartition("t", 0), 0)))
        await _until(lambda: window.cursor == 0)
        seeking.cancel()
        assert await _brought(waiting) == ["1"]

    run(act)


def test_nothing_is_counted_for_a_deleted_group_though_nobody_waits_for_its_end() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await _make(client, "t")
        await publish(client, "t", "1")
        await receive(broker.queues, INSIDE, _wish("t"))
        deleting = asyncio.ensure_future(_delete(broker, "g"))
        await _until(lambda: _group(broker) is None)
        deleting.cancel()
        await pass_time(1)
        assert broker.queues.tallies.find("g", "t").delivered == 0

    run(act)


def test_acks_in_several_groups_hold_in_all_of_them_or_none_when_the_caller_leaves() -> None:
    outcomes: list[list[int]] = []

    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        receipts = await _receipts(broker, client, "gh")
        settling = asyncio.ensure_future(settle(broker.queues, INSIDE, receipts, ACK))
        for _ in range(len(outcomes)):
            await pass_time(0)
        settling.cancel()
        await pass_time(1)
        groups = [_group(broker, name) for name in "gh"]
        left = [window.in_flight for group in groups if group is not None for window in group.windows.values()]
        assert left in ([0, 0], [1, 1])
        outcomes.append(left)

    for _ in range(10):
        run(act)
    assert outcomes[0] == [1, 1]
    assert outcomes[-1] == [0, 0]


def test_of_receipts_of_several_groups_each_is_told_what_became_of_it_though_one_group_cannot_be_used() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        receipts = await _receipts(broker, client, "gh")
        _fail(broker, "g")
        failed, done = await settle(broker.queues, INSIDE, receipts, ACK)
        assert isinstance(failed, CoordinatorUnavailable)
        assert done == DONE
        with pytest.raises(CoordinatorUnavailable):
            await settle(broker.queues, INSIDE, receipts[:1], ACK)

    run(act)


def test_what_keeps_all_groups_of_a_request_from_settling_is_told_once() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        receipts = await _receipts(broker, client, "gh")
        for name in "gh":
            _fail(broker, name)
        unheard: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        with pytest.raises(CoordinatorUnavailable):
            await settle(broker.queues, INSIDE, receipts, ACK)
        await pass_time(1)
        gc.collect()
        assert unheard == []

    run(act)
