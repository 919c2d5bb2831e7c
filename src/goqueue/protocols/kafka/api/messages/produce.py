"""Produce, by hand: requests are parsed in place, and replies are put together from bytes.

    request   [transactional id] [acks i16] [timeout i32]
              topics: [name] partitions: [index i32] [records: size, bytes]
    response  topics: [name] partitions: [index i32] [error i16] [base offset i64] [append time i64]
              [start offset i64, v5] [record errors, message, v8]; [throttle i32] last

From v9 on sizes are varints one too large (0 is null), and tag sections follow each structure.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, cast

from goqueue.broker.broker import Broker
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.topics.open_topic import OpenTopic
from goqueue.errors import CoordinatorUnavailable, GoQueueError, InvalidAcks, MalformedRequest, UnknownProducer
from goqueue.kafka_wire.decode import Cursor, skip_tags
from goqueue.kafka_wire.encode import uvarint
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.api.context import message_of, partition_of
from goqueue.runtime.partition import Outcome
from goqueue.runtime.waiters import turns

SECTIONS_AT_ONCE = 64
"""Partitions of a request that are handled in one turn of the loop."""

BYTES_AT_ONCE = 1024 * 1024
"""Bytes of a request that are stored in one turn of the loop; a single section may be larger."""

FLEXIBLE_FROM = 9
# From this version on, a write adds its partition to the transaction.
ADDS_PARTITIONS_FROM = 12
_NOT_ENOUGH_REPLICAS = 19
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_ACKS_TIMEOUT = struct.Struct(">hi")
_RESULT = struct.Struct(">ihqq")
_RESULT_V5 = struct.Struct(">ihqqq")
_TAG = b"\0"
_NO_ERRORS_FLEXIBLE = b"\x01"
_NO_ERRORS = _INT32.pack(0)
_NO_MESSAGE_FLEXIBLE = b"\0"
_NO_MESSAGE = _INT16.pack(-1)
_NO_THROTTLE = _INT32.pack(0)
_ACKS = {each.value: each for each in Acks}


class TopicPart(NamedTuple):
    """A topic of a request as its bytes on the wire, and its partitions."""

    wire_name: bytes
    indexes: list[int]


class ProduceRequest(NamedTuple):
    """A parsed request: `topics` is for the reply, `sections` are to be stored, both in the same order.

    `records_at` is the position of the size of the last section's records.
    """

    acks: Acks
    topics: list[TopicPart]
    sections: list[Section]
    records_at: int
    transactional_id: str | None = None


def parse(broker: Broker, version: int, cursor: Cursor) -> ProduceRequest | None:
    """Read a request; its sections are views of the buffer. MalformedRequest if that is not possible.

    None if it has more than `SECTIONS_AT_ONCE` sections, which are for `parse_slowly`.
    """
    steps = _checked(broker, version, cursor)
    try:
        next(steps)
    except StopIteration as end:
        return cast(ProduceRequest, end.value)
    return None


async def parse_slowly(broker: Broker, version: int, cursor: Cursor) -> ProduceRequest:
    """Read a request of many sections; other connections have turns in between."""
    steps = _checked(broker, version, cursor)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(ProduceRequest, end.value)
        await turns(1)


def _checked(broker: Broker, version: int, cursor: Cursor) -> Generator[None, None, ProduceRequest]:
    try:
        return (yield from _parse(broker, version, cursor))
    except (struct.error, IndexError):
        raise MalformedRequest(f"a produce request ends at byte {cursor.position}, in the middle") from None


def _parse(broker: Broker, version: int, cursor: Cursor) -> Generator[None, None, ProduceRequest]:
    is_flexible = version >= FLEXIBLE_FROM
    transactional_id = _nullable_string(cursor, is_flexible=is_flexible)
    acks_code, _ = _ACKS_TIMEOUT.unpack_from(cursor.data, cursor.position)
    cursor.position += _ACKS_TIMEOUT.size
    acks = _ACKS.get(acks_code, Acks.LEADER)
    refusal: GoQueueError | None = (
        None if acks_code in _ACKS else InvalidAcks(f"acks is {acks_code}, allowed are -1, 0 and 1")
    )
    topics = []
    sections: list[Section] = []
    records_at = 0
    for _ in range(_count(cursor, is_flexible=is_flexible)):
        wire_name, found = _topic(broker, version, cursor)
        indexes = []
        for _ in range(_count(cursor, is_flexible=is_flexible)):
            (index,) = _INT32.unpack_from(cursor.data, cursor.position)
            cursor.position += 4
            indexes.append(index)
            records_at = cursor.position
            records = _records(cursor, is_flexible=is_flexible)
            sections.append(Section(refusal or partition_of(found, index), records))
            if is_flexible:
                skip_tags(cursor)
            if len(sections) % SECTIONS_AT_ONCE == 0:
                yield
        if is_flexible:
            skip_tags(cursor)
        topics.append(TopicPart(wire_name, indexes))
    if is_flexible:
        skip_tags(cursor)
    return ProduceRequest(acks, topics, sections, records_at, transactional_id)


def _nullable_string(cursor: Cursor, *, is_flexible: bool) -> str | None:
    if is_flexible:
        size = cursor.uvarint() - 1
    else:
        (size,) = _INT16.unpack_from(cursor.data, cursor.position)
        cursor.position += 2
    return cursor.take(size).decode("utf-8", "surrogateescape") if size >= 0 else None


def _count(cursor: Cursor, *, is_flexible: bool) -> int:
    if is_flexible:
        return cursor.count(cursor.uvarint() - 1)
    (count,) = _INT32.unpack_from(cursor.data, cursor.position)
    cursor.position += 4
    return cursor.count(count)


def _topic(broker: Broker, version: int, cursor: Cursor) -> tuple[bytes, OpenTopic | GoQueueError]:
    """Return a topic's bytes as the reply repeats them, and the topic itself or the error about it."""
    begin = cursor.position
    try:
        size = cursor.uvarint() - 1 if version >= FLEXIBLE_FROM else _int16(cursor)
        name = cursor.take(size)
        wire = bytes(cursor.data[begin : cursor.position])
        return wire, broker.topics.by_wire_name.get(name) or broker.topics.topic(name.decode("utf-8", "replace"))
    except MalformedRequest:
        raise
    except GoQueueError as error:
        return bytes(cursor.data[begin : cursor.position]), error.without_frames()


