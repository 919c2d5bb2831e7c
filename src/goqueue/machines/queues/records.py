"""How queue groups are stored.

    kind:u8  name size:u16  group's name  rest

| kind      | rest                              | value                                                             |
|-----------|-----------------------------------|-------------------------------------------------------------------|
| GROUP     | nothing                           | the group's settings, and why it is paused                        |
| PARTITION | partition:i32, topic              | the topic id, floor and cursor                                    |
| DONE      | partition:i32, chunk:i64, topic   | of 256 messages, which are done                                   |
| FLIGHTS   | partition:i32, chunk:i64, topic   | of 256 messages, the states of those in flight                    |
| LETTERS   | partition:i32, topic              | where dead letters may be                                         |

Values are JSON, but for DONE: a number in hexadecimal, whose lowest bit is the first message. FLIGHTS lists flights,
each once, and which messages have which: neighbours in the same one are a run of three numbers, their first offset,
their number, and the index of their flight in the list. (An earlier form had the flight in each run, and is still
read.) DONE overrules FLIGHTS: so an ack writes a few bytes, and not the flights of all its neighbours. A partition
takes two records for each chunk that has messages in flight or lies after one that has, however long its history.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from goqueue.errors import Corrupt
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.groups.offsets import NO_EPOCH
from goqueue.machines.queues.values import Flight, FlightState, Lease, LetterPlace
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition

_HEAD = struct.Struct(">BH")
_PARTITION = struct.Struct(">i")
_CHUNK = struct.Struct(">iq")
# The same strings are written again and again.
_KEYS_MAX = 1024


class QueueKeyKind(IntEnum):
    """The kinds of records."""

    GROUP = 0
    PARTITION = 1
    DONE = 2
    FLIGHTS = 3
    LETTERS = 4


class QueueKey(NamedTuple):
    """The parts of a key; `partition` and `chunk` if its kind has them."""

    kind: QueueKeyKind
    group: str
    partition: TopicPartition
    chunk: int


class GroupValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored value of a group: its settings, and why it is paused."""

    settings: QueueSettings
    paused: str = ""


class PartitionValue(msgspec.Struct, frozen=True, array_like=True):
    """The stored value of a partition: everything before `floor` is done, nothing from `cursor` on was delivered.

    `epoch` as in `QueueWindow`.
    """

    topic_id: UUID
    floor: int
    cursor: int
    # Absent in older records.
    epoch: int = NO_EPOCH


class _Flight(msgspec.Struct, frozen=True, array_like=True):
    state: FlightState
    deliveries: int
    first_ms: int
    until_ms: int
    lease: Lease | None
    reason: str
    error: str
    key: bytes | None
    # Absent in the oldest records; older ones have nothing after it.
    since_ms: int = -1
    returned: int = 0


class _Flights(msgspec.Struct, frozen=True):
    flights: list[_Flight]
    runs: list[int]


_encode = msgspec.json.Encoder().encode
_group_decoder = msgspec.json.Decoder(GroupValue)
_partition_decoder = msgspec.json.Decoder(PartitionValue)
_flights_decoder = msgspec.json.Decoder(_Flights | list[list[Any]])
_letter_places_decoder = msgspec.json.Decoder(tuple[LetterPlace, ...])


def group_record(group: str, value: GroupValue | None) -> KeyedRecord:
    """Return the record of a group; without a value, its tombstone."""
    return KeyedRecord(_head(QueueKeyKind.GROUP, group), None if value is None else _encode(value))


def partition_record(group: str, partition: TopicPartition, value: PartitionValue | None) -> KeyedRecord:
    """Return the record of a partition; without a value, its tombstone."""
    return KeyedRecord(
        _partition_key(QueueKeyKind.PARTITION, group, partition), None if value is None else _encode(value)
    )


def letter_places_record(group: str, partition: TopicPartition, places: Sequence[LetterPlace]) -> KeyedRecord:
    """Return the record of where dead letters may be; without places, its tombstone."""
    return KeyedRecord(_partition_key(QueueKeyKind.LETTERS, group, partition), _encode(places) if places else None)


def done_record(group: str, partition: TopicPartition, chunk: int, done: int | None) -> KeyedRecord:
    """Return the record of the done messages of a chunk; without a value, its tombstone."""
    return KeyedRecord(_key(QueueKeyKind.DONE, group, partition, chunk), None if done is None else b"%x" % done)


def flights_record(
    group: str, partition: TopicPartition, chunk: int, flights: Mapping[int, Flight] | None
) -> KeyedRecord:
    """Return the record of the messages in flight of a chunk; without any, its tombstone."""
    key = _key(QueueKeyKind.FLIGHTS, group, partition, chunk)
    return KeyedRecord(key, None if not flights else _encode(_written(flights)))


