"""What is in front of the body: which request it is, and which reply belongs to it.

    request   size i32 | api i16 | version i16 | correlation id i32 | client id string | [tags] | body
    reply     size i32 | correlation id i32 | [tags] | body

The tags are there in flexible versions. The reply to ApiVersions has none in any version, since whoever asks cannot
know yet what the broker speaks.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from goqueue.client.kafka.wire.fields import INT32, NO_TAGS, Fields
from goqueue.client.problems import BadReply

SIZE_BYTES = 4
_HEADER = struct.Struct(">ihhih")

Buffer = bytes | bytearray | memoryview


class _Version(NamedTuple):
    key: int
    version: int


class Api(_Version, Enum):
    """The requests that are used, each in one version.

    Fetch names topics by id, so that a topic which was deleted and made again is not taken for the former one. Produce
    and EndTxn are the last that leave it to the producer to say which partitions belong to a transaction, and leave
    its epoch as it is: then whoever knows the identity can end it, in another process as well.
    """

    PRODUCE = (0, 11)
    FETCH = (1, 13)
    LIST_OFFSETS = (2, 7)
    METADATA = (3, 12)
    FIND_COORDINATOR = (10, 4)
    API_VERSIONS = (18, 0)
    INIT_PRODUCER_ID = (22, 4)
    ADD_PARTITIONS_TO_TXN = (24, 3)
    END_TXN = (26, 4)
    DESCRIBE_CONFIGS = (32, 4)


def request_frame(api: Api, correlation_id: int, client_id: bytes, body: Sequence[Buffer]) -> list[Buffer]:
    """Return a whole frame in parts, so that large ones need not be copied."""
    tags = b"" if api is Api.API_VERSIONS else NO_TAGS
    size = _HEADER.size - SIZE_BYTES + len(client_id) + len(tags) + sum(map(len, body))
    header = _HEADER.pack(size, api.key, api.version, correlation_id, len(client_id)) + client_id + tags
    return [header, *body]


def reply_fields(api: Api, correlation_id: int, frame: memoryview) -> Fields:
    """Return the body of a reply, given without its size; BadReply if it answers another request."""
    fields = Fields(frame)
    answered = fields.number(INT32)
    if answered != correlation_id:
        raise BadReply(f"a reply to request {answered} came where that to {correlation_id} is due")
    if api is not Api.API_VERSIONS:
        fields.tags()
    return fields
