"""Share consumers while logs go, the disk fails or the broker stops: they are told, and nothing is taken for done."""

from __future__ import annotations

import errno
from uuid import UUID

from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import read_header, write_header
from goqueue.testing.clock import START_MS
from tests.protocols.kafka.api_kit import UNKNOWN_TOPIC, pass_time, run
from tests.protocols.kafka.group_kit import COORDINATOR_NOT_AVAILABLE, LIST_GROUPS
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic, delete_records, delete_topic
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import ACCEPT, RELEASE, ShareMember, Where, ack_errors, acquired, publish, taken


async def _topic(client: RawClient) -> Where:
    topic_id: UUID = (await create_topic(client, "t"))["topic_id"]
    return topic_id, 0


def test_an_ack_that_cannot_be_stored_is_an_error_and_its_message_comes_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        member = ShareMember(client)
        await member.fetch(where)
        # Until the lease is written.
        await pass_time(0.1)
        server.disk.fail(errno.EIO, operation="write", path="__deliveries-*/*.log", times=1)
        refused = await member.acknowledge({where: [(0, 0, [ACCEPT])]})
        assert refused["error_code"] == COORDINATOR_NOT_AVAILABLE
        assert (await client.call(LIST_GROUPS, 5, {}))["error_code"] == COORDINATOR_NOT_AVAILABLE
        await server.stop()
        server.disk.heal()
        await server.start()
        member = ShareMember(await server.client())
        assert acquired(await member.fetch(where)) == [(0, 0, 2)]

    run(act)


def test_members_that_die_while_nothing_can_be_stored_are_let_go() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        dead, later = ShareMember(await server.client(), "dead"), ShareMember(await server.client(), "later")
        assert await dead.take(where) == ["a"]
        await later.fetch(where)
        await pass_time(0.1)
        server.disk.fail(errno.EIO, operation="write", path="__deliveries-*/*.log", times=1)
        await dead.acknowledge({where: [(0, 0, [ACCEPT])]})
        broker = server.server.broker
        for member in (dead, later):
            member.client.close()
            await pass_time(11)
            assert member.id not in {key.member_id for key in broker.share_groups.sessions}

    run(act)


def test_a_waiting_fetch_is_answered_when_the_broker_stops() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        member = ShareMember(client)
        member.send_fetch(where, max_wait=60_000)
        await pass_time(1)
        began = server.simulation.clock.monotonic()
        await server.stop()
        assert server.simulation.clock.monotonic() - began < 5
        assert taken(await member.reply()) == []
        await server.start()

    run(act)


def test_a_topic_that_is_deleted_under_a_fetch_is_told() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        member = ShareMember(await server.client())
        member.send_fetch(where, max_wait=2_000)
        await pass_time(0.5)
        await delete_topic(client, "t")
        assert ack_errors(await member.reply()) == {where: UNKNOWN_TOPIC}

    run(act)


def test_messages_that_are_gone_from_the_log_are_not_acquired() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        for value in "abcd":
            await publish(client, "t", value)
        member = ShareMember(client)
        await member.fetch(where, max_records=3, version=2, share_acquire_mode=1)
        await member.acknowledge({where: [(0, 2, [RELEASE])]})
        await delete_records(client, "t", 2)
        assert acquired(await member.fetch()) == [(2, 2, 2), (3, 3, 1)]

    run(act)


def test_gaps_in_a_batch_are_not_acquired() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        batch = bytearray(build_batch([NewRecord(START_MS, None, value) for value in (b"a", b"b")]))
        write_header(batch, read_header(batch)._replace(last_offset_delta=5))
        # As compaction leaves it; clients may not write it.
        server.server.broker.topics.topic("t").partition(0).append_own(batch, is_awaited=True)
        await publish(client, "t", "c")
        member = ShareMember(client)
        reply = await member.fetch(where)
        assert (taken(reply), acquired(reply)) == (["a", "b", "c"], [(0, 1, 1), (6, 6, 1)])
        assert acquired(await member.fetch(acks={where: [(0, 1, [RELEASE])]})) == [(0, 1, 2)]

    run(act)