def _int16(cursor: Cursor) -> int:
    (value,) = _INT16.unpack_from(cursor.data, cursor.position)
    cursor.position += 2
    return int(value)


def _records(cursor: Cursor, *, is_flexible: bool) -> memoryview:
    if is_flexible:
        size = cursor.uvarint() - 1
    else:
        (size,) = _INT32.unpack_from(cursor.data, cursor.position)
        cursor.position += 4
    begin = cursor.position
    end = begin + max(size, 0)
    if end > len(cursor.data):
        raise MalformedRequest(f"{size} bytes of records are announced at byte {begin}, but the request ends before")
    cursor.position = end
    return memoryview(cursor.data)[begin:end]


def pieces_of(sections: Sequence[Section]) -> Iterator[Sequence[Section]]:
    """Yield the sections of a request in pieces, each of which is stored in one turn of the loop."""
    start = size = 0
    for number, section in enumerate(sections):
        if number > start and (number - start >= SECTIONS_AT_ONCE or size + len(section.records) > BYTES_AT_ONCE):
            yield sections[start:number]
            start, size = number, 0
        size += len(section.records)
    yield sections[start:]


def reply_body(request: ProduceRequest, version: int, outcomes: Sequence[Outcome]) -> bytes:
    """Return the body of the reply with the outcomes, which are in the order of the partitions."""
    is_flexible = version >= FLEXIBLE_FROM
    parts = [_size(len(request.topics), is_flexible=is_flexible)]
    following = iter(outcomes)
    for topic in request.topics:
        parts += (topic.wire_name, _size(len(topic.indexes), is_flexible=is_flexible))
        for index in topic.indexes:
            parts.append(_result(version, index, next(following)))
        if is_flexible:
            parts.append(_TAG)
    parts.append(_NO_THROTTLE)
    if is_flexible:
        parts.append(_TAG)
    return b"".join(parts)


def _size(count: int, *, is_flexible: bool) -> bytes:
    return uvarint(count + 1) if is_flexible else _INT32.pack(count)


def _result(version: int, index: int, outcome: Outcome) -> bytes:
    if isinstance(outcome, GoQueueError):
        code, message = _code(outcome), message_of(outcome)
        # Clients begin a new sequence only if the reply has the start of the log.
        base, timestamp, start = -1, -1, outcome.start_offset if isinstance(outcome, UnknownProducer) else -1
    else:
        code, message = 0, ""
        base, timestamp, start = outcome.base_offset, outcome.timestamp, outcome.start_offset
    if version < 5:
        return _RESULT.pack(index, code, base, timestamp)
    result = _RESULT_V5.pack(index, code, base, timestamp, start)
    if version < 8:
        return result
    if version < FLEXIBLE_FROM:
        return result + _NO_ERRORS + _message(message)
    return result + _NO_ERRORS_FLEXIBLE + _compact_message(message) + _TAG


def _code(error: GoQueueError) -> int:
    """Return the code of an error; producers cannot handle a coordinator error here, but all retry after this one."""
    return _NOT_ENOUGH_REPLICAS if isinstance(error, CoordinatorUnavailable) else fault_of(error).kafka


def _message(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data if text else _NO_MESSAGE


def _compact_message(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data if text else _NO_MESSAGE_FLEXIBLE
