"""Keys of stored records about groups; the name of a group decides its log.

    kind:u8  name size:u16  group's name  rest

| kind    | rest                             | value                                                  |
|---------|----------------------------------|--------------------------------------------------------|
| OFFSET  | partition:i32, topic             | the committed offset of the partition                  |
| GROUP   | nothing                          | the kind of the group, its epoch, its rebalances       |
| MEMBER  | the member's id                  | the member's subscription and assignment               |
| PENDING | producer id:i64, partition:i32, topic | an offset that a transaction will set, if it commits |
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from goqueue.errors import Corrupt

_HEAD = struct.Struct(">BH")


class GroupKeyKind(IntEnum):
    """The kinds of records."""

    OFFSET = 0
    GROUP = 1
    MEMBER = 2
    PENDING = 3


_KINDS = frozenset(GroupKeyKind)


class GroupKey(NamedTuple):
    """The parts of a key."""

    kind: GroupKeyKind
    group: str
    rest: bytes


def encode_key(kind: GroupKeyKind, group: str, rest: bytes = b"") -> bytes:
    """Return the key of a record about a group."""
    name = group.encode("utf-8", "surrogateescape")
    return _HEAD.pack(kind, len(name)) + name + rest


def decode_key(key: bytes) -> GroupKey:
    """Parse a key; Corrupt if it is malformed."""
    end = head_size(key)
    name = key[_HEAD.size : end].decode("utf-8", "surrogateescape")
    return GroupKey(GroupKeyKind(key[0]), name, key[end:])


def head_size(key: bytes) -> int:
    """Return the size of the kind and group name of a key; Corrupt if it is malformed."""
    if len(key) >= _HEAD.size and key[0] in _KINDS:
        end = _HEAD.size + (key[1] << 8 | key[2])
        if end <= len(key):
            return end
    raise Corrupt(f"{key!r} is no key of a group")
