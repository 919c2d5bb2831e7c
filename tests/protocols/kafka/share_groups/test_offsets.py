"""AlterShareGroupOffsets and DeleteShareGroupOffsets, frame by frame."""

from __future__ import annotations

from tests.protocols.kafka.api_kit import UNKNOWN_TOPIC, run
from tests.protocols.kafka.group_kit import NON_EMPTY_GROUP, UNKNOWN_GROUP
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import SHARE_OFFSETS, ShareMember, publish

ALTER_OFFSETS, DELETE_OFFSETS = 91, 92


async def _begin(client: RawClient) -> ShareMember:
    """Have a group take and accept all messages of a topic, and leave it."""
    where = ((await create_topic(client, "t"))["topic_id"], 0)
    await publish(client, "t", "a", "b", "c")
    member = ShareMember(client)
    await member.heartbeat()
    assert await member.take(where) == ["a", "b", "c"]
    await member.acknowledge({where: [(0, 2, [1])]})
    return member


async def _leave(member: ShareMember) -> None:
    await member.close()
    assert (await member.heartbeat(member_epoch=-1))["error_code"] == 0


async def _alter(client: RawClient, topic: str, index: int, offset: int, group: str = "g") -> Plain:
    part = {"partition_index": index, "start_offset": offset}
    topics = [{"topic_name": topic, "partitions": [part]}]
    return await client.call(ALTER_OFFSETS, 0, {"group_id": group, "topics": topics})


async def _delete(client: RawClient, topic: str, group: str = "g") -> Plain:
    return await client.call(DELETE_OFFSETS, 0, {"group_id": group, "topics": [{"topic_name": topic}]})


async def _start(client: RawClient) -> int:
    wanted = [{"topic_name": "t", "partitions": [0]}]
    reply = await client.call(SHARE_OFFSETS, 0, {"groups": [{"group_id": "g", "topics": wanted}]})
    return int(reply["groups"][0]["topics"][0]["partitions"][0]["start_offset"])


def test_share_group_without_members_goes_on_at_another_offset() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = await _begin(client)
        assert (await _alter(client, "t", 0, 1))["error_code"] == NON_EMPTY_GROUP
        await _leave(member)
        reply = await _alter(client, "t", 0, 1)
        assert reply["error_code"] == 0
        (topic,) = reply["responses"]
        assert (topic["topic_name"], topic["partitions"][0]["error_code"]) == ("t", 0)
        assert await _start(client) == 1
        assert await ShareMember(client, "again").take((topic["topic_id"], 0)) == ["b", "c"]

    run(act)


def test_offsets_outside_of_the_log_are_moved_to_its_ends() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _leave(await _begin(client))
        for asked, got in ((-5, 0), (99, 3)):
            assert (await _alter(client, "t", 0, asked))["error_code"] == 0
            assert await _start(client) == got

    run(act)


def test_alteration_of_unknown_groups_topics_and_partitions_is_refused() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _leave(await _begin(client))
        assert (await _alter(client, "t", 0, 1, group="none"))["error_code"] == UNKNOWN_GROUP
        for topic, index in (("none", 0), ("t", 5)):
            reply = await _alter(client, topic, index, 1)
            (part,) = reply["responses"][0]["partitions"]
            assert (reply["error_code"], part["error_code"]) == (0, UNKNOWN_TOPIC)
        (part,) = (await _alter(client, "__deliveries", 0, 1))["responses"][0]["partitions"]
        assert part["error_code"] != 0

    run(act)


def test_share_group_without_members_forgets_a_topic() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = await _begin(client)
        assert (await _delete(client, "t"))["error_code"] == NON_EMPTY_GROUP
        await _leave(member)
        assert await _start(client) == 3
        reply = await _delete(client, "t")
        assert (reply["error_code"], reply["responses"][0]["error_code"]) == (0, 0)
        assert await _start(client) == -1
        # It begins with the topic as a new group would.
        assert await ShareMember(client, "again").take((reply["responses"][0]["topic_id"], 0)) == ["a", "b", "c"]
        assert (await _delete(client, "t", group="none"))["error_code"] == UNKNOWN_GROUP
        reply = await _delete(client, "none")
        assert (reply["error_code"], reply["responses"][0]["error_code"]) == (0, UNKNOWN_TOPIC)

    run(act)


def test_other_groups_keep_what_they_know_of_a_topic() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = await _begin(client)
        where = (server.server.broker.topics.topic("t").topic.id, 0)
        other = ShareMember(client, "o", group="other")
        assert await other.take(where) == ["a", "b", "c"]
        await _leave(member)
        assert (await _delete(client, "t"))["error_code"] == 0
        assert await other.take() == []
        assert (await other.acknowledge({where: [(0, 2, [1])]}))["error_code"] == 0

    run(act)
