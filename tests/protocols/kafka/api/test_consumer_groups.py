"""Members of groups whose broker assigns, asked by raw clients: joining, moving, leaving, and what is refused."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.protocols.kafka.api_kit import INVALID_REQUEST, pass_time, run
from tests.protocols.kafka.group_kit import (
    AWAY_EPOCH,
    INCONSISTENT_PROTOCOL,
    INSTANCE_FENCED,
    INSTANCE_IN_USE,
    INVALID_PATTERN,
    LEAVE_EPOCH,
    LEAVE_GROUP,
    MEMBER_FENCED,
    UNKNOWN_MEMBER,
    UNSUPPORTED_ASSIGNOR,
    ConsumerMember,
    Member,
    describe,
    describe_consumer,
    list_groups,
)
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import CREATE_PARTITIONS, RawClient
from tests.protocols.kafka.requests import create_topic, delete_topic
from tests.protocols.kafka.server import SimServer


async def _settle(*members: ConsumerMember) -> None:
    """Let members come until nothing changes any more; nobody may have what another has at any time."""
    for _ in range(10):
        before = [(member.epoch, dict(member.owned)) for member in members]
        for member in members:
            assert (await member.heartbeat())["error_code"] == 0
            held = [(topic, index) for each in members for topic, part in each.owned.items() for index in part]
            assert len(held) == len(set(held))
        if [(member.epoch, member.owned) for member in members] == before:
            return
    pytest.fail("the members do not come to rest")


def test_a_member_that_joins_is_given_the_partitions_of_its_topics() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = (await create_topic(client, "t", partitions=3))["topic_id"]
        member = ConsumerMember(client, "mine")
        reply = await member.heartbeat()
        assert (reply["error_code"], reply["error_message"], reply["member_id"]) == (0, None, "mine")
        assert member.owned == {topic_id: [0, 1, 2]}
        assert 0 < reply["heartbeat_interval"] <= 3000
        assert (await member.heartbeat())["assignment"] is None
        # Whoever says everything is told everything.
        whole: Plain = {"subscribed_topic_names": ["t"], "rebalance_timeout": 30_000}
        assert (await member.heartbeat(**whole))["assignment"]["topic_partitions"] == [
            {"topic_id": topic_id, "partitions": [0, 1, 2]}
        ]

    run(act)


def test_only_the_first_version_gives_ids_to_members() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        given = ConsumerMember(client, "")
        assert (await given.heartbeat(0))["error_code"] == 0
        assert str(UUID(given.id)) == given.id
        assert (await given.heartbeat(0))["error_code"] == 0
        assert (await ConsumerMember(client, "").heartbeat(1))["error_code"] == INVALID_REQUEST
        assert (await ConsumerMember(client, "", epoch=1).heartbeat(0))["error_code"] == INVALID_REQUEST

    run(act)


def test_members_share_partitions_and_nobody_has_what_another_has() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=6)
        members = [ConsumerMember(client, f"m{number}") for number in range(3)]
        for count in (1, 2, 3):
            await _settle(*members[:count])
            sizes = [len(member.partitions) for member in members[:count]]
            assert sum(sizes) == 6
            assert max(sizes) - min(sizes) <= 1
        assert (await members[0].heartbeat(member_epoch=LEAVE_EPOCH))["member_epoch"] == LEAVE_EPOCH
        await _settle(*members[1:])
        assert sorted(members[1].partitions + members[2].partitions) == list(range(6))

    run(act)


def test_members_are_given_new_partitions_and_topics_without_asking() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topic_id = (await create_topic(client, "t"))["topic_id"]
        member = ConsumerMember(client, "m", topics=("t", "later"))
        await member.heartbeat()
        assert member.owned == {topic_id: [0]}
        await client.call(CREATE_PARTITIONS, 3, {"topics": [{"name": "t", "count": 3}], "timeout": 1000})
        later_id = (await create_topic(client, "later"))["topic_id"]
        await _settle(member)
        assert member.owned == {topic_id: [0, 1, 2], later_id: [0]}
        await delete_topic(client, "later")
        # The member does not know yet, and says that it owns a part of what is gone.
        await _settle(member)
        assert member.owned == {topic_id: [0, 1, 2]}

    run(act)


def test_a_topic_that_is_made_anew_is_given_back_under_its_former_id_first() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        former = (await create_topic(client, "t", partitions=2))["topic_id"]
        one, two = ConsumerMember(client, "one"), ConsumerMember(client, "two")
        await one.heartbeat()
        await delete_topic(client, "t")
        anew = (await create_topic(client, "t", partitions=2))["topic_id"]
        await two.heartbeat()
        reply = await one.heartbeat(topic_partitions=[{"topic_id": former, "partitions": [0, 1]}])
        assert (reply["member_epoch"], reply["assignment"]) == (1, {"topic_partitions": []})
        # As long as it has not let go, it says so with the id that it knows; and may have missed the reply.
        one.owned = {former: [0, 1]}
        assert (await one.heartbeat())["assignment"] == {"topic_partitions": []}
        await two.heartbeat()
        assert two.owned == {}
        await _settle(one, two)
        assert one.owned.keys() == two.owned.keys() == {anew}
        assert sorted(one.partitions + two.partitions) == [0, 1]

    run(act)


def test_members_are_sent_away_by_their_instance_ids() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        static, other = ConsumerMember(client, "one", instance_id="i"), ConsumerMember(client, "two")
        await _settle(static, other)
        leavers = [{"member_id": "", "group_instance_id": name, "reason": "enough"} for name in ("i", "j")]
        reply = await client.call(LEAVE_GROUP, 5, {"group_id": "g", "members": leavers})
        assert [each["error_code"] for each in reply["members"]] == [0, UNKNOWN_MEMBER]
        assert (await static.heartbeat())["error_code"] == UNKNOWN_MEMBER
        await _settle(other)
        assert other.partitions == [0, 1]

    run(act)


def test_topics_are_subscribed_to_by_pattern() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        ids = {name: (await create_topic(client, name))["topic_id"] for name in ("a1", "a2", "b1")}
        member = ConsumerMember(client, "m")
        await member.heartbeat(subscribed_topic_names=None, subscribed_topic_regex="a.*")
        assert set(member.owned) == {ids["a1"], ids["a2"]}
        found = await describe_consumer(client)
        assert found["members"][0]["subscribed_topic_regex"] == "a.*"
        await _settle(member)
        later = (await create_topic(client, "a3"))["topic_id"]
        await _settle(member)
        assert set(member.owned) == {ids["a1"], ids["a2"], later}

    run(act)


def test_a_static_member_comes_back_to_what_it_had() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=4)
        first, second = ConsumerMember(client, "1", instance_id="one"), ConsumerMember(client, "2", instance_id="two")
        await _settle(first, second)
        had, epoch = first.owned, (await describe_consumer(client))["group_epoch"]
        again = ConsumerMember(await server.client(), "3", instance_id="one")
        assert (await again.heartbeat())["error_code"] == INSTANCE_IN_USE
        assert (await first.heartbeat(member_epoch=AWAY_EPOCH))["member_epoch"] == AWAY_EPOCH
        assert (await second.heartbeat())["assignment"] is None
        assert (await again.heartbeat())["error_code"] == 0
        await _settle(again, second)
        assert again.owned == had
        assert (await describe_consumer(client))["group_epoch"] == epoch
        assert (await first.heartbeat())["error_code"] == INSTANCE_FENCED

    run(act)


def test_a_member_that_is_silent_loses_its_partitions() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        silent, member = ConsumerMember(client, "silent"), ConsumerMember(client, "m")
        await _settle(silent, member)
        for _ in range(32):
            await pass_time(1)
            await member.heartbeat()
        assert member.partitions == [0, 1]
        assert (await silent.heartbeat())["error_code"] == UNKNOWN_MEMBER

    run(act)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, INVALID_REQUEST),
        ({"member_id": ""}, INVALID_REQUEST),
        ({"member_epoch": -3}, INVALID_REQUEST),
        ({"instance_id": ""}, INVALID_REQUEST),
        ({"rack_id": ""}, INVALID_REQUEST),
        ({"member_epoch": AWAY_EPOCH}, INVALID_REQUEST),
        ({"member_epoch": 0, "subscribed_topic_names": None}, INVALID_REQUEST),
        ({"server_assignor": "mine"}, UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, INVALID_PATTERN),
        ({"member_id": "somebody"}, UNKNOWN_MEMBER),
        ({"group_id": "other"}, UNKNOWN_MEMBER),
        ({"member_id": "somebody", "member_epoch": LEAVE_EPOCH}, UNKNOWN_MEMBER),
        ({"member_epoch": 7}, MEMBER_FENCED),
    ],
)
def test_a_heartbeat_that_does_not_fit_changes_nothing(changes: Plain, code: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        member = ConsumerMember(client, "m")
        await member.heartbeat()
        before = await describe_consumer(client)
        reply = await member.heartbeat(**changes)
        assert (reply["error_code"], reply["assignment"]) == (code, None)
        assert reply["error_message"]
        assert await describe_consumer(client) == before
        assert set(await list_groups(client)) == {"g"}
        assert (await member.heartbeat())["error_code"] == 0

    run(act)


def test_a_name_belongs_to_one_kind_of_group_while_it_has_members() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        classic = Member(client)
        await classic.enter()
        before = await describe(client)
        assert (await ConsumerMember(client, "m").heartbeat())["error_code"] == INCONSISTENT_PROTOCOL
        assert await describe(client) == before
        await classic.leave()
        member = ConsumerMember(client, "m")
        assert (await member.heartbeat())["error_code"] == 0
        # What the name stood for before is over; members of that time are not known.
        assert (await Member(client).join())["error_code"] == INCONSISTENT_PROTOCOL
        assert await classic.heartbeat() == UNKNOWN_MEMBER
        (left,) = (await classic.leave())["members"]
        assert left["error_code"] == UNKNOWN_MEMBER
        assert (await describe_consumer(client))["group_state"] == "Stable"
        assert (await member.heartbeat())["error_code"] == 0
        await member.heartbeat(member_epoch=LEAVE_EPOCH)
        assert (await Member(client).join())["error_code"] == 0

    run(act)
