"""Offsets of groups, asked by raw clients: every version, who may set them, and what is told where."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.api_kit import UNKNOWN_ID, UNKNOWN_TOPIC, run
from tests.protocols.kafka.group_kit import (
    GROUP_SUBSCRIBED,
    ILLEGAL_GENERATION,
    INVALID_GROUP,
    METADATA_TOO_LARGE,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    REBALANCING,
    STALE_EPOCH,
    UNKNOWN_GROUP,
    UNKNOWN_MEMBER,
    UNSUPPORTED_VERSION,
    ConsumerMember,
    Member,
    commit,
    committed,
    describe,
    list_groups,
    offsets,
)
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer, serving

NO_OFFSET = -1
TOPIC_IDS_FROM = 10


async def _topic(client: RawClient, name: str = "t", partitions: int = 3) -> UUID:
    topic_id: UUID = (await create_topic(client, name, partitions=partitions))["topic_id"]
    return topic_id


async def _fetch(client: RawClient, version: int, topics: list[Plain] | None, group: str = "g") -> Plain:
    """Return what is told of one group, in the form of its version."""
    if version < 8:
        return await client.call(OFFSET_FETCH, version, {"group_id": group, "topics": topics})
    reply = await client.call(OFFSET_FETCH, version, {"groups": [{"group_id": group, "topics": topics}]})
    (found,) = reply["groups"]
    assert found["group_id"] == group
    result: Plain = found
    return result


def _wanted(version: int, topic_id: UUID, *indexes: int) -> list[Plain]:
    named = {"name": "t"} if version < TOPIC_IDS_FROM else {"topic_id": topic_id}
    return [{**named, "partition_indexes": list(indexes)}]


def _parts(reply: Plain) -> dict[int, tuple[int, str, int]]:
    (topic,) = reply["topics"]
    return {
        part["partition_index"]: (part["committed_offset"], part["metadata"], part["error_code"])
        for part in topic["partitions"]
    }


@pytest.mark.parametrize("version", range(2, 11))
def test_what_was_committed_is_told_in_every_version(version: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = await _topic(client)
        named = "t" if version < TOPIC_IDS_FROM else topic_id
        assert await commit(client, offsets({0: 5, 2: 2**40}, named, "note"), version=version) == [0, 0]
        assert await commit(client, offsets({1: 0}, named, None), version=version) == [0]
        for fetch_version in range(1, 11):
            found = await _fetch(client, fetch_version, _wanted(fetch_version, topic_id, 0, 1, 2, 7))
            assert found.get("error_code", 0) == 0
            assert _parts(found) == {
                0: (5, "note", 0),
                1: (0, "", 0),
                2: (2**40, "note", 0),
                7: (NO_OFFSET, "", 0),
            }

    run(act)


def test_the_epoch_of_a_leader_is_kept_beside_the_offset() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = await _topic(client)
        topics = offsets({0: 5})
        topics[0]["partitions"][0]["committed_leader_epoch"] = 3
        await commit(client, topics)
        await commit(client, offsets({1: 5}))
        (topic,) = (await _fetch(client, 9, _wanted(9, topic_id, 0, 1)))["topics"]
        assert [part["committed_leader_epoch"] for part in topic["partitions"]] == [3, -1]

    run(act)


def test_no_topics_are_all_topics() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id, other_id = await _topic(client), await _topic(client, "other")
        await commit(client, offsets({2: 7, 0: 5}) + offsets({1: 1}, "other"))
        for version in range(2, 11):
            found = await _fetch(client, version, None)
            names = {topic_id: "t", other_id: "other"}
            by_name = {
                topic["name"] if version < TOPIC_IDS_FROM else names[topic["topic_id"]]: [
                    (part["partition_index"], part["committed_offset"]) for part in topic["partitions"]
                ]
                for topic in found["topics"]
            }
            assert by_name == {"t": [(0, 5), (2, 7)], "other": [(1, 1)]}
        assert (await _fetch(client, 9, None, "nobody"))["topics"] == []
        assert await list_groups(client, types_filter=["consumer"]) == {}

    run(act)


def test_many_groups_are_asked_for_at_once() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _topic(client)
        await commit(client, offsets({0: 5}), group="a")
        await commit(client, offsets({0: 6}), group="b")
        wanted = [{"group_id": name, "topics": _wanted(8, UUID(int=0), 0)} for name in ("b", "", "a")]
        found = (await client.call(OFFSET_FETCH, 8, {"groups": wanted}))["groups"]
        assert [(each["group_id"], each["error_code"]) for each in found] == [("b", 0), ("", INVALID_GROUP), ("a", 0)]
        assert [_parts(each)[0][0] for each in (found[0], found[2])] == [6, 5]
        assert found[1]["topics"] == []

    run(act)


def test_an_error_of_the_group_is_told_where_the_version_has_a_place_for_it() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = await _topic(client)
        for version in range(1, 11):
            found = await _fetch(client, version, _wanted(version, topic_id, 0, 1), "")
            if version == 1:
                assert _parts(found) == dict.fromkeys((0, 1), (NO_OFFSET, "", INVALID_GROUP))
            else:
                assert (found["error_code"], found["topics"]) == (INVALID_GROUP, [])
        for version in range(2, 11):
            named = "t" if version < TOPIC_IDS_FROM else topic_id
            assert await commit(client, offsets({0: 1, 1: 1}, named), version=version, group="") == [INVALID_GROUP] * 2

    run(act)


def test_a_partition_that_is_not_there_is_refused_alone() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = await _topic(client)
        topics = offsets({0: 1, 3: 1, -1: 1}) + offsets({0: 1}, "nowhere")
        assert await commit(client, topics) == [0, UNKNOWN_TOPIC, UNKNOWN_TOPIC, UNKNOWN_TOPIC]
        unknown = UUID(int=7)
        topics = offsets({0: 2, 3: 1}, topic_id) + offsets({0: 1, 1: 1}, unknown)
        assert await commit(client, topics, version=10) == [0, UNKNOWN_TOPIC, UNKNOWN_ID, UNKNOWN_ID]
        assert await committed(client) == {("t", 0): 2}
        wanted = [{"topic_id": unknown, "partition_indexes": [0, 4]}, *_wanted(10, topic_id, 0)]
        first, second = (await _fetch(client, 10, wanted))["topics"]
        assert first["topic_id"] == unknown
        assert [(part["partition_index"], part["error_code"]) for part in first["partitions"]] == [
            (0, UNKNOWN_ID),
            (4, UNKNOWN_ID),
        ]
        assert second["partitions"][0]["committed_offset"] == 2

    run(act)


def test_metadata_of_an_offset_is_bounded() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _topic(client)
        assert await commit(client, offsets({0: 1}, metadata="x" * 4097)) == [METADATA_TOO_LARGE]
        assert await committed(client) == {}
        assert await commit(client, offsets({0: 1}, metadata="x" * 4096)) == [0]

    run(act)


def test_only_members_of_the_generation_commit_while_there_are_any() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _topic(client)
        member = Member(client)
        await member.enter({"t": [0, 1]})
        before = await describe(client)
        for member_id, epoch, code in (
            (member.id, member.generation, 0),
            (member.id, 0, ILLEGAL_GENERATION),
            (member.id, 2, ILLEGAL_GENERATION),
            (member.id, -1, ILLEGAL_GENERATION),
            ("somebody", 1, UNKNOWN_MEMBER),
            ("", -1, UNKNOWN_MEMBER),
            ("", 1, UNKNOWN_MEMBER),
        ):
            found = await commit(client, offsets({0: 5, 1: 6}), member_id=member_id, epoch=epoch)
            assert found == [code, code], (member_id, epoch)
        assert await committed(client) == {("t", 0): 5, ("t", 1): 6}
        assert await describe(client) == before

    run(act)


def test_a_member_does_not_commit_what_another_one_reads() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _topic(client)
        first, second = Member(client), Member(await server.client())
        await first.enter({"t": [0, 1, 2]})
        second.client.send(11, 3, second.join_request())
        while await first.heartbeat() == 0:
            pass
        await first.join(3)
        second.id = (await second.client.reply())["member_id"]
        found = await commit(client, offsets({0: 1}), member_id=first.id, epoch=first.generation)
        assert found == [REBALANCING]
        await first.sync({first.id: {"t": [0, 1]}, second.id: {"t": [2]}})
        found = await commit(client, offsets({1: 1, 2: 1}), member_id=first.id, epoch=first.generation)
        assert found == [0, ILLEGAL_GENERATION]
        assert await committed(client) == {("t", 1): 1}

    run(act)


def test_a_member_of_an_epoch_that_is_over_does_not_commit() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _topic(client)
        member = ConsumerMember(client, "m")
        await member.heartbeat()
        assert member.partitions == [0, 1, 2]
        for version, epoch, codes in (
            (9, member.epoch, [0, 0]),
            (8, member.epoch, [0, 0]),
            (9, member.epoch - 1, [STALE_EPOCH] * 2),
            (9, member.epoch + 1, [STALE_EPOCH] * 2),
            (8, member.epoch + 1, [UNSUPPORTED_VERSION] * 2),
        ):
            found = await commit(client, offsets({0: 1, 1: 2}), version=version, member_id="m", epoch=epoch)
            assert found == codes
        assert await commit(client, offsets({0: 9}), member_id="x", epoch=1) == [UNKNOWN_MEMBER]
        assert await commit(client, offsets({0: 9})) == [UNKNOWN_MEMBER]
        assert await committed(client) == {("t", 0): 1, ("t", 1): 2}

    run(act)


def test_a_reader_of_an_epoch_that_is_over_is_told_no_offsets() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _topic(client)
        member = ConsumerMember(client, "m")
        await member.heartbeat()

        async def ask(member_id: str | None, epoch: int) -> int:
            group = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "topics": None}
            (found,) = (await client.call(OFFSET_FETCH, 9, {"groups": [group]}))["groups"]
            return int(found["error_code"])

        assert await ask("m", member.epoch) == 0
        assert await ask("m", member.epoch + 1) == STALE_EPOCH
        assert await ask("x", member.epoch) == UNKNOWN_MEMBER
        assert await ask(None, -1) == 0
        assert await ask("", -1) == 0

    run(act)


def test_offsets_go_for_topics_that_nobody_reads() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _topic(client)
        await _topic(client, "other")
        await commit(client, offsets({0: 5}) + offsets({0: 6, 1: 7}, "other"))
        await Member(client).enter()

        async def delete(group: str, topics: dict[str, list[int]]) -> tuple[int, list[int]]:
            wanted = [
                {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
                for name, indexes in topics.items()
            ]
            reply = await client.call(OFFSET_DELETE, 0, {"group_id": group, "topics": wanted})
            return reply["error_code"], [part["error_code"] for each in reply["topics"] for part in each["partitions"]]

        found = await delete("g", {"nowhere": [0], "t": [0], "other": [1, 2]})
        assert found == (0, [UNKNOWN_TOPIC, GROUP_SUBSCRIBED, 0, 0])
        assert await committed(client) == {("t", 0): 5, ("other", 0): 6}
        assert await delete("", {"t": [0]}) == (INVALID_GROUP, [])
        assert (await delete("nobody", {"t": [0]}))[0] == UNKNOWN_GROUP

    run(act)


def test_offsets_are_there_after_a_restart() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await _topic(client)
            # An old version says for how long offsets are to be kept; nobody asks any more.
            request = {
                "group_id": "g",
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "retention_time": 1,
                "topics": offsets({0: 5}),
            }
            await client.call(OFFSET_COMMIT, 2, request)
            await server.stop()
            await server.start()
            assert await committed(await server.client()) == {("t", 0): 5}

    simulate(main, 7)


def test_a_topic_takes_its_offsets_with_it() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _topic(client)
        await _topic(client, "other")
        await commit(client, offsets({0: 5}) + offsets({1: 1}, "other"))
        await client.call(20, 6, {"topics": [{"name": "t"}], "timeout": 1000})
        await _topic(client)
        assert await committed(client) == {("other", 1): 1}

    run(act)
