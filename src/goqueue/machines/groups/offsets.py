"""Committed offsets of groups, and offsets that open transactions will commit.

The state is a fold over keyed records. A broker may hold millions of offsets and reads few, so values stay encoded
until they are read, and keys of partitions are shared by all groups.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from goqueue.errors import Corrupt
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.keys import GroupKeyKind, decode_key, encode_key
from goqueue.model.topic import TopicPartition

NO_EPOCH = -1
_PARTITION = struct.Struct(">i")
_PRODUCER = struct.Struct(">q")
_PENDING = int(GroupKeyKind.PENDING)


class CommittedOffset(msgspec.Struct, frozen=True, array_like=True):
    """The offset to continue from, with the metadata of the member."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_ms: int = 0


class NewOffset(NamedTuple):
    """An offset for a partition."""

    partition: TopicPartition
    value: CommittedOffset


_decoder = msgspec.json.Decoder(CommittedOffset)
_encode = msgspec.json.Encoder().encode


class OffsetTable:
    """The offsets of many groups, as of the last applied record."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[bytes, bytes]] = {}
        # Keys of partitions, each with its number of offsets: a key goes with its last offset.
        self._names: dict[bytes, bytes] = {}
        self._uses: dict[bytes, int] = {}
        # By producer, since a transaction ends for all groups and partitions at once; and the reverse.
        self._pending: dict[int, dict[str, dict[bytes, bytes]]] = {}
        self._producers: dict[str, dict[bytes, set[int]]] = {}
        # The offsets that the last record belongs to, and the head of its key.
        self._head = b""
        self._table: dict[bytes, bytes] = {}

    def groups(self) -> Iterable[str]:
        """Return the groups that have offsets, or will have if a transaction commits."""
        return {*self._groups, *self._producers}

    def has(self, group: str) -> bool:
        """Return whether a group has any offset."""
        return group in self._groups

    def find(self, group: str, partition: TopicPartition) -> CommittedOffset | None:
        """Return the offset of a group for a partition."""
        value = self._groups.get(group, {}).get(_rest(partition))
        return None if value is None else _decoder.decode(value)

    def of_group(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return all offsets of a group."""
        found = self._groups.get(group, {})
        return {_partition(rest): _decoder.decode(value) for rest, value in found.items()}

    def is_behind(self, group: str, ends: Mapping[bytes, int]) -> bool:
        """Return whether a group has an offset before the end of any of the partitions, given by `partition_key`.

        `of_group` has the same facts, at many times the cost for all groups.
        """
        for rest, value in self._groups.get(group, {}).items():
            end = ends.get(rest)
            if end is not None and _decoder.decode(value).offset < end:
                return True
        return False

    def is_pending(self, group: str, partition: TopicPartition) -> bool:
        """Return whether an open transaction is about to change an offset."""
        return group in self._producers and _rest(partition) in self._producers[group]

    def pending(self) -> Mapping[int, Sequence[str]]:
        """Return, by producer id, the groups with offsets that wait for the end of a transaction."""
        return {producer_id: tuple(groups) for producer_id, groups in self._pending.items()}

    # -- records

    def commit(self, group: str, offsets: Iterable[NewOffset]) -> list[KeyedRecord]:
        """Return the records that set offsets."""
        return [KeyedRecord(_key(group, each.partition), _encode(each.value)) for each in offsets]

    def commit_pending(self, group: str, producer_id: int, offsets: Iterable[NewOffset]) -> list[KeyedRecord]:
        """Return the records that set offsets when the producer's transaction commits."""
        head = _PRODUCER.pack(producer_id)
        return [
            KeyedRecord(encode_key(GroupKeyKind.PENDING, group, head + _rest(each.partition)), _encode(each.value))
            for each in offsets
        ]

    def end_pending(self, producer_id: int, *, is_commit: bool) -> list[KeyedRecord]:
        """Return the records that end a producer's transaction for its offsets."""
        records = []
        head = _PRODUCER.pack(producer_id)
        for group, offsets in self._pending.get(producer_id, {}).items():
            for rest, value in offsets.items():
                if is_commit:
                    records.append(KeyedRecord(encode_key(GroupKeyKind.OFFSET, group, rest), value))
                records.append(KeyedRecord(encode_key(GroupKeyKind.PENDING, group, head + rest), None))
        return records

    def forget(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> list[KeyedRecord]:
        """Return the records that delete offsets of a group, pending ones included; without partitions, all of them."""
        known = self._groups.get(group, {})
        wanted = known.keys() if partitions is None else {_rest(each) for each in partitions}
        records = [KeyedRecord(encode_key(GroupKeyKind.OFFSET, group, rest), None) for rest in known if rest in wanted]
        for rest, producers in self._producers.get(group, {}).items():
            if partitions is None or rest in wanted:
                keys = (_PRODUCER.pack(producer_id) + rest for producer_id in sorted(producers))
                records += [KeyedRecord(encode_key(GroupKeyKind.PENDING, group, key), None) for key in keys]
        return records

    def forget_topic(self, topic: str) -> list[KeyedRecord]:
        """Return the records that delete all offsets of a topic."""
        name = topic.encode("utf-8", "surrogateescape")
        records = []
        for group in sorted(self.groups()):
            rests = [rest for rest in self._rests(group) if rest[_PARTITION.size :] == name]
            records += self.forget(group, [_partition(rest) for rest in rests])
        return records

    def _rests(self, group: str) -> Sequence[bytes]:
        return [*self._groups.get(group, {}), *self._producers.get(group, {})]

    def apply(self, record: KeyedRecord) -> None:
        """Apply a stored record of kind OFFSET or PENDING."""
        key, value = record
        head = self._head
        # Most records follow one of the same group.
        if head and key.startswith(head):
            table, rest = self._table, key[len(head) :]
        else:
            table, rest = self._turn_to(key)
        name = self._names.get(rest) or self._new_name(rest)
        if value is not None:
            count = len(table)
            table[name] = value
            if len(table) != count:
                self._uses[name] += 1
                if key[0] == _PENDING:
                    self._note_pending(key, name)
            return
        if table.pop(name, None) is not None:
            self._removed(key, name)
        if not table:
            self._drop_empty(key)
        if not self._uses[name]:
            del self._names[name], self._uses[name]

    def _new_name(self, rest: bytes) -> bytes:
        if len(rest) < _PARTITION.size:
            raise Corrupt(f"an offset is for no partition, but for {rest!r}")
        self._names[rest] = rest
        self._uses[rest] = 0
        return rest

    def _note_pending(self, key: bytes, name: bytes) -> None:
        _, group, rest = decode_key(key)
        self._producers.setdefault(group, {}).setdefault(name, set()).add(_producer_id(rest))

    def _removed(self, key: bytes, name: bytes) -> None:
        self._uses[name] -= 1
        if key[0] == _PENDING:
            _, group, rest = decode_key(key)
            partitions = self._producers[group]
            partitions[name].remove(_producer_id(rest))
            if not partitions[name]:
                del partitions[name]
            if not partitions:
                del self._producers[group]

    def _turn_to(self, key: bytes) -> tuple[dict[bytes, bytes], bytes]:
        """Return the table and the partition that a record belongs to."""
        kind, group, rest = decode_key(key)
        if kind is GroupKeyKind.OFFSET:
            self._head = key[: len(key) - len(rest)]
            self._table = self._groups.setdefault(group, {})
            return self._table, rest
        if len(rest) < _PRODUCER.size:
            raise Corrupt(f"a pending offset of group {group!r} has no producer")
        table = self._pending.setdefault(_producer_id(rest), {}).setdefault(group, {})
        return table, rest[_PRODUCER.size :]

    def _drop_empty(self, key: bytes) -> None:
        self._head = b""
        kind, group, rest = decode_key(key)
        if kind is GroupKeyKind.OFFSET:
            del self._groups[group]
            return
        producer_id = _producer_id(rest)
        del self._pending[producer_id][group]
        if not self._pending[producer_id]:
            del self._pending[producer_id]

    def records(self) -> Iterator[KeyedRecord]:
        """Yield the records from which a new table becomes equal to this one."""
        for group, offsets in self._groups.items():
            for rest, value in offsets.items():
                yield KeyedRecord(encode_key(GroupKeyKind.OFFSET, group, rest), value)
        for producer_id, pending in self._pending.items():
            head = _PRODUCER.pack(producer_id)
            for group, offsets in pending.items():
                for rest, value in offsets.items():
                    yield KeyedRecord(encode_key(GroupKeyKind.PENDING, group, head + rest), value)


def partition_key(partition: TopicPartition) -> bytes:
    """Return the key of a partition in a table of offsets."""
    return _rest(partition)


def _key(group: str, partition: TopicPartition) -> bytes:
    return encode_key(GroupKeyKind.OFFSET, group, _rest(partition))


def _rest(partition: TopicPartition) -> bytes:
    return _PARTITION.pack(partition.partition) + partition.topic.encode("utf-8", "surrogateescape")


def _producer_id(rest: bytes) -> int:
    (producer_id,) = _PRODUCER.unpack_from(rest)
    return int(producer_id)


def _partition(rest: bytes) -> TopicPartition:
    (index,) = _PARTITION.unpack_from(rest)
    return TopicPartition(rest[_PARTITION.size :].decode("utf-8", "surrogateescape"), index)
