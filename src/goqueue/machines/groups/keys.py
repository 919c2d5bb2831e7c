"""The keys of what is stored about groups, in the log that their names lead to.

    kind:u8  name size:u16  group's name  rest

| kind    | rest                             | value                                                  |
|---------|----------------------------------|--------------------------------------------------------|
| OFFSET  | partition:i32, topic             | how far the group has read that partition              |
| GROUP   | nothing                          | which kind of group it is, its epoch, its rebalances   |
| MEMBER  | the member's id                  | what the member said, and what it was given            |
| PENDING | producer id:i64, partition:i32, topic | an offset that a transaction will set, if it commits |
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from goqueue.errors import Corrupt

_HEAD = struct.Struct(">BH")


class GroupKeyKind(IntEnum):
    """What a record is about."""

    OFFSET = 0
    GROUP = 1
    MEMBER = 2
    PENDING = 3


_KINDS = frozenset(GroupKeyKind)


class GroupKey(NamedTuple):
    """A key, taken apart."""

    kind: GroupKeyKind
    group: str
    rest: bytes


def encode_key(kind: GroupKeyKind, group: str, rest: bytes = b"") -> bytes:
    """Return the key of a record about a group."""
    name = group.encode("utf-8", "surrogateescape")
    return _HEAD.pack(kind, len(name)) + name + rest


def decode_key(key: bytes) -> GroupKey:
    """Take a key apart; Corrupt if it is none."""
    end = head_size(key)
    name = key[_HEAD.size : end].decode("utf-8", "surrogateescape")
    return GroupKey(GroupKeyKind(key[0]), name, key[end:])


def head_size(key: bytes) -> int:
    """Return how many bytes of a key say what it is about and which group; Corrupt if it is no key."""
    if len(key) >= _HEAD.size and key[0] in _KINDS:
        end = _HEAD.size + (key[1] << 8 | key[2])
        if end <= len(key):
            return end
    raise Corrupt(f"{key!r} is no key of a group")
