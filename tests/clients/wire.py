"""Read stored batches without a client, by a Fetch request of version 4 written by hand.

Clients decompress before a test can look, and librdkafka silently sends uncompressed batches if the broker lacks a
feature. So whether batches are stored compressed has to be read from their headers.
"""

from __future__ import annotations

import socket
import struct

from goqueue.records.layout import BatchHeader, headers
from tests.clients.contract import DEADLINE_S, Place

_FETCH_KEY, _FETCH_VERSION = 1, 4
_WAIT_MS, _BYTES_MIN, _BYTES_MAX = 100, 1, 50 * 1024 * 1024


def stored_batches(bootstrap: str, place: Place) -> list[BatchHeader]:
    """Return the headers of all batches of a partition that starts at offset 0."""
    batches: list[BatchHeader] = []
    while found := [header for _, header in headers(_fetch(bootstrap, place, _next_offset(batches)))]:
        batches += found
    return batches


def _next_offset(batches: list[BatchHeader]) -> int:
    return batches[-1].next_offset if batches else 0


def _fetch(bootstrap: str, place: Place, offset: int) -> bytes:
    topic = place.topic.encode()
    request = struct.pack(">hhih", _FETCH_KEY, _FETCH_VERSION, 1, -1)
    request += struct.pack(">iiiib", -1, _WAIT_MS, _BYTES_MIN, _BYTES_MAX, 0)
    request += struct.pack(">ih", 1, len(topic)) + topic
    request += struct.pack(">iiqi", 1, place.partition, offset, _BYTES_MAX)
    host, _, port = bootstrap.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", stream.read(4))
        return _records_of(stream.read(size), len(topic))


def _records_of(response: bytes, topic_bytes: int) -> bytes:
    # Correlation id, throttle time, one topic with its name, one partition; then its error and two watermarks.
    position = 4 + 4 + 4 + 2 + topic_bytes + 4 + 4
    (error,) = struct.unpack_from(">h", response, position)
    assert error == 0
    position += 2 + 8 + 8
    (aborted_count,) = struct.unpack_from(">i", response, position)
    position += 4 + 16 * max(aborted_count, 0)
    (records_bytes,) = struct.unpack_from(">i", response, position)
    return response[position + 4 : position + 4 + records_bytes]
