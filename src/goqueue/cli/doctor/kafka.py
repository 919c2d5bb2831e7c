"""The two Kafka requests that `goqueue doctor` sends, built by hand: a user may have no Kafka client at all.

A request is `length i32 | api i16 | version i16 | correlation i32 | client string | body`; a reply is
`length i32 | correlation i32 | body`. Strings have a length of 16 bits, arrays one of 32.

| request     | version | body   | reply                                                               |
|-------------|---------|--------|---------------------------------------------------------------------|
| ApiVersions | 0       | -      | `error i16`, array of `api i16, first version i16, last version i16` |
| Metadata    | 1       | no topics: array of 0 | array of brokers: `node i32, host string, port i32, rack string` |
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from goqueue.errors import Corrupt

API_VERSIONS, METADATA = 18, 3
_CLIENT = b"goqueue-doctor"
_CORRELATION = 7
_REPLY_BYTES_MAX = 1024 * 1024


class Node(NamedTuple):
    """A broker, as Metadata names it."""

    id: int
    host: str
    port: int


class Answer(NamedTuple):
    """What a Kafka listener said: how many kinds of request it takes, and which brokers there are."""

    apis: int
    nodes: tuple[Node, ...]


def ask(host: str, port: int, timeout_s: float) -> Answer:
    """Talk to a Kafka listener; OSError if it cannot be reached, Corrupt if what answers does not speak Kafka."""
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.settimeout(timeout_s)
        try:
            return Answer(
                _count_apis(_exchange(connection, API_VERSIONS, 0, b"")),
                tuple(_nodes(_exchange(connection, METADATA, 1, struct.pack(">i", 0)))),
            )
        except (struct.error, UnicodeDecodeError, EOFError):
            raise Corrupt("what answers there does not speak the Kafka protocol") from None


def _exchange(connection: socket.socket, api: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api, version, _CORRELATION, len(_CLIENT)) + _CLIENT
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    size, correlation = struct.unpack(">ii", _read(connection, 8))
    if correlation != _CORRELATION or not 4 <= size <= _REPLY_BYTES_MAX:
        raise EOFError
    return _read(connection, size - 4)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _count_apis(body: bytes) -> int:
    error, count = struct.unpack_from(">hi", body)
    if error or not 0 < count < 1000:
        raise EOFError
    return int(count)


def _nodes(body: bytes) -> list[Node]:
    (count,) = struct.unpack_from(">i", body)
    position = 4
    nodes = []
    for _ in range(count):
        node_id, size = struct.unpack_from(">ih", body, position)
        position += 6
        host = body[position : position + size].decode()
        (port, rack) = struct.unpack_from(">ih", body, position + size)
        position += size + 6 + max(rack, 0)
        nodes.append(Node(node_id, host, port))
    return nodes
