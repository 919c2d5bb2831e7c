"""Groups by HTTP: list, describe and delete them, and the topics that store them."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from goqueue.client import Client, GroupPartition, PartitionOffset, StartAt, groups, messages, topics
from goqueue.errors import GroupNotEmpty, StaleMemberEpoch, UnknownGroup, UnknownMember
from goqueue.testing import Broker
from tests.protocols.http.expect import publish, refused
from tests.protocols.http.group_kit import Member, describe, done, fill, settle


def test_a_group_is_listed_with_its_members_and_lag(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    fill(http, topic, 4, 4)
    member = Member(http, topic, topic)
    member.join()
    done(member.commit(topic, (0, 1), (1, 4)))
    listed = done(http.get("/groups"))["groups"]
    assert [each["name"] for each in listed] == sorted(each["name"] for each in listed)
    (mine,) = [each for each in listed if each["name"] == topic]
    assert mine == {"name": topic, "kind": "consumer", "state": "stable", "members": 1, "lag": 3}


def test_a_group_is_described_with_all_that_is_known_of_it(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    fill(http, topic, 4, 4)
    first, second = Member(http, topic, topic, client_id="a"), Member(http, topic, topic, client_id="b")
    first.join()
    second.join()
    settle(first, second)
    (own,) = first.assigned
    done(first.commit(topic, (own, 1)))
    told = describe(http, topic)
    assert (told["name"], told["kind"], told["state"], told["generation"]) == (topic, "consumer", "stable", 2)
    assert (told["topics"], told["assignor"], told["lag"]) == ([topic], "sticky", 3)
    one, two = sorted(told["members"], key=lambda member: member["client_id"])
    assert (one["member_id"], one["client_id"], one["host"]) == (first.id, "a", "127.0.0.1")
    assert (one["generation"], one["state"], one["topics"]) == (2, "none", [topic])
    assert one["assigned"] == one["target"] == [{"topic": topic, "partition": own}]
    assert one["silent_seconds"] < 30
    assert two["assigned"] == [{"topic": topic, "partition": 1 - own}]
    mine, other = told["offsets"][own], told["offsets"][1 - own]
    assert (mine["offset"], mine["lag"], mine["owner"]["client_id"]) == (1, 3, "a")
    assert mine["committed_at"] is not None
    assert (other["offset"], other["lag"], other["owner"]["client_id"]) == (None, None, "b")
    assert (told["rebalance_count"], told["move_count"], len(told["rebalances"])) == (2, 1, 2)


def test_a_group_is_forgotten_with_its_offsets(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    member = Member(http, topic, topic)
    member.join()
    done(member.commit(topic, (0, 2)))
    refused(http.delete(f"/groups/{topic}"), 409, "group_not_empty")
    member.leave()
    reply = http.delete(f"/groups/{topic}")
    assert (reply.status_code, reply.content) == (204, b"")
    for path in ("", "/offsets", "/cooperative", "/rebalance/stats"):
        refused(http.get(f"/groups/{topic}{path}"), 404, "unknown_group")
    refused(http.delete(f"/groups/{topic}"), 404, "unknown_group")
    member.join()
    assert len(member.values()) == 3


def test_looking_at_groups_makes_nothing() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http) as http:
        assert done(http.get("/groups")) == {"groups": [], "complete": True}
        assert done(http.get("/rebalance/stats"))["groups"] == []
        refused(http.get("/groups/g"), 404, "unknown_group")
        refused(http.get("/groups/g/poll", params={"member_id": "m", "generation": 1}), 404, "unknown_member")
        body = {"to": "earliest", "dry_run": True}
        refused(http.post("/groups/g/offsets/reset", json=body), 404, "unknown_group")
        assert done(http.get("/topics", params={"internal": True})) == {"topics": []}


def test_the_brokers_own_topics_are_shown_only_on_request(http: httpx.Client, topic: str) -> None:
    Member(http, topic, topic).join()
    shown = {each["name"] for each in done(http.get("/topics"))["topics"]}
    assert topic in shown
    assert not any(name.startswith("__") for name in shown)
    everything = done(http.get("/topics", params={"internal": "true"}))["topics"]
    assert {each["name"] for each in everything if each["is_internal"]} >= {"__consumer_offsets"}
    refused(http.get("/topics", params={"internal": "perhaps"}), 400, "malformed_request")


def test_the_client_speaks_the_same_words(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    with Client(broker.http) as client:
        client.send(messages.publish(topic, [messages.NewMessage(f"{number}", partition=0) for number in range(6)]))
        member = client.send(groups.join(topic, [topic], client_id="worker"))
        assert (member.is_rebalancing, len(member.assignment)) == (False, 2)
        page = client.send(groups.poll(topic, member, limit=4))
        assert [message.value for message in page.messages] == [b"0", b"1", b"2", b"3"]
        # Of both partitions, though one is empty.
        assert client.send(groups.commit(topic, page.offsets, member=member)) == [None, None]
        (wrong,) = client.send(groups.commit(topic, [PartitionOffset("nowhere", 0, 1)], member=member))
        assert wrong is not None
        assert wrong.code == "unknown_topic"
        page = client.send(groups.poll(topic, member, after=page.number, is_auto_commit=True, start_at=StartAt.LATEST))
        assert [message.offset for message in page.messages] == [4, 5]
        assert client.send(groups.heartbeat(topic, member)) == member
        assert [each.name for each in client.send(groups.list_all()) if each.name == topic] == [topic]
        described = client.send(groups.describe(topic))
        assert (described.members[0].client_id, described.lag) == ("worker", 2)
        assert client.send(groups.offsets(topic)).lag == 2
        assert client.send(groups.assignment(topic, member.member_id)).assigned == member.assignment
        with pytest.raises(GroupNotEmpty):
            client.send(groups.delete(topic))
        with pytest.raises(GroupNotEmpty):
            client.send(groups.reset(topic, "earliest"))
        client.send(groups.leave(topic, member.member_id))
        with pytest.raises(UnknownMember):
            client.send(groups.poll(topic, member))
        (move,) = client.send(groups.reset(topic, "offset", offset=1, partitions=[GroupPartition(topic, 0)]))
        assert (move.before, move.after, move.read_again) == (4, 1, 3)
        client.send(groups.delete(topic))
        with pytest.raises(UnknownGroup):
            client.send(groups.rebalance_stats(topic))
        assert client.send(groups.all_rebalance_stats()).rebalance_count >= 0
        assert any(each.is_internal for each in client.send(topics.list_all(with_internal=True)))
        assert not any(each.is_internal for each in client.send(topics.list_all()))


def test_the_client_can_be_a_cooperative_member(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    with Client(broker.http) as client:
        first = client.send(groups.join_cooperatively(topic, [topic]))
        second = client.send(groups.join_cooperatively(topic, [topic]))
        first = client.send(groups.heartbeat_cooperatively(topic, first))
        assert (first.state, len(first.revoke)) == ("pending_revoke", 1)
        asked = first.revoke
        first = client.send(groups.revoke(topic, first, first.revoke))
        second = client.send(groups.heartbeat_cooperatively(topic, second, owned=[]))
        assert second.assigned == asked
        assert client.send(groups.cooperative(topic)).state == "stable"
        with pytest.raises(StaleMemberEpoch):
            client.send(groups.poll(topic, Stale(first.member_id, 1)))


class Stale:
    """A member that has missed something."""

    def __init__(self, member_id: str, generation: int) -> None:
        self.member_id = member_id
        self.generation = generation


def test_reading_leaves_out_what_is_not_committed_unless_asked_otherwise(http: httpx.Client, topic: str) -> None:
    publish(http, topic, {"value": "plain"})
    path = f"/topics/{topic}/partitions/0/messages"
    for isolation in ("read_committed", "read_uncommitted"):
        assert len(done(http.get(path, params={"isolation": isolation}))["messages"]) == 1
    refused(http.get(path, params={"isolation": "read_everything"}), 400, "malformed_request")