@lru_cache(_KEYS_MAX)
def _partition_key(kind: QueueKeyKind, group: str, partition: TopicPartition) -> bytes:
    return _head(kind, group) + _PARTITION.pack(partition.partition) + _bytes(partition.topic)


@lru_cache(_KEYS_MAX)
def _key(kind: QueueKeyKind, group: str, partition: TopicPartition, chunk: int) -> bytes:
    return _head(kind, group) + _CHUNK.pack(partition.partition, chunk) + _bytes(partition.topic)


def _written(flights: Mapping[int, Flight]) -> _Flights:
    numbers: dict[Flight, int] = {}
    runs: list[int] = []
    end = -1
    last: Flight | None = None
    for offset in sorted(flights):
        flight = flights[offset]
        # Messages that were leased together share their flight, so an identity check is enough for most.
        if offset == end and (flight is last or flight == last):
            runs[-2] += 1
        else:
            runs += (offset, 1, numbers.setdefault(flight, len(numbers)))
        end, last = offset + 1, flight
    return _Flights([_stored(each) for each in numbers], runs)


def _stored(flight: Flight) -> _Flight:
    state, deliveries, first_ms, until, lease, reason, error, key, since_ms, returned = flight
    return _Flight(state, deliveries, first_ms, until.wall_ms, lease, reason, error, key, since_ms, returned)


def read_key(key: bytes) -> QueueKey:
    """Parse a key; Corrupt if it is malformed."""
    try:
        number, size = _HEAD.unpack_from(key)
        kind = QueueKeyKind(number)
        group = key[_HEAD.size : _HEAD.size + size].decode("utf-8", "surrogateescape")
        rest = key[_HEAD.size + size :]
        index, chunk = 0, 0
        if kind in {QueueKeyKind.PARTITION, QueueKeyKind.LETTERS}:
            (index,) = _PARTITION.unpack_from(rest)
            rest = rest[_PARTITION.size :]
        elif kind is not QueueKeyKind.GROUP:
            index, chunk = _CHUNK.unpack_from(rest)
            rest = rest[_CHUNK.size :]
        return QueueKey(kind, group, TopicPartition(rest.decode("utf-8", "surrogateescape"), index), chunk)
    except (struct.error, ValueError) as error:
        raise Corrupt(f"{key!r} is no key of a queue: {error}") from error


def read_group(data: bytes) -> GroupValue:
    """Return the stored value of a group."""
    try:
        return _group_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a record of a queue group cannot be read: {error}") from error


def read_partition(data: bytes) -> PartitionValue:
    """Return the stored value of a partition."""
    try:
        return _partition_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a record of a queue's partition cannot be read: {error}") from error


def read_letter_places(data: bytes) -> tuple[LetterPlace, ...]:
    """Return where dead letters may be."""
    try:
        return _letter_places_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a record of where dead letters lie cannot be read: {error}") from error


def read_done(data: bytes) -> int:
    """Return the done messages of a chunk, a bit for each."""
    try:
        return int(data, 16)
    except ValueError as error:
        raise Corrupt(f"a record of messages that are done cannot be read: {error}") from error


def read_flights(data: bytes) -> dict[int, Flight]:
    """Return the flights of a chunk by offset; their times are wall times only."""
    found: dict[int, Flight] = {}
    try:
        stored = _flights_decoder.decode(data)
        if not isinstance(stored, _Flights):
            return _former_flights(stored)
        flights = [_flight(each) for each in stored.flights]
        for first, length, number in zip(*[iter(stored.runs)] * 3, strict=True):
            found.update(dict.fromkeys(range(first, first + length), flights[number]))
    except (msgspec.MsgspecError, ValueError, TypeError, IndexError) as error:
        raise Corrupt(f"a record of messages in flight cannot be read: {error}") from error
    return found


def _flight(stored: _Flight) -> Flight:
    state, deliveries, first_ms, until_ms, *rest = msgspec.structs.astuple(stored)
    return Flight(state, deliveries, first_ms, Now(until_ms, -1), *rest)


def _former_flights(runs: Iterable[list[Any]]) -> dict[int, Flight]:
    found: dict[int, Flight] = {}
    for first, length, *flight in runs:
        found.update(dict.fromkeys(range(first, first + length), _flight(msgspec.convert(flight, _Flight))))
    return found


def _head(kind: QueueKeyKind, group: str) -> bytes:
    name = _bytes(group)
    return _HEAD.pack(kind, len(name)) + name


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
