"""One connection to a broker: frames out, replies in, in order, with a deadline on every wait.

Owns the socket and the one buffer that replies are received into, which the next reply overwrites. Knows which
replies are due, so several requests can be under way. After a failure it is broken and says so.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from goqueue.client.kafka.addresses import Address
from goqueue.client.kafka.waiting import Deadline
from goqueue.client.kafka.wire.cluster import read_api_versions
from goqueue.client.kafka.wire.frame import ApiVersion, reply_body, request_frame
from goqueue.client.problems import BadReply, RequestTimedOut, ServerUnreachable
from goqueue.errors import NotOffered
from goqueue.kafka_wire.frames import SIZE_BYTES, Buffer

REPLY_BYTES_MAX = 256 * 1024 * 1024
"""Larger than any batch that a topic takes; a larger announced size is not that of a reply."""

_GREETING_BYTES_MAX = 64 * 1024
_CONNECT_S_MAX = 5.0
_CURIOUS_S = 0.2
_BUFFER_BYTES_MIN = 64 * 1024
_SEND_PARTS_MAX = 512
_TLS_ALERT = 0x15
_SIZE = struct.Struct(">i")
_PORT_HINT = "is that the Kafka port?"


class _Due(NamedTuple):
    """A request whose reply has not come yet."""

    api: ApiVersion
    correlation_id: int


class Connection:
    """A connection that a broker has greeted; made by `connect`."""

    def __init__(self, address: Address, line: socket.socket, client_id: str) -> None:
        self.address = address
        self._line = line
        self._client_id = client_id.encode()
        self._correlation_ids = count(1)
        self._due: deque[_Due] = deque()
        self._buffer = memoryview(bytearray(_BUFFER_BYTES_MIN))
        self._is_broken = False

    @property
    def is_idle(self) -> bool:
        """Whether it works and no reply is due, so that another caller may use it."""
        return not self._is_broken and not self._due

    def call(self, api: ApiVersion, body: Sequence[Buffer], deadline: Deadline) -> memoryview:
        """Send a request and return the body of the reply, which is valid until the next one is received."""
        self.send(api, body, deadline)
        return self.receive(deadline)

    def send(self, api: ApiVersion, body: Sequence[Buffer], deadline: Deadline) -> None:
        """Send a request; its reply is due from now on."""
        due = _Due(api, next(self._correlation_ids) & 0x7FFFFFFF)
        parts = request_frame(api, due.correlation_id, self._client_id, body)
        self._due.append(due)
        try:
            self._send(deque(memoryview(part) for part in parts), deadline)
        except (OSError, RequestTimedOut) as error:
            raise self._lost(error) from error

    def receive(self, deadline: Deadline, *, bytes_max: int = REPLY_BYTES_MAX) -> memoryview:
        """Return the body of the next reply; views of it are valid until the next one is received."""
        due = self._due[0]
        try:
            (size,) = _SIZE.unpack(self._fill(SIZE_BYTES, deadline))
            if not SIZE_BYTES <= size <= bytes_max:
                raise self._rubbish(size, deadline)
            body = reply_body(due.api, due.correlation_id, self._fill(size, deadline))
        except (OSError, RequestTimedOut) as error:
            raise self._lost(error) from error
        except BadReply:
            self._is_broken = True
            raise
        self._due.popleft()
        return body

    def close(self) -> None:
        """Hang up. Closing twice is harmless."""
        self._is_broken = True
        self._line.close()

    def _send(self, parts: deque[memoryview], deadline: Deadline) -> None:
        while parts:
            self._line.settimeout(deadline.require(f"sending to {self.address}"))
            sent = self._line.sendmsg([parts[number] for number in range(min(len(parts), _SEND_PARTS_MAX))])
            while parts and sent >= len(parts[0]):
                sent -= len(parts.popleft())
            if sent:
                parts[0] = parts[0][sent:]

    def _fill(self, size: int, deadline: Deadline) -> memoryview:
        """Return so many bytes; they are valid until this is called again."""
        if size > len(self._buffer):
            # A new one rather than a larger one: a caller may still hold a view of the former.
            self._buffer = memoryview(bytearray(1 << (size - 1).bit_length()))
        view = self._buffer[:size]
        filled = 0
        while filled < size:
            self._line.settimeout(deadline.require(f"the reply of {self.address}"))
            received = self._line.recv_into(view[filled:])
            if not received:
                raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")
            filled += received
        return view

    def _rubbish(self, size: int, deadline: Deadline) -> BadReply:
        """Return the error for a peer whose first bytes are not the size of a reply."""
        seen = _SIZE.pack(size)
        try:
            # More bytes, if there are any, show which protocol the peer speaks.
            self._line.settimeout(max(0.001, min(_CURIOUS_S, deadline.left_s)))
            seen += self._line.recv(28)
        except OSError:
            pass
        hint = _PORT_HINT
        if seen.startswith(b"HTTP/"):
            hint = "that is an HTTP port; name the Kafka port"
        elif seen[0] == _TLS_ALERT:
            hint = "it speaks TLS; name a port without"
        return BadReply(f"{self.address} is no Kafka broker: it answers {seen!r}", hint=hint)

    def _lost(self, error: OSError | RequestTimedOut) -> ServerUnreachable | RequestTimedOut:
        self._is_broken = True
        return lost(self.address, error)


def connect(address: Address, client_id: str, deadline: Deadline) -> Connection:
    """Open a connection and check that a Kafka broker answers which offers all requests that are used."""
    deadline = deadline.sooner(_CONNECT_S_MAX)
    try:
        line = socket.create_connection(address, deadline.require(f"connecting to {address}"))
    except (OSError, UnicodeError) as error:
        raise lost(address, error) from error
    connection = Connection(address, line, client_id)
    try:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _greet(connection, deadline)
    except BaseException:
        connection.close()
        raise
    return connection


def lost(address: Address, error: OSError | UnicodeError | RequestTimedOut) -> ServerUnreachable | RequestTimedOut:
    """Return the error for a broker that cannot be reached."""
    if isinstance(error, RequestTimedOut | TimeoutError):
        return RequestTimedOut(f"{address} did not answer in time", hint="is it overloaded, or not a Kafka broker?")
    reason = error.strerror if isinstance(error, OSError) else None
    return ServerUnreachable(f"{address} cannot be reached: {reason or error}")


def _greet(connection: Connection, deadline: Deadline) -> None:
    connection.send(ApiVersion.API_VERSIONS, (), deadline)
    body = connection.receive(deadline, bytes_max=_GREETING_BYTES_MAX)
    try:
        error, offered = read_api_versions(body)
    except BadReply as bad:
        raise BadReply(f"{connection.address} is no Kafka broker: {bad.message}", hint=_PORT_HINT) from None
    lacking = [api.name for api in ApiVersion if not _is_offered(api, offered)]
    if error or lacking:
        raise NotOffered(
            f"the broker at {connection.address} lacks {', '.join(lacking) or f'ApiVersions (error {error})'}",
            hint="it has to be a GoQueue broker, or Apache Kafka 3.1 or later",
        )


def _is_offered(api: ApiVersion, offered: dict[int, tuple[int, int]]) -> bool:
    first, last = offered.get(api.key, (0, -1))
    return first <= api.version <= last
