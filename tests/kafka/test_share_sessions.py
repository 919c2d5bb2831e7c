"""Share sessions come and go: no message dies of that, none is kept from others, and no group comes back."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.broker.pipeline import INSIDE
from goqueue.broker.queue_admin import delete_queue
from goqueue.broker.queues import Wish, receive
from goqueue.broker.share_sessions import CONNECTION_SESSIONS_MAX
from goqueue.errors import GroupNotEmpty
from tests.kafka.api_kit import pass_time, run
from tests.kafka.group_kit import list_groups
from tests.kafka.raw import RawClient
from tests.kafka.requests import create_topic
from tests.kafka.server import SimServer
from tests.kafka.share_kit import (
    ACCEPT,
    LEAVE,
    OPEN,
    SESSION_NOT_FOUND,
    ShareMember,
    Where,
    ack_errors,
    acquired,
    publish,
    taken,
)

SESSION_LIMIT_REACHED = 133


async def _topic(client: RawClient) -> Where:
    topic_id: UUID = (await create_topic(client, "t"))["topic_id"]
    return topic_id, 0


@pytest.mark.parametrize("end", ["closed", "opened anew", "silent", "without a connection"])
def test_messages_that_nobody_has_refused_do_not_die_of_sessions_that_end(end: str) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        for count in range(1, 8):
            member = ShareMember(await server.client())
            await member.heartbeat()
            if end == "silent":
                await pass_time(40)
            assert acquired(await member.fetch(where)) == [(0, 1, count)]
            if end == "closed":
                assert await member.close() == 0
            elif end == "silent":
                await pass_time(6)
            elif end == "without a connection":
                member.client.close()
                await pass_time(11)
        assert "t.dlq" not in server.server.broker.topics

    run(act)


# -- groups that are deleted


def test_a_group_is_not_deleted_while_it_has_members() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        member = ShareMember(client)
        await member.heartbeat()
        await member.fetch(where)
        await member.acknowledge({where: [(0, 0, [ACCEPT])]})
        with pytest.raises(GroupNotEmpty):
            await delete_queue(server.server.broker, INSIDE, "g")
        assert ack_errors(await member.acknowledge({where: [(1, 1, [ACCEPT])]})) == {where: 0}
        await member.heartbeat(member_epoch=LEAVE)
        await delete_queue(server.server.broker, INSIDE, "g")
        assert await list_groups(client) == {}

    run(act)


@pytest.mark.parametrize("is_fetch", [True, False])
def test_an_open_session_does_not_make_its_group_again(is_fetch: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        member = ShareMember(client)
        await member.fetch(where)
        await delete_queue(server.server.broker, INSIDE, "g")
        reply = await (member.fetch() if is_fetch else member.acknowledge({where: [(0, 0, [ACCEPT])]}))
        assert reply["error_code"] == SESSION_NOT_FOUND
        assert await list_groups(client) == {}
        assert server.server.broker.shares.sessions == {}
        assert await member.take(where, share_session_epoch=OPEN) == ["a"]

    run(act)


def test_a_waiting_fetch_does_not_make_its_group_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        member = ShareMember(await server.client())
        member.send_fetch(where, max_wait=5_000)
        await pass_time(1)
        await delete_queue(server.server.broker, INSIDE, "g")
        await publish(client, "t", "a")
        assert taken(await member.reply()) == []
        assert await list_groups(client) == {}

    run(act)


def test_a_waiting_fetch_goes_on_with_the_group_that_is_there() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b", "c")
        member = ShareMember(await server.client())
        await member.fetch(where)
        await member.acknowledge({where: [(0, 2, [ACCEPT])]})
        member.send_fetch(max_wait=5_000)
        await pass_time(1)
        broker = server.server.broker
        await delete_queue(broker, INSIDE, "g")
        received = await receive(broker, INSIDE, Wish("g", ["t"], "http"))
        await publish(client, "t", "d")
        # Whoever of the two comes first begins with the first message, and neither passes one over.
        given = [(each.delivery.offset, each.delivery.offset) for each in received.messages]
        given += [(first, last) for first, last, _ in acquired(await member.reply())]
        offsets = sorted(offset for first, last in given for offset in range(first, last + 1))
        assert offsets in ([0, 1, 2], [0, 1, 2, 3])

    run(act)


# -- sessions that nobody needs


def test_one_connection_takes_no_more_sessions_than_its_share() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        for number in range(CONNECTION_SESSIONS_MAX):
            await ShareMember(client, f"m{number}").fetch(where)
        refused = await ShareMember(client, "one more").fetch(where)
        assert refused["error_code"] == SESSION_LIMIT_REACHED
        # Whoever has one may open it anew, and others are not concerned.
        again = ShareMember(client, "m0")
        assert (await again.fetch(where))["error_code"] == 0
        other = await server.client()
        assert (await ShareMember(other, "elsewhere").fetch(where))["error_code"] == 0
        # Nor does a session get there by moving.
        moving = ShareMember(other, "moving")
        await moving.fetch(where)
        moving.client = client
        assert (await moving.fetch())["error_code"] == SESSION_LIMIT_REACHED
        moving.client = other
        assert (await moving.fetch())["error_code"] == 0
        assert await again.close() == 0
        assert (await ShareMember(client, "one more").fetch(where))["error_code"] == 0

    run(act)


def test_a_session_whose_member_does_not_join_ends() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        stranger, member = ShareMember(client, "stranger"), ShareMember(client, "member")
        await stranger.fetch(where)
        await member.fetch(where)
        for _ in range(10):
            await member.heartbeat()
            await pass_time(4)
        await publish(client, "t", "a")
        stranger.session_epoch = OPEN
        assert await stranger.take(where) == ["a"], "a session that is opened anew has no more time"
        await pass_time(5.1)
        assert (await stranger.fetch())["error_code"] == SESSION_NOT_FOUND
        assert acquired(await member.fetch()) == [(0, 0, 2)]
        for _ in range(20):
            await member.heartbeat()
            await pass_time(5)
        assert (await member.fetch())["error_code"] == 0
        await member.heartbeat(member_epoch=LEAVE)
        await pass_time(45.1)
        assert (await member.fetch())["error_code"] == SESSION_NOT_FOUND

    run(act)
