"""The frames of groups mean what they should to another implementation of the protocol, and back."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from goqueue_bench.kafka import group_wire as wire
from tests.bench.test_wire import answer, body

TOPIC = "bench"
TOPIC_ID = UUID(int=77)
PLAIN_HEAD = struct.pack(">i", 0)
FLEXIBLE_HEAD = struct.pack(">ib", 0, 0)


def heartbeat_reply(values: dict[str, Any]) -> wire.HeartbeatReply:
    return wire.parse_heartbeat_reply(answer(68, 1, values, header=FLEXIBLE_HEAD))


@pytest.mark.parametrize("count", [1, 10, 200])
def test_a_commit_names_the_offsets_of_a_group_without_members(count: int) -> None:
    offsets = {partition: partition * 2**33 for partition in range(count)}
    fields = body(wire.offset_commit_request("group", TOPIC, offsets), 8, 8, is_flexible=True)
    assert (fields["group_id"], fields["member_id"], fields["group_instance_id"]) == ("group", "", None)
    assert fields["generation_id_or_member_epoch"] == -1
    (topic,) = fields["topics"]
    assert topic["name"] == TOPIC
    assert {part["partition_index"]: part["committed_offset"] for part in topic["partitions"]} == offsets
    assert {part["committed_leader_epoch"] for part in topic["partitions"]} == {-1}


@pytest.mark.parametrize("topic", [TOPIC, "t" * 200])
@pytest.mark.parametrize("errors", [[0], [0, 22, 3], [0] * 130 + [25]])
def test_a_commit_is_answered_for_each_partition(topic: str, errors: list[int]) -> None:
    parts = [{"partition_index": index, "error_code": error} for index, error in enumerate(errors)]
    reply = answer(8, 8, {"topics": [{"name": topic, "partitions": parts}]}, header=FLEXIBLE_HEAD)
    assert wire.parse_offset_commit_reply(reply) == errors


def test_offsets_of_a_group_are_asked_for_by_partition() -> None:
    fields = body(wire.offset_fetch_request("group", TOPIC, range(3)), 9, 5)
    assert fields == {"group_id": "group", "topics": [{"name": TOPIC, "partition_indexes": [0, 1, 2]}]}


@pytest.mark.parametrize(("of_group", "of_partition", "told"), [(0, 0, 0), (16, 0, 16), (0, 3, 3)])
def test_offsets_of_a_group_are_told_with_any_error_there_is(of_group: int, of_partition: int, told: int) -> None:
    parts = [
        {"partition_index": 0, "committed_offset": 5, "metadata": "so far", "error_code": 0},
        {"partition_index": 4, "committed_offset": 2**40, "metadata": None, "error_code": of_partition},
    ]
    values = {"topics": [{"name": TOPIC, "partitions": parts}], "error_code": of_group}
    reply = answer(9, 5, values, header=PLAIN_HEAD)
    assert wire.parse_offset_fetch_reply(reply) == (told, {0: 5, 4: 2**40})


def test_a_coordinator_is_looked_for() -> None:
    assert body(wire.find_coordinator_request("group"), 10, 0) == {"key": "group"}
    assert wire.parse_find_coordinator_reply(answer(10, 0, {"error_code": 15}, header=PLAIN_HEAD)) == 15


def test_a_group_is_removed() -> None:
    assert body(wire.delete_group_request("group"), 42, 1) == {"groups_names": ["group"]}
    reply = answer(42, 1, {"results": [{"group_id": "group", "error_code": 68}]}, header=PLAIN_HEAD)
    assert wire.parse_delete_group_reply(reply) == 68


def test_a_member_joins_with_its_topics_and_nothing_in_its_hands() -> None:
    frame = wire.heartbeat_request("group", "me", 0, topics=[TOPIC], owned=(UUID(int=0), []), rebalance_timeout_ms=500)
    fields = body(frame, 68, 1, is_flexible=True)
    assert (fields["group_id"], fields["member_id"], fields["member_epoch"]) == ("group", "me", 0)
    assert (fields["instance_id"], fields["rack_id"], fields["server_assignor"]) == (None, None, None)
    assert (fields["subscribed_topic_names"], fields["subscribed_topic_regex"]) == ([TOPIC], None)
    assert (fields["rebalance_timeout"], fields["topic_partitions"]) == (500, [])


def test_a_member_says_what_it_owns_only_if_that_is_new() -> None:
    silent = body(wire.heartbeat_request("group", "me", 7), 68, 1, is_flexible=True)
    assert (silent["subscribed_topic_names"], silent["topic_partitions"]) == (None, None)
    assert silent["rebalance_timeout"] == -1
    frame = wire.heartbeat_request("group", "me", 7, owned=(TOPIC_ID, [2, 5]))
    fields = body(frame, 68, 1, is_flexible=True)
    assert fields["topic_partitions"] == [{"topic_id": TOPIC_ID, "partitions": [2, 5]}]


@pytest.mark.parametrize("count", [1, 200])
def test_a_member_is_told_its_partitions_and_when_to_come_again(count: int) -> None:
    assigned = {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": list(range(count))}]}
    values = {"member_id": "me", "member_epoch": 3, "heartbeat_interval": 300, "assignment": assigned}
    assert heartbeat_reply(values) == (0, "", 3, 300, TOPIC_ID, frozenset(range(count)))


def test_a_member_that_gets_nothing_is_told_apart_from_one_that_is_told_nothing() -> None:
    assert heartbeat_reply({"member_id": "me", "assignment": {"topic_partitions": []}}).partitions == frozenset()
    assert heartbeat_reply({"member_id": "me", "assignment": None}).partitions is None


def test_a_member_that_is_refused_is_told_why() -> None:
    reply = heartbeat_reply({"error_code": 110, "error_message": "too old"})
    assert (reply.error, reply.message) == (110, "too old")
