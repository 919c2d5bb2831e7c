"""Stored records of a classic group: one for the group, one for each member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import msgspec

from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicMember, Protocol, weighed
from goqueue.machines.groups.keys import GroupKey, GroupKeyKind, encode_key
from goqueue.machines.groups.values import Rebalance

KIND: Literal["classic"] = "classic"


class _GroupValue(msgspec.Struct, frozen=True):
    kind: Literal["classic"]
    generation: int
    protocol_type: str
    protocol: str | None
    leader: str
    is_assigned: bool
    rebalances: tuple[Rebalance, ...]
    rebalance_count: int
    move_count: int
    emptied_ms: int


class _MemberValue(msgspec.Struct, frozen=True):
    kind: Literal["classic"]
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


def changes(before: ClassicGroup | None, after: ClassicGroup | None) -> list[KeyedRecord]:
    """Return the records that turn the stored part of one value of a group into that of another; None is no group.

    A group that never had a generation is not stored.
    """
    if before is not None and before.generation == 0:
        before = None
    if after is None or after.generation == 0:
        gone: Mapping[str, ClassicMember] = before.members if before else {}
        name = before.name if before else ""
        records = [KeyedRecord(_member_key(name, each), None) for each in gone]
        return [KeyedRecord(encode_key(GroupKeyKind.GROUP, name), None), *records] if before else []
    records = []
    value = _group_value(after)
    if before is None or value != _group_value(before):
        records.append(KeyedRecord(encode_key(GroupKeyKind.GROUP, after.name), msgspec.json.encode(value)))
    known = before.members if before is not None else {}
    if known is after.members:
        return records
    records += [KeyedRecord(_member_key(after.name, each), None) for each in known if each not in after.members]
    records += [
        KeyedRecord(_member_key(after.name, member.id), msgspec.json.encode(_member_value(member)))
        for member in after.members.values()
        if known.get(member.id) != member
    ]
    return records


def fold(group: ClassicGroup | None, key: GroupKey, value: bytes | None) -> ClassicGroup | None:
    """Return the group after a stored record."""
    if key.kind is GroupKeyKind.GROUP:
        if value is None:
            return None
        stored = msgspec.json.decode(value, type=_GroupValue)
        return replace(group or ClassicGroup(name=key.group), **_fields(stored))
    if group is None and value is None:
        return None
    member_id = key.rest.decode()
    members = dict(group.members) if group else {}
    members.pop(member_id, None)
    if value is not None:
        fields = _fields(msgspec.json.decode(value, type=_MemberValue))
        fields["protocols"] = tuple(Protocol(*each) for each in fields["protocols"])
        members[member_id] = weighed(key.group, ClassicMember(id=member_id, **fields))
    return replace(group or ClassicGroup(name=key.group), members=members)


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__ if name != "kind"}


def _group_value(group: ClassicGroup) -> _GroupValue:
    return _GroupValue(KIND, **{name: getattr(group, name) for name in _GroupValue.__struct_fields__[1:]})


def _member_value(member: ClassicMember) -> _MemberValue:
    return _MemberValue(KIND, **{name: getattr(member, name) for name in _MemberValue.__struct_fields__[1:]})


def _member_key(group: str, member_id: str) -> bytes:
    return encode_key(GroupKeyKind.MEMBER, group, member_id.encode())
