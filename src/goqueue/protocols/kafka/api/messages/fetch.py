"""Fetch: requests through the shapes, replies by hand, since they carry the bytes of whole batches untouched.

    response  [throttle i32] [error i16, session i32, v7]
              topics: [name, or id from v13 on] partitions:
                  [index i32] [error i16] [high watermark i64] [last stable offset i64] [start offset i64, v5]
                  aborted: [producer id i64, first offset i64]   [preferred replica i32, v11]   [records: size, bytes]

Sessions are declined: the session id of a reply is always 0, so clients send every fetch whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from goqueue.broker.messages.fetch import Fetch, Fetched, FetchTarget, FetchTerms
from goqueue.broker.topics.open_topic import OpenTopic
from goqueue.errors import GoQueueError
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import uvarint
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.api.context import Context, partition_of

FLEXIBLE_FROM = 12
_TOPIC_IDS_FROM = 13
WAIT_MS_MAX = 60_000
_NO_SESSION = 0
_SESSION_NOT_FOUND = 70
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEAD_V7 = struct.Struct(">ihi")
_RESULT = struct.Struct(">ihqq")
_RESULT_V5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_NO_REPLICA = _INT32.pack(-1)
_TAG = b"\0"

Body = list[bytes]


def fetch_of(context: Context, version: int, request: Request, send: Callable[[Body], None]) -> Fetch | None:
    """Return the operation for a request, not begun yet; `send` gets the reply. None if it has been sent already."""
    if request.session_id != _NO_SESSION:
        send([_head(version, _SESSION_NOT_FOUND), _size(0, version), *([_TAG] if version >= FLEXIBLE_FROM else [])])
        return None
    wanted: list[FetchTarget] = []
    for topic in request.topics or ():
        found = _topic(context, version, topic)
        wanted += [
            FetchTarget(
                partition_of(found, part.partition),
                part.fetch_offset,
                part.partition_max_bytes,
                part.current_leader_epoch,
            )
            for part in topic.partitions or ()
        ]
    terms = FetchTerms(
        wait_ms=min(max(request.max_wait, 0), WAIT_MS_MAX),
        bytes_min=request.min_bytes,
        bytes_max=request.max_bytes,
        is_committed_only=request.isolation_level == 1,
    )

    def done(results: Sequence[Fetched]) -> None:
        send(_reply(version, request, results))

    return Fetch(context.broker.messages, context.caller, wanted, terms, done)


def _topic(context: Context, version: int, topic: Request) -> OpenTopic | GoQueueError:
    try:
        if version >= _TOPIC_IDS_FROM:
            return context.broker.topics.topic_by_id(topic.topic_id)
        return context.broker.topics.topic(topic.topic)
    except GoQueueError as error:
        return error


def _reply(version: int, request: Request, results: Sequence[Fetched]) -> Body:
    is_flexible = version >= FLEXIBLE_FROM
    topics = request.topics or ()
    body: Body = [_head(version, 0), _size(len(topics), version)]
    following = iter(results)
    for topic in topics:
        partitions = topic.partitions or ()
        body += (_wire_name(version, topic), _size(len(partitions), version))
        for part in partitions:
            result = next(following)
            body.append(_result(version, part.partition, result))
            if result.data:
                body.append(result.data)
            if is_flexible:
                body.append(_TAG)
        if is_flexible:
            body.append(_TAG)
    if is_flexible:
        body.append(_TAG)
    return body


def _head(version: int, error: int) -> bytes:
    return _HEAD_V7.pack(0, error, _NO_SESSION) if version >= 7 else _INT32.pack(0)


def _size(count: int, version: int) -> bytes:
    return uvarint(count + 1) if version >= FLEXIBLE_FROM else _INT32.pack(count)


def _wire_name(version: int, topic: Request) -> bytes:
    if version >= _TOPIC_IDS_FROM:
        return bytes(topic.topic_id.bytes)
    name: bytes = topic.topic.encode()
    return uvarint(len(name) + 1) + name if version >= FLEXIBLE_FROM else _INT16.pack(len(name)) + name


def _result(version: int, index: int, result: Fetched) -> bytes:
    code = fault_of(result.error).kafka if result.error else 0
    if version >= 5:
        head = _RESULT_V5.pack(index, code, result.high_watermark, result.last_stable_offset, result.start_offset)
    else:
        head = _RESULT.pack(index, code, result.high_watermark, result.last_stable_offset)
    replica = _NO_REPLICA if version >= 11 else b""
    # No records are an empty field, never null: some clients fail on null.
    return head + _aborted(version, result) + replica + _size(len(result.data), version)


def _aborted(version: int, result: Fetched) -> bytes:
    if not result.aborted:
        return _size(0, version)
    tag = _TAG if version >= FLEXIBLE_FROM else b""
    entries = [_ABORTED.pack(each.producer_id, each.first_offset) + tag for each in result.aborted]
    return _size(len(entries), version) + b"".join(entries)
