"""Stored records of a consumer group: one for the group, one for each member.

`changes` returns the records that lead from one value to another; `fold` applies them, one at a time. Folding the
result of `changes` makes an equal group, from the value before or, with all records since the beginning, from nothing.
Deadlines are not stored. Compaction may leave a member's record before that of its group, so members can come first:
each value has the kind of its group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal
from uuid import UUID

import msgspec

from goqueue.errors import Corrupt
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerMember, MemberState
from goqueue.machines.groups.keys import GroupKey, GroupKeyKind, encode_key
from goqueue.machines.groups.values import Rebalance
from goqueue.model.topic import TopicPartition

KIND: Literal["consumer"] = "consumer"

_Partitions = dict[str, list[int]]


class _GroupValue(msgspec.Struct, frozen=True):
    kind: Literal["consumer"]
    epoch: int
    assignor: str
    topics: Mapping[str, int]
    rebalances: tuple[Rebalance, ...]
    rebalance_count: int
    move_count: int
    emptied_ms: int
    # Absent in older records: then the ids are those of the existing topics.
    topic_ids: Mapping[str, UUID] = msgspec.field(default_factory=dict)


class _MemberValue(msgspec.Struct, frozen=True):
    kind: Literal["consumer"]
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: list[str]
    pattern: str
    assignor: str | None
    rebalance_timeout_ms: int
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: _Partitions
    revoking: _Partitions
    target: _Partitions
    joined_ms: int
    former: Mapping[str, UUID] = msgspec.field(default_factory=dict)


_NO_MEMBERS: Mapping[str, ConsumerMember] = {}


def changes(before: ConsumerGroup | None, after: ConsumerGroup | None) -> list[KeyedRecord]:
    """Return the records that turn the stored part of one value of a group into that of another; None is no group."""
    if after is None:
        if before is None:
            return []
        gone = [KeyedRecord(_member_key(before.name, member_id), None) for member_id in before.members]
        return [KeyedRecord(encode_key(GroupKeyKind.GROUP, before.name), None), *gone]
    records: list[KeyedRecord] = []
    value = _group_value(after)
    if before is None or value != _group_value(before):
        records.append(KeyedRecord(encode_key(GroupKeyKind.GROUP, after.name), msgspec.json.encode(value)))
    known = before.members if before is not None else _NO_MEMBERS
    if known is after.members:
        return records
    records += [KeyedRecord(_member_key(after.name, each), None) for each in known if each not in after.members]
    records += [
        KeyedRecord(_member_key(after.name, member.id), msgspec.json.encode(_member_value(member)))
        for member in after.members.values()
        if (old := known.get(member.id)) is not member and old != member
    ]
    return records


def fold(group: ConsumerGroup | None, key: GroupKey, value: bytes | None) -> ConsumerGroup | None:
    """Return the group after a stored record; Corrupt if the record is not one of a consumer group."""
    try:
        return _fold_group(group, key, value) if key.kind is GroupKeyKind.GROUP else _fold_member(group, key, value)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Corrupt(f"group {key.group!r} has a record {key.rest!r} that cannot be read: {error}") from error


def _fold_group(group: ConsumerGroup | None, key: GroupKey, value: bytes | None) -> ConsumerGroup | None:
    if value is None:
        return None
    stored = msgspec.json.decode(value, type=_GroupValue)
    return ConsumerGroup(
        name=key.group,
        epoch=stored.epoch,
        assignor=stored.assignor,
        members=group.members if group is not None else _NO_MEMBERS,
        topics=stored.topics,
        rebalances=stored.rebalances,
        rebalance_count=stored.rebalance_count,
        move_count=stored.move_count,
        emptied_ms=stored.emptied_ms,
        topic_ids=stored.topic_ids,
    )


def _fold_member(group: ConsumerGroup | None, key: GroupKey, value: bytes | None) -> ConsumerGroup | None:
    if value is None and group is None:
        return None
    group = group or ConsumerGroup(name=key.group)
    member_id = key.rest.decode("utf-8", "surrogateescape")
    if value is None:
        members = {each.id: each for each in group.members.values() if each.id != member_id}
    else:
        members = {**group.members, member_id: _member(member_id, msgspec.json.decode(value, type=_MemberValue))}
    return replace(group, members=members)


def _group_value(group: ConsumerGroup) -> _GroupValue:
    return _GroupValue(
        KIND,
        group.epoch,
        group.assignor,
        group.topics,
        group.rebalances,
        group.rebalance_count,
        group.move_count,
        group.emptied_ms,
        group.topic_ids,
    )


def _member_value(member: ConsumerMember) -> _MemberValue:
    return _MemberValue(
        KIND,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        sorted(member.topics),
        member.pattern,
        member.assignor,
        member.rebalance_timeout_ms,
        member.epoch,
        member.previous_epoch,
        member.state,
        _by_topic(member.assigned),
        _by_topic(member.revoking),
        _by_topic(member.target),
        member.joined_ms,
        member.former,
    )


def _member(member_id: str, stored: _MemberValue) -> ConsumerMember:
    return ConsumerMember(
        id=member_id,
        instance_id=stored.instance_id,
        rack_id=stored.rack_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        topics=frozenset(stored.topics),
        pattern=stored.pattern,
        assignor=stored.assignor,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        epoch=stored.epoch,
        previous_epoch=stored.previous_epoch,
        state=stored.state,
        assigned=_partitions(stored.assigned),
        revoking=_partitions(stored.revoking),
        target=_partitions(stored.target),
        joined_ms=stored.joined_ms,
        former=stored.former,
    )


def _member_key(group: str, member_id: str) -> bytes:
    return encode_key(GroupKeyKind.MEMBER, group, member_id.encode("utf-8", "surrogateescape"))


def _by_topic(partitions: Iterable[TopicPartition]) -> _Partitions:
    found: _Partitions = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def _partitions(by_topic: _Partitions) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for topic, numbers in by_topic.items() for number in numbers)
