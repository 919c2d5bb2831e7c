"""A raw connection to a broker and the topic that a benchmark works on: made for it, and removed at its end."""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType

from goqueue_bench.broker_process import Broker
from goqueue_bench.kafka import wire
from goqueue_bench.measure import BenchmarkFailed, require

_LENGTH = struct.Struct(">i")
_REPLY_SECONDS_MAX = 60.0
_TOPIC_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.02
# A topic that was made a moment ago may not have reached every part of a broker yet.
_NOT_YET = {3, 5, 6}


class Connection:
    """A blocking socket that sends frames and receives them whole, in a buffer that the next frame overwrites."""

    def __init__(self, broker: Broker) -> None:
        self.socket = socket.create_connection((broker.host, broker.port), _REPLY_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(64 * 1024))

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def call(self, frame: bytes) -> memoryview:
        """Send a frame and return the reply, without its length, until the next call."""
        self.socket.sendall(frame)
        return self.receive()

    def receive(self) -> memoryview:
        """Return the next frame, without its length, until the next one is received."""
        size = _LENGTH.unpack(self._receive_exactly(4))[0]
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        view = self._buffer[:size]
        filled = 0
        while filled < size:
            count = self.socket.recv_into(view[filled:])
            require(count > 0, "the broker keeps the connection open")
            filled += count
        return view


@contextmanager
def private_topic(broker: Broker, *, partitions: int, settings: Mapping[str, str]) -> Iterator[str]:
    """Make a topic with a name of its own and remove it however the block ends."""
    topic = f"goqueue-bench-{secrets.token_hex(4)}"
    with Connection(broker) as connection:
        create_topic(connection, topic, partitions, settings)
    try:
        yield topic
    except BaseException:
        # The error of the block matters, not that the broker may be gone too.
        with suppress(OSError, BenchmarkFailed):
            _delete_topic(broker, topic)
        raise
    _delete_topic(broker, topic)


def create_topic(connection: Connection, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Make a topic and wait until each of its partitions answers."""
    reply = connection.call(wire.create_topics_request([topic], partitions, settings))
    error, message = wire.parse_create_topics_reply(reply)[topic]
    require(error == 0, f"topic {topic} can be made (error {error}) {message}".strip())
    deadline = time.monotonic() + _TOPIC_SECONDS_MAX
    for partition in range(partitions):
        while (error := _end_offset(connection, topic, partition)[0]) in _NOT_YET and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        require(error == 0, f"partition {partition} of topic {topic} answers (error {error})")


def end_offset(connection: Connection, topic: str, partition: int) -> int:
    """Return where the next record of a partition will be."""
    error, offset = _end_offset(connection, topic, partition)
    if error:
        raise BenchmarkFailed(f"the broker does not tell the end of partition {partition}: error {error}")
    return offset


def end_offsets(broker: Broker, topic: str, partitions: int) -> list[int]:
    """Return where the next record of each partition will be."""
    with Connection(broker) as connection:
        return [end_offset(connection, topic, partition) for partition in range(partitions)]


def _delete_topic(broker: Broker, topic: str) -> None:
    with Connection(broker) as connection:
        error = wire.parse_delete_topic_reply(connection.call(wire.delete_topic_request(topic)))
    require(error == 0, f"topic {topic} can be removed (error {error})")


def _end_offset(connection: Connection, topic: str, partition: int) -> tuple[int, int]:
    reply = connection.call(wire.end_offset_request(topic, partition))
    return wire.parse_end_offset_reply(reply)
