"""Groups that HTTP members share with Kafka's clients, and transactions of Kafka's producers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from confluent_kafka import Consumer, Producer, ShareConsumer

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, read, refused, values
from tests.protocols.http.group_kit import Member, describe, done, fill

DEADLINE_S = 120.0
# Each turn asks a Kafka client for messages that long.
TURN_S = 0.1


def consumer(broker: Broker, group: str, topic: str, protocol: str) -> Consumer:
    """A Kafka client that is about to be a member."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "client.id": "librdkafka",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    made = Consumer(settings)
    made.subscribe([topic])
    return made


def assigned(member: Consumer) -> set[int]:
    """Return what a Kafka client has."""
    return {each.partition for each in member.assignment()}


def until(fact: Callable[[], bool], *turns: Callable[[], object]) -> None:
    """Give all members turns until a condition holds."""
    for _ in range(round(DEADLINE_S / TURN_S)):
        for turn in turns:
            turn()
        if fact():
            return
    raise AssertionError("it did not happen in time")


def test_share_consumers_are_seen_though_they_hold_nothing(
    http: httpx.Client, new_topic: Callable[..., str], broker: Broker
) -> None:
    topic = new_topic(1)
    member = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "client.id": "librdkafka",
            "share.acknowledgement.mode": "explicit",
        }
    )
    member.subscribe([topic])

    def listed() -> dict[str, Any]:
        (found,) = [each for each in done(http.get("/groups"))["groups"] if each["name"] == topic] or [{}]
        return dict(found)

    until(lambda: listed().get("members") == 1, lambda: member.poll(TURN_S))
    assert (listed()["kind"], listed()["state"]) == ("queue", "stable")
    (seen,) = done(http.get(f"/queues/{topic}"))["members"]
    assert (seen["client_id"], seen["topics"], seen["in_flight"]) == ("librdkafka", [topic], 0)
    assert seen["host"]
    (told,) = describe(http, topic)["members"]
    assert (told["member_id"], told["client_id"], told["host"]) == (seen["member_id"], "librdkafka", seen["host"])
    assert (told["topics"], told["assigned"]) == ([topic], [{"topic": topic, "partition": 0}])
    assert told["in_flight"] == 0
    refused(http.delete(f"/queues/{topic}"), 409, "group_not_empty")

    publish(http, topic, *({"value": str(number)} for number in range(3)))
    until(lambda: describe(http, topic)["members"][0]["in_flight"] == 3, lambda: member.poll(TURN_S))
    assert done(http.get(f"/queues/{topic}"))["members"] == [{**seen, "in_flight": 3}]
    member.close()
    until(lambda: listed()["members"] == 0)
    assert (listed()["state"], done(http.get(f"/queues/{topic}"))["members"]) == ("empty", [])


def test_a_kafka_member_and_an_http_member_share_a_group(
    http: httpx.Client, new_topic: Callable[..., str], broker: Broker
) -> None:
    topic = new_topic(4)
    ours = Member(http, topic, topic, client_id="http")
    ours.join()
    theirs = consumer(broker, topic, topic, "consumer")
    seen: list[str] = []

    def poll_theirs() -> None:
        message = theirs.poll(TURN_S)
        if message is not None and message.error() is None:
            seen.append((message.value() or b"").decode())
        assert not assigned(theirs) & ours.assigned

    try:
        until(lambda: len(assigned(theirs)) == len(ours.assigned) == 2, poll_theirs, ours.heartbeat)
        fill(http, topic, 3, 3, 3, 3)
        own = ours.values()
        until(lambda: len(seen) == 6, poll_theirs, ours.heartbeat)
        assert sorted(own + seen) == sorted(f"{partition}/{number}" for partition in range(4) for number in range(3))
        told = describe(http, topic)
        assert (told["kind"], told["state"]) == ("consumer", "stable")
        assert {member["client_id"] for member in told["members"]} == {"http", "librdkafka"}
        theirs.commit(asynchronous=False)
        committed = {each["partition"]: each["offset"] for each in describe(http, topic)["offsets"]}
        assert {partition for partition, offset in committed.items() if offset == 3} == assigned(theirs)
        ours.leave()
        until(lambda: len(assigned(theirs)) == 4, poll_theirs)
        until(lambda: len(seen) == 12, poll_theirs)
        ours.join()
        until(lambda: len(assigned(theirs)) == len(ours.assigned) == 2, poll_theirs, ours.heartbeat)
    finally:
        theirs.close()
    until(lambda: len(ours.assigned) == 4, ours.heartbeat)
    assert describe(http, topic)["rebalances"][-1]["reason"].endswith(" left")


def test_a_classic_group_is_shown_and_takes_no_http_members(
    http: httpx.Client, new_topic: Callable[..., str], broker: Broker
) -> None:
    topic = new_topic(2)
    fill(http, topic, 2, 2)
    theirs = consumer(broker, topic, topic, "classic")
    try:
        until(lambda: len(assigned(theirs)) == 2, lambda: theirs.poll(TURN_S))
        told = describe(http, topic)
        assert (told["kind"], told["state"], told["topics"]) == ("classic", "stable", [topic])
        (member,) = told["members"]
        assert (member["client_id"], member["host"]) == ("librdkafka", "127.0.0.1")
        assert {each["partition"] for each in member["assigned"]} == {0, 1}
        assert {each["owner"]["member_id"] for each in told["offsets"]} == {member["member_id"]}
        assert told["rebalances"]
        (listed,) = [each for each in done(http.get("/groups"))["groups"] if each["name"] == topic]
        assert (listed["kind"], listed["state"], listed["members"]) == ("classic", "stable", 1)
        code = "inconsistent_group_protocol"
        refused(http.post(f"/groups/{topic}/join", json={"topics": [topic]}), 409, code)
        refused(http.get(f"/groups/{topic}/cooperative"), 409, code)
        refused(http.delete(f"/groups/{topic}"), 409, "group_not_empty")
        refused(
            http.post(f"/groups/{topic}/offsets/reset", json={"to": "latest", "topics": [topic]}),
            409,
            "group_not_empty",
        )
    finally:
        theirs.close()
    ours = Member(http, topic, topic)
    ours.join()
    assert ours.assigned == {0, 1}


def test_members_read_committed_messages_only(http: httpx.Client, topic: str, broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(DEADLINE_S)
    member = Member(http, topic, topic)
    member.join()
    publish(http, topic, {"value": "before"})
    producer.begin_transaction()
    producer.produce(topic, "aborted")
    assert producer.flush(DEADLINE_S) == 0
    publish(http, topic, {"value": "behind"})
    assert member.values() == ["before"]
    assert member.values() == []
    assert values(read(http, topic)) == values(read(http, topic, isolation="read_committed")) == ["before"]
    assert values(read(http, topic, isolation="read_uncommitted")) == ["before", "aborted", "behind"]
    producer.abort_transaction(DEADLINE_S)
    assert member.values(wait="10s") == ["behind"]
    producer.begin_transaction()
    producer.produce(topic, "committed")
    producer.commit_transaction(DEADLINE_S)
    assert member.values(wait="10s") == ["committed"]
    assert values(read(http, topic)) == ["before", "behind", "committed"]
    assert values(read(http, topic, isolation="read_uncommitted"))[1] == "aborted"
