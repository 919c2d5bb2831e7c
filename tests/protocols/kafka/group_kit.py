"""Members of groups as raw clients: what they send, what is kept of the replies, and error codes by name."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import RawClient

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 11, 12, 13, 14, 15, 16
DELETE_GROUPS, OFFSET_DELETE, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 42, 47, 68, 69

METADATA_TOO_LARGE, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION = 12, 15, 16, 22
INCONSISTENT_PROTOCOL, INVALID_GROUP, UNKNOWN_MEMBER, INVALID_SESSION_TIMEOUT, REBALANCING = 23, 24, 25, 26, 27
UNSUPPORTED_VERSION, NON_EMPTY_GROUP, UNKNOWN_GROUP, MEMBER_ID_REQUIRED, INSTANCE_FENCED = 35, 68, 69, 79, 82
GROUP_SUBSCRIBED, MEMBER_FENCED, INSTANCE_IN_USE, UNSUPPORTED_ASSIGNOR, STALE_EPOCH = 86, 110, 111, 112, 113
INVALID_PATTERN = 128

JOIN_EPOCH, LEAVE_EPOCH, AWAY_EPOCH = 0, -1, -2


def subscription(*topics: str) -> bytes:
    """Return what a consumer tells the leader of its group."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(_string, topics)) + struct.pack(">i", -1)


def assignment(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """Return what the leader of a group of consumers gives to a member."""
    out = struct.pack(">hi", 0, len(partitions))
    for topic, indexes in partitions.items():
        out += _string(topic) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return out + struct.pack(">i", -1)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@dataclass
class Member:
    """A member of a classic group, on a connection of its own."""

    client: RawClient
    group: str = "g"
    topics: tuple[str, ...] = ("t",)
    instance_id: str | None = None
    id: str = ""
    generation: int = -1
    is_leader: bool = False
    others: list[str] = field(default_factory=list)

    def join_request(self, **changes: Any) -> Plain:
        """Return a JoinGroup request; a version leaves out what it does not know."""
        request = {
            "group_id": self.group,
            "session_timeout": 10_000,
            "rebalance_timeout": 20_000,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(*self.topics)}],
        }
        return {**request, **changes}

    async def join(self, version: int = 9, **changes: Any) -> Plain:
        """Join, once more with the id that is given if it has to be known; return the reply."""
        reply = await self.client.call(JOIN_GROUP, version, self.join_request(**changes))
        if reply["error_code"] == MEMBER_ID_REQUIRED:
            self.id = reply["member_id"]
            reply = await self.client.call(JOIN_GROUP, version, self.join_request(**changes))
        if reply["error_code"] == 0:
            self.id, self.generation = reply["member_id"], reply["generation_id"]
            self.is_leader = reply["leader"] == self.id
            self.others = [each["member_id"] for each in reply["members"]]
        return reply

    def named(self, **changes: Any) -> Plain:
        """Return the fields by which a member names itself."""
        named = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
        }
        return {**named, **changes}

    async def sync(
        self, assignments: Mapping[str, Mapping[str, Sequence[int]]] | None = None, version: int = 5, **changes: Any
    ) -> Plain:
        """Ask for the assignment; the leader brings those of all members."""
        given = [{"member_id": each, "assignment": assignment(parts)} for each, parts in (assignments or {}).items()]
        protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        return await self.client.call(SYNC_GROUP, version, self.named(assignments=given, **protocol, **changes))

    async def heartbeat(self, version: int = 4, **changes: Any) -> int:
        """Say that the member is alive; return the error code."""
        return int((await self.client.call(HEARTBEAT, version, self.named(**changes)))["error_code"])

    async def leave(self, version: int = 5) -> Plain:
        """Leave the group."""
        member = {"member_id": self.id, "group_instance_id": self.instance_id, "reason": "done"}
        request: Plain = {"group_id": self.group}
        request |= {"members": [member]} if version >= 3 else {"member_id": self.id}
        return await self.client.call(LEAVE_GROUP, version, request)

    async def enter(self, partitions: Mapping[str, Sequence[int]] | None = None) -> None:
        """Become the only member of a stable group, with these partitions."""
        assert (await self.join())["error_code"] == 0
        assert (await self.sync({self.id: partitions or {"t": [0]}}))["error_code"] == 0


