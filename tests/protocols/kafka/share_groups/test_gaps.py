"""Share consumers where there is nothing for them: aborted messages, and such as are gone from the log."""

from __future__ import annotations

from uuid import UUID

import pytest
from msgspec.structs import replace

from goqueue.broker.admission import INSIDE
from goqueue.broker.queues.admin import configure_queue
from goqueue.machines.queues.group import QueueGroup
from tests.protocols.kafka.api_kit import pass_time, run
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic, delete_records
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import (
    ACCEPT,
    GAP,
    INVALID_RECORD_STATE,
    REJECT,
    RELEASE,
    ShareMember,
    Where,
    ack_errors,
    acquired,
    publish,
)
from tests.protocols.kafka.transaction_kit import TxnProducer


async def _topic(client: RawClient) -> Where:
    topic_id: UUID = (await create_topic(client, "t"))["topic_id"]
    return topic_id, 0


def _group(server: SimServer) -> QueueGroup:
    (group,) = [each for machine in server.server.broker.queues.machines for each in machine.groups.values()]
    return group


def test_more_aborted_messages_than_one_look_takes_are_passed() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        producer = TxnProducer(client)
        assert await producer.init() == 0
        await producer.add(("t", 0))
        for sequence in range(40):
            assert (await producer.produce(b"x" * 1024, sequence=sequence))["error_code"] == 0
        assert await producer.end(is_commit=False) == 0
        await publish(client, "t", "good")
        assert await ShareMember(client).take(where, max_bytes=1024, max_wait=100) == ["good"]

    run(act)


@pytest.mark.parametrize("is_commit", [False, True])
def test_what_is_left_of_a_batch_is_not_passed_with_markers_and_aborted_messages_behind_it(is_commit: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", *"abc")
        producer = TxnProducer(client)
        assert await producer.init() == 0
        await producer.add(("t", 0))
        assert (await producer.produce(b"d"))["error_code"] == 0
        assert await producer.end(is_commit=is_commit) == 0
        await configure_queue(server.server.broker.queues, INSIDE, "g", lambda known: replace(known, in_flight_max=2))
        member = ShareMember(client)
        seen = []
        for _ in range(2):
            reply = await member.fetch(where)
            ((first, last, _),) = acquired(reply)
            seen += list(range(first, last + 1))
            await member.acknowledge({where: [(first, last, [ACCEPT])]})
        assert seen == ([0, 1, 2, 3] if is_commit else [0, 1, 2])

    run(act)


def test_messages_that_are_gone_when_their_lease_ends_are_done() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        member = ShareMember(client)
        await member.heartbeat()
        assert await member.take(where) == ["a", "b"]
        await delete_records(client, "t", -1)
        await pass_time(31)
        assert await member.take() == []
        assert [(window.floor, window.in_flight) for window in _group(server).windows.values()] == [(2, 0)]

    run(act)


@pytest.mark.parametrize("kind", [GAP, ACCEPT, RELEASE, REJECT])
@pytest.mark.parametrize("is_noticed", [False, True])
def test_what_is_said_of_messages_holds_though_some_of_them_are_gone(kind: int, is_noticed: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        for value in "abcde":
            await publish(client, "t", value)
        member, other = ShareMember(client), ShareMember(client, "other")
        assert acquired(await member.fetch(where)) == [(0, 4, 1)]
        await delete_records(client, "t", 3)
        if is_noticed:
            # Whoever gets something of a partition has the group forget what is gone.
            await publish(client, "t", "f")
            assert await other.take(where) == ["f"]
        said = await member.acknowledge({where: [(0, 2, [kind]), (3, 4, [ACCEPT])]})
        assert ack_errors(said) == {where: 0}
        assert _group(server).leases == ({"other": 1} if is_noticed else {})
        await pass_time(31)
        assert await member.take() == (["f"] if is_noticed else [])

    run(act)


def test_what_is_there_and_not_held_any_more_spoils_the_rest_still() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", *"abcd")
        member = ShareMember(client)
        assert acquired(await member.fetch(where)) == [(0, 3, 1)]
        await member.acknowledge({where: [(2, 2, [ACCEPT])]})
        await delete_records(client, "t", 2)
        assert ack_errors(await member.acknowledge({where: [(0, 3, [ACCEPT])]})) == {where: INVALID_RECORD_STATE}
        assert ack_errors(await member.acknowledge({where: [(0, 1, [ACCEPT]), (3, 3, [ACCEPT])]})) == {where: 0}

    run(act)
