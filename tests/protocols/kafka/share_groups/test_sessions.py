"""Share sessions come and go: messages die only of consumers that do, none is kept from others, no group comes back."""

from __future__ import annotations

from uuid import UUID

import pytest
from msgspec.structs import replace

from goqueue.broker.admission import INSIDE
from goqueue.broker.dead_letters.browsing import BrowseRequest, browse_dead_letters
from goqueue.broker.queues.admin import configure_queue, delete_queue
from goqueue.broker.queues.receive_and_settle import receive
from goqueue.broker.queues.receiving import ReceiveTerms, Source
from goqueue.broker.queues.start_positions import prepare
from goqueue.broker.share_groups.service import CONNECTION_SESSIONS_MAX
from goqueue.errors import GroupNotEmpty
from goqueue.model.dead_letter_selection import Order
from goqueue.model.queue_settings import Ordering
from tests.protocols.kafka.api_kit import pass_time, run
from tests.protocols.kafka.group_kit import list_groups
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import (
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


@pytest.mark.parametrize("end", ["closed", "opened anew", "never joined", "connected again"])
def test_messages_that_nobody_has_refused_do_not_die_of_sessions_that_end_in_order(end: str) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        await configure_queue(
            server.server.broker.queues, INSIDE, "g", lambda known: replace(known, visibility_ms=60_000)
        )
        for count in range(1, 8):
            member = ShareMember(await server.client())
            if end != "never joined":
                await member.heartbeat()
            assert acquired(await member.fetch(where)) == [(0, 1, count)]
            if end == "closed":
                assert await member.close() == 0
            elif end == "never joined":
                await pass_time(46)
            elif end == "connected again":
                member.client.close()
                await pass_time(9)
        assert "t.dlq" not in server.server.broker.topics.by_name

    run(act)


@pytest.mark.parametrize("end", ["silent", "without a connection"])
def test_messages_whose_consumers_die_become_dead_letters_when_no_retry_is_left(end: str) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        for count in range(1, 5):
            assert "t.dlq" not in server.server.broker.topics.by_name
            member = ShareMember(await server.client(), f"m{count}")
            await member.heartbeat()
            if end == "silent":
                await pass_time(40)
            assert acquired(await member.fetch(where)) == [(0, 1, count)]
            if end == "silent":
                await pass_time(6)
            else:
                member.client.close()
                await pass_time(11)
        survivor = ShareMember(client, "survivor")
        assert await survivor.take(where) == []
        page = await browse_dead_letters(
            server.server.broker.dead_letters, INSIDE, "t", BrowseRequest(order=Order.OLDEST)
        )
        causes = [each.cause for each in page.letters]
        assert [(each.offset, each.reason, each.attempts, each.consumer) for each in causes] == [
            (0, "max_retries_exceeded", 4, "m4"),
            (1, "max_retries_exceeded", 4, "m4"),
        ]
        assert {each.error for each in causes} == {"the share consumer that held it is gone"}

    run(act)


def test_a_consumer_that_dies_takes_nothing_along_that_it_has_settled() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "good", "bad")
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "g", lambda known: replace(known, retries=0))
        member = ShareMember(await server.client())
        await member.heartbeat()
        assert await member.take(where) == ["good", "bad"]
        await member.acknowledge({where: [(0, 0, [ACCEPT])]})
        member.client.close()
        await pass_time(11)
        page = await browse_dead_letters(broker.dead_letters, INSIDE, "t", BrowseRequest())
        assert [each.cause.offset for each in page.letters] == [1]
        assert await ShareMember(client, "survivor").take(where) == []

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
            await delete_queue(server.server.broker.queues, INSIDE, "g")
        assert ack_errors(await member.acknowledge({where: [(1, 1, [ACCEPT])]})) == {where: 0}
        await member.heartbeat(member_epoch=LEAVE)
        await delete_queue(server.server.broker.queues, INSIDE, "g")
        assert await list_groups(client) == {}

    run(act)


@pytest.mark.parametrize("is_fetch", [True, False])
def test_an_open_session_does_not_make_its_group_again(is_fetch: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        member = ShareMember(client)
        await member.fetch(where)
        await delete_queue(server.server.broker.queues, INSIDE, "g")
        reply = await (member.fetch() if is_fetch else member.acknowledge({where: [(0, 0, [ACCEPT])]}))
        assert reply["error_code"] == SESSION_NOT_FOUND
        assert await list_groups(client) == {}
        assert server.server.broker.share_groups.sessions == {}
        assert await member.take(where, share_session_epoch=OPEN) == ["a"]

    run(act)


def test_a_waiting_fetch_does_not_make_its_group_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        member = ShareMember(await server.client())
        member.send_fetch(where, max_wait=5_000)
        await pass_time(1)
        await delete_queue(server.server.broker.queues, INSIDE, "g")
        await publish(client, "t", "a")
        assert taken(await member.reply()) == []
        assert await list_groups(client) == {}

    run(act)


def test_a_session_goes_on_with_the_group_that_is_there() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b", "c")
        member = ShareMember(await server.client())
        await member.fetch(where)
        await member.acknowledge({where: [(0, 2, [ACCEPT])]})
        member.send_fetch(max_wait=5_000)
        await pass_time(1)
        broker = server.server.broker
        await delete_queue(broker.queues, INSIDE, "g")
        # At once, so that the fetch finds a group when it looks.
        await prepare(broker.queues, "g", ["t"], Ordering.NONE)
        received = await receive(broker.queues, INSIDE, ReceiveTerms(Source("g", ("t",)), "http"))
        await publish(client, "t", "d")
        # Whoever of the two comes first begins with the first message, and neither passes one over.
        given = [(offset, offset) for each in received.received for offset in each.delivery.offsets]
        # Whoever waits is answered, and the next request begins with that group.
        for reply in (await member.reply(), await member.fetch()):
            given += [(first, last) for first, last, _ in acquired(reply)]
        offsets = sorted(offset for first, last in given for offset in range(first, last + 1))
        assert offsets == [0, 1, 2, 3]

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