def offsets(values: Mapping[int, int], topic: str | UUID = "t", metadata: str | None = None) -> list[Plain]:
    """Return the topics of an OffsetCommit request: offsets by partition."""
    parts = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
        for index, offset in values.items()
    ]
    named = {"name": topic} if isinstance(topic, str) else {"topic_id": topic}
    return [{**named, "partitions": parts}]


async def commit(
    client: RawClient,
    topics: list[Plain],
    *,
    version: int = 9,
    group: str = "g",
    member_id: str = "",
    epoch: int = -1,
) -> list[int]:
    """Commit offsets and return the error codes in the order of the request."""
    request = {
        "group_id": group,
        "generation_id_or_member_epoch": epoch,
        "member_id": member_id,
        "topics": topics,
    }
    reply = await client.call(OFFSET_COMMIT, version, request)
    return [part["error_code"] for topic in reply["topics"] for part in topic["partitions"]]


async def committed(client: RawClient, group: str = "g") -> dict[tuple[str, int], int]:
    """Return all offsets of a group."""
    reply = await client.call(OFFSET_FETCH, 8, {"groups": [{"group_id": group, "topics": None}]})
    (found,) = reply["groups"]
    assert found["error_code"] == 0
    return {
        (topic["name"], part["partition_index"]): part["committed_offset"]
        for topic in found["topics"]
        for part in topic["partitions"]
    }


async def describe(client: RawClient, group: str = "g", version: int = 6) -> Plain:
    """Return what is told of a classic group."""
    (found,) = (await client.call(DESCRIBE_GROUPS, version, {"groups": [group]}))["groups"]
    described: Plain = found
    return described


async def describe_consumer(client: RawClient, group: str = "g", version: int = 1) -> Plain:
    """Return what is told of a group whose broker assigns."""
    (found,) = (await client.call(CONSUMER_DESCRIBE, version, {"group_ids": [group]}))["groups"]
    described: Plain = found
    return described


async def list_groups(client: RawClient, version: int = 5, **filters: list[str]) -> dict[str, Plain]:
    """Return the groups by name."""
    reply = await client.call(LIST_GROUPS, version, filters)
    assert reply["error_code"] == 0
    return {each["group_id"]: each for each in reply["groups"]}


async def delete_groups(client: RawClient, *names: str, version: int = 2) -> list[int]:
    """Delete groups and return the error codes."""
    reply = await client.call(DELETE_GROUPS, version, {"groups_names": list(names)})
    return [each["error_code"] for each in reply["results"]]


@dataclass
class ConsumerMember:
    """A member of a group whose broker assigns; `owned` is what it works on, by topic id."""

    client: RawClient
    id: str
    group: str = "g"
    topics: tuple[str, ...] = ("t",)
    instance_id: str | None = None
    epoch: int = JOIN_EPOCH
    owned: dict[UUID, list[int]] = field(default_factory=dict)

    async def heartbeat(self, version: int = 1, **changes: Any) -> Plain:
        """Say what the member owns, take what it is told, and return the reply."""
        owned = [{"topic_id": topic, "partitions": indexes} for topic, indexes in self.owned.items()]
        request: Plain = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            "rebalance_timeout": 30_000 if self.epoch == JOIN_EPOCH else -1,
            "subscribed_topic_names": list(self.topics) if self.epoch == JOIN_EPOCH else None,
            "topic_partitions": owned,
        }
        reply = await self.client.call(CONSUMER_HEARTBEAT, version, {**request, **changes})
        if reply["error_code"] == 0:
            self.id, self.epoch = reply["member_id"], reply["member_epoch"]
            if reply["assignment"] is not None:
                parts = reply["assignment"]["topic_partitions"]
                self.owned = {each["topic_id"]: each["partitions"] for each in parts}
        return reply

    @property
    def partitions(self) -> list[int]:
        """The partitions that the member works on, of all topics."""
        return sorted(index for indexes in self.owned.values() for index in indexes)
