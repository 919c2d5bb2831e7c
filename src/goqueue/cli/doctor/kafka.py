"""The two Kafka requests that `goqueue doctor` sends: ApiVersions 0 and Metadata 1, which every broker answers."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from goqueue.errors import Corrupt
from goqueue.kafka_wire.decode import Response, decode_response
from goqueue.kafka_wire.encode import Values
from goqueue.kafka_wire.frames import SIZE_BYTES, reply_body, request_frame

_API_VERSIONS, _METADATA = (18, 0), (3, 1)
_CLIENT = b"goqueue-doctor"
_CORRELATION = 7
_REPLY_BYTES_MAX = 1024 * 1024


class Node(NamedTuple):
    """A broker, as Metadata names it."""

    id: int
    host: str
    port: int


class ListenerReport(NamedTuple):
    """The answers of a Kafka listener: how many kinds of request it takes, and the brokers of its cluster."""

    apis: int
    nodes: tuple[Node, ...]


def ask(host: str, port: int, timeout_s: float) -> ListenerReport:
    """Ask a Kafka listener; OSError if it cannot be reached, Corrupt if the answer is not Kafka's protocol."""
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.settimeout(timeout_s)
        try:
            offered = _exchange(connection, _API_VERSIONS, {})
            if offered.error_code or not offered.api_keys:
                raise Corrupt("no request is offered")
            cluster = _exchange(connection, _METADATA, {"topics": []})
        except (Corrupt, EOFError):
            raise Corrupt("the server there does not speak the Kafka protocol") from None
    return ListenerReport(
        len(offered.api_keys), tuple(Node(each.node_id, each.host, each.port) for each in cluster.brokers)
    )


def _exchange(connection: socket.socket, api: tuple[int, int], request: Values) -> Response:
    connection.sendall(request_frame(*api, _CORRELATION, _CLIENT, request))
    (size,) = struct.unpack(">i", _read(connection, SIZE_BYTES))
    if not 0 <= size <= _REPLY_BYTES_MAX:
        raise EOFError
    return decode_response(*api, reply_body(*api, _CORRELATION, memoryview(_read(connection, size))))


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
