"""ShareGroupHeartbeat and ShareGroupDescribe, and share groups among others: frame by frame."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.queues.receive_and_settle import receive
from goqueue.broker.queues.receiving import ReceiveTerms, Source
from tests.protocols.kafka.api_kit import INVALID_REQUEST, pass_time, run
from tests.protocols.kafka.group_kit import (
    CONSUMER_DESCRIBE,
    INCONSISTENT_PROTOCOL,
    MEMBER_FENCED,
    NON_EMPTY_GROUP,
    UNKNOWN_GROUP,
    UNKNOWN_MEMBER,
    ConsumerMember,
    Member,
    commit,
    committed,
    delete_groups,
    describe,
    list_groups,
    offsets,
)
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic, delete_topic, grow_topic
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import ACCEPT, JOIN, LEAVE, SHARE_DESCRIBE, SHARE_OFFSETS, ShareMember, publish
from tests.protocols.kafka.transaction_kit import TxnProducer


def _assigned(reply: Plain) -> list[int]:
    assert reply["error_code"] == 0, reply["error_message"]
    return [index for each in reply["assignment"]["topic_partitions"] for index in each["partitions"]]


async def _described(client: RawClient, group: str = "g") -> Plain:
    (found,) = (await client.call(SHARE_DESCRIBE, 1, {"group_ids": [group]}))["groups"]
    described: Plain = found
    return described


def test_a_member_that_joins_is_told_where_to_look_and_when_to_come_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = (await create_topic(client, "t", partitions=3))["topic_id"]
        member = ShareMember(client)
        reply = await member.heartbeat()
        assert (reply["error_code"], reply["error_message"], reply["member_id"]) == (0, None, "m")
        assert reply["assignment"]["topic_partitions"] == [{"topic_id": topic_id, "partitions": [0, 1, 2]}]
        assert 0 < reply["heartbeat_interval"] <= 5000
        assert (await member.heartbeat())["assignment"] is None
        # Whoever says everything is told everything.
        assert _assigned(await member.heartbeat(subscribed_topic_names=["t"])) == [0, 1, 2]

    run(act)


def test_partitions_are_dealt_out_and_shared_if_there_are_more_members() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        members = [ShareMember(client, f"m{number}") for number in range(5)]
        for member in members:
            await member.heartbeat()
        shares = [_assigned(await member.heartbeat(subscribed_topic_names=["t"])) for member in members]
        assert sorted(map(len, shares)) == [1] * 5
        assert sorted(index for share in shares for index in share) == [0, 0, 0, 1, 1]
        for member in members[1:]:
            assert (await member.heartbeat(member_epoch=LEAVE))["member_epoch"] == LEAVE
        assert _assigned(await members[0].heartbeat()) == [0, 1]

    run(act)


def test_new_partitions_and_topics_are_told_with_the_next_heartbeat() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        member = ShareMember(client, topics=("t", "later"))
        assert _assigned(await member.heartbeat()) == [0]
        assert await grow_topic(client, "t", 3) == 0
        assert _assigned(await member.heartbeat()) == [0, 1, 2]
        await create_topic(client, "later")
        assert _assigned(await member.heartbeat()) == [0, 0, 1, 2]
        await delete_topic(client, "later")
        assert _assigned(await member.heartbeat()) == [0, 1, 2]
        await create_topic(client, "unread")
        assert (await member.heartbeat())["assignment"] is None

    run(act)


def test_a_topic_that_is_made_anew_is_told_under_its_new_id() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        member = ShareMember(client)
        await member.heartbeat()
        await delete_topic(client, "t")
        anew = (await create_topic(client, "t"))["topic_id"]
        told = (await member.heartbeat())["assignment"]["topic_partitions"]
        assert told == [{"topic_id": anew, "partitions": [0]}]

    run(act)


def test_a_lost_reply_is_told_again_and_another_epoch_is_fenced() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        one, two = ShareMember(client, "one"), ShareMember(client, "two")
        await one.heartbeat()
        before = one.epoch
        await two.heartbeat()
        for _ in range(3):
            assert _assigned(await one.heartbeat(member_epoch=before)) == [0]
        assert one.epoch > before
        assert (await one.heartbeat())["assignment"] is None
        assert (await one.heartbeat(member_epoch=before))["error_code"] == MEMBER_FENCED
        assert (await one.heartbeat(member_epoch=one.epoch + 1))["error_code"] == MEMBER_FENCED
        assert (await one.heartbeat(member_epoch=JOIN, subscribed_topic_names=["t"]))["error_code"] == 0

    run(act)


def test_a_silent_member_is_forgotten_and_has_to_join_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        silent, lively = ShareMember(client, "silent"), ShareMember(client, "lively")
        await silent.heartbeat()
        await lively.heartbeat()
        for _ in range(8):
            await pass_time(5)
            await lively.heartbeat()
        await pass_time(6)
        assert _assigned(await lively.heartbeat()) == [0, 1]
        assert (await silent.heartbeat())["error_code"] == UNKNOWN_MEMBER
        silent.epoch = JOIN
        assert (await silent.heartbeat())["error_code"] == 0

    run(act)


def test_after_a_restart_members_are_unknown_and_the_group_is_there() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        member = ShareMember(client)
        await member.heartbeat()
        await server.stop()
        await server.start()
        member.client = await server.client()
        assert (await _described(member.client))["group_state"] == "Empty"
        assert (await member.heartbeat())["error_code"] == UNKNOWN_MEMBER
        member.epoch = JOIN
        assert _assigned(await member.heartbeat()) == [0]

    run(act)


@pytest.mark.parametrize(
    "changes",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"member_epoch": -2},
        {"rack_id": ""},
        {"subscribed_topic_names": []},
        {"subscribed_topic_names": None},
        {"member_id": "m" * 2000},
        {"subscribed_topic_names": ["t" * 249 + str(number) for number in range(1000)]},
    ],
    ids="-".join,
)
def test_what_no_member_can_say_is_refused_and_makes_no_group(changes: Plain) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert (await ShareMember(client).heartbeat(**changes))["error_code"] == INVALID_REQUEST
        assert await list_groups(client) == {}

    run(act)


def test_whoever_never_joined_is_unknown() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for epoch in (1, LEAVE):
            assert (await ShareMember(client).heartbeat(member_epoch=epoch))["error_code"] == UNKNOWN_MEMBER

    run(act)


def test_a_name_belongs_to_a_stream_group_or_to_a_share_group() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        await ConsumerMember(client, "c", group="streams").heartbeat()
        share = ShareMember(client, group="streams")
        assert (await share.heartbeat())["error_code"] == INCONSISTENT_PROTOCOL
        assert (await share.fetch((uuid4(), 0)))["error_code"] == INCONSISTENT_PROTOCOL
        await ShareMember(client, group="shares").heartbeat()
        stream = ConsumerMember(client, "c", group="shares")
        assert (await stream.heartbeat())["error_code"] == INCONSISTENT_PROTOCOL
        assert (await Member(client, group="shares").join())["error_code"] == INCONSISTENT_PROTOCOL

    run(act)


def test_offsets_are_not_committed_under_the_name_of_a_share_group_nor_the_other_way_round() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        share = ShareMember(client)
        await share.heartbeat()
        assert await commit(client, offsets({0: 0})) == [INCONSISTENT_PROTOCOL]
        producer = TxnProducer(client)
        await producer.init()
        assert await producer.add_group() == INCONSISTENT_PROTOCOL
        assert await producer.commit_offsets({0: 0}) == [INCONSISTENT_PROTOCOL]
        assert await committed(client) == {}
        await share.heartbeat(member_epoch=LEAVE)
        assert await delete_groups(client, "g") == [0]
        assert await commit(client, offsets({0: 0})) == [0]
        assert (await ShareMember(client).heartbeat())["error_code"] == INCONSISTENT_PROTOCOL
        assert await delete_groups(client, "g") == [0]
        assert (await ShareMember(client).heartbeat())["error_code"] == 0

    run(act)


def test_share_groups_are_listed_and_described_with_their_members() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = (await create_topic(client, "t", partitions=2))["topic_id"]
        await ConsumerMember(client, "c", group="streams").heartbeat()
        member = ShareMember(client)
        await member.heartbeat(rack_id="here")
        assert set(await list_groups(client)) == {"g", "streams"}
        listed = (await list_groups(client, types_filter=["share"]))["g"]
        assert (listed["group_state"], listed["group_type"], listed["protocol_type"]) == ("Stable", "share", "share")
        found = await _described(client)
        assert (found["error_code"], found["group_state"], found["assignor_name"]) == (0, "Stable", "simple")
        assert found["group_epoch"] == found["assignment_epoch"] == member.epoch
        (described,) = found["members"]
        part = {"topic_id": topic_id, "topic_name": "t", "partitions": [0, 1]}
        assert described["assignment"] == {"topic_partitions": [part]}
        assert (described["member_id"], described["member_epoch"]) == ("m", member.epoch)
        assert (described["client_id"], described["client_host"], described["rack_id"]) == ("raw", "/client", "here")
        assert described["subscribed_topic_names"] == ["t"]
        await member.heartbeat(member_epoch=LEAVE)
        assert set(await list_groups(client, states_filter=["Empty"])) == {"g"}
        assert (await _described(client))["members"] == []

    run(act)


def test_a_group_of_another_kind_or_of_no_kind_is_no_share_group() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        await ConsumerMember(client, "c", group="streams").heartbeat()
        await ShareMember(client, group="shares").heartbeat()
        for name in ("streams", "nobody"):
            found = await _described(client, name)
            assert (found["error_code"], found["group_state"]) == (UNKNOWN_GROUP, "Dead")
        assert (await describe(client, "shares"))["error_code"] == UNKNOWN_GROUP
        (found,) = (await client.call(CONSUMER_DESCRIBE, 1, {"group_ids": ["shares"]}))["groups"]
        assert found["error_code"] == UNKNOWN_GROUP

    run(act)


def test_a_group_of_which_somebody_receives_by_http_cannot_be_deleted() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        broker = server.server.broker
        waiting = asyncio.create_task(
            receive(broker.queues, INSIDE, ReceiveTerms(Source("g", ("t",)), "ann", wait_ms=5_000))
        )
        await pass_time(1)
        assert await delete_groups(client, "g") == [NON_EMPTY_GROUP]
        assert not (await waiting).received
        assert await delete_groups(client, "g") == [0]

    run(act)


def test_a_share_group_without_members_can_be_deleted() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        member = ShareMember(client)
        await member.heartbeat()
        assert await delete_groups(client, "g") == [NON_EMPTY_GROUP]
        await member.heartbeat(member_epoch=LEAVE)
        assert await delete_groups(client, "g") == [0]
        assert await list_groups(client) == {}

    run(act)


@pytest.mark.parametrize("version", [0, 1])
def test_how_far_a_share_group_is_can_be_asked(version: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = (await create_topic(client, "t", partitions=2))["topic_id"]
        await publish(client, "t", *"abcde")
        member = ShareMember(client)
        await member.fetch((topic_id, 0), max_records=3, version=2, share_acquire_mode=1)
        await member.acknowledge({(topic_id, 0): [(0, 1, [ACCEPT])]})
        wanted = [{"topic_name": "t", "partitions": [0]}, {"topic_name": "other", "partitions": [0]}]
        request = {"groups": [{"group_id": name, "topics": topics} for name, topics in (("g", None), ("g", wanted))]}
        request["groups"].append({"group_id": "nobody", "topics": None})
        whole, some, nobody = (await client.call(SHARE_OFFSETS, version, request))["groups"]
        (topic,) = whole["topics"]
        assert (topic["topic_name"], topic["topic_id"]) == ("t", topic_id)
        assert [each["start_offset"] for each in topic["partitions"]] == [2, 0]
        assert [each.get("lag") for each in topic["partitions"]] == ([3, 0] if version else [None, None])
        assert [[each["start_offset"] for each in topic["partitions"]] for topic in some["topics"]] == [[2], [-1]]
        assert (nobody["error_code"], nobody["topics"]) == (UNKNOWN_GROUP, [])

    run(act)
