"""Headers of requests and replies: which request it is, and which request a reply answers.

    request   size i32 | api i16 | version i16 | correlation id i32 | client id string | [tags] | body
    reply     size i32 | correlation id i32 | [tags] | body

Flexible versions have the tags. The reply to ApiVersions has none in any version, since the client cannot know yet what
the broker speaks.
"""

from __future__ import annotations

import struct

from goqueue.errors import Corrupt
from goqueue.kafka_wire.decode import Cursor, read_reply, skip_tags
from goqueue.kafka_wire.encode import Values, encode_request
from goqueue.kafka_wire.shapes import request_shape, response_shape

API_VERSIONS = 18
SIZE_BYTES = 4
NO_TAGS = b"\0"

_HEADER = struct.Struct(">ihhih")
_REPLY_HEADER = struct.Struct(">i")

Buffer = bytes | bytearray | memoryview


def request_frame(api_key: int, version: int, correlation_id: int, client_id: bytes, request: Values) -> bytes:
    """Return a whole request."""
    body = encode_request(api_key, version, request)
    return b"".join((request_head(api_key, version, correlation_id, client_id, len(body)), body))


def request_head(api_key: int, version: int, correlation_id: int, client_id: bytes, body_bytes: int) -> bytes:
    """Return what precedes the body of a request."""
    tags = NO_TAGS if request_shape(api_key, version).is_flexible else b""
    size = _HEADER.size - SIZE_BYTES + len(client_id) + len(tags) + body_bytes
    return _HEADER.pack(size, api_key, version, correlation_id, len(client_id)) + client_id + tags


def reply_body(api_key: int, version: int, correlation_id: int, frame: memoryview) -> memoryview:
    """Return the body of a reply, given without its size; Corrupt if it answers another request."""
    if len(frame) < _REPLY_HEADER.size:
        raise Corrupt(f"the reply cannot be read: it has {len(frame)} bytes")
    (answered,) = _REPLY_HEADER.unpack_from(frame)
    if answered != correlation_id:
        raise Corrupt(f"a reply to request {answered} came where that to {correlation_id} is due")
    return frame[_header_bytes(api_key, version, frame) :]


def _header_bytes(api_key: int, version: int, frame: memoryview) -> int:
    cursor = Cursor(frame, _REPLY_HEADER.size, elements_max=len(frame))
    if api_key != API_VERSIONS and response_shape(api_key, version).is_flexible:
        read_reply(skip_tags, cursor)
    return cursor.position
