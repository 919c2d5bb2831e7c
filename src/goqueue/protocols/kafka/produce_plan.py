"""A short way for produce requests that are like the one before.

Most producers send the same request again and again, with other records: same client id, same topic, same partition.
All the bytes of such a request between its correlation id and the size of its records repeat, and so do nearly all
bytes of the reply. A `Plan` remembers them from a request that was parsed in full; a request that matches needs no
parsing, and its reply is put together from two constant pieces. It makes no difference but speed: whatever does not
match goes the long way, and every plan is forgotten when topics change.

    request   [api, version i16 each] [correlation i32] | prefix ............. | [size] [records] [tags]
    reply     [size i32] [correlation i32]              | head | [index i32 ... start offset i64] | tail
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from goqueue.broker.produce import Acks, Publish, Section
from goqueue.errors import GoQueueError
from goqueue.protocols.kafka.encode import uvarint
from goqueue.protocols.kafka.produce import FLEXIBLE_FROM, ProduceRequest, reply_body
from goqueue.runtime.partition import Outcome, Partition

PREFIX_START = 8
_VERSION_MIN = 8  # before, replies have another form
_INT32 = struct.Struct(">i")
_FRAME_HEAD = struct.Struct(">ii")
_RESULT = struct.Struct(">ihqqq")
_NO_TAGS = b"\0\0\0"
_LARGE_SIZE_FROM = 0x80
_SHIFT_MAX = 28


class Plan:
    """What repeats in the requests of one producer for one partition."""

    __slots__ = (
        "_end",
        "_head",
        "_index",
        "_is_flexible",
        "_request",
        "_tail",
        "partition",
        "prefix",
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
        self._request = request
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

    def records_of(self, frame: memoryview) -> memoryview | None:
        """Return the records of a request that repeats what was planned for; None if it does not."""
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
        # The size is one too large, as null has to be told from nothing.
        records_end = begin + size - 1
        return frame[begin:records_end] if size and frame[records_end:] == _NO_TAGS else None

    def publish(self, records: memoryview, correlation: int, send: Callable[[list[bytes]], None]) -> Publish:
        """Return the operation for a request that matched; `send` gets the whole reply when it is due."""

        def done(outcomes: Sequence[Outcome]) -> None:
            send(self._reply(correlation, outcomes))

        return Publish(self._request.acks, (Section(self.partition, records),), done)

    def _reply(self, correlation: int, outcomes: Sequence[Outcome]) -> list[bytes]:
        outcome = outcomes[0]
        if isinstance(outcome, GoQueueError):
            body = reply_body(self._request, self.version, outcomes)
            tag = b"\0" if self._is_flexible else b""
            return [_FRAME_HEAD.pack(4 + len(tag) + len(body), correlation) + tag + body]
        result = _RESULT.pack(self._index, 0, outcome.base_offset, outcome.timestamp, outcome.start_offset)
        size = 4 + len(self._head) + _RESULT.size + len(self._tail)
        return [_FRAME_HEAD.pack(size, correlation) + self._head + result + self._tail]


def plan_of(request: ProduceRequest, version: int, frame: memoryview, revision: int) -> Plan | None:
    """Return the plan for requests like this one; None if there is nothing to be gained."""
    if version < _VERSION_MIN or request.acks is Acks.NONE or len(request.sections) != 1 or request.transactional_id:
        return None
    partition = request.sections[0].partition
    if not isinstance(partition, Partition):
        return None
    prefix = bytes(frame[PREFIX_START : request.records_at])
    return Plan(request._replace(sections=[]), version, prefix, partition, revision)
