"""RabbitMQ with a stream, over its stream protocol: confirmed when it is in the page cache.

A frame is `size u32 | key u16 | version u16`, then for a request `correlation u32`, then its fields; an answer has the
highest bit of the key set. Messages travel in publish frames of many, and come back in the chunks in which they are
stored: `magic u8 | type u8 | entries u16 | records u32 | time i64 | epoch u64 | first offset u64 | crc u32 | sizes`.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from goqueue_bench.cpu import metered
from goqueue_bench.measure import BenchmarkFailed, require
from goqueue_bench.peers import rabbit
from goqueue_bench.peers.peer import PAYLOAD, REPLY_SECONDS_MAX, Durability, Measured, Workload, connect
from goqueue_bench.peers.pump import Pipeline, publish_pipelined, publish_singly, receive

_DECLARE_PUBLISHER, _PUBLISH, _CONFIRM, _SUBSCRIBE, _DELIVER, _CREDIT, _UNSUBSCRIBE, _CREATE = 1, 2, 3, 7, 8, 9, 12, 13
_PROPERTIES, _SASL, _AUTHENTICATE, _TUNE, _OPEN, _HEARTBEAT = 17, 18, 19, 20, 21, 23
_ANSWER = 0x8000
_OK = 1
_FROM_FIRST = 1
_CREDITS = 32
_DECLARE_SECONDS_MAX = 20.0
_POLL_SECONDS = 0.1
_STREAM = "bench"
_KEY = struct.Struct(">IHH")
_CHUNK = struct.Struct(">BBHIqQQ")
# A message as AMQP 1.0 has it: one section of data, of less than 256 bytes.
_MESSAGE = b"\0\x53\x75\xa0" + bytes([len(PAYLOAD)]) + PAYLOAD


class RabbitStream:
    """The peer; only in the lazy group, because a stream never syncs before it confirms."""

    name = "RabbitMQ stream"
    settings = {Durability.LAZY: "stream, one node, publisher confirms"}
    clients = {Workload.PUBLISH: "raw socket, frames of 500", Workload.LATENCY: "raw socket"}

    def missing(self) -> str | None:
        """Return what is missing."""
        return rabbit.missing()

    def version(self) -> str:
        """Return the version of RabbitMQ."""
        return rabbit.version()

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[_Server]:
        """Run a node in a directory."""
        del durability
        with rabbit.running_node(directory) as node, connect(node.stream_port) as connection:
            yield _Server(_Client(connection), node.pid)


class _Server:
    def __init__(self, client: _Client, pid: int) -> None:
        self._client = client
        self._pid = pid
        self._stored = 0
        client.call(_CREATE, _string(_STREAM) + _no_properties())
        client.declare_publisher(_STREAM)

    def publish(self, count: int) -> Measured:
        return self._published(publish_pipelined(self._client.socket, _pipeline(), count, self._pid))

    def latency(self, count: int) -> Measured:
        return self._published(publish_singly(self._client.socket, _pipeline(), count, self._pid))

    def replays(self) -> Mapping[str, Callable[[], Measured]]:
        return {"raw socket, whole chunks": self._replay}

    def _published(self, measured: Measured) -> Measured:
        self._stored += measured.messages
        return measured

    def _replay(self) -> Measured:
        offset = 0
        with metered(self._pid, with_children=True) as usage:
            self._client.subscribe(_STREAM, _CREDITS)
            while offset < self._stored:
                offset = self._client.take_chunk(offset)
                if offset < self._stored:
                    self._client.socket.sendall(_frame(_CREDIT, struct.pack(">BH", 0, 1)))
        self._client.call(_UNSUBSCRIBE, b"\0")
        require(offset == self._stored, f"{self._stored} messages are stored and {offset} were read")
        return Measured(offset, usage)


class _Client:
    """A connection of the stream protocol."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = b""
        self.call(_PROPERTIES, _no_properties())
        self.call(_SASL, b"")
        self.call(_AUTHENTICATE, _string("PLAIN") + struct.pack(">I", 12) + b"\0guest\0guest")
        key, limits = self._take_frame()
        require(key == _TUNE, f"the server proposes limits, not {key}")
        connection.sendall(_frame(_TUNE, limits))
        self.call(_OPEN, _string("/"))

    def call(self, key: int, fields: bytes) -> None:
        """Make a request, which the server has to grant."""
        code = self._try(key, fields)
        require(code == _OK, f"the server grants request {key}, not {code}")

    def declare_publisher(self, stream: str) -> None:
        """Declare a publisher; wait until the stream has a leader."""
        deadline = time.monotonic() + _DECLARE_SECONDS_MAX
        while (code := self._try(_DECLARE_PUBLISHER, b"\0" + _string("") + _string(stream))) != _OK:
            require(time.monotonic() < deadline, f"the stream takes a publisher ({code})")
            time.sleep(_POLL_SECONDS)

    def subscribe(self, stream: str, chunks: int) -> None:
        """Ask for all chunks of a stream, so many at first."""
        self.call(_SUBSCRIBE, b"\0" + _string(stream) + struct.pack(">HH", _FROM_FIRST, chunks) + _no_properties())

    def take_chunk(self, offset: int) -> int:
        """Receive the chunk that starts at an offset; return the offset after it."""
        key, fields = self._take_frame()
        require(key == _DELIVER, f"the server delivers, instead of {key}")
        _, _, _, records, _, _, first = _CHUNK.unpack_from(fields, 1)
        require(first == offset, f"expected offset {offset}, got {first}")
        return offset + int(records)

    def _try(self, key: int, fields: bytes) -> int:
        self.socket.settimeout(REPLY_SECONDS_MAX)
        self.socket.sendall(_frame(key, struct.pack(">I", 1) + fields))
        found, answer = self._take_frame()
        require(found == key | _ANSWER, f"the server answers request {key}, not {found}")
        code: int = struct.unpack_from(">IH", answer)[1]
        return code

    def _take_frame(self) -> tuple[int, bytes]:
        """Return key and fields of the next frame that is not a heartbeat."""
        self.socket.settimeout(REPLY_SECONDS_MAX)
        while True:
            while len(self._received) < 4 or len(self._received) < self._frame_bytes():
                self._received += receive(self.socket)
            size = self._frame_bytes()
            _, key, _ = _KEY.unpack_from(self._received)
            fields, self._received = self._received[_KEY.size : size], self._received[size:]
            if key != _HEARTBEAT:
                return key, fields

    def _frame_bytes(self) -> int:
        size: int = struct.unpack_from(">I", self._received)[0]
        return 4 + size


class _CountConfirms:
    """Counts confirms; each frame names the messages that it confirms."""

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> int:
        received = self._rest + data
        position = count = 0
        while position + _KEY.size <= len(received):
            size, key, _ = _KEY.unpack_from(received, position)
            if position + 4 + size > len(received):
                break
            if key == _CONFIRM:
                count += struct.unpack_from(">I", received, position + _KEY.size + 1)[0]
            elif key != _HEARTBEAT:
                raise BenchmarkFailed(f"the server sends {key} instead of a confirm")
            position += 4 + size
        self._rest = received[position:]
        return count


def _pipeline() -> Pipeline:
    return Pipeline(encode=_publish_frame, count_answers=_CountConfirms())


def _publish_frame(count: int) -> bytes:
    # Without a name of the publisher the numbers are only repeated in confirms, so every frame may have the same.
    messages = (struct.pack(">QI", number, len(_MESSAGE)) + _MESSAGE for number in range(count))
    return _frame(_PUBLISH, struct.pack(">BI", 0, count) + b"".join(messages))


def _frame(key: int, fields: bytes) -> bytes:
    return _KEY.pack(4 + len(fields), key, 1) + fields


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _no_properties() -> bytes:
    return struct.pack(">I", 0)
