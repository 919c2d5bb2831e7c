"""The few frames of AMQP 0-9-1 that publishing with confirms takes, and consuming with acks.

A frame is `type u8 | channel u16 | size u32 | payload | CE`. A message is three of them: the method, the header with
its size and properties, the body. Confirms are methods of the server: `60.80 | tag u64 | multiple u8`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

from goqueue_bench.measure import BenchmarkFailed, require
from goqueue_bench.peers.peer import REPLY_SECONDS_MAX

_METHOD, _HEADER, _BODY = 1, 2, 3
_FRAME = struct.Struct(">BHI")
_END = b"\xce"
_DELIVERY_MODE_SET, _PERSISTENT = 0x1000, 2
_DURABLE, _PASSIVE = 2, 1
_ACK, _NACK, _DELIVER = (60, 80), (60, 120), (60, 60)


class Connection:
    """A connection with one channel that confirms every message."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = b""
        connection.sendall(b"AMQP\0\0\x09\x01")
        self._expect(10, 10)
        self._send(0, 10, 11, _table({}) + _short("PLAIN") + _long(b"\0guest\0guest") + _short("en_US"))
        channels_max, frame_bytes_max, _ = struct.unpack(">HIH", self._expect(10, 30))
        # No heartbeats: this client would not answer them while it sends messages.
        self._send(0, 10, 31, struct.pack(">HIH", channels_max, frame_bytes_max, 0))
        self._send(0, 10, 40, _short("/") + _short("") + b"\0")
        self._expect(10, 41)
        self._call(20, 10, _short(""))
        self._call(85, 10, b"\0")

    def declare(self, queue: str, arguments: Mapping[str, str], *, is_passive: bool = False) -> int:
        """Make a durable queue, or only look at it; return how many messages are in it."""
        flags = _DURABLE | (_PASSIVE if is_passive else 0)
        answer = self._call(50, 10, struct.pack(">H", 0) + _short(queue) + bytes([flags]) + _table(arguments))
        count: int = struct.unpack_from(">I", answer, 1 + answer[0])[0]
        return count

    def consume(self, queue: str, prefetch: int) -> None:
        """Have messages of a queue delivered, so many at most that are not acked."""
        self._call(60, 10, struct.pack(">IHB", 0, prefetch, 0))
        self._call(60, 20, struct.pack(">H", 0) + _short(queue) + _short("") + b"\0" + _table({}))

    def deliveries(self, count: int) -> int:
        """Wait for so many deliveries; return the tag of the last one."""
        tag = bodies = 0
        position = 0
        while bodies < count:
            while len(self._received) < position + _FRAME.size or len(self._received) < (
                end := position + _FRAME.size + _FRAME.unpack_from(self._received, position)[2] + 1
            ):
                self._received = self._received[position:] + self._more()
                position = 0
            kind = self._received[position]
            if kind == _METHOD:
                tag = _tag_of_delivery(self._received, position + _FRAME.size)
            bodies += kind == _BODY
            position = end
        self._received = self._received[position:]
        return tag

    def ack_up_to(self, tag: int) -> None:
        """Ack all deliveries up to one; there is no answer to it."""
        self._send(1, *_ACK, struct.pack(">QB", tag, 1))

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 18)
        require(len(data) > 0, "the server keeps the connection open")
        return data

    def _call(self, kind: int, method: int, arguments: bytes) -> bytes:
        """Call a method whose answer is the next one of its class."""
        self._send(1, kind, method, arguments)
        return self._expect(kind, method + 1)

    def _send(self, channel: int, kind: int, method: int, arguments: bytes) -> None:
        self.socket.settimeout(REPLY_SECONDS_MAX)
        self.socket.sendall(_frame(_METHOD, channel, struct.pack(">HH", kind, method) + arguments))

    def _expect(self, kind: int, method: int) -> bytes:
        while len(self._received) < _FRAME.size or len(self._received) < self._frame_bytes():
            self._received += self._more()
        size = self._frame_bytes()
        payload, self._received = self._received[_FRAME.size : size - 1], self._received[size:]
        found = struct.unpack_from(">HH", payload)
        require(found == (kind, method), f"the server answers with {(kind, method)}, not {found}: {payload!r}")
        return payload[4:]

    def _frame_bytes(self) -> int:
        size: int = _FRAME.unpack_from(self._received)[2]
        return _FRAME.size + size + 1


def _tag_of_delivery(received: bytes, position: int) -> int:
    """Return the tag of a `60.60 | consumer short string | tag u64 | ...`."""
    found = struct.unpack_from(">HH", received, position)
    require(found == _DELIVER, f"the server delivers, and sends no method {found}")
    tag: int = struct.unpack_from(">Q", received, position + 5 + received[position + 4])[0]
    return tag


def publish_frames(queue: str, body: bytes) -> bytes:
    """Return a persistent message to a queue."""
    method = struct.pack(">HHH", 60, 40, 0) + _short("") + _short(queue) + b"\0"
    header = struct.pack(">HHQHB", 60, 0, len(body), _DELIVERY_MODE_SET, _PERSISTENT)
    return _frame(_METHOD, 1, method) + _frame(_HEADER, 1, header) + _frame(_BODY, 1, body)


class CountConfirms:
    """Counts confirmed messages; a confirm is of one message, or of all up to one."""

    def __init__(self, first_tag: int) -> None:
        self._rest = b""
        self._floor = first_tag - 1
        self._above: set[int] = set()

    def __call__(self, data: bytes) -> int:
        received = self._rest + data
        position = count = 0
        while position + _FRAME.size <= len(received):
            kind, _, size = _FRAME.unpack_from(received, position)
            if position + _FRAME.size + size + 1 > len(received):
                break
            if kind == _METHOD:
                count += self._take(received, position + _FRAME.size)
            position += _FRAME.size + size + 1
        self._rest = received[position:]
        return count

    def _take(self, received: bytes, position: int) -> int:
        method = struct.unpack_from(">HH", received, position)
        if method != _ACK:
            what = "refuses a message" if method == _NACK else f"sends method {method}"
            raise BenchmarkFailed(f"the server {what}: {received[position : position + 200]!r}")
        tag, is_multiple = struct.unpack_from(">QB", received, position + 4)
        if is_multiple:
            covered = {each for each in self._above if each <= tag}
            count = tag - self._floor - len(covered)
            self._above -= covered
            self._floor = tag
        else:
            count = 1
            self._above.add(tag)
        while self._floor + 1 in self._above:
            self._floor += 1
            self._above.remove(self._floor)
        return int(count)


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + _END


def _short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _table(entries: Mapping[str, str]) -> bytes:
    return _long(b"".join(_short(name) + b"S" + _long(value.encode()) for name, value in entries.items()))
