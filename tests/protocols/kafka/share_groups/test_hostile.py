"""Share sessions that say what no client says: they are refused, nothing changes, and nothing grows."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.dead_letters.browsing import BrowseRequest, browse_dead_letters
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import read_header, write_header
from goqueue.testing.clock import START_MS
from tests.protocols.kafka.api_kit import INVALID_REQUEST, pass_time, run
from tests.protocols.kafka.group_kit import INVALID_GROUP, list_groups
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import PRODUCE, RawClient
from tests.protocols.kafka.requests import create_topic, produce, produced
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import (
    ACCEPT,
    INVALID_RECORD_STATE,
    RELEASE,
    SHARE_FETCH,
    ShareMember,
    Where,
    ack_errors,
    acquired,
    publish,
)

FAR = 2**63 - 1
MIB = 1024 * 1024


async def _holding(client: RawClient, count: int = 4) -> tuple[ShareMember, Where]:
    topic_id: UUID = (await create_topic(client, "t"))["topic_id"]
    await publish(client, "t", *map(str, range(count)))
    member = ShareMember(client)
    await member.fetch((topic_id, 0))
    return member, (topic_id, 0)


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([(2, 1, [ACCEPT])], INVALID_REQUEST),
        ([(-1, 1, [ACCEPT])], INVALID_REQUEST),
        ([(0, 1, [ACCEPT]), (1, 2, [ACCEPT])], INVALID_REQUEST),
        ([(2, 3, [ACCEPT]), (0, 1, [ACCEPT])], INVALID_REQUEST),
        ([(0, 2, [ACCEPT, ACCEPT])], INVALID_REQUEST),
        ([(0, 1, [])], INVALID_REQUEST),
        ([(0, 0, [5])], INVALID_REQUEST),
        ([(0, 0, [-1])], INVALID_REQUEST),
        ([(0, 0, [4])], INVALID_REQUEST),
        ([(0, FAR, [ACCEPT])], INVALID_RECORD_STATE),
        ([(0, 0, [ACCEPT]), (7, 7, [ACCEPT])], INVALID_RECORD_STATE),
        ([(0, 0, [ACCEPT]), (FAR, FAR, [ACCEPT])], INVALID_RECORD_STATE),
    ],
)
def test_an_ack_of_anything_else_changes_nothing(batches: Sequence[tuple[int, int, list[int]]], code: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, where = await _holding(client)
        assert ack_errors(await member.acknowledge({where: batches})) == {where: code}
        assert ack_errors(await member.fetch(acks={where: batches}), "acknowledge_error_code") == {where: code}
        assert ack_errors(await member.acknowledge({where: [(0, 3, [ACCEPT])]})) == {where: 0}

    run(act)


def test_nobody_acknowledges_what_another_member_or_another_consumer_holds() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, where = await _holding(client)
        other = ShareMember(client, "other")
        await other.fetch(where)
        await publish(client, "t", "a", "b", "c", "d", "e")
        await other.fetch()
        refused = await other.acknowledge({where: [(0, 3, [ACCEPT])]})
        assert ack_errors(refused) == {where: INVALID_RECORD_STATE}
        assert ack_errors(await member.acknowledge({where: [(0, 3, [ACCEPT])]})) == {where: 0}

    run(act)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": None}, INVALID_GROUP),
        ({"group_id": ""}, INVALID_GROUP),
        ({"group_id": "g" * 1001}, INVALID_GROUP),
        ({"member_id": None}, INVALID_REQUEST),
        ({"member_id": ""}, INVALID_REQUEST),
        ({"member_id": "m" * 1101}, INVALID_REQUEST),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_names_that_nobody_can_have_are_refused_and_make_no_group(changes: Plain, code: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert (await ShareMember(client).fetch((uuid4(), 0), **changes))["error_code"] == code
        assert await list_groups(client) == {}

    run(act)


def test_partitions_that_are_not_there_are_not_kept() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, _ = await _holding(client)
        session = next(iter(server.server.broker.share_groups.sessions.values()))
        for _ in range(3):
            await member.fetch(*((uuid4(), index) for index in range(1000)))
        assert len(session.partitions) == 1

    run(act)


def test_numbers_beyond_all_bounds_are_bounds() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, _ = await _holding(client)
        for value in (-(2**31), -1, 0):
            reply = await member.fetch(min_bytes=value, max_bytes=value, max_wait=value, batch_size=value)
            assert reply["error_code"] == 0
        await publish(client, "t", "more")
        big = 2**31 - 1
        reply = await member.fetch(max_bytes=big, max_records=big, batch_size=big)
        assert acquired(reply) == [(4, 4, 1)]
        assert (await member.fetch(max_records=-5))["error_code"] == 0

    run(act)


def test_a_batch_that_claims_more_messages_than_anybody_reads_takes_no_more_memory() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, _ = await _holding(client)
        batch = bytearray(build_batch([NewRecord(START_MS, None, b"one")]))
        write_header(batch, read_header(batch)._replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2))
        # Such a thing is not taken from clients; it is what a damaged header may look like.
        server.server.broker.topics.topic("t").partition(0).append_own(batch, is_awaited=True)
        await pass_time(0.1)
        gc.collect()
        tracemalloc.start()
        reply = await member.fetch()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert acquired(reply) == []
        assert peak < 16 * MIB
        await publish(client, "t", "behind")
        assert await member.take() == ["behind"]

    run(act)


@pytest.mark.parametrize("codec", Codec)
def test_messages_that_a_batch_only_claims_to_have_are_not_acquired(codec: Codec) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where: Where = ((await create_topic(client, "t"))["topic_id"], 0)
        await publish(client, "t", "before")
        batch = build_batch([NewRecord(START_MS, None, b"one" * 100)], codec=codec)
        write_header(batch, read_header(batch)._replace(record_count=20, last_offset_delta=19))
        assert produced(await client.call(PRODUCE, 9, produce("t", batch)))["error_code"] == 0
        await publish(client, "t", "behind")
        member = ShareMember(client)
        assert await member.take(where) == ["before", "behind"]
        reply = await member.fetch(acks={where: [(0, 0, [RELEASE])]})
        assert acquired(reply) == [(0, 0, 2)]
        await pass_time(5)
        (letter,) = (await browse_dead_letters(server.server.broker.dead_letters, INSIDE, "t", BrowseRequest())).letters
        assert (letter.cause.reason, letter.cause.offset) == ("unreadable", 1)

    run(act)


def test_a_request_that_ends_too_early_closes_its_connection_and_no_other() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, where = await _holding(client)
        cut = await server.client()
        whole = cut.prepared(SHARE_FETCH, 1, {"group_id": "g", "member_id": "m", "share_session_epoch": 1})
        cut.write((len(whole) - 4 - 5).to_bytes(4, "big") + whole[4:-5])
        await cut.ended()
        assert ack_errors(await member.acknowledge({where: [(0, 3, [ACCEPT])]})) == {where: 0}

    run(act)
