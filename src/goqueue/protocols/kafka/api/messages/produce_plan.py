"""A short path for produce requests that are like the previous one.

Most producers send the same request again and again, with other records: same client id, same topic, same partition.
All the bytes of such a request between its correlation id and the size of its records repeat, and so do nearly all
bytes of the reply. A `Plan` remembers them from a request that was parsed in full; a request that matches needs no
parsing, and its reply is put together from two constant pieces. Those that arrive in a row are published as one
`PublishRun`. This only saves time: a request that does not match is parsed, and every plan is forgotten when topics
change.

    request   [api, version i16 each] [correlation i32] | prefix ............. | [size] [records] [tags]
    reply     [size i32] [correlation i32]              | head | [index i32 ... start offset i64] | tail
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from goqueue.broker.messages.produce import Acks, PublishRun
from goqueue.errors import GoQueueError
from goqueue.kafka_wire.encode import uvarint
from goqueue.protocols.kafka.api.messages.produce import FLEXIBLE_FROM, ProduceRequest, reply_body
from goqueue.runtime.partition import Outcome, Partition

PREFIX_START = 8
_VERSION_MIN = 8  # before, replies have another form
_INT32 = struct.Struct(">i")
_FRAME_HEAD = struct.Struct(">ii")
_NO_TAGS = b"\0\0\0"
_LARGE_SIZE_FROM = 0x80
_SHIFT_MAX = 28


class Plan:
    """The bytes that repeat in the requests of one producer for one partition."""

    __slots__ = (
        "_end",
        "_head",
        "_index",
        "_is_flexible",
        "_reply",
        "_reply_size",
        "_tail",
        "partition",
        "prefix",
        "request",
        "revision",
        "version",
    )

    def __init__(
        self, request: ProduceRequest, version: int, prefix: bytes, partition: Partition, revision: int
    ) -> None:
        self.prefix = prefix
        self.partition = partition
        self.revision = revision
        self.version = version
        self.request = request
        self._is_flexible = version >= FLEXIBLE_FROM
        self._end = PREFIX_START + len(prefix)
        (topic,) = request.topics
        (self._index,) = topic.indexes
        if self._is_flexible:
            self._head = b"\0" + uvarint(2) + topic.wire_name + uvarint(2)
            # No record errors, no message, tags; tags of the topic; throttle time; tags of the reply.
            self._tail = b"\x01\0\0" + b"\0" + bytes(4) + b"\0"
        else:
            self._head = _INT32.pack(1) + topic.wire_name + _INT32.pack(1)
            self._tail = _INT32.pack(0) + b"\xff\xff" + bytes(4)
        self._reply = struct.Struct(f">ii{len(self._head)}sihqqq{len(self._tail)}s")
        self._reply_size = self._reply.size - _INT32.size

    def records_of(self, frame: memoryview) -> memoryview | None:
        """Return the records of a request that matches; None if it does not."""
        end = self._end
        if bytes(frame[PREFIX_START:end]) != self.prefix:
            return None
        try:
            if not self._is_flexible:
                (size,) = _INT32.unpack_from(frame, end)
                begin = end + 4
                return frame[begin:] if size == len(frame) - begin else None
            size = frame[end]
            begin = end + 1
            shift = 7
            if size >= _LARGE_SIZE_FROM:
                size &= 0x7F
                while True:
                    byte = frame[begin]
                    begin += 1
                    size |= (byte & 0x7F) << shift
                    if byte < _LARGE_SIZE_FROM:
                        break
                    shift += 7
                    if shift > _SHIFT_MAX:
                        return None
        except (IndexError, struct.error):
            return None
        # The size is one too large, so that null differs from empty.
        records_end = begin + size - 1
        return frame[begin:records_end] if size and frame[records_end:] == _NO_TAGS else None

    def run(self, send: Callable[[list[bytes]], None]) -> PlannedRun:
        """Return the operation that publishes matching requests; `send` gets all their replies when they are due."""
        return PlannedRun(self, send)

    def replies(self, correlations: Sequence[int], outcomes: Sequence[Outcome]) -> list[bytes]:
        """Return the whole replies to matching requests."""
        pack, size, head, index, tail = self._reply.pack, self._reply_size, self._head, self._index, self._tail
        replies = []
        for correlation, outcome in zip(correlations, outcomes, strict=True):
            if isinstance(outcome, GoQueueError):
                replies.append(self._refusal(correlation, outcome))
            else:
                base_offset, _, timestamp, start_offset = outcome
                replies.append(pack(size, correlation, head, index, 0, base_offset, timestamp, start_offset, tail))
        return replies

    def _refusal(self, correlation: int, error: GoQueueError) -> bytes:
        body = reply_body(self.request, self.version, [error])
        tag = b"\0" if self._is_flexible else b""
        return _FRAME_HEAD.pack(4 + len(tag) + len(body), correlation) + tag + body


class PlannedRun(PublishRun):
    """Requests in a row that match a plan."""

    __slots__ = ("_correlations", "_send", "plan")

    def __init__(self, plan: Plan, send: Callable[[list[bytes]], None]) -> None:
        super().__init__(plan.request.acks, plan.partition, self._told)
        self.plan = plan
        self._send = send
        self._correlations: list[int] = []

    def add_request(self, correlation: int, records: memoryview) -> None:
        """Add one more request."""
        self._correlations.append(correlation)
        self.add(records)

    def _told(self, outcomes: Sequence[Outcome]) -> None:
        self._send(self.plan.replies(self._correlations, outcomes))


def plan_of(request: ProduceRequest, version: int, frame: memoryview, revision: int) -> Plan | None:
    """Return the plan for requests like this one; None if a plan would save nothing."""
    if version < _VERSION_MIN or request.acks is Acks.NONE or len(request.sections) != 1 or request.transactional_id:
        return None
    partition = request.sections[0].partition
    if not isinstance(partition, Partition):
        return None
    prefix = bytes(frame[PREFIX_START : request.records_at])
    return Plan(request._replace(sections=[]), version, prefix, partition, revision)
