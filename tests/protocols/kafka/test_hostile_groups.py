"""Members that say what no client says: they are refused or served, and nobody else notices, now or after a restart."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from itertools import count

import pytest

from goqueue.model.partitioners import name_partition
from tests.protocols.kafka.api_kit import INVALID_REQUEST, pass_time, run
from tests.protocols.kafka.group_kit import (
    CONSUMER_HEARTBEAT,
    INCONSISTENT_PROTOCOL,
    JOIN_EPOCH,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    Member,
    assignment,
    commit,
    committed,
    offsets,
)
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer

INVALID_COMMIT_SIZE, GROUP_MAX_SIZE_REACHED = 28, 81
HOSTILE = "hostile"
MIB = 1024 * 1024
# Members of this version need no second join.
VERSION = 3


def neighbour() -> str:
    """Return a group whose state is in the same log as that of the hostile one."""
    names = (f"neighbour {number}" for number in count())
    return next(name for name in names if name_partition(name, 50) == name_partition(HOSTILE, 50))


async def enter_neighbour(server: SimServer, client: RawClient) -> Member:
    await create_topic(client, "t")
    member = Member(await server.client("neighbour"), group=neighbour())
    await member.enter()
    return member


async def check_undisturbed(member: Member, offset: int) -> None:
    """Check that a member of another group is alive, and can commit."""
    assert await member.heartbeat() == 0
    topics = offsets({0: offset})
    assert await commit(member.client, topics, group=member.group, member_id=member.id, epoch=member.generation) == [0]


async def restart(server: SimServer, member: Member, offset: int) -> None:
    """Start the server again, and check that it knows what it knew of the other group."""
    await server.stop()
    await server.start()
    member.client = await server.client("neighbour")
    assert await member.heartbeat() == 0
    assert await committed(member.client, member.group) == {("t", 0): offset}


def said(*protocols: tuple[str, bytes]) -> list[Plain]:
    return [{"name": name, "metadata": metadata} for name, metadata in protocols]


async def join_all(server: SimServer, protocols: list[list[Plain]]) -> tuple[list[Member], list[int]]:
    """Let members join the hostile group in this order; return them and what they are told, when all are answered."""
    members, joins = [], []
    for number, each in enumerate(protocols):
        members.append(Member(await server.client(f"host {number}"), group=HOSTILE))
        joins.append(asyncio.ensure_future(members[-1].join(VERSION, protocols=each)))
        await pass_time(0.01)
    return members, [(await join)["error_code"] for join in joins]


def test_a_protocol_that_is_named_twice_ends_no_round_for_others() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        good = await enter_neighbour(server, client)
        protocols = [said(("a", b""), ("a", b""), ("b", b"")), said(("b", b"")), said(("a", b""))]
        _, codes = await join_all(server, protocols)
        assert codes == [0, 0, INCONSISTENT_PROTOCOL]
        for second in range(8):
            await pass_time(2)
            await check_undisturbed(good, second)

    run(act)


def test_members_that_say_much_are_refused_and_leave_nothing_behind() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        good = await enter_neighbour(server, client)
        (leader,), codes = await join_all(server, [said(("range", b""))])
        assert codes == [0]
        largest = bytes(2 * MIB)
        many = assignment({"t": range(MIB // 2)})
        before = 0
        for number in range(4):
            if number == 1:
                # Large requests share a few buffers, which are there from now on.
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
            guest = Member(await server.client("guest"), group=HOSTILE)
            reply = await guest.client.call(JOIN_GROUP, 9, guest.join_request(protocols=said(("range", largest))))
            assert reply["error_code"] == INVALID_REQUEST
            request = leader.named(assignments=[{"member_id": leader.id, "assignment": many}])
            reply = await leader.client.call(SYNC_GROUP, VERSION, request)
            assert reply["error_code"] == INVALID_REQUEST
            heartbeat = {
                "group_id": "other",
                "member_id": f"m{number}",
                "member_epoch": JOIN_EPOCH,
                "rebalance_timeout_ms": 10_000,
                "subscribed_topic_names": [f"{each:06d}" * 40 for each in range(2_500)],
                "topic_partitions": [],
            }
            reply = await guest.client.call(CONSUMER_HEARTBEAT, 1, heartbeat)
            assert reply["error_code"] == INVALID_REQUEST
            guest.client.transport.close()
            await check_undisturbed(good, number)
        del reply, request, heartbeat
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < MIB
        await restart(server, good, 3)
        leader.client = await server.client("leader")
        assert (await leader.join(VERSION, protocols=said(("range", b""))))["error_code"] == 0

    tracemalloc.start()
    try:
        run(act)
    finally:
        tracemalloc.stop()


def test_a_group_that_is_full_takes_no_more_and_goes_on_after_a_restart() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        good = await enter_neighbour(server, client)
        large = said(("range", bytes(MIB - 10)))
        members, codes = await join_all(server, [large] * 8)
        joined = codes.count(0)
        assert codes == [0] * joined + [GROUP_MAX_SIZE_REACHED] * (8 - joined)
        assert 3 <= joined < 8
        # As large as it may be, and more partitions than anybody reads.
        share = assignment({"t": range(3 * MIB // joined // 4 - 20)})
        given = [{"member_id": each.id, "assignment": share} for each in members[:joined]]
        for member in [*members[1:joined], members[0]]:
            request = member.named(assignments=given if member is members[0] else [])
            member.client.send(SYNC_GROUP, VERSION, request)
        assert [(await each.client.reply())["assignment"] for each in members[:joined]] == [share] * joined
        topics = offsets({0: 5})
        told = await commit(client, topics, group=HOSTILE, member_id=members[0].id, epoch=members[0].generation)
        assert told == [0]
        await check_undisturbed(good, 7)
        await restart(server, good, 7)
        for member in members[:joined]:
            member.client = await server.client("again")
            assert await member.heartbeat(3) == 0

    run(act)


@pytest.mark.parametrize(
    ("group", "number", "metadata"),
    [(HOSTILE, 300, "m" * 4096), ("g" * 1000, 9_000, "")],
    ids=["metadata", "a long name"],
)
def test_a_commit_that_is_too_large_is_refused_as_a_whole(group: str, number: int, metadata: str) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        good = await enter_neighbour(server, client)
        part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": metadata}
        told = await commit(client, [{"name": "t", "partitions": [part] * number}], version=8, group=group)
        assert set(told) == {INVALID_COMMIT_SIZE}
        assert await committed(client, group) == {}
        await check_undisturbed(good, 1)
        await restart(server, good, 1)

    run(act)


def test_more_leavers_than_a_group_can_have_are_refused() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        good = await enter_neighbour(server, client)
        leaver = {"member_id": "m", "group_instance_id": "i", "reason": None}
        reply = await client.call(LEAVE_GROUP, 5, {"group_id": good.group, "members": [leaver] * 10_001})
        assert reply["error_code"] == INVALID_REQUEST
        reply = await client.call(LEAVE_GROUP, 5, {"group_id": good.group, "members": [leaver] * 10_000})
        assert (reply["error_code"], len(reply["members"])) == (0, 10_000)
        await check_undisturbed(good, 1)

    run(act)
